"""Turns calls that return a tile into instructions that have a destination.

On the device `t[i, j] = nisa.exp(x)` is one instruction, and so is `psum[...] += nisa.nc_matmul(a,
b)`. So a call is delayed if the source stores its value into a subscript next: the assignment names
the destination. Other calls are issued at once, into a new tile. At most one call is delayed. It is
issued before any later instruction.

A slot is the tile that is assigned to. A box is a rectangle of elements of a tile (`boxes`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import FrameType
from typing import Any

import numpy as np

from neuroncore.base import source, syntax
from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import KernelError, SignatureError
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.core.core import Core, current
from neuroncore.core.core import running as core_of_kernel
from neuroncore.frontend.issue import function
from neuroncore.frontend.limits import fitting, rows_of
from neuroncore.frontend.neuronxcc.nki import integer_transfers, refusals
from neuroncore.frontend.neuronxcc.nki.blocks import check_explicit
from neuroncore.frontend.neuronxcc.nki.boxes import (
    Part,
    check_apart,
    check_rows,
    chosen,
    extent,
    in_patterns,
    of_result,
    parts,
    place_of,
)
from neuroncore.frontend.neuronxcc.nki.expressions import Box, rectangles
from neuroncore.frontend.neuronxcc.nki.scopes import (
    Running,
    carry,
    check_read,
    check_write,
    running,
)
from neuroncore.frontend.neuronxcc.nki.tensor import Awaited, Tensor, Untiled
from neuroncore.memory import access
from neuroncore.memory.access import Dims
from neuroncore.memory.storage import Storage
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import Format, float32

SBUF, PSUM = MemoryRegion.sbuf, MemoryRegion.psum
ON_CHIP = (SBUF, PSUM)
OfBox = Callable[[Box], dict[str, Any]]
Run = Callable[[Tensor, dict[str, Any]], None]  # takes a destination, and arguments that change

# instructions whose result must have the format of their operand
MOVES = frozenset(("dma_transpose", "dropout", "local_gather", "nc_transpose"))

# The vendor's names (in nki.errors) of errors for which the instruction table has no name.
VENDORS: dict[tuple[str, str | None, str], str] = {
    (name, argument, code): f"err_activation_{argument}_{what}"
    for name in ("activation", "activation_reduce")
    for argument, code, what in (
        ("scale", "DTYPE_RULE", "invalid_type"),
        ("scale", "SHAPE_MISMATCH", "scalar_or_vector"),
    )
}


@dataclass(eq=False, slots=True)
class Pending:
    """A delayed call without a destination. `run(dst, changed)` issues it, with some arguments
    replaced."""

    core: Core
    tile: Tensor  # the destination if the kernel assigns none
    run: Run
    boxes: list[Box]  # the elements that the call writes; an empty box means all
    regions: tuple[MemoryRegion, ...]  # memories that the destination may be in
    sums: bool  # whether the call is a matrix product, which PSUM can accumulate
    frame: FrameType
    instruction: int
    moves: bool = False  # whether the result has the format of the operand

    def issue(self, dst: Tensor, **changed: Any) -> None:
        core = self.core
        before, core.site = core.site, (self.frame.f_code, self.instruction)
        token = source.resumed.set((self.frame, self.instruction))
        try:
            self.run(dst, changed)
        finally:
            core.site = before
            source.resumed.reset(token)

    def suits(self, slot: Tensor) -> bool:
        """Return whether the instruction can write to the slot directly, with the rounding of a new
        tile that is then copied there."""
        format, wanted = self.tile.dtype, slot.dtype
        converts = format is float32 and not (self.moves or wanted.is_integer)
        if wanted is not format and not converts:
            return False
        if slot.storage.region not in self.regions:
            return False
        return slot.shape == self.tile.shape or slot.size == self.tile.size


def flush() -> Running:
    """If a call is delayed, issue it into a new tile. Return the state of the running kernel."""
    core = core_of_kernel() or current()
    state: Running = core.dialect or running(core)
    if state.pending is not None:
        _flush(state)
    return state


def _flush(state: Running) -> None:
    pending, state.pending = state.pending, None
    pending.issue(pending.tile)


# --- tiles ----------------------------------------------------------------------------------------


def new(shape: Sequence[int], dtype: Format, region: MemoryRegion = SBUF, name: str = "") -> Tensor:
    """Return a new, uninitialized tile."""
    core = current()
    sizes = (*shape, 1) if len(shape) == 1 and region in ON_CHIP else tuple(shape)
    return _new(core, running(core), (region, sizes, dtype, name))


def _new(core: Core, state: Running, place: tuple[Any, ...]) -> Tensor:
    storage = core.allocate(*place)  # of (region, shape, format, name)
    storage.scope = state.scope
    if state.trace is not None:
        state.trace.tile(storage)
    return Tensor(storage, storage.layout.whole, 0)


def delayed(core: Core, scope: Any, region: MemoryRegion, sizes: Dims, dtype: Format) -> Tensor:
    """Return a tile on the chip whose memory is allocated when it is needed. It counts as allocated
    at this line, in the iteration `scope`. Raises PartitionLimitError and CapacityError at once."""
    site = core.birthplace()
    core.memory.layout(region, sizes, dtype)

    def allocate() -> Storage:
        before, core.site = core.site, site
        try:
            storage = core.allocate(region, sizes, dtype)
            if (trace := running(core).trace) is not None:
                trace.tile(storage)
        finally:
            core.site = before
        storage.scope = scope
        return storage

    return Awaited(sizes, dtype, allocate)


def tile(value: Any, name: str = "data") -> Tensor:
    """Check that an argument is a tile that an instruction may read, and return it, after `fill`.

    Raises SignatureError for other values, and ScopeError for a tile from an ended iteration.
    `name` is the argument's name."""
    if not isinstance(value, Tensor):
        if isinstance(value, Untiled):
            raise value.not_a_tile(name)
        raise refusals.not_a_tile(value, name)
    storage = value.storage
    if storage.scope is not None and storage.scope.over:
        check_read(storage, name)
    if storage.gaps is not None:
        fill(value)
    return value


def fill(tile: Tile) -> None:
    """Write the initial number of a tensor (0 for nl.zeros) to all unwritten elements before it is
    read, usually by memset."""
    if tile.storage.gaps is None:
        return
    state = running()
    value = state.fills.get(tile.storage.id)
    if value is None or tile.unwritten() is None:
        return
    everything = Tensor.of(tile.storage)
    missing = everything.unwritten()
    assert missing is not None
    del state.fills[tile.storage.id]
    carry(tile.storage)
    if state.trace is not None:
        state.trace.fault()
    for box in rectangles(missing):  # from the first row to the last
        if tile.storage.region is PSUM and not _starts_well(everything.within(box)):
            _set_below(everything, box, value)
        else:
            _set(everything.within(box), value)


def _starts_well(slot: Tensor) -> bool:
    """Return whether engines can start an access at the first partition of a tile."""
    return slot.start_partition in current().machine.starts(slot.shape[0])


def _set_below(whole: Tensor, box: Box, value: Any) -> None:
    """Fill a box of a tensor in PSUM, at whose first partition no engine can start, with a number.

    DMA does not reach PSUM, so a memset also fills some partitions before the box. Their contents
    must have been written, and are saved in SBUF meanwhile."""
    (first, count), *free = box
    end, starts = first + count, current().machine.starts
    top = max(row for row in range(first) if row in starts(end - row))
    above, all_rows = (whole.within(((top, size), *free)) for size in (first - top, end - top))
    saved = new(above.shape, above.dtype)
    issue("tensor_copy", dst=saved, src=above)
    issue("memset", dst=all_rows, value=value)
    issue("tensor_copy", dst=above, src=saved)


def issue(name: str, **arguments: Any) -> None:
    """Issue the instruction `name`. Omitted arguments have the defaults of the instruction's
    clause."""
    _issue_checked(name, arguments)


def _issue_checked(name: str, arguments: dict[str, Any]) -> None:
    if (dst := arguments.get("dst")) is not None:
        check_write(dst, arguments)
        if dst.storage.layout.placed:
            check_explicit(name, arguments, running().bias_is_made)
    _issue(name, arguments)


def _issue(name: str, arguments: dict[str, Any]) -> None:
    if name == "dma_copy":
        arguments = integer_transfers.with_equal_formats(arguments)
    state = running()
    trace = state.trace
    begun = 0 if trace is None else trace.written
    try:
        function(name)(**arguments)
    except KernelError as error:
        explain(name, error)
        raise
    if trace is not None:
        trace.step(name, arguments, state.accumulates, begun)


def explain(name: str, error: KernelError) -> None:
    """Add the vendor's name of the error (`also`) to the error of instruction `name`."""
    error.also = error.also or VENDORS.get((name, error.argument, error.code))


# --- making results -------------------------------------------------------------------------------


def produce(
    name: str,
    out: tuple[Sequence[int], Any],
    mask: Any = None,
    *,
    region: MemoryRegion = SBUF,
    regions: tuple[MemoryRegion, ...] | None = None,
    masked: str = "dst",
    part: Part | None = None,
    of_box: OfBox | None = None,
    now: bool = False,
    **arguments: Any,
) -> Tensor:
    """Issue instruction `name`, and return the tile that it writes. `out` is the shape and format
    of this tile, and `region` is its memory. If the kernel assigns the result next, the instruction
    is delayed, unless `now`. `regions` are the memories to which the delayed instruction may write.

    A mask chooses elements of the operand `masked` (by default the result). The instruction is
    issued for each box of chosen elements. Tiles among the arguments are cut along the axes that
    they share with this operand. If the result has other axes, `part`(result, box) returns the part
    of the result for a box. `of_box`(box) returns the arguments that depend on the box."""
    core, frame = core_of_kernel() or current(), source.user_frame()
    state = core.dialect or running(core)
    if state.pending is not None and not now:
        _flush(state)
    before, core.site = core.site, source.site(frame)
    try:
        awaited = not now and frame is not None and syntax.is_assigned(frame)
        shape, scope = out[0], state.loops[-1] if state.loops else None
        sizes = tuple(shape) if len(shape) > 1 else (*shape, 1)
        if awaited:
            result = delayed(core, scope, region, sizes, out[1])
        else:
            result = _new(core, state, (region, sizes, out[1]))
        over = sizes if masked == "dst" else arguments[masked].shape
        # an access pattern can always describe two axes
        elementwise = part is None and masked == "dst" and len(over) > 2
        written: list[Box] = [()]
        if mask is None and not elementwise:
            if not awaited:
                arguments["dst"] = result
                _issue(name, arguments)
                return result
            run: Run = partial(_run_whole, name, arguments)
        else:
            boxes = written = chosen(mask, over)
            if mask is not None and (part is not None or masked != "dst"):
                written = _written(result, boxes, over, part)
            run = partial(_run_boxes, name, arguments, boxes, masked, part, elementwise, of_box)
        if not awaited:
            run(result, {})
            return result
        into = _usual_regions(name) if regions is None else regions
        assert frame is not None
        sums, place = name == "nc_matmul", (frame, frame.f_lasti)
        state.pending = Pending(core, result, run, written, into, sums, *place, name in MOVES)
    finally:
        core.site = before
    return result


def _written(result: Tensor, boxes: list[Box], over: Dims, part: Part | None) -> list[Box]:
    """Return the boxes of a result that instructions write if they work on `boxes` of a tile of
    shape `over`. The empty tuple means the whole result. Raises NotEmulated if two instructions
    would write the same element."""
    written = [extent(of_result(result, box, over, part)) if box else box for box in boxes]
    check_apart(written)
    return written


def _run_whole(name: str, arguments: dict[str, Any], dst: Tensor, changed: dict[str, Any]) -> None:
    arguments["dst"] = dst
    arguments.update(changed)
    _issue_checked(name, arguments)


def _run_boxes(
    name: str,
    arguments: dict[str, Any],
    boxes: list[Box],
    masked: str,
    part: Part | None,
    elementwise: bool,
    of_box: OfBox | None,
    dst: Tensor,
    changed: dict[str, Any],
) -> None:
    passed = {**arguments, **changed}
    over = dst.shape if masked == "dst" else arguments[masked].shape
    cut = in_patterns(boxes, over, (dst, *arguments.values())) if elementwise else boxes
    check_rows(name, cut, passed)
    for box in cut:
        if box:
            pieces = parts(name, passed, masked, box, over)
            if of_box is not None:
                pieces.update(of_box(box))
            issue(name, **pieces, dst=of_result(dst, box, over, part))
        else:
            issue(name, **passed, dst=dst)


@cache
def _usual_regions(name: str) -> tuple[MemoryRegion, ...]:
    """Return the memories to which instruction `name` may write its first operand."""
    operand = INSTRUCTIONS[name].parameters[0].operand
    assert operand is not None
    return operand.regions


def hold(
    result: Tensor,
    run: Run,
    boxes: list[Box],
    regions: tuple[MemoryRegion, ...] = ON_CHIP,
    sums: bool = False,
) -> Tensor:
    """Issue the call `run`, which writes the `boxes` of the tile `result`, and return this tile. If
    the source assigns the result next, delay the call. The assigned tensor must be in one of
    `regions`. `sums`: True for a matrix product, which PSUM can accumulate."""

    core, frame = current(), source.user_frame()
    flush()
    if frame is None or not syntax.is_assigned(frame):
        run(result, {})
        return result
    pending = Pending(core, result, run, boxes, regions, sums, frame, frame.f_lasti)
    running(core).pending = pending
    return result


# --- assignment -----------------------------------------------------------------------------------


def assign(slot: Tensor, value: Any) -> None:
    """Execute slot = value. A delayed call writes to the slot directly if possible. Other tiles are
    copied, and numbers are written by memset."""
    if not isinstance(value, Tensor):
        flush()
        _before_writing(slot, [()])
        _set(slot, _number(value))
        return
    slot = place_of(slot, value)
    state = running()
    pending = state.pending
    if pending is None or pending.tile is not value:
        flush()
        if value.dynamic:
            raise refusals.copied_by_assignment(value)
        if not _same(slot, value):
            if state.trace is not None:
                state.trace.distinct(slot, value, state.blocks)
            _copy(slot, value, [()])
        return
    state.pending = None
    if pending.suits(slot):
        _before_writing(slot, pending.boxes)
        pending.issue(slot.shaped(value.shape))
    else:
        pending.issue(value)
        # a tile of another iteration is the sum of a loop_reduce
        with state.accumulating(value.storage.scope is not state.scope):
            _copy(slot, value, pending.boxes)


def _copy(slot: Tensor, value: Tensor, boxes: list[Box]) -> None:
    if not slot.storage.on_chip:
        raise refusals.assigned_in_hbm(slot)
    fill(value)
    _before_writing(slot, boxes)
    if boxes == [()]:
        value = _spread(value, slot.shape)
    place = slot.shaped(value.shape)
    for box in in_patterns(boxes, value.shape, (place, value)):
        dst, src = (place.within(box), value.within(box)) if box else (place, value)
        issue("tensor_copy", dst=dst, src=src)


def _spread(value: Tensor, shape: Dims) -> Tensor:
    """Return the tile with free axes of size 1 repeated to `shape`, unchanged if the shapes don't
    fit. Missing axes are added after the partition axis, as in operators."""
    wide = value
    for _ in range(len(shape) - len(value.shape)):
        wide = wide.expand_dims(1)
    same = len(wide.shape) == len(shape) and wide.shape[0] == shape[0]
    fits = same and all(n in (1, m) for n, m in zip(wide.shape, shape, strict=True))
    return wide.stretched(shape) if fits else value


def _set(slot: Tensor, value: Any) -> None:
    """Fill a slot with a number, by memset.

    DMA is used in two cases. If no engine can start at the slot's first partition in SBUF, a
    constant is copied. If the slot is in HBM, as in nki-llama-nyu, a filled tile is copied."""
    core = current()
    if not slot.storage.on_chip:
        check_write(slot, {"value": value})
        for part in fitting(slot):
            filled = new(rows_of(part.size), part.dtype)
            issue("memset", dst=filled, value=value)
            issue("dma_copy", dst=part, src=filled)
        return
    if slot.storage.region is PSUM or _starts_well(slot):
        issue("memset", dst=slot, value=value)
        return
    constant = np.full(slot.shape, value).astype(slot.held.numpy)
    issue("dma_copy", dst=slot, src=Tensor.of(core.put(constant, slot.dtype)))


def _number(value: Any) -> Any:
    if isinstance(value, int | float | np.generic):
        return value.item() if isinstance(value, np.generic) else value
    raise SignatureError(
        f"{type(value).__name__} can't be assigned to a tensor",
        expected="a tile, or a number",
        got=f"{value!r:.60}",
    )


def _before_writing(slot: Tensor, boxes: list[Box]) -> None:
    """Write the initial number of the slot's tensor (`fill`) before an instruction overwrites the
    `boxes`, unless they cover the whole tensor."""
    if slot.storage.gaps is not None and not (slot.covers_storage and boxes == [()]):
        fill(slot)


def _same(slot: Tensor, value: Tensor) -> bool:
    """Return whether two tiles have the same elements of the same storage."""
    if slot.geometry is value.geometry:
        return slot.storage is value.storage and slot.offset == value.offset
    where = [
        (t.storage, t.offset, t.dtype, access.long_axes(t.shape, t.strides)) for t in (slot, value)
    ]
    return where[0] == where[1]
