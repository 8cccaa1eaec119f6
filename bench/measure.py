"""Ratios of CPU times: programs or functions are timed alternately, on one thread, and the least
time of each counts.

Other programs on the machine increase wall times and medians. They hardly change the least of many
CPU times.
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
FORCED = "OPENBLAS_CORETYPE"  # set on some machines; may halve the speed of sgemm


def alone() -> None:
    """Start this program again in an environment with one thread, and without the variable that
    forces a kernel of BLAS. Do nothing if this environment is already in use.

    BLAS reads the environment when numpy is imported, so call this function before that.
    """
    wanted = {k: v for k, v in os.environ.items() if k != FORCED} | ONE_THREAD
    if wanted != dict(os.environ):
        os.execve(sys.executable, [sys.executable, *sys.argv], wanted)


def describe() -> str:
    """Return a description of the machine and the libraries with which the numbers are measured."""
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
    """Return the name of the processor: from /proc/cpuinfo on Linux, elsewhere from Python."""
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text().splitlines() if listing.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def seconds(function: Callable[[], Any], clock: Callable[[], float] = time.thread_time) -> float:
    """Return the seconds that a call takes by `clock`, by default the CPU time of this thread."""
    begun = clock()
    function()
    return clock() - begun


def least(
    *functions: Callable[[], Any],
    rounds: int = 9,
    clock: Callable[[], float] = time.thread_time,
    warm: bool = False,
) -> tuple[float, ...]:
    """Return the least seconds of each function among `rounds` rounds. In a round each function is
    called once. All functions are called once before the first round. If `warm`, each function is
    also called directly before it is timed, so that it finds its own data in the caches."""
    for function in functions:
        function()

    def timed(function: Callable[[], Any]) -> float:
        if warm:
            function()
        return seconds(function, clock)

    times = [[timed(function) for function in functions] for _ in range(rounds)]
    return tuple(map(min, zip(*times)))


def least_of_programs(*programs: list[str], rounds: int = 7) -> tuple[float, ...]:
    """Return the least seconds of CPU of each program among `rounds` rounds. A program is a list of
    words, and runs in a separate process. A first round is not counted."""
    times = [[spent(program) for program in programs] for _ in range(rounds + 1)]
    return tuple(map(min, zip(*times[1:])))


def spent(program: list[str], **variables: str) -> float:
    """Return the seconds of CPU that a program takes, with `variables` added to its environment.
    Python may write its bytecode files, as for an installed package."""
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


def status(field: str) -> int:
    """Return a field of /proc/self/status in bytes (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(field + ":"))
    return int(line.split()[1]) << 10
