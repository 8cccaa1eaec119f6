"""Judges many candidates: in this process, in several processes, or on the workers of Dask."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

from neuroncore.base import jit
from neuroncore.base.errors import UsageError
from neuroncore.eval import isolation
from neuroncore.eval.isolation import Level, ProcessLimits
from neuroncore.eval.loading import load_spec
from neuroncore.eval.spec import Spec
from neuroncore.eval.worker import Candidate, Worker, key

BATCH = 16  # the most candidates in one batch; a process judges one batch at a time
ATTEMPTS = 3  # how often batches are tried if processes of the pool are killed
LIMITS = ProcessLimits()
Verdict = dict[str, Any]
Batch = tuple[Candidate, ...]


class Executor(Protocol):
    """A class that judges each batch of candidates in another process, by calling `judged_batch`
    there. Its method `run` yields a list of verdicts for each batch, in the order in which the
    batches finish."""

    def run(self, setting: JudgingSetting, batches: Sequence[Batch]) -> Iterator[list[Verdict]]: ...


@dataclass(frozen=True)
class JudgingSetting:
    """The settings of a process that judges.

    `spec`: the argument of `load_spec`
    `secret`: the number that determines the hidden seeds
    `level`: the isolation of candidates
    `why`: whether verdicts contain the bottleneck and what-ifs (`eval.metrics`)"""

    spec: str
    secret: int
    level: Level
    limits: ProcessLimits
    why: bool


_workers: dict[JudgingSetting, Worker] = {}  # the Workers of this process


def judged_batch(setting: JudgingSetting, batch: Batch) -> list[Verdict]:
    """Judge a batch of candidates in this process, and return the verdicts. The Worker for the
    setting is kept for later batches."""
    worker = _workers.get(setting)
    if worker is None:
        isolation.dies_with_parent()
        spec = replace(load_spec(setting.spec), secret=setting.secret)
        worker = Worker(spec, setting.level, setting.limits, why=setting.why)
        _workers[setting] = worker
    return [worker.verdict(candidate) for candidate in batch]


@dataclass(frozen=True)
class Processes:
    """Judges batches in `jobs` new processes on this machine."""

    jobs: int

    def run(self, setting: JudgingSetting, batches: Sequence[Batch]) -> Iterator[list[Verdict]]:
        remaining = dict(enumerate(batches))
        for _ in range(ATTEMPTS):
            try:
                for number, verdicts in self._once(setting, remaining):
                    del remaining[number]
                    yield verdicts
            except BrokenProcessPool:
                continue  # a process was killed: the unfinished batches are in `remaining`
            return
        raise UsageError("processes of the pool were killed repeatedly")

    def _once(
        self, setting: JudgingSetting, remaining: dict[int, Batch]
    ) -> Iterator[tuple[int, list[Verdict]]]:
        context = get_context("spawn")
        with futures.ProcessPoolExecutor(self.jobs, context, jit.no_progress) as pool:
            submitted = {
                pool.submit(judged_batch, setting, batch): n for n, batch in remaining.items()
            }
            for future in futures.as_completed(submitted):
                yield submitted.pop(future), future.result()  # verdicts are not kept


@dataclass(frozen=True)
class Dask:
    """Judges batches on the workers of the Dask scheduler at `address`. This needs the extra
    `dask`."""

    address: str

    def run(self, setting: JudgingSetting, batches: Sequence[Batch]) -> Iterator[list[Verdict]]:
        distributed: Any = import_module("distributed")  # its functions have no annotations
        with distributed.Client(self.address) as client:
            results = distributed.as_completed(
                client.submit(judged_batch, setting, batch, pure=False) for batch in batches
            )
            for future in results:
                yield future.result()


@dataclass(frozen=True)
class Pool:
    """The settings for judging candidates.

    `jobs`: the number of processes
    `level`: the isolation of candidates; by default the strongest that this system supports
    `cache`: a folder for verdicts, which are used again for the same candidate, specification and
        version
    `executor`: if given, it judges the batches in place of the processes
    `why`: whether verdicts of candidates that pass have the bottleneck and the three best what-ifs
        (`eval.metrics`)"""

    jobs: int = 1
    level: Level | None = None
    limits: ProcessLimits = LIMITS
    cache: Path | None = None
    executor: Executor | None = None
    why: bool = False


def evaluate(
    spec: Spec, candidates: Iterable[Candidate | str | Path], pool: Pool | None = None
) -> Iterator[Verdict]:
    """Judge candidates, which are paths of files or Candidates. Yield a verdict for each, in the
    order in which the verdicts are ready.

    Raise UsageError if a candidate can't be read, or if the reference of the specification is
    invalid. Raise UsageError also if several processes are used and the specification does not come
    from a file."""
    pool = pool or Pool()
    fingerprint = spec.fingerprint()
    remaining: list[Candidate] = []
    for given in candidates:
        candidate = given if isinstance(given, Candidate) else Candidate.of_file(given)
        known = _kept(candidate, spec, pool)
        if known is None:
            remaining.append(candidate)
        else:
            yield known
    for entries in _verdicts(spec.with_secret(), remaining, pool):
        verdict = {**entries, "key": key(entries["sha256"], fingerprint)}
        if pool.cache is not None:
            pool.cache.mkdir(parents=True, exist_ok=True)
            (pool.cache / f"{verdict['key']}.json").write_text(json.dumps(verdict), "utf-8")
        yield verdict


def _kept(candidate: Candidate, spec: Spec, pool: Pool) -> Verdict | None:
    if pool.cache is None:
        return None
    file = pool.cache / f"{candidate.key(spec)}.json"
    try:
        verdict: Verdict = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return {**verdict, "candidate": candidate.name}


def _verdicts(spec: Spec, candidates: Sequence[Candidate], pool: Pool) -> Iterator[Verdict]:
    level = pool.level or isolation.supported()
    if not candidates:
        return
    if pool.executor is None and pool.jobs == 1:
        worker = Worker(spec, level, pool.limits, why=pool.why)
        try:
            yield from map(worker.verdict, candidates)
        finally:
            worker.close()
        return
    if spec.source is None:
        raise UsageError(
            "a pool of several processes needs a Spec from a file: use neuroncore.eval.load_spec"
        )
    executor = pool.executor or Processes(pool.jobs)
    size = max(1, min(BATCH, len(candidates) // (4 * max(1, pool.jobs))))
    batches = [tuple(candidates[n : n + size]) for n in range(0, len(candidates), size)]
    assert spec.secret is not None  # `evaluate` draws one
    setting = JudgingSetting(spec.source, spec.secret, level, pool.limits, pool.why)
    for verdicts in executor.run(setting, batches):
        yield from verdicts
