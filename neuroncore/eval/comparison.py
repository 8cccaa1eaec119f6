"""Compares a candidate's results with the results of the reference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.units import plural
from neuroncore.eval.refusals import Refused
from neuroncore.eval.spec import Spec
from neuroncore.report.compare import Incomparable, compare

Array = npt.NDArray[Any]
WIDEST = 4  # elements have at most 4 bytes on the device; numpy's references may have 8


class ResultError(NamedTuple):
    """The errors of one result.

    `relative_l2`: the relative error in the L2 norm
    `largest_error`: the largest error of an element, relative to the largest element of the
        reference
    `largest_absolute`: the same error as an absolute number
    `element`: the index of that element"""

    relative_l2: float
    largest_error: float
    largest_absolute: float
    element: list[int]


def errors(results: Any, spec: Spec, expected: Sequence[Array]) -> dict[str, Any]:
    """Return the largest errors of all results as a dict (`ResultError`). `element` belongs to the
    result with the largest `largest_error`.

    Raise Refused for a wrong number of results, a wrong shape, a format that is too narrow, or
    errors beyond the tolerances."""
    got = several(results)
    if spec.finish is not None:
        got = several(spec.finish(_alone(got), _alone(expected)))
    if len(got) != len(expected):
        raise Refused(
            "WRONG_RESULT",
            f"the candidate returns {plural(len(got), 'result')}, but the reference returns "
            f"{len(expected)}",
        )
    errors_of_results = [
        _error(result, want, spec) for result, want in zip(got, expected, strict=True)
    ]
    worst = max(
        errors_of_results,
        key=lambda error: error.largest_error,
        default=ResultError(0.0, 0.0, 0.0, []),
    )
    relative = max((error.relative_l2 for error in errors_of_results), default=0.0)
    absolute = max((error.largest_absolute for error in errors_of_results), default=0.0)
    return worst._replace(relative_l2=relative, largest_absolute=absolute)._asdict()


def several(results: Any) -> tuple[Any, ...]:
    """Return the results of a function as a tuple; a function may also return one array."""
    return tuple(results) if isinstance(results, tuple | list) else (results,)


def _alone(values: Sequence[Any]) -> Any:
    return values[0] if len(values) == 1 else tuple(values)


def _error(got: Any, want: Array, spec: Spec) -> ResultError:
    if not isinstance(got, np.ndarray):
        raise Refused("WRONG_RESULT", f"a result is {type(got).__name__}, not a tensor")
    least_bytes = min(want.dtype.itemsize, WIDEST)
    if got.dtype.itemsize < least_bytes and got.dtype.name not in spec.narrow:
        raise Refused("WRONG_DTYPE", f"a result is {got.dtype}, but the reference has {want.dtype}")
    try:
        differences = compare(got, want)
    except Incomparable as error:
        raise Refused("WRONG_RESULT", str(error)) from None
    top = max(abs(float(want.max(initial=0))), abs(float(want.min(initial=0))))
    relative = differences.max_abs / top if top else (math.inf if differences.max_abs else 0.0)
    place = list(differences.worst)
    result_error = ResultError(differences.rel_l2, relative, differences.max_abs, place)
    where = f"element {place} is {differences.got:g}, but {differences.want:g} in the reference"
    if not result_error.relative_l2 <= spec.tol:
        limit = f"relative L2 error {result_error.relative_l2:.3g}, allowed {spec.tol:g}"
        raise Refused("WRONG_RESULT", f"{limit}; {where}", errors=_plain(result_error))
    if spec.allclose is not None:
        rtol, atol = spec.allclose
        if not _close(got, want, rtol, atol):
            limit = f"elements differ by more than {atol:g} + {rtol:g} * |reference|"
            raise Refused("WRONG_RESULT", f"{limit}; {where}", errors=_plain(result_error))
    elif not relative <= spec.largest_error:
        limit = f"an error is {relative:.3g} times the largest element of the reference"
        message = f"{limit}, allowed {spec.largest_error:g}; {where}"
        raise Refused("WRONG_RESULT", message, errors=_plain(result_error))
    return result_error


def _close(got: Array, want: Array, rtol: float, atol: float) -> bool:
    """Return whether all elements are within the tolerances of numpy.allclose."""
    return bool(np.allclose(got.astype(np.float64), want.astype(np.float64), rtol, atol))


def _plain(result_error: ResultError) -> dict[str, Any]:
    """Return the fields for JSON, with None in place of infinity, which JSON does not have."""
    fields = result_error._asdict().items()
    return {name: None if value == math.inf else value for name, value in fields}
