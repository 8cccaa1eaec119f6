"""One judge and one process that forks candidates, for one specification."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import pickle
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuroncore.base.lazy import version
from neuroncore.eval import answers, frames
from neuroncore.eval.child import Task
from neuroncore.eval.isolation import Level, Limits, dies_with_parent
from neuroncore.eval.judge import Case, cases, judged
from neuroncore.eval.refusals import Refused
from neuroncore.eval.spec import Spec
from neuroncore.eval.zygote import READY, Assignment, End, Request, readable
from neuroncore.hosts.warm import warm

PROGRAM = "from neuroncore.eval.zygote import main; main()"
SCHEMA = "neuroncore.eval/1"
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
JUDGE_SECONDS, JUDGE_MEMORY = 120, 8 << 30
TRIES = 2  # how often a candidate is given to a new process if the one that forks ends


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
        text = f"{self.sha256} {spec.fingerprint()} {version('neuroncore')}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]


class Worker:
    """Judges candidates of one specification, one after the other. It must be closed."""

    def __init__(self, spec: Spec, level: Level, limits: Limits) -> None:
        """Raises UsageError as `eval.judge.cases` does."""
        self.spec, self.level = spec, level
        self.cases: list[Case] = cases(spec)
        public = [case.public for case in self.cases]
        task = Task(tuple(spec.entry), spec.target, spec.options, public)
        self._assignment = Assignment(task, limits, level, readable(), _environment())
        warm(spec.target)
        gc.collect()
        gc.freeze()
        self._zygote = self._started()

    def close(self) -> None:
        """End the process that forks candidates."""
        for pipe in (self._zygote.stdin, self._zygote.stdout):
            if pipe is not None:
                pipe.close()
        self._zygote.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        root = str(Path(__file__).parents[2])
        environment = {**_environment(), "PYTHONPATH": root}
        zygote = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
            bufsize=0,
        )
        assert zygote.stdin is not None and zygote.stdout is not None
        frames.send(zygote.stdin.fileno(), pickle.dumps(self._assignment))
        if frames.receive(zygote.stdout.fileno()) != READY:
            raise RuntimeError("the process that forks candidates did not start")
        return zygote

    def verdict(self, candidate: Candidate) -> dict[str, Any]:
        """Return the verdict on a candidate, which can be written as JSON."""
        content, end = self._played(candidate)
        found, cost = self._judged(content, end)
        shapes = found["shapes"]
        return {
            "schema": SCHEMA,
            "candidate": candidate.name,
            "sha256": candidate.sha256,
            "spec": self.spec.name,
            "key": candidate.key(self.spec),
            "version": version("neuroncore"),
            "passed": found["passed"],
            "status": status(found),
            "latency_us": shapes[0]["latency_us"] if found["passed"] else None,
            "error": found["error"],
            "shapes": shapes,
            "isolation": {"level": self.level, **answers.held(content)._asdict()},
            "cost": {**cost, "record_bytes": len(content)},
        }

    def records(self, candidate: Candidate) -> list[bytes]:
        """Return the packed records of a candidate. Raises Refused if it has none."""
        content, _ = self._played(candidate)
        return answers.records(content)

    def _played(self, candidate: Candidate) -> tuple[bytes, End]:
        """Give a candidate to the process that forks, which is started again if it has ended."""
        for _ in range(TRIES):
            try:
                return self._asked(Request(candidate.source))
            except (EOFError, OSError, ValueError):
                self._zygote.kill()
                self.close()
                self._zygote = self._started()
        return b"", End("KILLED", 0, 0, 0.0, 0.0, 0)

    def _asked(self, request: Request) -> tuple[bytes, End]:
        stdin, stdout = self._zygote.stdin, self._zygote.stdout
        assert stdin is not None and stdout is not None
        frames.send(stdin.fileno(), pickle.dumps(request))
        end = End(**json.loads(frames.receive(stdout.fileno())))
        return frames.receive(stdout.fileno()), end

    def _judged(self, content: bytes, end: End) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what was found, and what it cost."""
        cost = {"child_cpu_ms": end.cpu_ms, "wall_ms": end.wall_ms, "peak_mib": end.peak_mib}
        try:
            if end.refusal:
                raise Refused(end.refusal, _meaning(end, self._assignment.limits))
            parts = answers.records(content)
        except Refused as refusal:
            return {"passed": False, "error": refusal.to_dict(), "shapes": []}, cost
        found, used = self._apart(parts)
        return found, {**cost, "judge_cpu_ms": used}

    def _apart(self, parts: list[bytes]) -> tuple[dict[str, Any], float]:
        """Judge in a fork with limits of its own, so that no record harms later verdicts."""
        reads, writes = os.pipe()
        process = os.fork()
        if process == 0:
            os.close(reads)
            self._judge_and_end(parts, writes)
        os.close(writes)
        with os.fdopen(reads, "rb") as file:
            text = file.read()
        _, status, used = os.wait4(process, 0)
        cpu = 1e3 * (used.ru_utime + used.ru_stime)
        try:
            found: dict[str, Any] = json.loads(text)
        except ValueError:
            message = f"judging ended with status {status}: more than its time or memory"
            refused = Refused("RECORD_LIMITS", message)
            return {"passed": False, "error": refused.to_dict(), "shapes": []}, cpu
        return found, cpu

    def _judge_and_end(self, parts: list[bytes], writes: int) -> None:
        """Judge, write the result, and end this process."""
        try:
            dies_with_parent()
            for kind, value in (
                (resource.RLIMIT_CPU, JUDGE_SECONDS),
                (resource.RLIMIT_AS, JUDGE_MEMORY),
            ):
                resource.setrlimit(kind, (value, value))
            found = judged(parts, self.spec, self.cases)
            answers.write(writes, json.dumps(found).encode())
        except MemoryError:
            os._exit(1)
        except BaseException as error:
            fault = Refused("JUDGE_FAULT", f"a fault of neuroncore: {error!r}"[:400])
            told = {"passed": False, "error": fault.to_dict(), "shapes": []}
            answers.write(writes, json.dumps(told).encode())
        finally:
            os._exit(0)


def status(found: dict[str, Any]) -> str:
    """Return one word for a verdict: passed, wrong or refused."""
    if found["passed"]:
        return "passed"
    wrong = found["error"]["code"] in ("WRONG_RESULT", "WRONG_DTYPE")
    return "wrong" if wrong else "refused"


def _meaning(end: End, limits: Limits) -> str:
    if end.refusal == "TIME":
        return f"more than {limits.cpu_seconds} s of CPU time or {limits.seconds:g} s"
    if end.refusal == "LINGERS":
        return "the candidate's process went on after its answer, and was ended"
    if end.refusal == "BAD_ANSWER":
        return f"an answer of more than {limits.answer >> 20} MiB"
    if end.signal:
        return f"the candidate's process ended by signal {end.signal}"
    return "the candidate's process ended"


def _environment() -> dict[str, str]:
    """The environment of candidates: nothing of the user's but the folder of compiled loops."""
    kept = {
        name: os.environ[name]
        for name in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "HOME")
        if name in os.environ
    }
    fixed = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "NEURONCORE_PROGRESS": "0"}
    return {**fixed, **dict.fromkeys(ONE_THREAD, "1"), **kept}
