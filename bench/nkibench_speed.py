"""Measure the time of NKIBench's kernels, compare it with another version of neuroncore, and show
which instructions take it.

    python bench/nkibench_speed.py CHECKOUT [-k SUBSTR] [--other PYTHON] [--rounds N] [--shares]
        [--threads N]

CHECKOUT is a checkout of AccelOpt. PYTHON is the interpreter of an environment with the other
version. Times are seconds of CPU of a launch on trn2, on one thread. The time of a version is the
least time among `--rounds` processes. Processes of the two versions run alternately. A process
launches a quick kernel twice, and the shorter time counts. With several `--threads` for products,
times are wall times, which other work on the machine increases.

`bits` shows whether the results of both versions are equal. `--shares` times each instruction in a
further launch. It prints which share of the launch's time the execution of instructions takes
(reading operands, arithmetic, writing results). It also prints the remaining time per instruction
(the kernel's Python, index expressions, checks, allocation, the record), and the instructions that
take most of the time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "conformance")]

from measure import FORCED, ONE_THREAD
from nkibench import Problem, problems

TARGET, THREADS = "trn2", "OMP_NUM_THREADS"
TURNS, QUICK = 2, 15.0  # launches, if the first one takes fewer seconds; otherwise one
SHOWN = 4  # the number of instructions that are shown
Measured = dict[str, Any]


def case(kernel: Path, reference: Path, shares: bool) -> Measured:
    """Run a kernel on the inputs of seed 0 in this process, and return its times and a hash of its
    results. With `shares`, also return the number and the time of each instruction."""
    import numpy as np
    from baseline import NAMES, kernel_of
    from published import loaded

    problem, function = loaded(reference), kernel_of(loaded(kernel, **NAMES))
    np.random.seed(0)
    given = problem.transform_to_nki_inputs(problem.get_inputs())
    first, results = timed(function, given)
    found: Measured = {"bits": digest(results if isinstance(results, tuple) else (results,))}
    del results
    seconds = [first]
    for _ in range(1, TURNS if first < QUICK else 1):
        # only the first launch includes loading numba and its functions
        seconds.append(timed(function, given)[0])
    found["seconds"] = min(seconds)
    if shares:
        with timed_meanings() as spent:
            found["whole"] = timed(function, given)[0]
        found["meanings"] = {
            name: (count, spent.seconds[name]) for name, count in spent.counts.items()
        }
    return found


def timed(function: Callable[..., Any], given: Sequence[Any]) -> tuple[float, Any]:
    """Return the seconds of CPU of a launch, and its results. If the environment asks for several
    threads, the seconds are those of the clock."""
    clock = time.thread_time if os.environ.get(THREADS, "1") == "1" else time.perf_counter
    begun = clock()
    results = function(*given)
    return clock() - begun, results


def digest(results: tuple[Any, ...]) -> str:
    found = hashlib.sha256()
    for result in results:
        found.update(
            memoryview(result).cast("B") if result.flags.c_contiguous else result.tobytes()
        )
    return found.hexdigest()[:16]


class Spent:
    """The number of executions and the seconds of CPU of each instruction, by name."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()

    def over(self, name: str, run: Callable[..., Any]) -> Callable[..., Any]:
        counts, seconds, clock = self.counts, self.seconds, time.thread_time

        def timed_run(*given: Any) -> Any:
            begun = clock()
            try:
                return run(*given)
            finally:
                seconds[name] += clock() - begun
                counts[name] += 1

        return timed_run


@contextmanager
def timed_meanings() -> Iterator[Spent]:
    """A context manager that times the execution of instructions on cores that are made in its
    body."""
    from neuroncore.core import binding

    spent, stage = Spent(), binding.stage

    def timed_stage(call: Any, arguments: Mapping[str, Any], core: Any) -> Callable[..., Any]:
        return spent.over(call.instruction.name, stage(call, arguments, core))

    binding.stage = timed_stage
    try:
        yield spent
    finally:
        binding.stage = stage


def in_process(python: str, problem: Problem, shares: bool, threads: int) -> Measured:
    environment = {k: v for k, v in os.environ.items() if k != FORCED} | ONE_THREAD
    files = str(problem.kernel.resolve()), str(problem.reference.resolve())
    command = [python, __file__, "--case", *files, *["--shares"] * shares]
    done = subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        env={**environment, "NEURON_PLATFORM_TARGET_OVERRIDE": TARGET, THREADS: str(threads)},
    )
    found: Measured = json.loads(done.stdout.splitlines()[-1])
    return found


def line(problem: Problem, given: argparse.Namespace) -> tuple[str, float, float]:
    """Return a row of the table, the seconds of this version, and those of the other version (0 if
    there is none)."""
    pythons = [sys.executable, *[given.other] * bool(given.other)]
    runs: list[list[Measured]] = [[] for _ in pythons]
    for turn in range(given.rounds):
        for python, found in zip(pythons, runs):
            first = turn == 0 and python == sys.executable
            found.append(in_process(python, problem, first and given.shares, given.threads))
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
    """Return a text with the share of a launch's time in which instructions are executed, and with
    the remaining time per instruction."""
    whole, meanings = found["whole"], found["meanings"]
    issued = sum(count for count, _ in meanings.values())
    meant = sum(seconds for _, seconds in meanings.values())
    most = sorted(meanings.items(), key=lambda item: -item[1][1])[:SHOWN]
    named = ", ".join(f"{name} {seconds / whole:.0%}" for name, (_, seconds) in most)
    rest = (whole - meant) / issued * 1e6
    return f"meaning {meant:5.2f} ({meant / whole:3.0%}), rest {rest:4.0f} us x {issued}; {named}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, nargs="?")
    parser.add_argument("--case", type=Path, nargs=2, metavar=("KERNEL", "REFERENCE"))
    parser.add_argument("--other", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--shares", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
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
    print(f"{'together':24s} {totals[0]:7.2f}" + f" {totals[1]:7.2f}" * bool(given.other))


if __name__ == "__main__":
    main()
