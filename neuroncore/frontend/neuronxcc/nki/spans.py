"""Spans: indices along one axis of a tensor that reach outside of the tensor. A span is an affine
function of the axes of a tile. Also cuts: the parts of tiles that masks select."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from neuroncore.frontend.neuronxcc.nki.expressions import Box, Index
from neuroncore.memory import access
from neuroncore.memory.access import Dims

# first index, steps along the axes of a tile, the shape of the indexed tensor, and the indexed axis
Span = tuple[int, Dims, Dims, int]
# first index along an axis of a tensor, and steps along the axes of its part
Move = tuple[int, Dims]


class Cut(NamedTuple):
    """A mask that makes a smaller tile from a tile of shape `whole`. `box` contains the elements
    that remain."""

    whole: Dims
    box: Box

    @property
    def transposed(self) -> Cut:
        """The cut of the transposed tile."""
        return Cut(self.whole[::-1], self.box[::-1])


def split(shape: Dims, steps: Dims, sizes: Dims, kept: int) -> Dims | None:
    """Convert the `steps` of a span when a tile of shape `shape` is reshaped to `sizes`. The first
    `kept` axes of the tile are not reshaped. Return None if no steps are equivalent."""
    rest = access.reshaped(shape[kept:], steps[kept:], sizes[kept:])
    return None if rest is None else (*steps[:kept], *rest)


def moved(span: Span, moves: Sequence[Move], rank: int) -> Span:
    """Convert a span of a tensor to a span of a part of this tensor. The part has `rank` axes.
    `moves` contains the part's start and steps along each axis of the tensor."""
    first, steps, of, axis = span
    first += sum(start * step for (start, _), step in zip(moves, steps, strict=True))
    pairs = [(along, step) for (_, along), step in zip(moves, steps, strict=True)]
    new_steps = tuple(sum(along[a] * step for along, step in pairs) for a in range(rank))
    return first, new_steps, of, axis


def inside(span: Span, shape: Dims) -> bool:
    low, high = Index(shape, span[1], span[0]).extent()
    return low >= 0 and high < span[2][span[3]]
