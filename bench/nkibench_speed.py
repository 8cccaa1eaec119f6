"""How long NKIBench's kernels take, beside another version of neuroncore, and what on.

    python bench/nkibench_speed.py CHECKOUT [-k SUBSTR] [--beside PYTHON] [--rounds N] [--shares]

CHECKOUT is one of AccelOpt; PYTHON is the interpreter of an environment with the other version.
Times are seconds of CPU of the kernel's launch alone, on trn2 and on one thread: the least of
`--rounds` processes of each version, which take turns, each with two launches if those are quick.
`bits` says whether the results of both are the same. With `--shares` launches take turns with some
that leave no record, of which a sample says which part is arithmetic (what instructions mean, and
moving their data) and which other Python; the record is what the others take longer. All 14 with
their shares take about 5 minutes of CPU, and 5 more beside another version.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "conformance")]

from measure import FORCED, ONE_THREAD
from nkibench import Problem, problems

TARGET = "trn2"
TURNS, QUICK = 2, 15.0  # launches of a kernel whose first takes less seconds; of others, one
SAMPLING = 1e-3  # seconds of CPU
ARITHMETIC = ("/native/", "/numerics/", "/isa/", "/clause/", "/core/psum.py", "/core/rows.py")
MOVING = {"store", "values", "rounded", "encoded"}  # of memory/tile.py
Measured = dict[str, Any]


def case(kernel: Path, reference: Path, shares: bool) -> Measured:
    """Run a kernel on the inputs of seed 0, in this process."""
    import numpy as np
    from baseline import NAMES, kernel_of
    from published import loaded

    from neuroncore.base.options import Options
    from neuroncore.frontend.settings import settings

    problem, function = loaded(reference), kernel_of(loaded(kernel, **NAMES))
    np.random.seed(0)
    given = problem.transform_to_nki_inputs(problem.get_inputs())
    first, results = timed(function, given)
    found: Measured = {"bits": digest(results if isinstance(results, tuple) else (results,))}
    del results
    recorded, bare = [first], []
    for turn in range(TURNS if first < QUICK else 1):
        if turn:  # what is loaded once, numba and its functions, counts in the first launch
            recorded.append(timed(function, given)[0])
        if shares:
            with settings(options=Options(record=False)), Sampler() as sampler:
                bare.append(timed(function, given)[0])
    found["seconds"] = min(recorded)
    if shares:
        found["unrecorded"] = min(bare)
        found["arithmetic"] = sampler.counts[True] / max(sampler.counts.total(), 1)
    return found


def timed(function: Callable[..., Any], given: Sequence[Any]) -> tuple[float, Any]:
    begun = time.thread_time()
    results = function(*given)
    return time.thread_time() - begun, results


def digest(results: tuple[Any, ...]) -> str:
    found = hashlib.sha256()
    for result in results:
        found.update(
            memoryview(result).cast("B") if result.flags.c_contiguous else result.tobytes()
        )
    return found.hexdigest()[:16]


class Sampler:
    """Counts, of moments at equal distances of CPU time, how many are spent on arithmetic."""

    def __init__(self) -> None:
        self.counts: Counter[bool] = Counter()

    def __enter__(self) -> Sampler:
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, SAMPLING, SAMPLING)
        return self

    def __exit__(self, *exception: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _sample(self, number: int, frame: FrameType | None) -> None:
        code = frame.f_code if frame else None
        moves = code is not None and code.co_name in MOVING and "tile.py" in code.co_filename
        here = code.co_filename if code else ""
        self.counts[moves or any(part in here for part in ARITHMETIC)] += 1


def in_process(python: str, problem: Problem, shares: bool) -> Measured:
    environment = {k: v for k, v in os.environ.items() if k != FORCED} | ONE_THREAD
    files = str(problem.kernel.resolve()), str(problem.reference.resolve())
    command = [python, __file__, "--case", *files, *["--shares"] * shares]
    done = subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        env={**environment, "NEURON_PLATFORM_TARGET_OVERRIDE": TARGET},
    )
    found: Measured = json.loads(done.stdout.splitlines()[-1])
    return found


def line(problem: Problem, given: argparse.Namespace) -> tuple[str, float, float]:
    """A row of the table, and the seconds of this version and of the other."""
    pythons = [sys.executable, *[given.beside] * bool(given.beside)]
    runs: list[list[Measured]] = [[] for _ in pythons]
    for turn in range(given.rounds):
        for python, found in zip(pythons, runs):
            first = turn == 0 and python == sys.executable
            found.append(in_process(python, problem, first and given.shares))
    ours, *other = ([min(one["seconds"] for one in found), found[0]] for found in runs)
    text = f"{problem.name:24s} {ours[0]:7.2f}"
    theirs = other[0][0] if other else 0.0
    if other:
        bits = "same" if ours[1]["bits"] == other[0][1]["bits"] else "OTHER"
        text += f" {theirs:7.2f} {ours[0] / theirs:6.2f}  bits {bits}"
    if given.shares:
        text += f"  {parts(ours[1])}"
    return text, ours[0], theirs


def parts(found: Measured) -> str:
    """What the seconds of a launch were spent on, and their shares."""
    whole, bare = found["seconds"], found["unrecorded"]
    arithmetic = bare * found["arithmetic"]
    said = {"arithmetic": arithmetic, "Python": bare - arithmetic, "record": whole - bare}
    return ", ".join(f"{name} {part:5.2f} ({part / whole:3.0%})" for name, part in said.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, nargs="?")
    parser.add_argument("--case", type=Path, nargs=2, metavar=("KERNEL", "REFERENCE"))
    parser.add_argument("--beside", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--shares", action="store_true")
    parser.add_argument("-k", default="")
    given = parser.parse_args()
    if given.case:
        kernel, reference = given.case
        print(json.dumps(case(kernel, reference, given.shares)))
        return
    totals = [0.0, 0.0]
    for problem in problems(given.checkout):
        if problem.name.startswith("samples/") or given.k not in problem.name:
            continue
        text, *seconds = line(problem, given)
        print(text, flush=True)
        totals = [total + more for total, more in zip(totals, seconds)]
    print(f"{'together':24s} {totals[0]:7.2f}" + f" {totals[1]:7.2f}" * bool(given.beside))


if __name__ == "__main__":
    main()
