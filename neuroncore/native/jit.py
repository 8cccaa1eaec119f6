"""The one way this package compiles: strict IEEE arithmetic, cached on disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import numba
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])

# boundscheck off: callers have checked; error_model numpy: 1/0 is inf, not an exception.
STRICT: dict[str, Any] = {
    "nogil": True,
    "fastmath": False,
    "boundscheck": False,
    "error_model": "numpy",
}


def compiled(function: F) -> F:
    """Compile at the first call; keep the machine code beside the source or, where that can't be
    written, in the user's cache, or nowhere."""
    try:
        return numba.njit(cache=True, **STRICT)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # numba: "cannot cache function: no locator available"
        return numba.njit(**STRICT)(function)  # type: ignore[no-any-return]


def compiled_once(*types: Any) -> Callable[[F], Callable[[], F]]:
    """Compile for these types of arguments, to which others are converted, so that no layout of an
    array takes a compilation of its own. The result gives the function, made at the first call."""

    def made_by(function: F) -> Callable[[], F]:
        @cache
        def made() -> F:
            dispatcher: Any = compiled(function)
            dispatcher.compile(types)
            dispatcher.disable_compile()
            return dispatcher  # type: ignore[no-any-return]

        return made

    return made_by


def inlined(function: F) -> F:
    """A helper of compiled functions, never called by itself."""
    return numba.njit(inline="always", **STRICT)(function)  # type: ignore[no-any-return]


def borrowing(function: F) -> F:
    """A part of a compiled loop that takes tuples of arrays. It counts no references, which would
    cost more than what it does with them; so it can't make an array, or numba refuses it."""
    return numba.njit(forceinline=True, _nrt=False, **STRICT)(function)  # type: ignore[no-any-return]


def generated(generator: Callable[..., Any]) -> Callable[..., Any]:
    """For compiled functions: an operation whose machine code `generator` writes."""
    return intrinsic(generator)  # type: ignore[no-any-return]
