"""Ratios measured side by side: one process, one thread, pairs of runs, and their median."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
FORCED = "OPENBLAS_CORETYPE"  # set on some machines; it can halve sgemm


def alone() -> None:
    """Start this program again with one thread and BLAS's own choice of kernel, unless it is so.

    BLAS reads its environment when numpy is imported: call this before.
    """
    wanted = {k: v for k, v in os.environ.items() if k != FORCED} | ONE_THREAD
    if wanted != dict(os.environ):
        os.execve(sys.executable, [sys.executable, *sys.argv], wanted)


def describe() -> str:
    """What the numbers were measured with."""
    import numpy as np
    from threadpoolctl import threadpool_info

    import neuroncore.native.matmul as matmul

    libraries = "; ".join(
        f"{i['internal_api']} {i['version']} kernel {i.get('architecture', '?')} "
        f"threads {i['num_threads']}"
        for i in threadpool_info()
        if i["user_api"] == "blas"
    )
    return (
        f"numpy {np.__version__}; {libraries}; our chain: {matmul.ROWS} x {matmul.COLUMNS} blocks "
        f"of {matmul.LANES} lanes; {time.strftime('%Y-%m-%d')}"
    )


def seconds(function: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun


def ratio(ours: Callable[[], Any], theirs: Callable[[], Any], pairs: int = 9) -> tuple[float, ...]:
    """The median ratio over pairs of runs, after a warm-up, and the median seconds of each."""
    ours(), theirs()
    runs = [(seconds(theirs), seconds(ours)) for _ in range(pairs)]
    return (
        statistics.median(mine / other for other, mine in runs),
        statistics.median(mine for _, mine in runs),
        statistics.median(other for other, _ in runs),
    )
