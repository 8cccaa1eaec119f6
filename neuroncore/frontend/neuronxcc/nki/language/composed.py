"""Functions of the older API that issue several instructions: functions of the current API on the
parts of a tile that a mask chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from neuroncore.base.errors import ShapeError
from neuroncore.frontend import integers
from neuroncore.frontend.formats import format_of
from neuroncore.frontend.neuronxcc.nki.expressions import Box
from neuroncore.frontend.neuronxcc.nki.results import (
    chosen,
    flush,
    follow,
    hold,
    issue,
    new,
    tile,
)
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor, Untiled
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.memory.tile import Tile

Axis = int | Sequence[int]


def as_newer(x: Tensor) -> NkiTensor:
    return NkiTensor.like(x)


def as_older(x: Tile) -> Tensor:
    return Tensor.like(x)


def lanes(value: Any, box: Box, _: Any) -> Any:
    """Return the partitions of an argument that belong to a box, with all free axes."""
    if not isinstance(value, Tensor):
        return value
    return value.within((box[0], *((0, n) for n in value.shape[1:])))


def composed(
    function: Callable[..., NkiTensor],
    mask: Any,
    *operands: Any,
    axis: Axis | None = None,
    folds: bool = False,
    keepdims: bool = False,
    cut: Callable[..., Any] = follow,
    **more: Any,
) -> Tensor:
    """Apply a function of the current API to tiles of the older one. The result has the shape of
    the first tile; a mask is over that shape, and `cut` cuts the other tiles accordingly.

    With `axis` the function gets tiles with only these free axes, one for each position along the
    other axes. If it `folds` them they are not in the result, or with `keepdims` they have size 1.
    """
    flush()
    tiles = [tile(x) if isinstance(x, Tile | Untiled) else x for x in operands]
    space = tiles[0].shape
    whole = tuple((0, n) for n in space)
    boxes = [box or whole for box in chosen(mask, space)]
    axes = () if axis is None else free_axes(axis, tiles[0])
    if axis is not None:
        more["axis"] = tuple(range(1, len(space)))
        others = [a for a in range(1, len(space)) if a not in axes]
        boxes = [row for box in boxes for row in _rows(box, others)]
    gone = axes if folds else ()
    kept = [a for a in range(len(space)) if keepdims or a not in gone]
    sizes = [1 if a in gone else space[a] for a in kept] + [1] * (2 - len(kept))
    pieces = [[tiles[0].within(box), *(cut(x, box, space) for x in tiles[1:])] for box in boxes]
    parts = [as_older(function(*map(_newer, piece), **more)) for piece in pieces]
    if boxes == [whole]:
        return parts[0].shaped(tuple(sizes))
    form = parts[0].dtype if parts else format_of(more.get("dtype") or tiles[0].dtype, position=0)
    places = [
        tuple((0, 1) if a in gone else box[a] for a in kept) + ((0, 1),) * (2 - len(kept))
        for box in boxes
    ]

    def run(dst: Tensor, _: bool | None) -> None:
        for place, part in zip(places, parts, strict=True):
            out = dst.within(place)
            issue("tensor_copy", dst=out, src=part.shaped(out.shape))

    return hold(new(sizes, form), run, places)


def _newer(x: Any) -> Any:
    return as_newer(x) if isinstance(x, Tensor) else x


def _rows(box: Box, others: Sequence[int]) -> list[Box]:
    """Cut a box into pieces of size 1 along some axes."""
    choices = [
        [(at, 1) for at in range(first, first + count)] if a in others else [(first, count)]
        for a, (first, count) in enumerate(box)
    ]
    return list(product(*choices))


def free_axes(axis: Axis, x: Tensor) -> tuple[int, ...]:
    """Return the axes to work along, counted from the front. Raises ShapeError for the
    partition."""
    axes = tuple(sorted(a + x.ndim if a < 0 else a for a in integers.axes(axis)))
    if axes and axes[0] > 0 and axes[-1] < x.ndim:
        return axes
    raise ShapeError(
        f"axis {axis!r} of {x} can't be used",
        argument="axis",
        position=1,
        expected=f"axes from 1 to {x.ndim - 1}",
        got=repr(axis),
        because="axis 0 is the partition, and a lane reduces only its own elements",
        hint="nl.transpose first, or a product with ones: nl.matmul",
    )
