"""One judge and one process that forks candidates, for one specification."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from neuroncore.base.lazy import version
from neuroncore.eval import answers
from neuroncore.eval.answers import Held
from neuroncore.eval.child import Request, Task
from neuroncore.eval.forking import Zygote, meaning
from neuroncore.eval.isolation import Level, Limits, dies_with_parent
from neuroncore.eval.judge import Case, cases, judged, one_seed, path
from neuroncore.eval.paths import every_loop, strange
from neuroncore.eval.refusals import Refused
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
        """Identifies the verdict: the candidate, the specification and this version."""
        return key(self.sha256, spec.fingerprint())


def key(sha256: str, fingerprint: str) -> str:
    """Return the key of a verdict by the hashes of a candidate and a specification. A secret that
    was drawn is no part of it: the specification does not ask for this one."""
    text = f"{sha256} {fingerprint} {version('neuroncore')}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class Cost(NamedTuple):
    """What a verdict cost: of the candidate's processes, and of the judge's."""

    child_cpu_ms: float = 0.0
    wall_ms: float = 0.0
    peak_mib: int = 0
    judge_cpu_ms: float = 0.0
    record_bytes: int = 0

    def plus(self, other: Cost) -> Cost:
        """Return the sum; of memory the peak."""
        return Cost(
            self.child_cpu_ms + other.child_cpu_ms,
            self.wall_ms + other.wall_ms,
            max(self.peak_mib, other.peak_mib),
            self.judge_cpu_ms + other.judge_cpu_ms,
            self.record_bytes + other.record_bytes,
        )


class Ran(NamedTuple):
    """A candidate's run, judged: what was found, the isolation that held, and the cost."""

    found: dict[str, Any]
    held: Held
    cost: Cost


Judge = Callable[[list[bytes]], dict[str, Any]]


class Worker:
    """Judges candidates of one specification, one after the other. It must be closed."""

    def __init__(self, spec: Spec, level: Level, limits: Limits, *, why: bool = False) -> None:
        """Raises UsageError as `eval.judge.cases` does."""
        self.spec, self.level, self.why = spec.with_secret(), level, why
        self.cases: list[Case] = cases(self.spec)
        public = [case.public for case in self.cases]
        task = Task(tuple(spec.entry), spec.target, spec.options, public, spec.prelude)
        self._limits = limits
        warm(spec.target)
        gc.collect()
        gc.freeze()
        self._zygote = Zygote(task, limits, level)

    def close(self) -> None:
        """End the process that forks candidates."""
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
        """Judge one answer with the records of all cases."""
        return self._ran(Request(candidate.source), self._judge_all)

    def _judge_all(self, parts: list[bytes]) -> dict[str, Any]:
        return judged(parts, self.spec, self.cases, why=self.why)

    def _seed_by_seed(self, candidate: Candidate) -> Ran:
        """Record the program again for each hidden seed, whose values may take other paths. The
        candidate is told the values that decide, and nothing else of the hidden inputs."""
        shapes: list[dict[str, Any]] = []
        held, cost = Held(), Cost()
        for number in range(len(self.cases)):
            for ran in self._paths(candidate, number):
                held, cost = ran.held, cost.plus(ran.cost)
                if not ran.found["passed"]:
                    return Ran({**ran.found, "shapes": shapes}, held, cost)
                shapes += ran.found["shapes"]
        return Ran({"passed": True, "error": None, "shapes": shapes}, held, cost)

    def _paths(self, candidate: Candidate, number: int) -> Iterator[Ran]:
        """Judge the paths of all hidden seeds of a case; the last Run has its shape."""
        found: list[dict[str, Any]] = []
        for seed in range(len(self.cases[number].hidden)):
            ran = self._along_its_path(candidate, number, seed)
            found.append(ran.found)
            yield ran._replace(found={**ran.found, "shapes": []})
        yield self._one_program(candidate, number, [one["path"] for one in found])
        parts = [one["shapes"][0] for one in found]
        slowest = max(parts, key=lambda one: float(one["latency_us"]))
        shape = {**slowest, "seeds": [one["seeds"][0] for one in parts]}
        yield Ran({"passed": True, "error": None, "shapes": [shape]}, ran.held, Cost())

    def _one_program(self, candidate: Candidate, number: int, found: list[dict[str, Any]]) -> Ran:
        """Record a path on which every loop has a turn, and look for instructions that only the
        other paths have."""

        def judge(parts: list[bytes]) -> dict[str, Any]:
            return path(parts, self.spec, self.cases[number])

        ran = self._ran(Request(candidate.source, number, every_loop(found)), judge)
        made = ran.found.get("path")  # none if it can't be recorded, such as an index out of bounds
        if made is not None and strange(found, made):
            message = "Python computed an argument from the turns of a loop of the device"
            return Ran(_failed(Refused("DYNAMIC", message)), ran.held, ran.cost)
        return ran._replace(found={"passed": True, "error": None, "shapes": []})

    def _along_its_path(self, candidate: Candidate, case: int, seed: int) -> Ran:
        """Record and replay until the program takes the path of a hidden seed."""

        def judge(parts: list[bytes]) -> dict[str, Any]:
            return one_seed(parts, self.spec, self.cases[case], seed, why=self.why)

        decisions: tuple[int, ...] = ()
        cost = Cost()
        while True:
            ran = self._ran(Request(candidate.source, case, decisions), judge)
            cost = cost.plus(ran.cost)
            if "decisions" not in ran.found:
                return ran._replace(cost=cost)
            following = tuple(ran.found["decisions"])
            if not len(decisions) < len(following) <= MOST_DECISIONS:
                message = f"more than {MOST_DECISIONS} decisions depend on the values of inputs"
                return Ran(_failed(Refused("DYNAMIC", message)), ran.held, cost)
            decisions = following

    def records(self, candidate: Candidate) -> list[bytes]:
        """Return the packed records of a candidate. Raises Refused if it has none."""
        content, _ = self._zygote.played(Request(candidate.source))
        return answers.records(content)

    def _ran(self, request: Request, judge: Judge) -> Ran:
        """Run a candidate, and judge its records."""
        content, end = self._zygote.played(request)
        cost = Cost(end.cpu_ms, end.wall_ms, end.peak_mib, 0.0, len(content))
        held = answers.held(content)
        try:
            if end.refusal:
                raise Refused(end.refusal, meaning(end, self._limits))
            parts = answers.records(content)
        except Refused as refusal:
            return Ran(_failed(refusal), held, cost)
        found, used = apart(judge, parts, self._limits)
        return Ran(found, held, cost._replace(judge_cpu_ms=used))


def apart(judge: Judge, parts: list[bytes], limits: Limits) -> tuple[dict[str, Any], float]:
    """Judge in a fork within limits, so that no record harms later verdicts; return what was found
    and the milliseconds of CPU time."""
    reads, writes = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reads)
        _judge_and_end(judge, parts, limits, writes)
    os.close(writes)
    with os.fdopen(reads, "rb") as file:
        text = file.read()
    _, ended, used = os.wait4(process, 0)
    cpu = 1e3 * (used.ru_utime + used.ru_stime)
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError:
        message = f"judging ended with status {ended}: more than its time or memory"
        return _failed(Refused("RECORD_LIMITS", message)), cpu
    return found, cpu


def _judge_and_end(judge: Judge, parts: list[bytes], limits: Limits, writes: int) -> None:
    """Judge, write the result, and end this process."""
    try:
        dies_with_parent()
        for kind, value in (
            (resource.RLIMIT_CPU, limits.judge_seconds),
            (resource.RLIMIT_AS, limits.judge_memory),
        ):
            resource.setrlimit(kind, (value, value))
        answers.write(writes, json.dumps(judge(parts)).encode())
    except MemoryError:
        os._exit(1)
    except BaseException as error:
        fault = Refused("JUDGE_FAULT", f"a fault of neuroncore: {error!r}"[:400])
        answers.write(writes, json.dumps(_failed(fault)).encode())
    finally:
        os._exit(0)


def _failed(refusal: Refused) -> dict[str, Any]:
    return {"passed": False, "error": refusal.to_dict(), "shapes": []}


def status(found: dict[str, Any]) -> str:
    """Return one word for a verdict: passed, wrong or refused."""
    if found["passed"]:
        return "passed"
    wrong = found["error"]["code"] in ("WRONG_RESULT", "WRONG_DTYPE")
    return "wrong" if wrong else "refused"
