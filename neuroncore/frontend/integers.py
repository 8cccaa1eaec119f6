"""Integers that must be known when a kernel is compiled: numbers of axes, bounds of loops, sizes of
launch grids, and indices."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from neuroncore.base.errors import SignatureError
from neuroncore.base.structs import dataclass
from neuroncore.memory.register import VirtualRegister


def size(number: Any) -> int:
    """Return the size of an axis. A whole number as a float is accepted: a published kernel with
    traces of the device has 256 * 256 / 128. Raises TypeError for anything else."""
    fraction = isinstance(number, float | np.floating)
    whole: Any = int(number) if fraction and number.is_integer() else number
    return operator.index(whole)


def axes(axis: Any, argument: str = "axis", position: int = 1) -> tuple[int, ...]:
    """Return the number of an axis, or of several. Raises SignatureError for anything else."""
    listed = tuple(axis) if isinstance(axis, Iterable) else (axis,)
    try:
        return tuple(map(operator.index, listed))
    except TypeError:
        raise SignatureError(
            f"{argument}={axis!r} names no axis",
            argument=argument,
            position=position,
            expected="an int, or a tuple of them",
            got=f"{axis!r} ({type(axis).__name__})",
            because="the axes of a tensor are numbered from 0, or from -1 at the back",
            hint="1 is the first free axis of a tile, -1 the last",
        ) from None


def loop(*bounds: Any) -> range:
    """Return Python's range for a loop. Raises SignatureError for bounds that range refuses."""
    try:
        return range(*map(operator.index, bounds))
    except (TypeError, ValueError) as error:
        raise SignatureError(
            f"no loop goes over {', '.join(map(repr, bounds))}: {error}",
            expected="a stop, or a start and a stop, or both and a step that is not 0, as ints",
            got=", ".join(f"{bound!r} ({type(bound).__name__})" for bound in bounds),
            because="the number of iterations is needed when the kernel is compiled",
            hint="n // size is an int where n / size is a float",
        ) from None


def grid_axes(grid: Any, expected: str) -> tuple[Any, ...]:
    """Return the values in the brackets, one for each axis. Raises SignatureError for empty
    brackets."""
    sizes = grid if isinstance(grid, tuple) else (grid,)
    if not sizes:
        raise SignatureError(
            "() is not a launch grid",
            expected=expected,
            because="a grid says how many programs run, along one axis or more",
            hint="call the kernel without brackets to run one program",
        )
    return sizes


def grid_size(value: Any, what: str, least: int, expected: str) -> int:
    """Return an integer that is at least `least`. Raises SignatureError with `what` for other
    values."""
    try:
        count = operator.index(value)
    except TypeError:
        count = least - 1
    if count < least:
        raise SignatureError(
            f"{value!r} is not {what}",
            expected=expected,
            got=f"{value!r} ({type(value).__name__})",
            because="programs are counted",
        )
    return count


@dataclass(frozen=True)
class DynamicSlice:
    """The result of nl.ds: `size` elements from `start`, which may be a register."""

    start: int | VirtualRegister
    size: int


def ds(start: int | VirtualRegister, size: int) -> DynamicSlice:
    """Return an index of `size` elements from `start`, which may be a register."""
    return DynamicSlice(start, size)


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
