"""Hints for indices past the end of an axis."""

from __future__ import annotations

from collections.abc import Sequence


def beyond(first: int, last: int, axis: int, shape: Sequence[int], ragged: str) -> str:
    """Return a hint about the indices from `first` to `last` that reach past the end of an axis;
    `ragged` is the hint for a last piece that is shorter than the others."""
    count, size = last - first + 1, shape[axis]
    if count < 2 or first < 0 or first % count or size % count:
        return ragged
    pieces = f"axis {axis} has {size // count} pieces of {count}"
    if any(last < n and not n % count for other, n in enumerate(shape) if other != axis):
        return f"check whether the indices are swapped: {pieces}"
    return f"end the loop earlier: {pieces}"
