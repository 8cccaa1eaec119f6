"""Spans: indices along one axis that reach outside of a tensor, as affine functions of the axes of
a tile. Cuts: the parts of tiles that masks select."""

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
    """A mask on a tile of shape `whole`. `box` has the elements that remain."""

    whole: Dims
    box: Box

    @property
    def transposed(self) -> Cut:
        """The cut of the transposed tile."""
        return Cut(self.whole[::-1], self.box[::-1])


def split(shape: Dims, steps: Dims, sizes: Dims, kept: int) -> Dims | None:
    """Return the `steps` of a span after a tile of shape `shape` is reshaped to `sizes`, except for
    its first `kept` axes. Return None if there are none."""
    rest = access.reshaped(shape[kept:], steps[kept:], sizes[kept:])
    return None if rest is None else (*steps[:kept], *rest)


def moved(span: Span, moves: Sequence[Move], rank: int) -> Span:
    """Return a span of a tensor as a span of a part with `rank` axes. `moves`: the part's start and
    steps along each axis of the tensor."""
    first, steps, of, axis = span
    first += sum(start * step for (start, _), step in zip(moves, steps, strict=True))
    pairs = [(along, step) for (_, along), step in zip(moves, steps, strict=True)]
    new_steps = tuple(sum(along[a] * step for along, step in pairs) for a in range(rank))
    return first, new_steps, of, axis


def inside(span: Span, shape: Dims) -> bool:
    low, high = Index(shape, span[1], span[0]).extent()
    return low >= 0 and high < span[2][span[3]]
