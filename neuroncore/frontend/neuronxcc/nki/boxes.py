"""Boxes of elements that masks choose, and the parts of tiles inside these boxes.

A box is a rectangle of elements of a tile: a pair (first, count) for each axis. An empty box, (),
is the whole tile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from neuroncore.base.errors import NotEmulated, SignatureError
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.core.core import current
from neuroncore.frontend.neuronxcc.nki.expressions import Box, Mask
from neuroncore.frontend.neuronxcc.nki.scopes import running
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.memory import access
from neuroncore.memory.access import Dims
from neuroncore.memory.geometry import Geometry, make_room

Part = Callable[[Tensor, Box], Tensor]  # from (result, box of an operand) to a part of the result


def chosen(mask: Any, space: Dims) -> list[Box]:
    """Return the boxes that a mask chooses in a tile of shape `space`; [] for none, and [()]
    without a mask. A list of boxes is returned unchanged."""
    if isinstance(mask, list):
        return mask
    if mask is None:
        return [()]
    if (trace := running().trace) is not None:
        trace.mask(mask)
    if isinstance(mask, Mask):
        boxes = mask.boxes(space)
        return [()] if boxes == [tuple([(0, size) for size in space])] else boxes
    if isinstance(mask, bool | np.bool_ | int):
        return [()] if mask else []
    raise SignatureError(
        f"{mask!r:.60} is not a mask",
        argument="mask",
        expected="comparisons of index expressions combined with &, or a bool",
        also="err_unsupported_expression_in_mask",
    )


def parts(name: str, arguments: dict[str, Any], masked: str, box: Box, space: Dims) -> Any:
    """Return the arguments of an instruction that works on one `box` of its operand `masked`: each
    tile is replaced by its part. `space` is the shape of the operand."""
    apart = _apart(name, masked)
    return {
        argument: follow(value, box, space, argument not in apart)
        for argument, value in arguments.items()
    }


@cache
def _apart(name: str, masked: str) -> frozenset[str]:
    """Return the operands whose free axes have another letter in the clause than those of `masked`.
    A box does not cut them, even if sizes are equal by chance, as in a matrix product."""
    shapes = INSTRUCTIONS[name].shapes
    if masked not in shapes:
        return frozenset()
    letter = shapes[masked][1].letter
    return frozenset(other for other, terms in shapes.items() if terms[1].letter != letter)


# The parts of tiles that belong to boxes, by (the tile's geometry, box, space): the geometry of the
# part, and its offset minus the offset of the tile.
_parts: dict[tuple[Geometry, Box, Dims], tuple[Geometry, int]] = {}


def follow(value: Any, box: Box, space: Dims, free: bool = True) -> Any:
    """Return the part of an argument for an instruction that works only on `box` of a tile of shape
    `space`.

    A tile is cut along each axis with the size in `space`; along partitions only if `free` is
    False. A list becomes the list of its parts. Other arguments are unchanged."""
    if box and isinstance(value, list):
        return [follow(item, box, space, free) for item in value]
    if not box or not isinstance(value, Tensor):
        return value
    if not free:
        box = (box[0], *((0, size) for size in value.shape[1:]))
        space = (space[0], *value.shape[1:])
    if value.dynamic or value.fault is not None:
        return _followed(value, box, space)
    geometry = value.geometry
    known = _parts.get((geometry, box, space))
    if known is None:
        part = _followed(value, box, space)
        make_room(_parts)
        known = _parts[geometry, box, space] = part.geometry, part.offset - value.offset
    return (
        value if known[0] is geometry else Tensor(value.storage, known[0], value.offset + known[1])
    )


def _followed(value: Tensor, box: Box, space: Dims) -> Tensor:
    if value.shape == space and len(box) == len(space):
        return value.within(box)
    rest = ((0, size) for size in value.shape[len(box) :])
    pieces = tuple(
        piece if axis < len(space) and size == space[axis] else (0, size)
        for axis, (size, piece) in enumerate(zip(value.shape, (*box, *rest), strict=False))
    )
    return value.within(pieces)


def of_result(dst: Tensor, box: Box, over: Dims, part: Part | None) -> Tensor:
    """Return the part of a result for an instruction that works only on `box` of a tile of shape
    `over`. `part` cuts a result with other axes."""
    piece: Tensor = part(dst, box) if part else follow(dst, box, over)
    return piece


def in_patterns(boxes: list[Box], over: Dims, tiles: Sequence[Any]) -> list[Box]:
    """Cut boxes of a tile of shape `over` along their shortest free axes, and return the pieces.
    Boxes are cut until one access pattern can describe a piece of every tile in `tiles`. So a call
    with too many axes becomes several instructions."""
    most = current().machine.limits.free_dims
    if len(over) <= 1 + most:
        return boxes
    cut: list[Box] = []
    for box in (b or tuple((0, n) for n in over) for b in boxes):
        pieces = [follow(t, box, over) for t in tiles if isinstance(t, Tensor)]
        axes = [(n, a) for a, (_, n) in enumerate(box) if a and n > 1]
        if not axes or all(access.free_axes(p.shape, p.strides) <= most for p in pieces):
            cut.append(box)
            continue
        count, axis = min(axes)
        places = range(box[axis][0], box[axis][0] + count)
        slabs = [(*box[:axis], (place, 1), *box[axis + 1 :]) for place in places]
        cut += in_patterns(slabs, over, tiles)
    return cut


# instructions whose result at an element depends on earlier elements of its partition
IN_ORDER = frozenset(("tensor_tensor_scan", "tensor_scalar_cumulative", "nc_match_replace8"))
OF_PARTITIONS = ("reduce_res", "dst_idx")  # results in addition to dst


def place_of(slot: Tensor, value: Tensor) -> Tensor:
    """Return the part of `slot` to which `value` is assigned: all of it, unless masks cut the
    operands of a product and the slot has the uncut size."""
    cut = value.cut if slot.shape != value.shape else None
    return slot.within(cut.box) if cut and cut.whole == slot.shape else slot


def check_rows(name: str, boxes: list[Box], arguments: dict[str, Any]) -> None:
    """Raise NotEmulated if several boxes share a partition whose elements the instruction combines:
    each box is a separate instruction."""
    if name in IN_ORDER or any(arguments.get(other) is not None for other in OF_PARTITIONS):
        check_apart([box[:1] for box in boxes])


def check_apart(places: list[Box]) -> None:
    """Raise NotEmulated if two of the `places` overlap: parts of a result, each computed from one
    box."""
    if len(places) < 2:
        return
    ends = [max(first + count for first, count in axis) for axis in zip(*places, strict=True)]
    taken = np.zeros(ends, np.bool_)
    for place in places:
        part = taken[tuple(slice(first, first + count) for first, count in place)]
        if part.any():
            raise NotEmulated(
                "a call can't combine elements in several rectangles: the call has a mask that "
                "chooses several rectangles, or a tile whose axes no access pattern describes"
            )
        part[...] = True


def extent(part: Tensor) -> Box:
    """Return the box that `part` covers in the new tile that it is a part of."""
    offset = part.offset
    firsts = []
    for stride in access.dense(part.storage.shape):
        firsts.append(offset // stride)
        offset %= stride
    return tuple(zip(firsts, part.shape, strict=True))
