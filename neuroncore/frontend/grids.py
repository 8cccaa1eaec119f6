"""Launch grids: the values in the brackets of `kernel[...]`."""

from __future__ import annotations

import operator
from typing import Any

from neuroncore.base.errors import SignatureError


def axes(grid: Any, expected: str) -> tuple[Any, ...]:
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


def size(value: Any, what: str, least: int, expected: str) -> int:
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
