"""The wrong elements of a result, as a picture in text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from neuroncore.report.compare import Agreement, ErrorMap

ROWS, COLUMNS = 8, 64  # the largest size of a picture
LOST = 255  # the level of NaN and infinities
LARGE = 127  # levels above this one are large differences: within 3 decades of the largest


def picture(agreement: Agreement) -> list[str]:
    """Return the lines of a picture of the first wrong result. Return no lines if no result has a
    map of its differences. Elements count as wrong (x) if their difference is large relative to the
    largest difference."""
    first = next((error_map for error_map in agreement.maps if error_map is not None), None)
    return [] if first is None else [*_lines(first)]


def _lines(error_map: ErrorMap) -> Iterator[str]:
    size = f"{error_map.rows} x {error_map.columns}"
    yield f"  the result, {size}: . right, x wrong, N is NaN or infinite"
    for row in _coarser(error_map.levels).tolist():
        yield "  " + "".join(map(_mark, row))


def _coarser(levels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return a map of levels with at most ROWS rows and COLUMNS columns. Each level is the largest
    of a block of the given `levels`."""
    height, width = (-(-n // most) for n, most in zip(levels.shape, (ROWS, COLUMNS), strict=True))
    rows = np.maximum.reduceat(levels, np.arange(0, levels.shape[0], height), axis=0)
    return np.asarray(np.maximum.reduceat(rows, np.arange(0, levels.shape[1], width), axis=1))


def _mark(level: int) -> str:
    return "N" if level == LOST else "x" if level > LARGE else "."
