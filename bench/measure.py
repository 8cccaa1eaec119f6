"""Ratios measured side by side: one process, one thread, and the least CPU time of each.

Other programs on the machine lengthen wall time and medians; the least of many repetitions, taken
in turns, changes little with them.
"""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
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

    import neuroncore.numerics.loops.matmul as matmul

    libraries = "; ".join(
        f"{i['internal_api']} {i['version']} kernel {i.get('architecture', '?')} "
        f"threads {i['num_threads']}"
        for i in threadpool_info()
        if i["user_api"] == "blas"
    )
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return (
        f"{processor()}, load {load}; Python {platform.python_version()}; numpy {np.__version__}; "
        f"{libraries}; our chain: {matmul.ROWS} x {matmul.COLUMNS} blocks of {matmul.LANES} lanes; "
        f"{time.strftime('%Y-%m-%d')}"
    )


def processor() -> str:
    """The name of the processor (Linux; elsewhere what Python knows)."""
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text().splitlines() if listing.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def seconds(function: Callable[[], Any], clock: Callable[[], float] = time.thread_time) -> float:
    """The CPU time of a call, by default of this thread."""
    begun = clock()
    function()
    return clock() - begun


def least(
    *functions: Callable[[], Any],
    rounds: int = 9,
    clock: Callable[[], float] = time.thread_time,
    warm: bool = False,
) -> tuple[float, ...]:
    """The least seconds of CPU of each function, of rounds in which they take turns, after one. If
    `warm`, each is called before it is timed, so that none finds caches as another left them."""
    for function in functions:
        function()

    def timed(function: Callable[[], Any]) -> float:
        if warm:
            function()
        return seconds(function, clock)

    times = [[timed(function) for function in functions] for _ in range(rounds)]
    return tuple(map(min, zip(*times)))


def least_of_programs(*programs: list[str], rounds: int = 7) -> tuple[float, ...]:
    """The same of programs with their arguments, each in a process of its own."""
    times = [[spent(program) for program in programs] for _ in range(rounds + 1)]
    return tuple(map(min, zip(*times[1:])))


def spent(program: list[str], **variables: str) -> float:
    """The seconds of CPU that a program takes with these variables in its environment. As where a
    package is installed, Python keeps its bytecode."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    before = _children()
    subprocess.run(
        program,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment | variables,
    )
    return _children() - before


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
