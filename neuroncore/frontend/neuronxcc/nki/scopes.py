"""Checks of a running kernel of the older API: writes to its parameters, and reads and writes of
tensors in its loops.

The device's compiler reads the body of a loop once. A tensor made in the body does not exist
outside the loop or in the next iteration. Iterations of an affine_range may run at the same time,
so they have to write different elements, or add to the contents of a tensor."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import CodeType
from typing import Any

from neuroncore.base import source
from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import ImmutableError, ScopeError
from neuroncore.core.core import Core, current
from neuroncore.core.core import running as core_of_kernel
from neuroncore.frontend.neuronxcc.nki.tracing import Trace
from neuroncore.memory import access
from neuroncore.memory.geometry import Geometry, Layout
from neuroncore.memory.storage import Storage
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import Format
from neuroncore.record.columns import mark

Place = tuple[int, Geometry]  # an offset, and the geometry of the written elements
Sources = dict[str, Any] | None
Write = tuple[int, Place, Sources]  # the iteration, the place, and the sources
# the iteration, the writes in its loop by storage, and the latest write of an earlier iteration
FirstWrite = tuple["LoopIndex", dict[int, Write], Write | None]
COMPARED = (bool, int, float, str, Enum, Format)  # arguments that can be compared by `==`


class LoopIndex(int):
    """The variable of a loop in one iteration: an integer with a reference to the loop."""

    loop: Loop
    over = False  # whether the iteration has ended
    # in a parallel loop, by storage: the last iteration that wrote to the storage, and the place
    # and the sources of the first write in this iteration
    writes: dict[int, Write] | None
    ending: list[tuple[dict[Any, Any], Any]] | None = None  # tiles that end with the iteration

    def ends(self, tiles: dict[Any, Any], block: Any) -> None:
        """Remove the entry `block` from `tiles` when this iteration ends."""
        if self.ending is None:
            self.ending = []
        self.ending.append((tiles, block))

    @property
    def is_first(self) -> bool:
        return int(self) == self.loop.values[0]


@dataclass(eq=False)
class Loop:
    """A running loop, its values, and the partial results of loop_reduce in it."""

    values: range
    parallel: bool = False
    sums: dict[Any, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)


class LoopRun:
    """Begins and ends the iterations of one run of a loop."""

    def __init__(self, loop: Loop, state: Running) -> None:
        self.loop, self.met = loop, dict(state.met)
        self._state, self._depth = state, len(state.loops)
        self._writes: dict[int, Write] | None = {} if loop.parallel else None
        self._marks = Marks(state) if loop.parallel else None
        if state.trace is not None:
            state.trace.begin_loop(loop)

    @property
    def number(self) -> int | None:
        """The number of the loop in the marks of the record, or None if the loop has no marks."""
        return None if self._marks is None else self._marks.number

    def begin(self, value: int) -> LoopIndex:
        """Begin an iteration, and return the loop variable."""
        index = self.enter(value)
        if self._marks is not None:
            self._marks.begin(value)
        if self._state.trace is not None:
            self._state.trace.begin_iteration(value)
        return index

    def enter(self, value: int) -> LoopIndex:
        """Begin an iteration without marking its start in the record, and without tracing it.
        Return the loop variable."""
        state, index = self._state, LoopIndex(value)
        index.loop, index.writes = self.loop, self._writes
        state.loops.append(index)
        state.met = dict(self.met)
        return index

    def end(self, index: LoopIndex) -> None:
        """End an iteration, also if an error ended it."""
        self.leave(index)
        if self._marks is not None:
            self._marks.end()
        if self._state.trace is not None:
            self._state.trace.end_iteration()

    def leave(self, index: LoopIndex) -> None:
        """End an iteration without marking its end in the record, and without tracing it."""
        index.over = True
        del self._state.loops[self._depth :]
        for tiles, block in index.ending or ():
            del tiles[block]

    def end_loop(self) -> None:
        """End the run of the loop."""
        if self._state.trace is not None:
            self._state.trace.end_loop()


class Marks:
    """Marks the iterations of one run of a parallel loop in the record (`Data.iterations`)."""

    def __init__(self, state: Running) -> None:
        self._state, self._program = state, current().program
        # compare with None, because a record without rows is false
        self.number = 0 if self._program is None else self._program.data.iterations.words

    def begin(self, value: int) -> None:
        self._mark(self.number, value)

    def end(self) -> None:
        self._mark(~self.number, 0)
        if self._state.pending is not None:
            # the delayed call issues its instructions later: they would count for the next
            # iteration
            self._program = None

    def _mark(self, loop: int, value: int) -> None:
        if self._program is not None:
            self._program.data.iterations.extend(mark(self._program.count, loop, value))


@dataclass(eq=False)
class Running:
    """The state of a running kernel of the older API."""

    pending: Any = None  # the delayed call
    fills: dict[int, float] = field(default_factory=dict)  # initial numbers, by id of the storage
    loops: list[LoopIndex] = field(default_factory=list)  # running loops, outermost first
    # ids of the storages of parameters that may not be written
    parameters: set[int] = field(default_factory=set)
    # by place in the source: the number of tensors that got addresses there; the compiler traces
    # the body of a loop once
    met: dict[Any, int] = field(default_factory=dict)
    addresses: dict[Any, Any] = field(default_factory=dict)  # by (place, number of the tensor)
    broadcasts: set[int] = field(
        default_factory=set
    )  # ids of storages in PSUM that broadcasts made
    ones: dict[int, Any] = field(default_factory=dict)  # rows of ones, by length
    # by id of a storage: the tiles of its tensor with block dimensions, and the block of its tile
    blocks: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    trace: Trace | None = None  # the trace of the current iteration
    plans: dict[Any, Any] = field(default_factory=dict)  # by loop: how to repeat its iterations
    # by layout: storages on chip that the repeated iterations share
    shared: dict[Layout, list[Storage]] = field(default_factory=dict)
    accumulates: bool = False  # whether writes add to the contents
    # whether shared HBM may be allocated in loops and in called functions
    shares_anywhere: bool = False
    # the code of the kernel, and of kernels that it calls; decorators may be between them
    kernels: set[CodeType | None] = field(default_factory=set)
    # whether the compiler provides the bias of activations in kernels that place tensors
    bias_is_made: bool = False

    @property
    def scope(self) -> LoopIndex | None:
        """The current iteration of the innermost loop, or None."""
        return self.loops[-1] if self.loops else None

    def accumulating(self, really: bool = True) -> _Accumulating:
        """Return a context manager in which writes add to the contents, unless `really` is
        False."""
        return _Accumulating(self, really)


class _Accumulating:
    """A context manager in which writes add to the contents, as for matrix products. It is twice as
    fast as a `contextmanager`."""

    __slots__ = ("_before", "_really", "_state")

    def __init__(self, state: Running, really: bool) -> None:
        self._state, self._really = state, really

    def __enter__(self) -> None:
        self._before = self._state.accumulates
        self._state.accumulates |= self._really

    def __exit__(self, *_: object) -> None:
        self._state.accumulates = self._before


def running(core: Core | None = None) -> Running:
    """Return the state of the kernel that runs on a core, by default the current core."""
    core = core or core_of_kernel() or current()
    state: Running | None = core.dialect
    if state is None:
        state = core.dialect = Running()
    return state


def first_address(address: Any) -> Any:
    """Return the address of the allocation at the present line: `address` in the first iteration of
    the loops around it, and the same later. The compiler reads bodies of loops once, so kernels may
    increment addresses there."""
    state, site = running(), current().birthplace()
    if not state.loops or site is None:
        return address
    count = state.met[site] = state.met.get(site, 0) + 1
    return state.addresses.setdefault((site, count), address)


# --- reading and writing --------------------------------------------------------------------------


def check_read(storage: Storage, name: str) -> None:
    """Raise ScopeError for a tensor that was made in a loop iteration that has ended. `name` is the
    name of the argument by which the tensor is read."""
    scope = storage.scope
    if scope is None or not scope.over:
        return
    born = f" at {source.place_of(storage.born)}" if storage.born else ""
    raise ScopeError(
        f"the tensor passed as {name} was made{born} in a loop iteration that has ended",
        argument=name,
        because="the body of a loop is compiled once, and its tensors end with each iteration, "
        "even if Python still has a name for them",
        hint="make the tensor before the loop, and assign to its elements: tensor[...] = value",
        also="err_local_variable_used_out_of_scope",
    )


def check_write(dst: Tile, arguments: Mapping[str, Any]) -> None:
    """Check that an instruction with these `arguments` may write to `dst`, and note the write.

    Raises ImmutableError for a parameter of the kernel. Reports LOOP_CARRIED for elements that the
    previous iteration of a parallel loop has written."""
    core = core_of_kernel() or current()
    if first := first_writes(core.dialect or running(core), dst):
        note_writes(first, dst, sources_of(dst, arguments))


def first_writes(state: Running, dst: Tile) -> list[FirstWrite]:
    """Return the running iterations of parallel loops that have not written to the tensor of `dst`.

    The list is empty if iterations may share the tensor (`carry`): writes add to it, or `dst` has a
    run-time offset. Raises ImmutableError for a parameter of the kernel."""
    storage = dst.storage
    if storage.id in state.parameters:
        raise _immutable(dst)
    first: list[FirstWrite] = []
    if state.accumulates or dst.dynamic:
        carry(storage)
        return first
    for index in reversed(state.loops):
        if storage.scope is index or storage.ending is index:
            break
        if (writes := index.writes) is not None:
            before = writes.get(storage.id)
            if before is None or before[0] != index:
                first.append((index, writes, before))
    return first


def note_writes(first: Sequence[FirstWrite], dst: Tile, sources: Sources) -> None:
    """Note the write of an instruction in the iterations `first` (`first_writes`). Report
    LOOP_CARRIED if the previous iteration wrote the same elements. `sources`: the inputs of the
    instruction."""
    place = dst.offset, dst.geometry
    for index, writes, before in first:
        if before is not None and _same(before[1], place):
            _report(dst, index, before, sources)
        writes[dst.storage.id] = int(index), place, sources


def carry(storage: Storage) -> None:
    """Note in the record that iterations of parallel loops may share a tensor, for example for
    sums."""
    program = current().program
    if program is not None:
        program.data.carried.add(storage.id)


def _report(dst: Tile, index: LoopIndex, before: Write, sources: Sources) -> None:
    """Report LOOP_CARRIED: the iteration `index` writes the same elements as `before`, the previous
    one. It is a note if the values are equal."""
    equal = sources is not None and before[2] == sources
    current().report(
        "LOOP_CARRIED",
        lambda: (
            f"iterations {before[0]} and {int(index)} of an affine_range write "
            f"{'equal values to ' if equal else ''}the same elements of {dst}"
        ),
        dst.storage.id,
        severity="note" if equal else "warning",
    )


def sources_of(dst: Tile | None, arguments: Mapping[str, Any]) -> Sources:
    """Return the inputs of an instruction, so that equal inputs give equal results. Return None if
    they are unknown: the instruction reads its destination, for example, or takes lists."""
    sources: dict[str, Any] = {}
    for name, value in arguments.items():
        if isinstance(value, Tile):
            if name != "dst" and (dst is None or value.storage is dst.storage or value.dynamic):
                return None
            version = 0 if name == "dst" else value.storage.version
            sources[name] = (value.storage.id, version, value.offset, value.geometry)
        elif value is None or isinstance(value, COMPARED):
            sources[name] = value
        else:
            return None
    return sources


def _same(a: Place, b: Place) -> bool:
    """Return whether two places in a storage have the same elements. A place is a pair (offset,
    geometry). A geometry consists of the shape, the strides and the format."""
    if a[0] != b[0]:
        return False
    if a[1] is b[1]:
        return True
    axes_a, axes_b = (access.long_axes(place[1].shape, place[1].strides) for place in (a, b))
    return axes_a == axes_b


def _immutable(dst: Tile) -> ImmutableError:
    return ImmutableError(
        f"{dst} is a parameter of the kernel, which is read-only",
        argument="dst",
        because="a kernel of nki.jit returns its results; its parameters are only inputs",
        hint="store into an nl.ndarray(..., buffer=nl.shared_hbm) and return that, or annotate "
        f"the parameter: {dst.storage.name or 'parameter'}: nt.mutable_tensor",
        also="err_cannot_update_immutable_parameter",
    )


def check_shared(region: MemoryRegion, state: Running) -> None:
    """Raise ScopeError for a tensor in shared HBM that is allocated in a loop, or in a function
    that the kernel calls. An option of the compiler allows such tensors
    (`state.shares_anywhere`)."""
    if region is not MemoryRegion.shared_hbm or state.shares_anywhere:
        return
    if not state.loops and not _in_helper(state.kernels):
        return
    raise ScopeError(
        "a tensor in shared hbm is made in "
        + ("a loop" if state.loops else "a function that the kernel calls"),
        argument="buffer",
        expected="allocate shared_hbm at the top level of the kernel",
        because="a tensor in shared_hbm outlives the kernel, and is allocated before the kernel "
        "begins",
        hint="allocate the tensor at the top of the kernel, or use buffer=nl.private_hbm",
        also="err_shared_hbm_must_in_kernel_level",
    )


def _in_helper(kernels: Collection[CodeType | None]) -> bool:
    """Return whether the running function of the user was called by another function of the user.
    Return False if the code of the running function is among `kernels`."""
    frame = source.user_frame()
    while frame is not None and frame.f_code.co_name.startswith("<"):  # a comprehension
        frame = frame.f_back
    if frame is None or frame.f_code in kernels:
        return False
    return frame.f_back is not None and not source.is_ours(frame.f_back)


def enclosing_iteration(loops: Sequence[LoopIndex], folded: Sequence[Loop]) -> LoopIndex | None:
    """Return the iteration around the outermost of the `folded` loops, over which a loop_reduce
    sums, or None. If none is running, return the innermost iteration.

    `loops`: the variables of all running loops, outermost first"""
    for place, index in enumerate(loops):
        if index.loop in folded:
            return loops[place - 1] if place else None
    return loops[-1] if loops else None
