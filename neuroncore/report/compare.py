"""The difference between a result and its reference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.errors import UsageError
from neuroncore.numerics.formats import FORMATS, float32, lookup
from neuroncore.report import loops

Array = npt.NDArray[Any]
STRIP = 1 << 14  # how many elements are compared at a time
COMPILED = 1 << 20  # arrays with this many elements are worth loading the compiled loop
SIDE = 64  # maximum rows and columns of an error map
DECADES = 6  # powers of 10 between the largest difference of an error map and the lowest level
TEXT_OR_OBJECTS = "OSU"  # kinds of numpy types whose elements may be no numbers
SMALL = 1e-280  # smaller squares lose digits


class Incomparable(UsageError):
    """A result and its reference differ in number or shape, or are not numeric."""


@dataclass(frozen=True)
class Agreement:
    """The comparison of a launch's results with the expected results.

    bool(agreement) is True if the relative L2 error of each result is within its tolerance.
    `maps`: for each result, a map of the differences if the result exceeds its tolerance, otherwise
        None."""

    comparisons: tuple[Comparison, ...]
    tolerances: tuple[float, ...]
    maps: tuple[ErrorMap | None, ...] = ()

    def __bool__(self) -> bool:
        pairs = zip(self.comparisons, self.tolerances, strict=True)
        return all(comparison.rel_l2 <= tolerance for comparison, tolerance in pairs)


@dataclass(frozen=True)
class Comparison:
    """The errors of a result in comparison with its reference.

    `max_abs`: the largest absolute difference.
    `rel_l2`: |got - want| / |want| in the Euclidean norm, in float64.
    `worst`: the index of the largest difference.
    `got` and `want`: the elements at this index.

    Two NaN count as equal, and so do two infinities with the same sign. Any other NaN or infinity
    makes both errors infinite."""

    max_abs: float
    rel_l2: float
    worst: tuple[int, ...]
    got: float
    want: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "max_abs": _plain(self.max_abs),
            "rel_l2": _plain(self.rel_l2),
            "worst": list(self.worst),
            "got": _plain(self.got),
            "want": _plain(self.want),
        }


def agreement(got: Sequence[Any], want: Sequence[Any], tolerance: float | None = None) -> Agreement:
    """Compare results with references, pair by pair.

    By default, the tolerance of each pair is its `usual_tolerance`. Raises Incomparable for the
    same reasons as `compare`."""
    pairs = list(zip(got, want, strict=True))
    allowed = [usual_tolerance(a, b) if tolerance is None else tolerance for a, b in pairs]
    comparisons = tuple(compare(a, b) for a, b in pairs)
    maps = (
        None if comparison.rel_l2 <= tolerance or not np.size(a) else error_map(a, b)
        for comparison, tolerance, (a, b) in zip(comparisons, allowed, pairs, strict=True)
    )
    return Agreement(comparisons, tuple(allowed), tuple(maps))


def usual_tolerance(result: Any, reference: Any) -> float:
    """Return the relative L2 error that is allowed: 0 if the result consists of integers.

    Otherwise it is the larger tolerance of the formats of result and reference. It is 1e-5 for
    float32 and integers. For a narrower float it is the gap between 1 and the next number."""
    form = lookup(np.asarray(result).dtype)
    if form.is_integer:
        return 0.0
    forms = form, FORMATS.get(np.asarray(reference).dtype.name, float32)
    return max(1e-5 if f is float32 or f.is_integer else f.eps for f in forms)


def _plain(value: float) -> float | str:
    """Replace NaN and infinities, which JSON lacks, by "nan", "inf" and "-inf"."""
    return value if math.isfinite(value) else str(value)


def compare(got: Any, want: Any) -> Comparison:
    """Compare two arrays. Raise Incomparable if their shapes differ, or if one is not
    numeric."""
    a, b = _numeric(got), _numeric(want)
    if a.shape != b.shape:
        raise Incomparable(f"the result has shape {a.shape}, but the reference has {b.shape}")
    if not a.size:
        return Comparison(0.0, 0.0, (), 0.0, 0.0)
    with np.errstate(invalid="ignore", over="ignore"):
        return _of_finite(a, b) or _of_any(a.astype(np.float64), b.astype(np.float64))


def _numeric(values: Any) -> Array:
    """Return an array of numbers. Convert text and objects to float64, or raise Incomparable."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in TEXT_OR_OBJECTS:
            return array.astype(np.float64)
        array.reshape(-1)[:1].astype(np.float64)
    except (TypeError, ValueError) as error:
        raise Incomparable(f"the result or the reference is not numeric: {error}") from None
    return array


def _of_finite(got: Array, want: Array) -> Comparison | None:
    """Compare two arrays in strips that fit in the processor's cache.

    Return None if this method is not exact: if an element or a sum of squares is not finite, or if
    squares are too small."""
    a, b = got.reshape(-1), want.reshape(-1)
    measure = loops.distance if a.size >= COMPILED else _distance
    worst, strip, error, length = -1.0, slice(0), 0.0, 0.0
    for begin in range(0, a.size, STRIP):
        part = slice(begin, begin + STRIP)
        errors, squares, largest = measure(_wide(a[part]), _wide(b[part]))
        error, length = error + errors, length + squares
        if largest > worst:
            worst, strip = largest, part
    if not math.isfinite(error + length) or length < SMALL or 0.0 < worst * worst < SMALL:
        return None
    differences = np.abs(a[strip].astype(np.float64) - b[strip].astype(np.float64))
    at = strip.start + int(differences.argmax())
    place = tuple(int(i) for i in np.unravel_index(at, got.shape))
    elements = float(got[place]), float(want[place])
    return Comparison(worst, math.sqrt(error / length), place, *elements)


def _wide(strip: Array) -> Array:
    """Return a float32 or float64 array unchanged, and any other array as float64.

    The compiled loop accepts only these two formats."""
    return strip if strip.dtype in (np.float32, np.float64) else strip.astype(np.float64)


def _distance(got: Array, want: Array) -> tuple[float, float, float]:
    """Return the sum of (got - want)^2, the sum of want^2, and the largest |got - want|.

    `loops.distance` computes the same numbers faster, but is a compiled loop."""
    x, y = got.astype(np.float64), want.astype(np.float64)
    length = float(np.einsum("i,i->", y, y))
    np.subtract(x, y, out=x)
    return float(np.einsum("i,i->", x, x)), length, float(np.abs(x, out=x).max())


def _of_any(a: Array, b: Array) -> Comparison:
    """Compare a result `a` with its reference `b`. Both may contain NaN, infinite or very small
    elements."""
    difference = np.abs(a - b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    difference = np.where(same, 0.0, np.where(np.isfinite(difference), difference, np.inf))
    length = _length(np.where(np.isfinite(b), b, 0.0))
    error = _length(difference)
    worst = np.unravel_index(int(np.argmax(difference)), a.shape)
    at = tuple(int(i) for i in worst)
    relative = error / length if length else (0.0 if error == 0.0 else np.inf)
    return Comparison(float(difference[at]), float(relative), at, float(a[at]), float(b[at]))


def _length(values: Array) -> float:
    """Return the Euclidean norm. The squares cannot overflow."""
    largest = float(np.abs(values).max())
    if largest == 0.0 or np.isinf(largest):
        return largest
    return largest * float(np.linalg.norm(values / largest))


@dataclass(frozen=True, eq=False)
class ErrorMap:
    """The differences of a result from its reference, as a picture of at most 64 by 64 blocks.

    A block is a range of the result's rows and columns. All axes but the last count as rows. The
    level of a block shows its largest difference: 0 for no difference, 1 to 254 on a logarithmic
    scale up to `largest`, and 255 if a difference is not finite."""

    rows: int
    columns: int
    largest: float
    levels: Array


def error_map(got: Any, want: Any) -> ErrorMap:
    """Return the map of the differences between two arrays of the same shape. They must not be
    empty."""
    a, b = (_numeric(array) for array in (got, want))
    columns = a.shape[-1] if a.ndim else 1
    a, b = a.reshape(-1, columns), b.reshape(-1, columns)
    height, width = (-(-n // SIDE) for n in a.shape)
    edges = np.arange(0, columns, width)
    strips = range(0, len(a), height)
    most = np.array([_largest(a[i : i + height], b[i : i + height], edges) for i in strips])
    largest = float(most[np.isfinite(most)].max(initial=0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = 1 + np.log10(most / largest) / DECADES if largest else np.zeros(most.shape)
        level = np.rint(1 + 253 * np.clip(scaled, 0.0, 1.0))
    level = np.where(np.isfinite(most), np.where(most > 0.0, level, 0), 255)
    return ErrorMap(len(a), columns, largest, level.astype(np.uint8))


def _largest(got: Array, want: Array, edges: Array) -> Array:
    """Return the largest difference between two arrays [rows, columns] in each block of columns.

    `edges`: the first column of each block."""
    x, y = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(x - y)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    difference = np.where(same, 0.0, np.where(np.isnan(difference), np.inf, difference))
    return np.asarray(np.maximum.reduceat(difference.max(axis=0), edges))
