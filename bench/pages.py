"""Measure the size and the time of the page of a long run: python bench/pages.py

Nested loops of 10^4, 10^5 and 10^6 instructions are recorded. The page of a run, without values but
with tiles and operands, has two limits: its size, and the CPU time to write it after the estimate
and its what-ifs are known. The CPU time per instruction is given as a multiple of the time of
np.add of two [128, 1] arrays. The time of the what-ifs is printed too. The exit code is 0 if all
limits are met.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from measure import alone, describe, seconds

if __name__ == "__main__":
    alone()

import numpy as np

import neuroncore

neuroncore.activate()

import nki
import nki.isa as nisa
import nki.language as nl
from issuing import yardstick

from neuroncore.hosts.api import Run

LIMITS = {10_000: 0.3, 100_000: 1.5, 1_000_000: 12.0}  # number of instructions -> megabytes
LIMIT = 10.0  # np.adds per instruction
ADDS = 20_000
COLUMNS = 250  # tiles in a row of the nest, with 10 instructions each


@nki.jit
def nest(a, b):
    """Softmax of each row of weights.T @ tile, plus the tile, plus 1: ten instructions for each
    tile of 8 x 4."""
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for i in range(0, a.shape[0], 8):
        weights = nl.ndarray((8, 8), a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=weights, src=b[i : i + 8])
        for j in range(0, a.shape[1], 4):
            tile, result = (nl.ndarray((8, 4), a.dtype, buffer=nl.sbuf) for _ in range(2))
            highest, total = (nl.ndarray((8, 1), nl.float32, buffer=nl.sbuf) for _ in range(2))
            product = nl.ndarray((8, 4), nl.float32, buffer=nl.psum)
            nisa.dma_copy(dst=tile, src=a[i : i + 8, j : j + 4])
            nisa.nc_matmul(dst=product, stationary=weights, moving=tile)
            nisa.tensor_reduce(dst=highest, op=nl.maximum, data=product, axis=1, negate=True)
            nisa.activation(dst=result, op=nl.exp, data=product, bias=highest)
            nisa.tensor_reduce(dst=total, op=nl.add, data=result, axis=1)
            nisa.reciprocal(dst=total, data=total)
            nisa.tensor_scalar(dst=result, data=result, op0=nl.multiply, operand0=total)
            nisa.tensor_tensor(dst=result, data1=result, data2=tile, op=nl.add)
            nisa.tensor_scalar(dst=result, data=result, op0=nl.add, operand0=1.0)
            nisa.dma_copy(dst=out[i : i + 8, j : j + 4], src=result)
    return out


def recorded(count: int) -> Run:
    """Return a run of about `count` instructions."""
    rows = 8 * (count // (10 * COLUMNS))
    a, b = np.zeros((rows, 4 * COLUMNS), np.float32), np.ones((rows, 8), np.float32)
    return neuroncore.run(nest, a, b)


def costs(run: Run) -> tuple[float, float]:
    """Return the megabytes of a page, and the seconds of CPU per instruction to write it."""
    page = partial(run.view, values=None)
    spent = min(seconds(page) for _ in range(3))
    return len(page().html) / 1e6, spent / len(run.instructions)


def main() -> int:
    print(describe())
    add = min(seconds(yardstick(ADDS)) for _ in range(5)) / ADDS
    well = True
    for count, room in LIMITS.items():
        run = recorded(count)
        print(f"{len(run.instructions)} instructions, {run.estimate.time}")
        print(f"     seconds for what-ifs     {seconds(lambda: run.view(values=None)):8.2f}")  # noqa: B023
        megabytes, spent = costs(run)
        for what, measured, limit in (
            ("megabytes", megabytes, room),
            ("np.adds per instruction", spent / add, LIMIT),
        ):
            well &= measured <= limit
            verdict = "ok  " if measured <= limit else "MISS"
            print(f"{verdict} {what:24s} {measured:8.2f}  limit {limit:7.2f}")
    return int(not well)


if __name__ == "__main__":
    sys.exit(main())
