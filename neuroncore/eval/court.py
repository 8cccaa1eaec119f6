"""The process that judges. It is a fork of a Worker's process with separate limits, and never runs
a candidate.

A request contains the records of one run of a candidate. One process judges many requests, because
a fork takes longer than judging a small record. It is replaced after MOST requests. It is also
replaced after a damaged or illegal record, which may have changed data that later verdicts depend
on."""

from __future__ import annotations

import json
import os
import pickle
import resource
import signal
import stat
from collections.abc import Callable
from typing import Any, NamedTuple

from neuroncore.eval import frames
from neuroncore.eval.isolation import ProcessLimits, dies_with_parent
from neuroncore.eval.refusals import Refused, failed

MOST = 200  # the most requests that one process judges
# codes of errors that a legal record may have
LEGAL_RECORDS = ("WRONG_RESULT", "WRONG_DTYPE", "DYNAMIC")
Judge = Callable[[Any, list[bytes]], dict[str, Any]]


class Judged(NamedTuple):
    """The entries of a verdict for one request, and the milliseconds of CPU time that judging
    took."""

    entries: dict[str, Any]
    cpu_ms: float


class JudgeProcess(NamedTuple):
    """A process that judges: its id, the file descriptor for requests, and the file descriptor for
    replies."""

    process: int
    requests: int
    replies: int


class Court:
    """Judges candidates in a separate process, which calls `judge` with a request and the
    candidate's records. A Court must be closed."""

    def __init__(self, judge: Judge, limits: ProcessLimits) -> None:
        self._judge, self._limits = judge, limits
        self._running: JudgeProcess | None = None
        self._count, self._spent = 0, 0.0  # requests that were judged, and milliseconds of CPU time

    def judged(self, request: Any, parts: list[bytes]) -> Judged:
        """Judge the packed records `parts` as `request` says. If judging exceeds the limits of time
        or memory, the code of the verdict is RECORD_LIMITS. If neuroncore itself fails, the code is
        JUDGE_FAULT."""
        if self._running is None:
            self._running = _started(self._judge, self._limits)
            self._count, self._spent = 0, 0.0
        try:
            frames.send(self._running.requests, pickle.dumps((request, parts)))
            reply = Judged(*json.loads(frames.receive(self._running.replies)))
        except (EOFError, OSError):
            return self._ended()
        self._count, self._spent = self._count + 1, self._spent + reply.cpu_ms
        if self._count >= MOST or not _is_well_formed(reply.entries):
            self.close()
        return reply

    def _ended(self) -> Judged:
        """Return the verdict for a process that ended while it judged records."""
        status, used = self.close()
        message = f"judging ended with status {status}: it took more time or memory than is allowed"
        return Judged(failed(Refused("RECORD_LIMITS", message)), max(0.0, used - self._spent))

    def close(self) -> tuple[int, float]:
        """End the process. Return the status and the milliseconds of CPU time of the process."""
        if self._running is None:
            return 0, 0.0
        process, *pipes = self._running
        self._running = None
        for pipe in pipes:
            os.close(pipe)
        _, status, used = os.wait4(process, 0)
        return status, 1e3 * (used.ru_utime + used.ru_stime)


def _is_well_formed(entries: dict[str, Any]) -> bool:
    error = entries.get("error")
    return error is None or error["code"] in LEGAL_RECORDS


def _started(judge: Judge, limits: ProcessLimits) -> JudgeProcess:
    reads, requests = os.pipe()
    replies, writes = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            _serve(judge, limits, reads, writes)
        finally:
            os._exit(0)
    os.close(reads)
    os.close(writes)
    return JudgeProcess(process, requests, replies)


def _serve(judge: Judge, limits: ProcessLimits, reads: int, writes: int) -> None:
    """Judge requests until the parent closes the pipe. This runs in the process that judges."""
    dies_with_parent()
    _close_pipes((reads, writes))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, limits.judge_memory)
    while True:
        try:
            request, parts = pickle.loads(frames.receive(reads))
        except EOFError:
            return
        begun = _seconds()
        _limit(resource.RLIMIT_CPU, int(begun) + 1 + limits.judge_seconds)
        entries = _entries(judge, request, parts)
        frames.send(writes, json.dumps([entries, 1e3 * (_seconds() - begun)]).encode())


def _limit(kind: int, value: int) -> None:
    """Set a limit of this process, as far as the system allows. The process can raise it again."""
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _entries(judge: Judge, request: Any, parts: list[bytes]) -> dict[str, Any]:
    try:
        return judge(request, parts)
    except MemoryError:
        return failed(Refused("RECORD_LIMITS", "judging takes more memory than is allowed"))
    except Exception as error:
        return failed(Refused("JUDGE_FAULT", f"an error in neuroncore: {error!r}"))


def _close_pipes(kept: tuple[int, ...]) -> None:
    """Close the pipes and sockets that this process has inherited from its parent, except `kept`.

    The reader of a pipe sees the end of the data only after all copies of the pipe's other end are
    closed. Inherited pipes are such copies."""
    for name in os.listdir("/dev/fd"):
        number = int(name)
        try:
            mode = os.fstat(number).st_mode
        except OSError:
            continue  # listdir has opened and closed this file itself
        if number > 2 and number not in kept and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            os.close(number)


def _seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
