"""The wrong elements of a result, as a picture in text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from neuroncore.report.compare import Agreement, ErrorMap

ROWS, COLUMNS = 8, 64  # the largest size of a picture
LOST = 255  # the level of NaN and infinities
LARGE = 127  # levels above are large differences: within 3 decades of the largest


def picture(found: Agreement) -> list[str]:
    """Return the lines of a picture of the first wrong result; none if there is no map of it.
    Elements count as wrong (x) if their difference is large relative to the largest one."""
    first = next((one for one in found.maps if one is not None), None)
    return [] if first is None else [*_lines(first)]


def _lines(one: ErrorMap) -> Iterator[str]:
    yield f"  the result, {one.rows} x {one.columns}: . right, x wrong, N is NaN or infinite"
    for row in _coarser(one.levels).tolist():
        yield "  " + "".join(map(_mark, row))


def _coarser(levels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return a map of levels with at most ROWS rows and COLUMNS columns. Each level is the largest
    of a block of the given `levels`."""
    height, width = (-(-n // most) for n, most in zip(levels.shape, (ROWS, COLUMNS), strict=True))
    rows = np.maximum.reduceat(levels, np.arange(0, levels.shape[0], height), axis=0)
    return np.asarray(np.maximum.reduceat(rows, np.arange(0, levels.shape[1], width), axis=1))


def _mark(level: int) -> str:
    return "N" if level == LOST else "x" if level > LARGE else "."
