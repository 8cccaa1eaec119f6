"""Functions that all runners use: they run a case within limits, judge it, and print a table of all
outcomes."""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

WITH_ZEROS = "passes with zeros"  # passes only if uninitialized memory reads as 0
VERDICTS = ("passed", "failed", WITH_ZEROS, "refused", "timed out", "skipped", "theirs")
WELL = ("passed", "skipped", "theirs")
OURS = re.compile(r"^(?:.*: )?error\[(\w+)\] (.*)$|^(?:[\w.]*\.)?NotEmulated: (.*)$", re.MULTILINE)
TRACEBACK = "Traceback (most recent call last)"
NUMBER = re.compile(r"-?\b(?:\d+x)*\d+(?:\.\d+)?(?:e[-+]?\d+)?")  # but not the 32 in float32
RAISED = re.compile(r"^(?:\w+\.)*(_?[A-Z]\w+)(?:: (.*))?$", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one case. The verdict `refused` means that an error of neuroncore ended the
    case; `theirs` means that the case fails because of the kernel's known fault. Cases that fail in
    the same way have the same `cause`."""

    name: str
    verdict: str
    cause: str = ""
    seconds: float = 0.0
    details: tuple[str, ...] = ()


class Task(NamedTuple):
    """A case that has not run: its name, and the function that runs it."""

    name: str
    run: Callable[[], Outcome]


@dataclass(frozen=True)
class Finished:
    """A process that has ended. The exit code is None if it was ended because its time was over."""

    code: int | None
    stdout: str
    stderr: str
    seconds: float


def run(
    command: Sequence[str],
    *,
    seconds: float = 600.0,
    gigabytes: float = 12.0,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Finished:
    """Run a command in a separate process group, and end the group when its time is over."""
    limit = int(gigabytes * 2**30)

    # RLIMIT_AS also counts memory that torch and BLAS reserve but never use
    def confined() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    begun = time.monotonic()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, **(env or {})},
        cwd=cwd,
        start_new_session=True,
        preexec_fn=confined,
    )
    try:
        out, err = process.communicate(timeout=seconds)
        code: int | None = process.returncode
    except subprocess.TimeoutExpired:
        _end(process)
        out, err = process.communicate()
        code = None
    return Finished(code, out, err, time.monotonic() - begun)


def _end(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def together(tasks: Iterable[Task], workers: int = 1) -> Iterator[Outcome]:
    """Yield the outcomes of tasks in their order. `workers` tasks run at a time."""
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(lambda task: task.run(), tasks)


def judged(name: str, finished: Finished, details: Iterable[str] = ()) -> Outcome:
    """Return the outcome of a process whose exit code is 0 if the case has passed."""
    if finished.code is None:
        return Outcome(name, "timed out", "", finished.seconds, tuple(details))
    if finished.code == 0:
        return Outcome(name, "passed", "", finished.seconds, tuple(details))
    verdict, cause = blamed(finished)
    return Outcome(name, verdict, cause, finished.seconds, (*details, *_last_words(finished)))


def _last_words(finished: Finished) -> list[str]:
    """Return a list with the line of the last error message, in full; an empty list if there is no
    error message."""
    lines = finished.stderr.rpartition(TRACEBACK)[2].splitlines()
    return [line for line in lines if OURS.match(line) or RAISED.match(line)][-1:]


def blamed(finished: Finished) -> tuple[str, str]:
    """Return the verdict and the cause of a failed process: refused by neuroncore with a code, or
    failed with an exception."""
    if ours := list(OURS.finditer(finished.stderr)):
        code, statement, missing = ours[-1].groups()
        return "refused", f"{code or 'NotEmulated'}: {normalised(statement or missing)}"
    if raised := list(RAISED.finditer(finished.stderr.rpartition(TRACEBACK)[2])):
        kind, statement = raised[-1].groups("")
        return "failed", f"{kind}: {normalised(statement)}"
    return "failed", f"exit code {finished.code}"


def normalised(statement: str) -> str:
    """Return the first sentence of a message without its numbers and quoted names, so that equal
    causes can be counted."""
    first = re.split(r"(?<=[a-z\])])[.;] ", statement.strip(), maxsplit=1)[0]
    first = re.sub(r"'[^']*'|\"[^\"]*\"", "'...'", first)
    return NUMBER.sub("N", first)[:160]


def options(description: str | None, *checkouts: str) -> argparse.ArgumentParser:
    """Return a parser with the options of all runners."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for checkout in checkouts:
        parser.add_argument(checkout, type=Path)
    parser.add_argument(
        "-k", default="", metavar="SUBSTR", help="only cases whose names contain SUBSTR"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document instead of a table"
    )
    parser.add_argument("--timeout", type=float, default=900.0, metavar="SECONDS", help="per case")
    parser.add_argument("--memory", type=float, default=12.0, metavar="GIB", help="per case")
    return parser


def told(suite: str, outcomes: Iterator[Outcome], as_json: bool) -> int:
    """Print each outcome when it comes, and then a summary. Return the exit code."""
    kept = []
    for outcome in outcomes:
        kept.append(outcome)
        if not as_json:
            print(_line(outcome), flush=True)
    if as_json:
        print(json.dumps(document(suite, kept), indent=1))
    else:
        print("\n".join(summary(kept)))
    return int(not kept or any(o.verdict not in WELL for o in kept))


def _line(outcome: Outcome) -> str:
    cause = f"  {outcome.cause}" if outcome.cause else ""
    first = f"{outcome.verdict:9} {outcome.seconds:7.1f} s  {outcome.name}{cause}"
    return "\n".join([first, *(f"{'':22}{line}" for line in outcome.details)])


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """Return lines with the number of cases by verdict, and the causes of failures by frequency.
    The last line has the number of cases that passed, and the number of cases without those that
    were skipped or have a known fault."""
    counts = Counter(o.verdict for o in outcomes)
    shown = [v for v in VERDICTS if counts[v] or v != WITH_ZEROS]
    lines = ["", "  ".join(f"{v} {counts[v]}" for v in shown)]
    told = ("failed", WITH_ZEROS, "refused")
    causes = Counter((o.verdict, o.cause) for o in outcomes if o.verdict in told)
    lines += [f"  {n:4}  {verdict}: {cause}" for (verdict, cause), n in causes.most_common()]
    ran = len(outcomes) - counts["skipped"] - counts["theirs"]
    return [*lines, f"{counts['passed']} of {ran}"]


def document(suite: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    counts = Counter(o.verdict for o in outcomes)
    return {
        "suite": suite,
        "counts": {v: counts[v] for v in VERDICTS},
        "cases": [asdict(o) for o in outcomes],
    }
