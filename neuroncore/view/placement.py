"""Possible addresses of unplaced tiles: the lowest free addresses while each is in use.

The device's compiler chooses different addresses, which are not published. The amount in use at a
time does not depend on the addresses.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import heappop, heappush
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
END = 1 << 62


def addresses(begin: Array, end: Array, size: Array, bank: int = 0) -> Array:
    """Return the first byte, within each partition, of tiles in use from `begin` to `end`.

    A tile of at most `bank` bytes is inside one bank, unless `bank` is 0.
    """
    found = [0] * len(begin)
    gaps: list[tuple[int, int]] = [(0, END)]  # begin and end of free bytes, sorted
    taken: list[tuple[float, int, int]] = []  # end of use, first and last byte
    order = np.lexsort((-size, begin))
    rows = zip(
        order.tolist(),
        begin[order].tolist(),
        end[order].tolist(),
        size[order].tolist(),
        strict=True,
    )
    for tile, born, dead, width in rows:
        while taken and taken[0][0] <= born:
            _, first, last = heappop(taken)
            _free(gaps, first, last)
        found[tile] = at = _take(gaps, width, bank)
        heappush(taken, (dead, at, at + width))
    return np.array(found, np.int64)


def _take(gaps: list[tuple[int, int]], width: int, bank: int) -> int:
    """Take bytes out of the gaps, and return their lowest possible address."""
    for i, (first, last) in enumerate(gaps):
        at = first
        if bank and first % bank + width > bank >= width:
            at = -(-first // bank) * bank
        if at + width <= last:
            gaps[i : i + 1] = [g for g in ((first, at), (at + width, last)) if g[0] < g[1]]
            return at
    raise AssertionError("the last gap has no end")


def _free(gaps: list[tuple[int, int]], first: int, last: int) -> None:
    """Return bytes, and merge adjacent gaps."""
    i = bisect_left(gaps, (first, last))
    if i < len(gaps) and gaps[i][0] == last:
        last = gaps.pop(i)[1]
    if i and gaps[i - 1][1] == first:
        first = gaps.pop(i - 1)[0]
    insort(gaps, (first, last))
