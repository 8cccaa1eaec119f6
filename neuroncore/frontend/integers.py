"""Integers that must be known when a kernel is compiled: numbers of axes, bounds of loops."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from neuroncore.base.errors import SignatureError


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
