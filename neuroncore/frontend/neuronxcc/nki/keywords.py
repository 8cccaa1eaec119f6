"""Keywords and operators in the forms that kernels of the older API use.

Functions accept some keywords in addition to their parameters. So each function ends in **kwargs,
and this module must detect misspelled keywords. Kernels pass an operator as nl.add or as numpy's
np.add."""

from __future__ import annotations

import sys
import warnings
from functools import cache
from inspect import CO_VARARGS
from types import CodeType
from typing import Any

import numpy as np

from neuroncore.base import source
from neuroncore.base.errors import OperatorError, SignatureError, did_you_mean
from neuroncore.frontend.nki import language
from neuroncore.frontend.operators import Operation, Simulated

# Labels and hints for the device's compiler, which change no result.
HINTS = frozenset({"name", "lazy_initialization", "directives", "precise_schedule"})
# Published kernels pass these keywords (nki-samples), which have no effect in any known release.
IGNORED = frozenset({"buffer", "max_free_vec_size"})


def check_keywords(
    kwargs: dict[str, Any], *known: str, name: str = "", code: CodeType | None = None
) -> None:
    """Raise SignatureError for keywords that no release has, and warn about keywords in IGNORED.
    `known` are the additional keywords that the function reads.

    `code` is the code of the function, by default the code of the caller. `name` is the function's
    name for users, by default the name in `code`."""
    if not kwargs:
        return
    unknown = kwargs.keys() - HINTS.union(known)
    if not unknown:
        return
    code = code or sys._getframe(1).f_code
    called = name or code.co_name
    count = code.co_argcount + code.co_kwonlyargcount
    parameters = code.co_varnames[:count]
    rest = [f"*{code.co_varnames[count]}"] if code.co_flags & CO_VARARGS else []
    for keyword in sorted(unknown):
        if keyword not in IGNORED:
            hint = did_you_mean(keyword, [*parameters, *known])
            dst_hint = f"the older API returns the result: tensor[...] = {called}(...)"
            raise SignatureError(
                f"{called} has no parameter {keyword!r}",
                argument=keyword,
                expected=f"{called}({', '.join([*rest, *parameters])})",
                hint=hint or (dst_hint if keyword == "dst" else None),
            )
        warnings.warn(f"{called} ignores {keyword}=", stacklevel=source.user_level())


# numpy's names that differ from the API's
NUMPY = {
    "max": "maximum",
    "amax": "maximum",
    "fmax": "maximum",
    "min": "minimum",
    "amin": "minimum",
    "fmin": "minimum",
    "sum": "add",
    "prod": "multiply",
    "mean": "average",
    "true_divide": "divide",
    "remainder": "mod",
    "absolute": "abs",
    "fabs": "abs",
    "bitwise_not": "invert",
    "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
    "all": "logical_and",
    "any": "logical_or",
}


def token(op: Any, _: str = "") -> Any:
    """Return an operator or activation function as an Operation, which nki.isa takes. None and an
    Operation are returned unchanged. Raises OperatorError for other values."""
    if op is None or isinstance(op, Operation):
        return op
    if type(op) is np.ufunc and (of_numpy := _of_numpy(op)) is not None:
        return of_numpy
    name = getattr(op, "__name__", None)
    operator = getattr(language, NUMPY.get(str(name), str(name)), None) if name else None
    if _is_accepted(operator):
        return operator
    if isinstance(operator, Simulated):
        raise OperatorError(
            f"{operator.__name__} is not an operator of an engine, only of AWS's simulator",
            argument="op",
            hint=f"call nl.{operator.__name__}(x, y), which uses operators of the engines, or set "
            "Options(simulator_operators=True)",
        )
    known = [n for n, value in vars(language).items() if _is_accepted(value)]
    ours = str(getattr(op, "__module__", "")).startswith("neuroncore.")
    raise OperatorError(
        f"nl.{name} is not an operator of an engine, but a function"
        if ours and callable(op)
        else f"{op!r} is not an operator",
        argument="op",
        expected="an operator of nki.language, or numpy's function of the same name",
        hint=did_you_mean(str(name), known),
    )


@cache
def _of_numpy(function: np.ufunc) -> Operation | None:
    """Return the operator of an engine that has the name of a numpy function, or None."""
    name = function.__name__
    operator = getattr(language, NUMPY.get(name, name), None)
    engines = isinstance(operator, Operation) and not isinstance(operator, Simulated)
    return operator if engines else None


def _is_accepted(value: Any) -> bool:
    """Return whether a value is an operator that the running kernel may use."""
    return isinstance(value, Operation) and not (
        isinstance(value, Simulated) and not value.accepted
    )
