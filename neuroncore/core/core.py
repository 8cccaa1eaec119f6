"""One NeuronCore. `issue` is the only door by which anything happens: recognise the call, check
it, let it read and then write, note it in the record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from neuroncore import source
from neuroncore.clause.arithmetic import NUMBERS
from neuroncore.clause.instruction import Call, Instruction, Parameter, out_of_reach
from neuroncore.clause.operand import PSUM, Act, Op, Operand, Static, View, are_tiles, spread
from neuroncore.core import indirection
from neuroncore.enums import engine
from neuroncore.errors import (
    BufferKindError,
    KernelError,
    OutsideKernelError,
    SignatureError,
    TargetError,
    UninitialisedError,
)
from neuroncore.machine import Machine
from neuroncore.memory.register import VirtualRegister
from neuroncore.memory.storage import Hbm, Memory
from neuroncore.memory.tile import Dynamic, Tile
from neuroncore.numerics.stochastic import Stochastic, rounding
from neuroncore.options import Options
from neuroncore.record.program import Program

Array = npt.NDArray[Any]

# What an accumulator register holds that no instruction has preset: a NaN that sums don't make.
CLOBBERED = np.uint32(0x7FC0ACC0).view(np.float32)


# What has been found legal, by machine and key, for the launches to come; a Call holds its machine.
_checked: dict[tuple[int, Any], Call] = {}
CHECKED_MOST = 1 << 14


@dataclass(frozen=True)
class Finding:
    """Something that was not refused but is likely wrong on the device."""

    code: str
    message: str
    place: source.Place | None

    def __str__(self) -> str:
        where = f"{self.place}:{self.place.column + 1}: " if self.place else ""
        return f"{where}warning[{self.code}] {self.message}"


class Beside(Protocol):
    """What computes beside a core, instruction by instruction."""

    def perform(self, call: Call, arguments: dict[str, Any]) -> None:
        """Let the core perform a call that was found legal, and do what is to be done beside it."""
        ...

    def scatter(self, results: Sequence[tuple[indirection.Picked, Operand]]) -> None:
        """Results of the last call that went to picked places have been written there."""
        ...


class Peers(Protocol):
    """The other cores of a launch, as an instruction sees them."""

    def meet(self, rank: int, point: str, cores: Sequence[int], bring: Any) -> dict[int, Any]:
        """Wait at a named point until every one of `cores` is there; what each brought."""
        ...


@dataclass(eq=False)
class Core:
    """A machine with memories, a record and the few registers that instructions share."""

    machine: Machine
    options: Options = field(default_factory=Options)
    program_id: int = 0
    grid: tuple[int, ...] = ()
    shared: Hbm | None = None  # with the other cores of the launch
    peers: Peers | None = None  # the cores it runs with, if there are others

    def __post_init__(self) -> None:
        options = self.options
        self.hbm = self.shared or Hbm(rounding(options), wide=options.storage == "float32")
        self.rounding = self.hbm.rounding if isinstance(self.hbm.rounding, Stochastic) else None
        self.memory = Memory(self.machine, self.hbm)
        self.program: Program | None = Program(options.record_limit) if options.record else None
        # operators that do what the options say in place of what others do, by the name of those
        self.operators = NUMBERS if options.nan_minmax == "number" else {}
        self.calls: dict[Any, Call] = {}
        self.findings: list[Finding] = []
        self.accumulators = {
            unit: np.full(self.machine.limits.partitions, CLOBBERED, np.float32)
            for unit in (engine.scalar, engine.vector)
        }
        self.beside: Beside | None = None
        self.dialect: Any = None  # what a frontend keeps of the running kernel
        self.generators: dict[engine, Array] = {}  # states of random numbers, where any were used
        self._lines: dict[tuple[int, int], int] = {}
        self._reported: set[tuple[Any, ...]] = set()

    # --- checking --------------------------------------------------------------------------------

    def prepare(self, instruction: Instruction, key: Any, arguments: dict[str, Any]) -> Call:
        """Check a call that this core has not seen; afterwards it is recognised by its key.

        Raises the first thing that is wrong with it; the others are listed in its message.
        """
        for error in self._outlived(arguments):
            raise error
        checked = _checked.get((id(self.machine), key))
        if checked is None:
            checked = self._check(instruction, arguments)
            if len(_checked) >= CHECKED_MOST:
                _checked.clear()
            _checked[id(self.machine), key] = checked
        call = copy(checked)
        if self.program is not None:
            call.index = len(self.program.calls)
            self.program.calls.append(call)
        self.calls[key] = call
        return call

    def _check(self, instruction: Instruction, arguments: dict[str, Any]) -> Call:
        call = Call(instruction, self.machine, {p.name: None for p in instruction.parameters})
        errors: list[KernelError] = []
        for parameter in instruction.parameters:
            errors += _taken(call, parameter, arguments[parameter.name], self.machine)
        if not errors:
            errors += self._whole_call(call)
        if errors:
            errors[0].more = [e.statement for e in errors[1:]]
            raise errors[0]
        tiles = {n: v for n, v in call.arguments.items() if isinstance(v, View)}
        operands = {p.name: p.operand for p in call.instruction.operands}
        declared = {n: operands[n.partition("[")[0]] for n in tiles}
        call.reads = tuple(n for n, o in declared.items() if o and o.reads)
        call.writes = tuple(n for n, o in declared.items() if o and o.writes)
        call.dynamic = tuple(n for n, v in tiles.items() if v.dynamic)
        call.indices = tuple(n for n, v in tiles.items() for _ in range(v.indices))
        return call

    def _outlived(self, arguments: dict[str, Any]) -> Iterator[KernelError]:
        for name, value in arguments.items():
            if isinstance(value, Tile) and value.storage.launch is not self.hbm:
                yield OutsideKernelError(
                    f"{name} ({value}) is a tensor of an earlier launch",
                    argument=name,
                    because="a kernel's tensors end with its launch",
                    hint="return it to the host, and pass it as an argument",
                )

    def _whole_call(self, call: Call) -> Iterator[KernelError]:
        instruction = call.instruction
        if instruction.feature and not self.machine.has(instruction.feature):
            yield TargetError(
                f"{self.machine.name} doesn't have {call.name}",
                expected=f"a machine with {instruction.feature}",
                got=f"{self.machine.name} ({self.machine.generation})",
            )
            return
        asked = call.arguments.get("engine", engine.unknown)
        if asked not in (engine.unknown, *instruction.engines):
            yield BufferKindError(
                f"{call.name} does not run on the {asked.name} engine",
                argument="engine",
                expected=" or ".join(e.name for e in instruction.engines),
                got=asked.name,
            )
            return
        call.engine = instruction.engines[0]
        if asked is not engine.unknown:
            call.engine = asked
        elif instruction.choose is not None:
            call.engine = instruction.choose(call, self.machine)
        yield from (_out_of_reach(call, name) for name in out_of_reach(call, call.engine))
        if any(view.picked_by for view in call.views()):
            yield from indirection.violations(call, self.machine)
        for rule in instruction.rules:
            error = rule(call, self.machine)
            if error is not None:
                yield error

    def misused(self, instruction: Instruction, arguments: dict[str, Any]) -> KernelError:
        """The error for arguments of the wrong kind altogether."""
        for parameter in instruction.parameters:
            value = arguments[parameter.name]
            if parameter.always_tile and not isinstance(value, Tile):
                return _not_a_tile(instruction, parameter, value)
            if parameter.operand and parameter.operand.many and not are_tiles(value):
                return _not_a_tile(instruction, parameter, value)
            if isinstance(parameter.declared, Op | Act):
                errors = parameter.declared.violations(parameter.name, value, self.machine)
                if error := next(errors, None):
                    return error
        return SignatureError(f"{instruction.name} was given arguments it can't use")

    def leave_out(
        self, instruction: Instruction, arguments: dict[str, Any], fault: KernelError
    ) -> None:
        """An instruction that writes nothing isn't issued: kernels of nki-library have such, for
        sizes at the end of their range. Raises the fault of an operand of any other."""
        writes = (p.name for p in instruction.operands if p.operand and p.operand.writes)
        tiles = [arguments[n] for n in writes if isinstance(arguments[n], Tile)]
        if instruction.meets or not tiles or any(tile.size for tile in tiles):
            raise fault
        self.report("NO_ELEMENTS", f"{instruction.name} is left out: {tiles[0]} has no elements")

    # --- what was never written ------------------------------------------------------------------

    def check_written(
        self, name: str, tile: Tile, rows: Array | None = None, chosen: Array | None = None
    ) -> None:
        """Report a read of memory that nothing has written, and lay poison there. `rows` are
        those that are read, of axis 0, and `chosen` flags the elements; None for all."""
        missing = tile.missing()
        if missing is None:
            return
        if rows is not None:
            missing[np.isin(np.arange(len(missing)), rows, invert=True)] = False
        if chosen is not None:
            missing = missing & chosen
        if not missing.any():
            return
        message = self._never_written(name, tile, missing)
        tile.lay_leftovers(missing, self.options.zeros_as_leftovers)
        self.report("UNINIT_READ", message, tile.storage.id)

    def _never_written(self, name: str, tile: Tile, missing: Array) -> str:
        storage = tile.storage
        rows = np.flatnonzero(missing.reshape(missing.shape[0], -1).any(axis=1))
        where = f"rows {rows[0]} to {rows[-1]}" if len(rows) > 1 else f"row {rows[0]}"
        here = 0 if self.options.zeros_as_leftovers else "poison"
        born = f", allocated at {source.place(*storage.born)}" if storage.born else ""
        message = (
            f"{name} ({tile}) reads {int(missing.sum())} of {tile.size} elements that nothing "
            f"has written ({where}{born}); the device has leftovers there, here it is {here}"
        )
        if self.options.uninitialised == "raise":
            raise UninitialisedError(message, argument=name, hint="write the tile first")
        return message

    def report(self, code: str, message: str, *subject: Any) -> None:
        """Add a finding, once per line and subject."""
        site = self.birthplace()
        place = source.place(*site) if site else None
        key = (code, place, *subject)
        if key not in self._reported:
            self._reported.add(key)
            self.findings.append(Finding(code, message, place))

    # --- recording -------------------------------------------------------------------------------

    def note(self, call: Call, frame: FrameType, *tiles: Tile) -> None:
        """Append an instruction to the record; `tiles` are those of
        `call.reads`, the indices of `call.indices`, and `call.writes`."""
        program = self.program
        if program is None:
            return
        if program.full:
            if not program.left_out:
                self.report("RECORD_LIMIT", program.ending)
            program.left_out += 1
            return
        line = self._lines.get((id(frame.f_code), frame.f_lasti))
        if line is None:
            line = self._find_line(frame)
        row = [call.index, line]
        for tile in tiles:
            box = tile._access
            row.append(box if box >= 0 else program.access(tile))
        program.append(row)

    def _find_line(self, frame: FrameType) -> int:
        """The line of the user's code that led to a frame. Ours are not remembered: many lines
        of the user's lead through them."""
        assert self.program is not None
        user: FrameType | None = frame
        while user is not None and source.is_ours(user):
            user = user.f_back
        found = user or frame
        line = self.program.line(found.f_code, source.instruction_of(found))
        if user is frame:
            self._lines[id(found.f_code), found.f_lasti] = line
        return line

    def birthplace(self) -> tuple[CodeType, int] | None:
        """Where in the user's code we are, as memory remembers it."""
        frame = source.user_frame()
        return (frame.f_code, source.instruction_of(frame)) if frame else None

    # --- dynamic offsets -------------------------------------------------------------------------

    def issue_dynamic(
        self, call: Call, frame: FrameType, arguments: dict[str, Any], skip: bool
    ) -> None:
        """Issue with offsets that are only known now. `skip` drops what is out of bounds."""
        original = dict(arguments)
        picked = {n: arguments[n] for n in call.dynamic if arguments[n].picks}
        for name in call.dynamic:
            if name in picked:
                continue
            tile = arguments[name]
            for index in (d.index for d in tile.dynamic):
                if isinstance(index, Tile) and index.storage.gaps is not None:
                    self.check_written("the index", index)
            if not tile.dynamic[0].vector:
                if skip and _out_of_bounds(tile):
                    return
                arguments[name] = tile.resolved(name)
        results = self._pick(call, picked, arguments)
        self.execute(call, arguments)
        for tile, operand in results:
            indirection.scatter(tile, operand.partial)
        if self.beside is not None:
            self.beside.scatter(results)
        for name in call.writes:
            original[name].storage.version += 1
        used = [d.index for n in call.dynamic for d in original[n].dynamic]
        indices = (index for index in used if isinstance(index, Tile))
        reads, writes = ([original[n] for n in names] for names in (call.reads, call.writes))
        self.note(call, frame, *reads, *indices, *writes)
        for load in (index.load for index in used if isinstance(index, VirtualRegister)):
            if load is not None and load.record is self.program:
                load.record.wait(load.record.issued - 1, load.row)

    def _pick(
        self, call: Call, picked: dict[str, Tile], arguments: dict[str, Any]
    ) -> list[tuple[indirection.Picked, Operand]]:
        """Put tiles of their own in the places of indirect views; those that will be written."""

        def check(name: str, tile: Tile, used: Array) -> None:
            self.check_written(name, tile, chosen=used)

        operands = {p.name: p.operand for p in call.instruction.operands if p.operand}
        for name, tile in picked.items():
            if other := operands[name].index_of:
                error = indirection.same_index(name, tile, other, picked[other])
                if error is not None:
                    raise error
        chosen = {n: indirection.places(n, t, call.engine, check) for n, t in picked.items()}
        for name, tile in picked.items():
            arguments[name] = indirection.pick(name, tile, chosen[name], operands[name], check)
        return [(arguments[n], operands[n]) for n in call.writes if n in picked]

    def execute(self, call: Call, arguments: dict[str, Any]) -> None:
        chosen = {p.name for p in call.instruction.operands if p.operand and p.operand.partial}
        for name in call.reads:
            tile = arguments[name]
            if tile.storage.gaps is not None and not _is_vector(tile) and name not in chosen:
                self.check_written(name, tile)
        if self.rounding is not None:
            self.rounding.begin(self.program_id, call.engine.value)
        if self.beside is None:
            perform(call, arguments, self)
        else:
            self.beside.perform(call, arguments)
        for parameter in call.instruction.operands:
            tile = arguments[parameter.name]
            if parameter.name not in call.writes or not parameter.operand:
                continue
            if not parameter.operand.partial and not _is_vector(tile):
                tile.mark_written()
            if tile.region is PSUM and engine.tensor not in call.instruction.engines:
                tile.mark_foreign(True)


def perform(call: Call, arguments: dict[str, Any], core: Any) -> None:
    """Do what an instruction means, with all its arguments; `core` is what it does that on."""
    given = {p.name: arguments[p.name] for p in call.instruction.parameters}
    for name in call.instruction.lists:
        given[name] = [arguments[n] for n in spread(name, given[name])]
    if "engine" in given:
        given["engine"] = call.engine
    extra = {"core": core} if call.instruction.wants_core else {}
    call.instruction.meaning(**given, **extra)


def _is_vector(tile: Tile) -> bool:
    return bool(tile.dynamic)


def _out_of_bounds(tile: Tile) -> bool:
    def inside(dynamic: Dynamic) -> bool:
        index = dynamic.index
        value = index.value if isinstance(index, VirtualRegister) else int(index.codes().flat[0])
        return 0 <= value <= dynamic.limit

    return not all(inside(d) for d in tile.dynamic)


def _taken(call: Call, parameter: Parameter, value: Any, machine: Machine) -> Iterator[KernelError]:
    """Put one argument into a Call, and say what is wrong with it by itself."""
    declared = parameter.declared
    if isinstance(declared, Operand) and declared.many:
        views = {n: View(*tile.signature()) for n, tile in spread(parameter.name, value).items()}
        call.arguments.update({**views, parameter.name: tuple(views.values())})
        for name, view in views.items():
            yield from declared.violations(name, view, machine)
    elif isinstance(declared, Operand):
        if isinstance(value, Tile):
            view = View(*value.signature())
            call.arguments[parameter.name] = view
            yield from declared.violations(parameter.name, view, machine)
        elif value is None and declared.optional:
            call.arguments[parameter.name] = None
        elif declared.scalar and isinstance(value, int | float | np.number):
            call.arguments[parameter.name] = "number"
        else:
            yield _not_a_tile(call.instruction, parameter, value)
    elif isinstance(declared, Op | Act):
        row = getattr(value, "operator" if isinstance(declared, Op) else "function", value)
        call.arguments[parameter.name] = row
        yield from declared.violations(parameter.name, row, machine)
    elif isinstance(declared, Static):
        call.arguments[parameter.name] = value
        if declared.members is not None and not isinstance(value, declared.members):
            kind = f"nisa.{declared.members.__name__}"
            yield SignatureError(
                f"{call.instruction.name}: {parameter.name} must be a {kind}",
                argument=parameter.name,
                position=parameter.position,
                expected=", ".join(map(repr, declared.members)),
                got=repr(value),
            )


def _not_a_tile(instruction: Instruction, parameter: Parameter, value: Any) -> KernelError:
    operand = parameter.operand
    expected = "a tensor or a number" if operand and operand.scalar else "a tensor"
    if operand and operand.many:
        expected = "a list of tensors"
    return SignatureError(
        f"{instruction.name}: {parameter.name} must be {expected}",
        argument=parameter.name,
        position=parameter.position,
        got=f"{type(value).__name__} {' '.join(repr(value).split()):.60}",
        hint="numpy arrays enter a kernel as its arguments" if hasattr(value, "dtype") else None,
    )


def _out_of_reach(call: Call, name: str) -> KernelError:
    return BufferKindError(
        f"{name} is in psum, which the GpSimd engine can't reach",
        argument=name,
        expected="sbuf",
        got=str(call[name]),
        because="the GpSimd engine has no port to PSUM",
        hint="copy it to SBUF first with nisa.tensor_copy, or use another engine",
    )


# --- the core that a kernel runs on ---------------------------------------------------------------

_current: ContextVar[Core | None] = ContextVar("core", default=None)


def current() -> Core:
    """The core of the running kernel. Raises OutsideKernelError where there is none."""
    core = _current.get()
    if core is None:
        raise OutsideKernelError(
            "this can only be used inside a kernel",
            because="there is no NeuronCore to run it on",
            hint="call it from a function decorated with @nki.jit",
            also="err_nki_api_outside_of_nki_kernel",
        )
    return core


def running() -> Core | None:
    """The core of the running kernel, or None."""
    return _current.get()


@contextmanager
def on(core: Core) -> Iterator[Core]:
    """Run the body's instructions on `core`."""
    token = _current.set(core)
    try:
        with np.errstate(all="ignore"):  # overflow and NaN are results, not events
            yield core
    finally:
        _current.reset(token)
