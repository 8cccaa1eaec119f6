"""The command line: programs of successive seeds are checked and counted, and programs that fail
are shrunk."""

from __future__ import annotations

import argparse
import gc
import json
import linecache
import multiprocessing
import runpy
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from bench.programs.checks import Failure, check
from bench.programs.counts import Counts, occurred
from bench.programs.generator import generate
from bench.programs.hits import hits, watch
from bench.programs.shrinking import shrink

FAILED = Path(__file__).parent / "failed"  # shrunk programs that have failed
TOGETHER = 25  # programs that a process checks at a time (a portion)
LIVES = 200  # portions after which a new process replaces a process
SELDOM = 4  # exit code if no program fails, but a kind of step is too rare
SAVED = 500  # programs after which the state is written
SETTLED = 100  # programs after which the garbage collector ignores older objects
GARBAGE = 100_000  # new objects that start a collection; it usually runs between programs


class Checked(NamedTuple):
    """The result of checking a program: the names of what occurred in it (`found`, as `occurred`
    returns them), the seconds of CPU, and the failure as text ("" if there is none)."""

    seed: int
    found: dict[str, set[str]]
    seconds: float
    failure: str = ""


def main() -> int:
    asked = _asked()
    counts = Counts(asked.seed)
    if asked.state is not None and asked.state.exists():
        counts = Counts.of(json.loads(asked.state.read_text()))
    again = list(_failed_again())
    seeds = range(counts.seed + counts.programs, counts.seed + asked.count)
    try:
        with _checks(seeds, asked.jobs) as checks:
            _count(checks, counts, asked)
    except KeyboardInterrupt:
        print("stopped")
    _save(counts, asked.state)
    print("\n".join(counts.lines()))
    seldom = list(counts.seldom())
    print("\n".join([*again, *seldom]), end="\n" * bool(again or seldom))
    if counts.failed or again:
        return 1
    return SELDOM if seldom else 0


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.programs")
    parser.add_argument("--seed", type=int, default=time.time_ns() % (1 << 31))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="stop after these seconds of CPU time"
    )
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument(
        "--state", type=Path, help="continue from this file, and write the state to it"
    )
    parser.add_argument("--print", action="store_true", help="print the programs")
    return parser.parse_args()


def _failed_again() -> Iterator[str]:
    """Run all programs in `failed/`. Yield a text for each one that fails again."""
    files = sorted(FAILED.glob("*.py"))
    for file in files:
        try:
            with redirect_stdout(None):
                runpy.run_path(str(file))
        except SystemExit as leaving:
            yield f"{file.name} {leaving.code}"
    print(f"{len(files)} programs that failed once were run first", flush=True)


@contextmanager
def _checks(seeds: range, jobs: int) -> Iterator[Iterable[Checked]]:
    """A context manager. It returns the results of checking the programs of the seeds, in this
    process or in several (`jobs`)."""
    if jobs == 1:
        _begin()
        yield map(_checked, seeds)
        return
    with multiprocessing.Pool(jobs, _begin, maxtasksperchild=LIVES) as pool:
        yield pool.imap(_checked, seeds, TOGETHER)


def _begin() -> None:
    """Prepare a process for many programs."""
    gc.set_threshold(GARBAGE)
    watch()


def _checked(seed: int) -> Checked:
    begun, before = time.process_time(), dict(hits)
    gc.collect(0 if seed % SETTLED else 2)
    if seed % SETTLED == 0:
        gc.freeze()
    program, failure, found = generate(seed), "", {}
    try:
        found = occurred(program, check(program), before)
    except Failure as failed:
        small = shrink(program, failed.kind)
        failure = f"seed {seed} {failed}\n{small.source()}"
    linecache.cache.pop(program.file, None)
    return Checked(seed, found, time.process_time() - begun, failure)


def _count(checks: Iterable[Checked], counts: Counts, asked: argparse.Namespace) -> None:
    for one in checks:
        counts.programs += 1
        counts.seconds += one.seconds
        counts.add(one.found)
        if asked.print:
            print(generate(one.seed).source())
        if one.failure:
            counts.failed.append(one.seed)
            print(one.failure, flush=True)
        if counts.programs % SAVED == 0:
            _save(counts, asked.state)
        if counts.seconds > asked.seconds:
            return


def _save(counts: Counts, state: Path | None) -> None:
    if state is not None:
        kept: Any = counts.to_dict()
        state.write_text(json.dumps(kept, indent=1))


if __name__ == "__main__":
    sys.exit(main())
