"""One NeuronCore: a machine with memories, a record, and state that instructions share.

The functions that execute instructions are generated from the clauses by
`docs/generate/functions.py`. Undefined elements are elements that were never written, or that
depend on such elements (`neuroncore.core.undefined`). A site is a place in the user's code
(`neuroncore.base.source`)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import blake2b
from types import FrameType
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from neuroncore.base import buffers, source
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
from neuroncore.core.packs import Packs
from neuroncore.core.undefined import UndefinedElements
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

# The content of an accumulator register that no instruction has preset: a NaN that no sum produces.
CLOBBERED = np.uint32(0x7FC0ACC0).view(np.float32)


HOW_IT_READS = (
    "read as NaN (as 4 in integer formats). To read 0, use --uninitialized zeros or "
    'Options(uninitialized="zeros")'
)


class ShadowOfCore(Protocol):
    """An observer of a core. It executes each instruction a second time, for example in float64."""

    def perform(self, call: Call, arguments: dict[str, Any]) -> None:
        """Execute a legal call on the core, and observe it (for example, compute it in
        float64 too)."""
        ...

    def scatter(self, results: Sequence[tuple[indirection.Picked, Operand]]) -> None:
        """Observe that the last call's results were scattered to elements that an index chose.
        `results` lists each result with its declaration."""
        ...


SentValues = dict[int, Any]  # by number of the core: the value that it sends at a synchronization
CarryOut = Callable[[SentValues], None]


def nothing(values: SentValues) -> None:
    """Do nothing: the default action when all cores have arrived at a Point."""


class Point(NamedTuple):
    """A point at which cores wait for each other: its name, and the numbers of these cores."""

    name: str
    cores: frozenset[int]


class Watching(Protocol):
    """An observer that checks the numbers which calls read and write."""

    def over(self, call: Call, arguments: Mapping[str, Any], run: Run) -> Run:
        """Return the function that executes a call, with the observer's checks around it."""
        ...


class Peers(Protocol):
    """The other cores of a launch, as an instruction sees them."""

    def meet(self, number: int, point: Point, value: Any, then: CarryOut = nothing) -> SentValues:
        """Wait until all cores of a point have arrived, and return the value that each core sent.
        The last core to arrive calls `then` before any core continues."""
        ...


def launch_memory(options: Options, rank: int = 0) -> HbmMemory:
    """Return new HBM for the cores of a rank."""
    return HbmMemory(rounding(options), wide=options.storage == "float32", rank=rank)


@dataclass(eq=False, repr=False)
class Core:
    """One core: a machine with memories, a record and the registers that instructions share."""

    machine: Machine
    options: Options = field(default_factory=Options)
    program_id: int = 0
    grid: tuple[int, ...] = ()
    shared: HbmMemory | None = None  # the HBM that this core shares with the cores of its rank
    peers: Peers | None = None  # the other cores of the launch, if there are any
    number: int = 0  # the number of this core in the launch
    world: World = ALONE  # the ranks and cores of the launch

    def __post_init__(self) -> None:
        options = self.options
        self.hbm = self.shared or launch_memory(options)
        self.rounding = self.hbm.rounding if isinstance(self.hbm.rounding, Stochastic) else None
        self.memory = Memory(self.machine, self.hbm, self.world.core(self.number))
        kind = stacks.Witness if options.stacks else Program
        self.program: Program | None = kind(options.record_limit) if options.record else None
        # replacements for operators, by name, that the options require
        self.operators = NUMBERS if options.nan_minmax == "number" else {}
        self.calls: dict[Any, Call] = {}
        self.findings: list[Finding] = []
        # whether a read of undefined elements is reported only when its results may have an effect
        self.defers_undefined = False
        self.undefined: UndefinedElements[Finding] | None = None  # None before the first read
        self.accumulators = {
            unit: buffers.filled((self.machine.limits.partitions,), CLOBBERED, np.float32)
            for unit in (engine.scalar, engine.vector)
        }
        self.packs = Packs()
        self.shadow: ShadowOfCore | None = None
        self.watch: Watching | None = None
        # the current place in the user's code: a frontend sets it while it stays the same, and a
        # replay sets it for each instruction
        self.site: Born = None
        # by site of a loop that the device runs: for each execution, the number of its iterations
        self.iterations: dict[Born, list[int]] = {}
        # by site: digests of the constants that a core with peers has made
        self.constants: dict[Born, list[bytes]] = {}
        self.groups: set[tuple[int, ...]] = set()  # the groups of ranks of its collectives
        self.dialect: Any = None  # a frontend's data about the running kernel
        # the states of the random number generators of each engine that has used them
        self.generators: dict[engine, Array] = {}
        # by place in the code: the number that the record gives to the line
        self.lines: Sites[int] = Sites(sys.maxsize)
        # each finding by code, place in a source file, and subject
        self._by_place: dict[tuple[Any, ...], Finding] = {}
        # each finding by code, site (with the id of its code object) and subject; the value
        # includes the site, so that the code object stays alive
        self._by_site: dict[tuple[Any, ...], tuple[Finding, Born]] = {}

    def __repr__(self) -> str:
        issued = "no record" if self.program is None else plural(len(self.program), "instruction")
        return f"Core({self.machine.name}, program {self.program_id}, {issued})"

    @property
    def rank(self) -> int:
        return self.world.rank(self.number)

    # --- checking --------------------------------------------------------------------------------

    def prepare(self, instruction: Instruction, key: Any, arguments: dict[str, Any]) -> Call:
        """Check a call that this core has not seen before. Store the resulting Call under `key` and
        return it.

        Raises the first error of the call; its message lists the other errors."""
        self.check_launch(arguments)
        call = legality.checked(instruction, key, arguments, self.machine).of_launch()
        if self.program is not None:
            call.index = len(self.program.calls)
            call.pack = packer(call.inputs + len(call.writes), call.has_values)
            self.program.calls.append(call)
        self.calls[key] = call
        return call

    def check_launch(self, arguments: Mapping[str, Any]) -> None:
        """Raise OutsideKernelError for a tile of an earlier launch among the arguments, or among
        the indices of their elements. The names of listed tiles are arguments too."""
        for name, value in arguments.items():
            indices = [each.index for each in value.dynamic] if isinstance(value, Tile) else []
            for tile in [value, *indices]:
                if isinstance(tile, Tile) and tile.storage.launch is not self.hbm:
                    raise OutsideKernelError(
                        f"{name} ({tile}) is a tensor of an earlier launch, or a copy that Python "
                        "made",
                        argument=name,
                        because="the tensors of a kernel exist only while the kernel runs",
                        hint="return the tensor to the host, and pass the array to the next "
                        "launch; nl.copy copies a tensor in a kernel",
                    )

    def leave_out(
        self, instruction: Instruction, arguments: dict[str, Any], fault: KernelError
    ) -> None:
        """Skip an instruction whose results have no elements. If they have elements, raise `fault`.
        Kernels of nki-library issue such instructions if the last piece of a loop is empty."""
        writes = (p.name for p in instruction.operands if p.operand and p.operand.writes)
        tiles = [arguments[n] for n in writes if isinstance(arguments[n], Tile)]
        if instruction.meets or not tiles or any(tile.size for tile in tiles):
            raise fault
        self.report("NO_ELEMENTS", f"{instruction.name} is skipped: {tiles[0]} has no elements")

    # --- uninitialized memory --------------------------------------------------------------------

    def check_written(
        self,
        name: str,
        tile: Tile,
        rows: Array | None = None,
        chosen: Array | None = None,
        followed: bool = False,
        site: Born = None,
    ) -> None:
        """Report a read of uninitialized memory, and put poison (NaN) or zeros there.

        `rows`: the rows of axis 0 that are read; None means all
        `chosen`: flags of the elements that are read; None means all
        `followed`: whether the finding may be deferred until these elements affect a result
        `site`: the place of the finding, by default the current line"""
        if tile.storage.launch is not self.hbm:
            self.check_launch({name: tile})
        deferred, whole = followed and self.defers_undefined, rows is None and chosen is None
        if whole and self.undefined is not None and self.undefined.knows_reads_of(tile):
            site = site or self.birthplace()
            if (earlier := self.undefined.known(tile, site, deferred)) is not None:
                self._add_unless(deferred, earlier)
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
        if self.undefined is None:
            self.undefined = UndefinedElements(self._add)
        self.undefined.poison(tile, missing, self.options.undefined_as_zeros, self.findings)
        finding = self._finding("UNINIT_READ", message, tile.storage.id, site=site)
        if deferred:
            self.undefined.defer(tile, missing, finding)
        self._add_unless(deferred, finding)
        if whole:
            self.undefined.remember(tile, site, deferred, finding)

    @property
    def has_undefined(self) -> bool:
        """True if the kernel has read uninitialized memory."""
        return self.undefined is not None or bool(self.findings)

    def undefined_in(self, tile: Tile) -> Array | None:
        """Return flags of the tile's elements that depend on uninitialized memory and are not
        finite; None if there are none."""
        if not self.has_undefined:
            return None
        flags = tile.missing(), self.undefined.within(tile) if self.undefined else None
        masks = [mask for mask in flags if mask is not None]
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
        here = "read as 0" if self.options.undefined_as_zeros else HOW_IT_READS
        born = f", allocated at {source.place_of(storage.born)}" if storage.born else ""
        count = int(missing.sum())
        amount = f"{count:,} of {tile.size:,} elements" if count < tile.size else "all elements"
        message = (
            f"{amount} of {name} ({tile}{born}) were never written ({where}). On the device they "
            f"have old data; here they {here}"
        )
        if self.options.uninitialized == "raise":
            raise UninitializedError(message, argument=name, hint="write the tile before this line")
        return message

    def report(
        self,
        code: str,
        message: str | Callable[[], str],
        *subject: Any,
        site: Born = None,
        severity: Severity | None = None,
    ) -> None:
        """Add a finding, once for each code, line and subject.

        `message`: the text, or a function that is called only for a new finding
        `site`: by default the current line
        `severity`: by default the severity of the code"""
        site = site or self.birthplace()
        key = code, site and source.key_of(site), *subject
        known = self._by_site.get(key)
        if known is None:
            text = message if isinstance(message, str) else message()
            finding = self._finding(code, text, *subject, site=site, severity=severity)
            known = self._by_site[key] = finding, site
        self._add(known[0])  # a replay that returns to an earlier state has removed it

    def _finding(
        self,
        code: str,
        message: str,
        *subject: Any,
        site: Born = None,
        severity: Severity | None = None,
    ) -> Finding:
        """Return the finding for a code, a line and a subject; create it if none exists."""
        site = site or self.birthplace()
        place = source.place_of(site) if site else None
        finding = Finding(code, message, place, severity)
        return self._by_place.setdefault((code, place, *subject), finding)

    def _add_unless(self, deferred: bool, finding: Finding) -> None:
        if not deferred:
            self._add(finding)

    def _add(self, finding: Finding) -> None:
        if not any(known is finding for known in self.findings):
            self.findings.append(finding)

    # --- recording -------------------------------------------------------------------------------

    def note(self, call: Call, frame: FrameType, values: tuple[Any, ...], *tiles: Tile) -> int:
        """Record an instruction with run-time offsets, and return its number. Return -1 without a
        record, and the last number if the record is full.

        `tiles`: the operands of `call.reads`, `call.indices` and `call.writes`
        `values`: the instruction's numbers and registers, each followed by its type
            (`record.inputs`)"""
        program = self.program
        if program is None:
            return -1
        if not program.make_room():
            return self.leave_row_out()
        windows = [number for tile in tiles for number in program.window(tile)]
        number = program.data.value(values)
        assert call.pack is not None
        return program.append(call.pack(self.line(frame), ~call.index, *windows, number))

    def leave_row_out(self) -> int:
        """Count an instruction that does not fit into the record, and return the last number."""
        assert self.program is not None
        if not self.program.left_out:
            self.report("RECORD_LIMIT", self.program.ending)
        self.program.left_out += 1
        return self.last_row

    @property
    def last_row(self) -> int:
        """The number of the last instruction in the record; -1 if there is none."""
        return -1 if self.program is None else self.program.issued - 1

    def line(self, frame: FrameType, births: bool = False) -> int:
        """Return the record's number for the line of user code that led to a frame.

        The number is cached in `lines`, except for frames of neuroncore, to which many lines of
        user code lead, and for records with a stack for each instruction. `births` is true for an
        allocation."""
        program = self.program
        assert program is not None
        number_of = program.line if births else program.line_of_row
        if self.site is not None:
            assert type(self.site) is tuple  # only replays have other sites, and record nothing
            return number_of(*self.site)
        known = self.lines.at(frame.f_code, frame.f_lasti)
        if known is not None:
            return known
        user = source.user_above(frame)
        if user is None and births:
            return -1
        caller = user or frame
        number = number_of(caller.f_code, source.instruction_of(caller))
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
        """Return newly allocated, uninitialized storage. `Storage.born` is the current line of the
        kernel. Raises the errors of Memory.allocate."""
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
        """Return the record's number for the current line of user code; -1 outside of user code."""
        program = self.program
        assert program is not None
        if self.site is not None:
            assert type(self.site) is tuple  # as in `line`
            return program.line(*self.site)
        # the caller is neuroncore's, so its frame need not be tested, which takes time
        frame = sys._getframe(3)
        line = self.lines.at(frame.f_code, frame.f_lasti)
        return self.line(frame, births=True) if line is None else line

    def begin(self, program: int) -> None:
        """Start the next program of the launch grid."""
        self.program_id = program
        self.memory.begin_program()
        if self.program is not None:
            self.program.data.programs.extend((len(self.program), program))

    def returns(self, result: Any) -> Any:
        """Record the result of the kernel, and return it."""
        if self.program is not None:
            self.program.returns(result)
        return result

    def constant(self, array: Array, dtype: Format) -> Storage:
        """Return a tensor in shared HBM with the elements of the host's C-contiguous array."""
        if self.peers is not None:
            digest = blake2b(array.tobytes()).digest()
            self.constants.setdefault(self.birthplace(), []).append(digest)
        return self.put(self.memory.widened(array, dtype), dtype)

    def put(self, codes: Array, dtype: Format) -> Storage:
        """Return a tensor in shared HBM that uses the memory of `codes`, in the numpy type of the
        format."""
        storage = self.memory.adopt(MemoryRegion.shared_hbm, codes, dtype)
        if self.program is not None:
            self.program.data.constant(storage)
        return storage

    def birthplace(self) -> Born:
        """Return the current place in the user's code, or None outside of it."""
        return self.site or source.site(source.user_frame())


# --- the core that a kernel runs on ---------------------------------------------------------------

_current: ContextVar[Core | None] = ContextVar("core", default=None)


def current() -> Core:
    """Return the core of the running kernel. Raises OutsideKernelError if no kernel runs."""
    core = _current.get()
    if core is None:
        raise OutsideKernelError(
            "this part of the API can only be used inside a kernel",
            because="outside a kernel there is no NeuronCore that could run an instruction",
            hint="move the call into a function decorated with @nki.jit",
            also="err_nki_api_outside_of_nki_kernel",
        )
    return core


running: Callable[[], Core | None] = _current.get  # returns the core of the running kernel, or None


@contextmanager
def on(core: Core) -> Iterator[Core]:
    """A context manager: instructions in its body run on `core`."""
    token = _current.set(core)
    try:
        with np.errstate(all="ignore"):  # overflow and NaN are legal results
            yield core
    finally:
        _current.reset(token)


def _span(name: str, numbers: Array) -> str:
    first, last = numbers[0], numbers[-1]
    return f"{name} {first}" if first == last else f"{name}s {first} to {last}"
