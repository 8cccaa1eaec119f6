"""What neuroncore run says of launches: lines as they finish, or one JSON object at the end."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from neuroncore.cli import failures
from neuroncore.errors import UsageError
from neuroncore.frontend.run import Run
from neuroncore.frontend.settings import target_machine
from neuroncore.numerics.formats import FORMATS, float32, lookup
from neuroncore.report import perfetto, precision, text
from neuroncore.report.compare import Comparison, compare
from neuroncore.report.summary import overcommitted, summary
from neuroncore.schedule import Timeline, schedule_cores

SCHEMA = "neuroncore.run/1"
PACKAGES = ("numpy", "numba", "ml_dtypes")

Pairs = tuple[list[Any], list[Any]]  # arrays as they are, and as they should be


class Document:
    """Everything that a command's launches left behind."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.timelines: list[Timeline] = []
        self.launches: list[dict[str, Any]] = []
        self.failure: dict[str, Any] | None = None
        self.differs = False

    def say(self, line: str) -> None:
        if not self.arguments.json:
            failures.write(line)

    def header(self) -> None:
        chosen = target_machine(self.arguments.target)
        packages = "  ".join(f"{name} {version(name)}" for name in PACKAGES)
        self.say(
            f"neuroncore {version('neuroncore')}  target {chosen.name} ({chosen.generation})  "
            f"seed {self.arguments.seed}  python {platform.python_version()}  {packages}"
        )

    def add(self, run: Run, pairs: Pairs | None) -> None:
        """Time a finished launch, compare its results, and print or keep what came out."""
        programs = [core.program for core in run.cores if core.program is not None]
        timelines = schedule_cores(programs, run.machine)
        self.timelines += timelines
        got, wanted = pairs or ([], [])
        comparisons = [compare(a, b) for a, b in zip(got, wanted, strict=True)]
        tolerances = [self._tolerance(a, b) for a, b in zip(got, wanted, strict=True)]
        wrong = any(not c.rel_l2 <= t for c, t in zip(comparisons, tolerances, strict=True))
        agrees = None if pairs is None else not wrong
        self.differs |= wrong
        findings = [*map(str, run.findings)]
        findings += dict.fromkeys(w for timeline in timelines for w in overcommitted(timeline))
        self.say(f"{run.kernel} on {run.machine.name}")
        for line in (
            *_compared(comparisons, tolerances, agrees),
            *_estimated(timelines, run.programs),
            *(precision.text(run.precision) if run.precision else ()),
            *findings,
        ):
            self.say(f"  {line}")
        self.launches.append(_launch(run, comparisons, agrees, timelines, findings))

    def _tolerance(self, output: Any, reference: Any) -> float:
        """By the format of the result, or of a reference that has a coarser one: 1e-5 for float32,
        the gap between 1 and the next number for narrower floats, none for integers."""
        if self.arguments.tol is not None:
            return float(self.arguments.tol)
        form = lookup(np.asarray(output).dtype)
        if form.is_integer:
            return 0.0
        forms = form, FORMATS.get(np.asarray(reference).dtype.name, float32)
        return max(1e-5 if f is float32 or f.is_integer else f.eps for f in forms)

    def close(self) -> int:
        """Write what was asked for; the exit code."""
        if self.arguments.trace and self.timelines:
            self._trace()
            self.say(f"trace      {self.arguments.trace} (open it at ui.perfetto.dev)")
        if not self.launches and self.failure is None:
            self.failure = {"statement": "no kernel was launched"}
            print("neuroncore: no kernel was launched", file=sys.stderr)
        failed = self.failure is not None or self.differs
        if self.arguments.json:
            failures.write(json.dumps(self._fields(failed), indent=2, allow_nan=False))
        return int(failed)

    def _trace(self) -> None:
        path = self.arguments.trace
        try:
            perfetto.write(self.timelines, path)
        except OSError as error:
            raise UsageError(f"--trace {path} can't be written: {error.strerror}") from None

    def _fields(self, failed: bool) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "passed": not failed,
            "target": target_machine(self.arguments.target).name,
            "seed": self.arguments.seed,
            "versions": {n: version(n) for n in ("neuroncore", *PACKAGES)},
            "launches": self.launches,
            "error": self.failure,
        }


def _compared(
    comparisons: list[Comparison], tolerances: list[float], agrees: bool | None
) -> Iterator[str]:
    yield from text.compared(comparisons)
    if agrees is not None:
        limits = ", ".join(f"{t:.3g}" for t in tolerances)
        yield f"{'agrees' if agrees else 'DIFFERS'}   (relative L2 at most {limits})"


def _estimated(timelines: list[Timeline], programs: Sequence[Sequence[int]]) -> Iterator[str]:
    total = sum(map(len, programs))
    for number, (timeline, own) in enumerate(zip(timelines, programs, strict=False)):
        if len(own) > 1:
            yield f"core {number}, {len(own)} of {total} programs, one after the other"
        elif total > 1:
            yield f"core {number}"
        yield from text.estimated(timeline)


def _launch(
    run: Run,
    comparisons: list[Comparison],
    agrees: bool | None,
    timelines: list[Timeline],
    findings: list[str],
) -> dict[str, Any]:
    return {
        "kernel": run.kernel,
        "target": run.machine.name,
        "results": [c.to_dict() for c in comparisons],
        "agrees": agrees,
        "programs": [list(own) for own in run.programs],
        "estimate": summary(max(timelines, key=lambda t: t.total_ns)),
        "cores": [summary(timeline) for timeline in timelines],
        "findings": findings,
        **({"precision": precision.document(run.precision)} if run.precision else {}),
    }
