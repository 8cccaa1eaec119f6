"""One NeuronCore: a machine with memories, a record, and what instructions share. The functions
that `neuroncore.core.binding` makes are the only way by which anything happens on it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import blake2b
from types import CodeType, FrameType
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from neuroncore.base import source
from neuroncore.base.enums import MemoryRegion, engine
from neuroncore.base.errors import (
    KernelError,
    OutsideKernelError,
    UninitializedError,
)
from neuroncore.base.findings import Finding, Severity
from neuroncore.base.options import Options
from neuroncore.base.source import Sites
from neuroncore.base.units import plural
from neuroncore.clause.alu import NUMBERS
from neuroncore.clause.instruction import Call, Instruction, Run
from neuroncore.clause.operand import Operand
from neuroncore.core import indirection, legality
from neuroncore.core.leftovers import Leftovers
from neuroncore.core.packs import Packs
from neuroncore.machine import Machine
from neuroncore.machine.world import ALONE, World
from neuroncore.memory.storage import Born, HbmMemory, Memory, Storage
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import Format
from neuroncore.numerics.stochastic import Stochastic, rounding
from neuroncore.record import stacks
from neuroncore.record.columns import birth, packer
from neuroncore.record.program import Program

Array = npt.NDArray[Any]

# What an accumulator register holds that no instruction has preset: a NaN that sums don't make.
CLOBBERED = np.uint32(0x7FC0ACC0).view(np.float32)


HOW_IT_READS = (
    "read as NaN (as 4 in integer formats). To read 0, use --uninitialized zeros or "
    'Options(uninitialized="zeros")'
)


class ShadowOfCore(Protocol):
    """An observer that also computes each instruction of a core."""

    def perform(self, call: Call, arguments: dict[str, Any]) -> None:
        """Let the core perform a legal call, and do the observer's work."""
        ...

    def scatter(self, results: Sequence[tuple[indirection.Picked, Operand]]) -> None:
        """Record that the last call has written its results to the places that an index picked."""
        ...


Brought = dict[int, Any]  # to a meeting, by the core
CarryOut = Callable[[Brought], None]


def nothing(brought: Brought) -> None:
    """Do nothing: the action of most meetings."""


class Point(NamedTuple):
    """Where `cores` meet."""

    name: str
    cores: frozenset[int]


class Watching(Protocol):
    """An observer of the numbers that calls read and write."""

    def over(self, call: Call, arguments: Mapping[str, Any], run: Run) -> Run:
        """Return the function of a call, with the observer's checks before and after."""
        ...


class Peers(Protocol):
    """The other cores of a launch, as an instruction sees them."""

    def meet(self, number: int, point: Point, bring: Any, then: CarryOut = nothing) -> Brought:
        """Wait at a point until all of its cores have arrived, and return the value that each core
        brought. The last core to arrive calls `then` before any core continues."""
        ...


def launch_memory(options: Options, rank: int = 0) -> HbmMemory:
    """The HBM of a rank's cores."""
    return HbmMemory(rounding(options), wide=options.storage == "float32", rank=rank)


@dataclass(eq=False, repr=False)
class Core:
    """A machine with memories, a record and the few registers that instructions share."""

    machine: Machine
    options: Options = field(default_factory=Options)
    program_id: int = 0
    grid: tuple[int, ...] = ()
    shared: HbmMemory | None = None  # with the other cores of the rank
    peers: Peers | None = None  # the cores it runs with, if there are others
    number: int = 0  # among the cores of the launch
    world: World = ALONE  # of the launch

    def __post_init__(self) -> None:
        options = self.options
        self.hbm = self.shared or launch_memory(options)
        self.rounding = self.hbm.rounding if isinstance(self.hbm.rounding, Stochastic) else None
        self.memory = Memory(self.machine, self.hbm, self.world.core(self.number))
        kind = stacks.Witness if options.stacks else Program
        self.program: Program | None = kind(options.record_limit) if options.record else None
        # operators that do what the options say in place of what others do, by the name of those
        self.operators = NUMBERS if options.nan_minmax == "number" else {}
        self.calls: dict[Any, Call] = {}
        self.findings: list[Finding] = []
        self.keeps_back = False  # reads of leftovers, until it is known that they matter
        self.leftovers: Leftovers[Finding] | None = None  # if there were any
        self.accumulators = {
            unit: np.full(self.machine.limits.partitions, CLOBBERED, np.float32)
            for unit in (engine.scalar, engine.vector)
        }
        self.packs = Packs()
        self.beside: ShadowOfCore | None = None
        self.watch: Watching | None = None
        # where the user's code is, while a frontend knows and it can't go on
        self.site: Born = None
        # how many turns loops took that the device runs, by the line of each
        self.turns: dict[Born, list[int]] = {}
        # and digests of the constants that a core with peers has made, by the line of each
        self.constants: dict[Born, list[bytes]] = {}
        self.groups: set[tuple[int, ...]] = set()  # of ranks, that it has been in collectives of
        self.dialect: Any = None  # what a frontend keeps of the running kernel
        self.generators: dict[engine, Array] = {}  # states of random numbers, where any were used
        self.lines: Sites[int] = Sites(sys.maxsize)  # the number of each place in the record
        self._reported: dict[tuple[Any, ...], Finding] = {}
        # by id of the code, which is kept
        self._told: dict[tuple[Any, ...], tuple[Finding, Born]] = {}

    def __repr__(self) -> str:
        issued = "no record" if self.program is None else plural(len(self.program), "instruction")
        return f"Core({self.machine.name}, program {self.program_id}, {issued})"

    @property
    def rank(self) -> int:
        return self.world.rank(self.number)

    # --- checking --------------------------------------------------------------------------------

    def prepare(self, instruction: Instruction, key: Any, arguments: dict[str, Any]) -> Call:
        """Check a call that this core has not seen; from then on its key recognizes it.

        Raises its first error, whose message lists the others.
        """
        for error in self._outlived(arguments):
            raise error
        call = legality.checked(instruction, key, arguments, self.machine).of_launch()
        if self.program is not None:
            call.index = len(self.program.calls)
            call.pack = packer(call.inputs + len(call.writes), call.has_values)
            self.program.calls.append(call)
        self.calls[key] = call
        return call

    def _outlived(self, arguments: dict[str, Any]) -> Iterator[KernelError]:
        for name, value in arguments.items():
            if isinstance(value, Tile) and value.storage.launch is not self.hbm:
                yield OutsideKernelError(
                    f"{name} ({value}) is a tensor of an earlier launch",
                    argument=name,
                    because="the tensors of a kernel exist only while it runs",
                    hint="return it to the host, and pass it as an argument",
                )

    def leave_out(
        self, instruction: Instruction, arguments: dict[str, Any], fault: KernelError
    ) -> None:
        """Leave out an instruction that writes nothing: kernels of nki-library have such
        instructions for sizes at the end of their range. Raises the error of an operand of any
        other instruction."""
        writes = (p.name for p in instruction.operands if p.operand and p.operand.writes)
        tiles = [arguments[n] for n in writes if isinstance(arguments[n], Tile)]
        if instruction.meets or not tiles or any(tile.size for tile in tiles):
            raise fault
        self.report("NO_ELEMENTS", f"{instruction.name} is skipped: {tiles[0]} has no elements")

    # --- what was never written ------------------------------------------------------------------

    def check_written(
        self,
        name: str,
        tile: Tile,
        rows: Array | None = None,
        chosen: Array | None = None,
        followed: bool = False,
        site: Born = None,
    ) -> None:
        """Report a read of uninitialized memory, and put poison there. `rows` are the rows of axis
        0 that are read, and `chosen` flags the elements; None for all. The finding may be deferred
        if the elements are `followed` through the instruction; its line is that of a `site`, or the
        current one."""
        deferred, whole = followed and self.keeps_back, rows is None and chosen is None
        if whole and self.leftovers is not None and self.leftovers.knows_reads_of(tile):
            site = site or self.birthplace()
            if (known := self.leftovers.known(tile, site, deferred)) is not None:
                self._tell_unless(deferred, known)
                return
        missing = tile.missing()
        if missing is None:
            return
        if rows is not None:
            missing[np.isin(np.arange(len(missing)), rows, invert=True)] = False
        if chosen is not None:
            missing = missing & chosen
        if not missing.any():
            return
        site = site or self.birthplace()
        message = self._never_written(name, tile, missing)
        if self.leftovers is None:
            self.leftovers = Leftovers(self._tell)
        self.leftovers.lay(tile, missing, self.options.zeros_as_leftovers, self.findings)
        finding = self._found("UNINIT_READ", message, tile.storage.id, site=site)
        if deferred:
            self.leftovers.found(tile, missing, finding)
        self._tell_unless(deferred, finding)
        if whole:
            self.leftovers.remember(tile, site, deferred, finding)

    @property
    def has_leftovers(self) -> bool:
        """True if anything may depend on uninitialized memory, because some was read."""
        return self.leftovers is not None or bool(self.findings)

    def leftovers_in(self, tile: Tile) -> Array | None:
        """Flags of the elements of an operand that are not numbers because they depend on
        uninitialized memory; None for none."""
        if not self.has_leftovers:
            return None
        found = [tile.missing(), self.leftovers.within(tile) if self.leftovers else None]
        masks = [mask for mask in found if mask is not None]
        if not masks:
            return None
        lost: Array = np.any(masks, axis=0) & ~np.isfinite(tile.values())
        return lost if lost.any() else None

    def _never_written(self, name: str, tile: Tile, missing: Array) -> str:
        storage = tile.storage
        flat = missing.reshape(missing.shape[0], -1)
        rows, columns = (np.flatnonzero(flat.any(axis=axis)) for axis in (1, 0))
        where = _span("row", rows)
        if len(columns) < flat.shape[1]:
            where += f", {_span('element', columns)} of each row"
        here = "read as 0" if self.options.zeros_as_leftovers else HOW_IT_READS
        born = f", allocated at {source.place(*storage.born)}" if storage.born else ""
        count = int(missing.sum())
        amount = f"{count} of {tile.size} elements" if count < tile.size else "all elements"
        message = (
            f"{amount} of {name} ({tile}{born}) were never written ({where}). On the device they "
            f"have old data; here they {here}"
        )
        if self.options.uninitialized == "raise":
            raise UninitializedError(message, argument=name, hint="write the tile first")
        return message

    def report(
        self,
        code: str,
        message: str | Callable[[], str],
        *subject: Any,
        site: Born = None,
        severity: Severity | None = None,
    ) -> None:
        """Add a finding, once per line and subject; the line is that of a site or of here, and the
        severity its code's if none is given. A message that a loop may need at every turn is made
        by a function, once."""
        site = site or self.birthplace()
        key = code, *((id(site[0]), site[1]) if site else ()), *subject
        known = self._told.get(key)
        if known is None:
            said = message if isinstance(message, str) else message()
            found = self._found(code, said, *subject, site=site, severity=severity)
            known = self._told[key] = found, site
        self._tell(known[0])  # a replay that goes back forgets it

    def _found(
        self,
        code: str,
        message: str,
        *subject: Any,
        site: Born = None,
        severity: Severity | None = None,
    ) -> Finding:
        """The first finding of a line and subject."""
        site = site or self.birthplace()
        place = source.place(*site) if site else None
        made = Finding(code, message, place, severity)
        return self._reported.setdefault((code, place, *subject), made)

    def _tell_unless(self, deferred: bool, finding: Finding) -> None:
        if not deferred:
            self._tell(finding)

    def _tell(self, finding: Finding) -> None:
        if not any(told is finding for told in self.findings):
            self.findings.append(finding)

    # --- recording -------------------------------------------------------------------------------

    def note(self, call: Call, frame: FrameType, values: tuple[Any, ...], *tiles: Tile) -> int:
        """Append an instruction with run-time offsets to the record, and say at which row; `tiles`
        are those of `call.reads`, the indices of `call.indices`, and `call.writes`, `values` the
        key of its values (`record.inputs`)."""
        program = self.program
        if program is None:
            return -1
        if program.full:
            return self.leave_row_out()
        windows = [number for tile in tiles for number in program.window(tile)]
        number = program.data.value(values)
        assert call.pack is not None
        return program.append(call.pack(self.line(frame), ~call.index, *windows, number))

    def leave_row_out(self) -> int:
        """Count an instruction for which the record has no room."""
        assert self.program is not None
        if not self.program.left_out:
            self.report("RECORD_LIMIT", self.program.ending)
        self.program.left_out += 1
        return self.last_row

    @property
    def last_row(self) -> int:
        """Return the row of the last instruction in the record; -1 if there is none."""
        return -1 if self.program is None else self.program.issued - 1

    def line(self, frame: FrameType, births: bool = False) -> int:
        """The number in the record of the line of the user's code that led to a frame and its row,
        or to an allocation. `lines` keeps it, and fast callers look there first. It is not kept for
        neuroncore's own frames, which many lines reach, nor if stacks are kept for each row."""
        program = self.program
        assert program is not None
        number_of = program.line if births else program.line_of_row
        if self.site is not None:
            return number_of(*self.site)
        known = self.lines.at(frame.f_code, frame.f_lasti)
        if known is not None:
            return known
        user = source.user_above(frame)
        if user is None and births:
            return -1
        found = user or frame
        number = number_of(found.f_code, source.instruction_of(found))
        if user is frame and not self.options.stacks:
            self.lines.keep(frame.f_code, frame.f_lasti, number)
        return number

    def allocate(
        self,
        region: MemoryRegion,
        shape: tuple[int, ...],
        dtype: Format,
        name: str = "",
        address: tuple[int, int] | None = None,
    ) -> Storage:
        """Allocate uninitialized storage, with the line of the kernel that allocates it.

        Raises the errors of Memory.allocate.
        """
        storage = self.memory.allocate(region, shape, dtype, name, address)
        if (program := self.program) is not None:
            line = self._line_of_birth()
            if line >= 0:
                born = program.lines[line]
                assert type(born) is tuple
                storage.born = born
            program.births.extend(birth(storage.id, line))
            if name:
                program.names[storage.id] = name
        return storage

    def _line_of_birth(self) -> int:
        """The number of the line that allocates; -1 if none of the user's does."""
        program = self.program
        assert program is not None
        if self.site is not None:
            return program.line(*self.site)
        frame = sys._getframe(3)  # the caller is ours, and looking at its frame costs
        line = self.lines.at(frame.f_code, frame.f_lasti)
        return self.line(frame, births=True) if line is None else line

    def begin(self, program: int) -> None:
        """Begin the next program of the launch grid."""
        self.program_id = program
        self.memory.begin_program()
        if self.program is not None:
            self.program.data.programs.extend((len(self.program), program))

    def returns(self, result: Any) -> Any:
        """Note what the kernel returns, and return it."""
        if self.program is not None:
            self.program.returns(result)
        return result

    def constant(self, array: Array, dtype: Format) -> Storage:
        """A tensor in shared HBM with the elements of a C-contiguous array of the host's, of the
        format."""
        if self.peers is not None:
            digest = blake2b(array.tobytes()).digest()
            self.constants.setdefault(self.birthplace(), []).append(digest)
        return self.put(self.memory.widened(array, dtype), dtype)

    def put(self, codes: Array, dtype: Format) -> Storage:
        """A tensor in shared HBM, from the codes in which elements of the format are held."""
        storage = self.memory.adopt(MemoryRegion.shared_hbm, codes, dtype)
        if self.program is not None:
            self.program.data.constant(storage)
        return storage

    def birthplace(self) -> tuple[CodeType, int] | None:
        """Return where in the user's code we are, as memory remembers it."""
        return self.site or source.site(source.user_frame())


# --- the core that a kernel runs on ---------------------------------------------------------------

_current: ContextVar[Core | None] = ContextVar("core", default=None)


def current() -> Core:
    """Return the core of the running kernel. Raises OutsideKernelError if no kernel runs."""
    core = _current.get()
    if core is None:
        raise OutsideKernelError(
            "this can only be used inside a kernel",
            because="there is no NeuronCore that could run it",
            hint="call it from a function decorated with @nki.jit",
            also="err_nki_api_outside_of_nki_kernel",
        )
    return core


running: Callable[[], Core | None] = _current.get  # the core of the running kernel, or None


@contextmanager
def on(core: Core) -> Iterator[Core]:
    """Run the body's instructions on `core`."""
    token = _current.set(core)
    try:
        with np.errstate(all="ignore"):  # overflow and NaN are results, not events
            yield core
    finally:
        _current.reset(token)


def _span(name: str, numbers: Array) -> str:
    first, last = numbers[0], numbers[-1]
    return f"{name} {first}" if first == last else f"{name}s {first} to {last}"
