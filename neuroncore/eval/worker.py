"""Judges candidates for one specification, with two processes. One process forks a process for each
candidate, and the other judges the records.

A case is one shape of the specification with its inputs. A decision is a value that the device
computes, and on which a loop or a condition depends. The decisions of a run determine its path,
which is the sequence of instructions that it executes (`eval.paths`)."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from neuroncore.base.errors import reading
from neuroncore.base.lazy import version
from neuroncore.base.source import source_text
from neuroncore.eval import answers
from neuroncore.eval.answers import Isolation
from neuroncore.eval.child import Request, Task
from neuroncore.eval.court import Court
from neuroncore.eval.forking import Zygote, meaning
from neuroncore.eval.isolation import Level, ProcessLimits
from neuroncore.eval.judge import Case, cases, judged, one_seed, path
from neuroncore.eval.paths import differs, every_loop
from neuroncore.eval.refusals import Refused, failed
from neuroncore.eval.spec import Spec
from neuroncore.hosts.warm import warm

SCHEMA = "neuroncore.eval/1"
MOST_DECISIONS = 64


@dataclass(frozen=True)
class Candidate:
    """A candidate: a name, and the source of its file."""

    name: str
    source: str

    @classmethod
    def of_file(cls, file: str | Path) -> Candidate:
        """Return the candidate in a file. Raise UsageError if the file can't be read.

        Bytes that can't be decoded become U+FFFD, which Python accepts only in strings and
        comments."""
        with reading(file):
            return cls(str(file), source_text(Path(file), "replace"))

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.source.encode()).hexdigest()

    def key(self, spec: Spec) -> str:
        """Return the key of the verdict on this candidate. It depends on the source, the
        specification and the version of neuroncore."""
        return key(self.sha256, spec.fingerprint())


def key(sha256: str, fingerprint: str) -> str:
    """Return the key of a verdict: a hash of the candidate's hash, the fingerprint of the
    specification, and the version of neuroncore. A random secret that was drawn for the verdict has
    no effect on the key, because the specification does not contain it."""
    text = f"{sha256} {fingerprint} {version('neuroncore')}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class VerdictCost(NamedTuple):
    """The cost of a verdict.

    `child_cpu_ms`, `wall_ms`: milliseconds of CPU time and wall time of the candidate's processes
    `peak_mib`: their largest memory in MiB
    `judge_cpu_ms`: milliseconds of CPU time of the process that judges
    `record_bytes`: the bytes of the records"""

    child_cpu_ms: float = 0.0
    wall_ms: float = 0.0
    peak_mib: int = 0
    judge_cpu_ms: float = 0.0
    record_bytes: int = 0

    def plus(self, other: VerdictCost) -> VerdictCost:
        """Return the sum of two costs; for memory, the larger peak."""
        return VerdictCost(
            self.child_cpu_ms + other.child_cpu_ms,
            self.wall_ms + other.wall_ms,
            max(self.peak_mib, other.peak_mib),
            self.judge_cpu_ms + other.judge_cpu_ms,
            self.record_bytes + other.record_bytes,
        )


class RunOutcome(NamedTuple):
    """The outcome of one run of a candidate: the entries of a verdict that the judge returned, the
    isolation that the operating system granted, and the cost."""

    entries: dict[str, Any]
    isolation: Isolation
    cost: VerdictCost


class JudgeRequest(NamedTuple):
    """A request to the process that judges. Both fields are indices.

    * If both are None, the records of all cases are judged.
    * If both are given, the record of one case is judged on one hidden seed.
    * If only `case` is given, nothing is judged. The reply contains the path of the case's
      record."""

    case: int | None = None
    seed: int | None = None


class Worker:
    """Judges candidates for one specification, one after the other. A Worker must be closed."""

    def __init__(
        self, spec: Spec, level: Level, limits: ProcessLimits, *, why: bool = False
    ) -> None:
        """Make the cases and start the processes. Raise UsageError if the reference fails, or
        returns anything except finite arrays."""
        self.spec, self.level, self.why = spec.with_secret(), level, why
        self.cases: list[Case] = cases(self.spec)
        task = Task.of(spec, [case.public for case in self.cases])
        self._limits = limits
        warm(spec.target)
        gc.collect()
        gc.freeze()
        self._zygote = Zygote(task, limits, level)
        self._court = Court(self._judge, limits)

    def close(self) -> None:
        """End the process that judges, and the process that forks candidates."""
        self._court.close()
        self._zygote.close()

    def verdict(self, candidate: Candidate) -> dict[str, Any]:
        """Return the verdict on a candidate, as a dict that can be written as JSON."""
        judge = self._seed_by_seed if self.spec.dynamic else self._at_once
        outcome = judge(candidate)
        entries, shapes = outcome.entries, outcome.entries["shapes"]
        return {
            "schema": SCHEMA,
            "candidate": candidate.name,
            "sha256": candidate.sha256,
            "spec": self.spec.name,
            "version": version("neuroncore"),
            "passed": entries["passed"],
            "status": status(entries),
            "latency_us": shapes[0]["latency_us"] if entries["passed"] else None,
            "error": entries["error"],
            "shapes": shapes,
            "isolation": {"level": self.level, **outcome.isolation._asdict()},
            "cost": outcome.cost._asdict(),
            "repeat": {"spec": self.spec.source, "secret": self.spec.secret},
        }

    def _at_once(self, candidate: Candidate) -> RunOutcome:
        """Run the candidate once, and judge the records of all cases."""
        return self._run(Request(candidate.source), JudgeRequest())

    def _judge(self, request: JudgeRequest, parts: list[bytes]) -> dict[str, Any]:
        """Handle `request` for the packed records `parts`, and return the entries of a verdict.
        This runs in the process that judges."""
        if request.case is None:
            return judged(parts, self.spec, self.cases, why=self.why)
        case = self.cases[request.case]
        if request.seed is None:
            return path(parts, self.spec, case)
        return one_seed(parts, self.spec, case, request.seed, why=self.why)

    def _seed_by_seed(self, candidate: Candidate) -> RunOutcome:
        """Run the candidate separately for each hidden seed, because the inputs of each seed may
        lead to another path. The candidate receives the decisions of the path, and no other hidden
        data."""
        shapes: list[dict[str, Any]] = []
        isolation, cost = Isolation(), VerdictCost()
        for number in range(len(self.cases)):
            for outcome in self._paths(candidate, number):
                isolation, cost = outcome.isolation, cost.plus(outcome.cost)
                if not outcome.entries["passed"]:
                    return RunOutcome({**outcome.entries, "shapes": shapes}, isolation, cost)
                shapes += outcome.entries["shapes"]
        return RunOutcome({"passed": True, "error": None, "shapes": shapes}, isolation, cost)

    def _paths(self, candidate: Candidate, number: int) -> Iterator[RunOutcome]:
        """Judge the path of each hidden seed of the case `number`, and yield its outcome. Then
        check that all paths belong to one program, and yield the outcome of this check. The last
        outcome has the figures of the shape."""
        entries_of_seeds: list[dict[str, Any]] = []
        for seed in range(len(self.cases[number].hidden)):
            outcome = self._along_its_path(candidate, number, seed)
            entries_of_seeds.append(outcome.entries)
            yield outcome._replace(entries={**outcome.entries, "shapes": []})
        paths = [entries["path"] for entries in entries_of_seeds]
        whole = self._one_program(candidate, number, paths)
        yield whole
        shapes = [entries["shapes"][0] for entries in entries_of_seeds]
        slowest = max(shapes, key=lambda shape: float(shape["latency_us"]))
        shape = {**slowest, "seeds": [shape["seeds"][0] for shape in shapes]}
        passed = {"passed": True, "error": None, "shapes": [shape]}
        yield RunOutcome(passed, whole.isolation, VerdictCost())

    def _one_program(
        self, candidate: Candidate, number: int, paths: list[dict[str, Any]]
    ) -> RunOutcome:
        """Check that the `paths` of the case `number` belong to one program, with a record in which
        every loop has an iteration.

        Refuse the candidate if a path has an instruction that this record lacks: Python has
        computed an argument from hidden values."""
        request = Request(candidate.source, number, every_loop(paths))
        outcome = self._run(request, JudgeRequest(number))
        # there is no path if the candidate fails, for example if an index is out of bounds
        whole = outcome.entries.get("path")
        if whole is not None and differs(paths, whole):
            message = "Python computed an argument from the iterations of a device loop"
            return RunOutcome(failed(Refused("DYNAMIC", message)), outcome.isolation, outcome.cost)
        return outcome._replace(entries={"passed": True, "error": None, "shapes": []})

    def _along_its_path(self, candidate: Candidate, case: int, seed: int) -> RunOutcome:
        """Record the candidate and replay the record repeatedly, each time with more decisions.
        Stop when the record has the path that the program takes for a hidden seed. Refuse a
        candidate with more than MOST_DECISIONS decisions.

        `case`, `seed`: the indices of the case and of its hidden seed"""
        decisions: tuple[int, ...] = ()
        cost = VerdictCost()
        while True:
            request = Request(candidate.source, case, decisions)
            outcome = self._run(request, JudgeRequest(case, seed))
            cost = cost.plus(outcome.cost)
            if "decisions" not in outcome.entries:
                return outcome._replace(cost=cost)
            following = tuple(outcome.entries["decisions"])
            if not len(decisions) < len(following) <= MOST_DECISIONS:
                message = f"more than {MOST_DECISIONS} decisions depend on the values of inputs"
                return RunOutcome(failed(Refused("DYNAMIC", message)), outcome.isolation, cost)
            decisions = following

    def records(self, candidate: Candidate) -> list[bytes]:
        """Run a candidate, and return its packed records. Raise Refused if the run fails."""
        content, _ = self._zygote.played(Request(candidate.source))
        return answers.records(content)

    def _run(self, request: Request, judge_request: JudgeRequest) -> RunOutcome:
        """Run a candidate as `request` says, and judge its records as `judge_request` says."""
        content, end = self._zygote.played(request)
        cost = VerdictCost(end.cpu_ms, end.wall_ms, end.peak_mib, 0.0, len(content))
        isolation = answers.isolation(content)
        try:
            if end.refusal:
                raise Refused(end.refusal, meaning(end, self._limits))
            parts = answers.records(content)
        except Refused as refusal:
            return RunOutcome(failed(refusal), isolation, cost)
        entries, cpu_ms = self._court.judged(judge_request, parts)
        return RunOutcome(entries, isolation, cost._replace(judge_cpu_ms=cpu_ms))


def status(entries: dict[str, Any]) -> str:
    """Return one word that summarizes the entries of a verdict: passed, wrong or refused."""
    if entries["passed"]:
        return "passed"
    wrong = entries["error"]["code"] in ("WRONG_RESULT", "WRONG_DTYPE")
    return "wrong" if wrong else "refused"
