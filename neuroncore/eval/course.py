"""Assignments of courses: tests with points, scored from verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from neuroncore.machine.harness import BENCHMARK, harness_time

Verdicts = Mapping[str, Mapping[str, Any]]


class Limit(NamedTuple):
    """A kernel that takes at most `microseconds` gets this `share` (0 to 1) of a test's points."""

    microseconds: float
    share: float = 1.0


@dataclass(frozen=True)
class Part:
    """One test of an assignment.

    `spec`: the argument with which `eval.load_spec` loads the specification of the test
    `points`: the points for a candidate that passes
    `limits`: limits of time, the shortest first. If there are any, the points depend on the time
        that `nki.benchmark` would report on `target`.
    `needs`: the names of tests that must pass too before this test gives points"""

    name: str
    spec: str
    points: float
    limits: tuple[Limit, ...] = ()
    needs: tuple[str, ...] = ()
    target: str = "trn2"

    def share(self, verdict: Mapping[str, Any]) -> float:
        """Return the share of the points (0 to 1) that a candidate with this verdict gets. The
        tests in `needs` are not considered."""
        if not verdict["passed"]:
            return 0.0
        if not self.limits:
            return 1.0
        time = self.microseconds(verdict)
        return next((limit.share for limit in self.limits if time <= limit.microseconds), 0.0)

    def microseconds(self, verdict: Mapping[str, Any]) -> float:
        """Return the time that `nki.benchmark` would report for a candidate that passed."""
        measured = harness_time(BENCHMARK, self.target, 1e3 * verdict["latency_us"])
        return measured.total_ns / 1e3


@dataclass(frozen=True)
class Assignment:
    """The tests of an assignment."""

    parts: Sequence[Part]

    @property
    def most(self) -> float:
        """Return the sum of the points of all tests."""
        return sum(part.points for part in self.parts)

    def points(self, verdicts: Verdicts) -> dict[str, float]:
        """Return the points that a candidate gets for each test, by the test's name.

        `verdicts`: the candidate's verdict for each test, by the test's name"""
        return {
            part.name: part.points * part.share(verdicts[part.name])
            if all(verdicts[name]["passed"] for name in part.needs)
            else 0.0
            for part in self.parts
        }
