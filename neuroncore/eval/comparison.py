"""Results and references, compared in strips that stay in the processor's cache: a comparison must
not cost more than a replay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.eval.refusals import Refused
from neuroncore.eval.spec import Spec
from neuroncore.report.compare import Comparison, Incomparable, compare

Array = npt.NDArray[Any]
STRIP = 1 << 14  # elements
WIDEST = 4  # bytes of an element on the device: numpy's references may have formats of 8


def compared(got: Array, want: Array) -> Comparison:
    """Return what `report.compare.compare` returns, faster for finite numbers whose squares are
    finite. Raises Incomparable as it does."""
    if got.shape != want.shape or not got.size or not _is_numeric(got, want):
        return compare(got, want)
    a, b = got.reshape(-1), want.reshape(-1)
    worst, at, error, length = -1.0, 0, 0.0, 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        for begin in range(0, a.size, STRIP):
            x = a[begin : begin + STRIP].astype(np.float64)
            y = b[begin : begin + STRIP].astype(np.float64)
            length += float(np.einsum("i,i->", y, y))
            np.subtract(x, y, out=x)
            error += float(np.einsum("i,i->", x, x))
            np.abs(x, out=x)
            n = int(x.argmax())
            if x[n] > worst:
                worst, at = float(x[n]), begin + n
    if not math.isfinite(error + length) or (error == 0.0 < worst) or length == 0.0:
        return compare(got, want)
    place = tuple(int(i) for i in np.unravel_index(at, got.shape))
    ends = float(got[place]), float(want[place])
    return Comparison(worst, math.sqrt(error / length), place, *ends)


def _is_numeric(*arrays: Array) -> bool:
    return all(one.dtype.kind in "fiub" for one in arrays)


class ResultError(NamedTuple):
    """The errors of one result: relative in the L2 norm, of the worst element relative to the
    largest of the reference and as it is, and the index of that element."""

    relative_l2: float
    largest_error: float
    largest_absolute: float
    element: list[int]


def errors(results: Any, spec: Spec, expected: Sequence[Array]) -> dict[str, Any]:
    """Return the fields of a ResultError, of the result that is worst in each. Raises Refused if
    there are more or fewer results, of another shape or a narrower format, or they are wrong."""
    got = _several(results)
    if spec.finish is not None:
        got = _several(spec.finish(_alone(got), _alone(expected)))
    if len(got) != len(expected):
        raise Refused("WRONG_RESULT", f"{len(got)} results; the reference has {len(expected)}")
    found = [_error(one, want, spec) for one, want in zip(got, expected, strict=True)]
    worst = max(found, key=lambda one: one.largest_error, default=ResultError(0.0, 0.0, 0.0, []))
    relative = max((one.relative_l2 for one in found), default=0.0)
    absolute = max((one.largest_absolute for one in found), default=0.0)
    return worst._replace(relative_l2=relative, largest_absolute=absolute)._asdict()


def _several(results: Any) -> tuple[Any, ...]:
    return tuple(results) if isinstance(results, tuple | list) else (results,)


def _alone(values: Sequence[Any]) -> Any:
    return values[0] if len(values) == 1 else tuple(values)


def _error(got: Any, want: Array, spec: Spec) -> ResultError:
    if not isinstance(got, np.ndarray):
        raise Refused("WRONG_RESULT", f"a result is {type(got).__name__}, not a tensor")
    least = min(want.dtype.itemsize, WIDEST)
    if got.dtype.itemsize < least and got.dtype.name not in spec.narrow:
        raise Refused("WRONG_DTYPE", f"a result is {got.dtype}; the reference has {want.dtype}")
    try:
        found = compared(got, want)
    except Incomparable as error:
        raise Refused("WRONG_RESULT", str(error)) from None
    top = max(abs(float(want.max(initial=0))), abs(float(want.min(initial=0))))
    relative = found.max_abs / top if top else (math.inf if found.max_abs else 0.0)
    made = ResultError(found.rel_l2, relative, found.max_abs, list(found.worst))
    where = f"element {list(found.worst)} is {found.got:g}, the reference {found.want:g}"
    if not made.relative_l2 <= spec.tol:
        limit = f"relative L2 error {made.relative_l2:.3g}, allowed {spec.tol:g}"
        raise Refused("WRONG_RESULT", f"{limit}; {where}")
    if not relative <= spec.largest_error:
        limit = f"an error of {relative:.3g} of the largest element"
        raise Refused("WRONG_RESULT", f"{limit}, allowed {spec.largest_error:g}; {where}")
    return made
