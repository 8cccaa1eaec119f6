"""One judge, and one process that forks candidates, for one specification.

A case is one shape of the specification with its inputs. A path is the sequence of instructions
that a program takes for the values of one hidden seed (`eval.paths`).
"""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from neuroncore.base.lazy import version
from neuroncore.eval import answers
from neuroncore.eval.answers import Held
from neuroncore.eval.child import Request, Task
from neuroncore.eval.court import Court
from neuroncore.eval.forking import Zygote, meaning
from neuroncore.eval.isolation import Level, ProcessLimits
from neuroncore.eval.judge import Case, cases, judged, one_seed, path
from neuroncore.eval.paths import every_loop, strange
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

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.source.encode()).hexdigest()

    def key(self, spec: Spec) -> str:
        """Return the key of the verdict, from the candidate, the specification and this version."""
        return key(self.sha256, spec.fingerprint())


def key(sha256: str, fingerprint: str) -> str:
    """Return the key of a verdict, from the hashes of a candidate and of a specification. If the
    judge has drawn the secret, it is not part of the key, because the specification does not
    contain it."""
    text = f"{sha256} {fingerprint} {version('neuroncore')}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class VerdictCost(NamedTuple):
    """The cost of a verdict: CPU and wall time in milliseconds and peak memory in MiB of the
    candidate's processes, CPU time of the judge's process, and bytes of records."""

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


class Ran(NamedTuple):
    """The result of one run of a candidate: the entries of a verdict that the judge found, the
    isolation that held, and the cost."""

    found: dict[str, Any]
    held: Held
    cost: VerdictCost


class Asked(NamedTuple):
    """A question to the judge about records: about all cases (`case` is None), about one case with
    one hidden seed, or, if only `seed` is None, about the path of a case."""

    case: int | None = None
    seed: int | None = None


class Worker:
    """Judges candidates of one specification, one after the other. It must be closed."""

    def __init__(
        self, spec: Spec, level: Level, limits: ProcessLimits, *, why: bool = False
    ) -> None:
        """Make the cases and start the processes. Raise UsageError as `eval.judge.cases` does."""
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
        """End the processes that judge and that fork candidates."""
        self._court.close()
        self._zygote.close()

    def verdict(self, candidate: Candidate) -> dict[str, Any]:
        """Return the verdict on a candidate, which can be written as JSON."""
        ran = self._seed_by_seed(candidate) if self.spec.dynamic else self._at_once(candidate)
        found, shapes = ran.found, ran.found["shapes"]
        return {
            "schema": SCHEMA,
            "candidate": candidate.name,
            "sha256": candidate.sha256,
            "spec": self.spec.name,
            "version": version("neuroncore"),
            "passed": found["passed"],
            "status": status(found),
            "latency_us": shapes[0]["latency_us"] if found["passed"] else None,
            "error": found["error"],
            "shapes": shapes,
            "isolation": {"level": self.level, **ran.held._asdict()},
            "cost": ran.cost._asdict(),
            "repeat": {"spec": self.spec.source, "secret": self.spec.secret},
        }

    def _at_once(self, candidate: Candidate) -> Ran:
        """Judge the records of all cases, which come in one answer."""
        return self._ran(Request(candidate.source), Asked())

    def _judge(self, asked: Asked, parts: list[bytes]) -> dict[str, Any]:
        """Return the judge's answer to a question about packed records. This runs in the process
        that judges."""
        if asked.case is None:
            return judged(parts, self.spec, self.cases, why=self.why)
        case = self.cases[asked.case]
        if asked.seed is None:
            return path(parts, self.spec, case)
        return one_seed(parts, self.spec, case, asked.seed, why=self.why)

    def _seed_by_seed(self, candidate: Candidate) -> Ran:
        """Run the candidate again for each hidden seed, because the values of a seed may lead to
        another path. The candidate receives the values that decide the path, and no other hidden
        data."""
        shapes: list[dict[str, Any]] = []
        held, cost = Held(), VerdictCost()
        for number in range(len(self.cases)):
            for ran in self._paths(candidate, number):
                held, cost = ran.held, cost.plus(ran.cost)
                if not ran.found["passed"]:
                    return Ran({**ran.found, "shapes": shapes}, held, cost)
                shapes += ran.found["shapes"]
        return Ran({"passed": True, "error": None, "shapes": shapes}, held, cost)

    def _paths(self, candidate: Candidate, number: int) -> Iterator[Ran]:
        """Judge the paths of all hidden seeds of the case `number`, and yield the result for each.
        Then yield the result of a check that all paths belong to one program, and a last result
        with the figures of the shape."""
        found: list[dict[str, Any]] = []
        for seed in range(len(self.cases[number].hidden)):
            ran = self._along_its_path(candidate, number, seed)
            found.append(ran.found)
            yield ran._replace(found={**ran.found, "shapes": []})
        whole = self._one_program(candidate, number, [one["path"] for one in found])
        yield whole
        parts = [one["shapes"][0] for one in found]
        slowest = max(parts, key=lambda one: float(one["latency_us"]))
        shape = {**slowest, "seeds": [one["seeds"][0] for one in parts]}
        yield Ran({"passed": True, "error": None, "shapes": [shape]}, whole.held, VerdictCost())

    def _one_program(self, candidate: Candidate, number: int, found: list[dict[str, Any]]) -> Ran:
        """Record a path in which every loop has an iteration, and check that the other paths,
        `found`, have no instruction that this one lacks. Otherwise Python computed something from
        hidden values."""
        ran = self._ran(Request(candidate.source, number, every_loop(found)), Asked(number))
        made = ran.found.get("path")  # none if it can't be recorded, such as an index out of bounds
        if made is not None and strange(found, made):
            message = "Python computed an argument from the iterations of a loop on the device"
            return Ran(failed(Refused("DYNAMIC", message)), ran.held, ran.cost)
        return ran._replace(found={"passed": True, "error": None, "shapes": []})

    def _along_its_path(self, candidate: Candidate, case: int, seed: int) -> Ran:
        """Record and replay repeatedly, each time with more decisions, until the record has the
        path of a hidden seed of a case. Refuse a candidate with more than MOST_DECISIONS
        decisions."""
        decisions: tuple[int, ...] = ()
        cost = VerdictCost()
        while True:
            ran = self._ran(Request(candidate.source, case, decisions), Asked(case, seed))
            cost = cost.plus(ran.cost)
            if "decisions" not in ran.found:
                return ran._replace(cost=cost)
            following = tuple(ran.found["decisions"])
            if not len(decisions) < len(following) <= MOST_DECISIONS:
                message = f"more than {MOST_DECISIONS} decisions depend on the values of inputs"
                return Ran(failed(Refused("DYNAMIC", message)), ran.held, cost)
            decisions = following

    def records(self, candidate: Candidate) -> list[bytes]:
        """Return the packed records of a candidate. Raises Refused if it has none."""
        content, _ = self._zygote.played(Request(candidate.source))
        return answers.records(content)

    def _ran(self, request: Request, asked: Asked) -> Ran:
        """Run a candidate, and judge its records."""
        content, end = self._zygote.played(request)
        cost = VerdictCost(end.cpu_ms, end.wall_ms, end.peak_mib, 0.0, len(content))
        held = answers.held(content)
        try:
            if end.refusal:
                raise Refused(end.refusal, meaning(end, self._limits))
            parts = answers.records(content)
        except Refused as refusal:
            return Ran(failed(refusal), held, cost)
        found, used = self._court.judged(asked, parts)
        return Ran(found, held, cost._replace(judge_cpu_ms=used))


def status(found: dict[str, Any]) -> str:
    """Return one word for a verdict: passed, wrong or refused."""
    if found["passed"]:
        return "passed"
    wrong = found["error"]["code"] in ("WRONG_RESULT", "WRONG_DTYPE")
    return "wrong" if wrong else "refused"
