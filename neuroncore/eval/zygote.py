"""A process that forks one process for each candidate. It has loaded the modules that candidates
need. It holds only data that candidates may see: this package and public inputs.

The process reads frames (`eval.frames`) from its standard input: first a pickle of an Assignment,
and then a pickled request for each candidate. For each request, it writes two frames to its
standard output: JSON that states how the candidate's process ended, and the candidate's answer. The
answer is never unpickled."""

from __future__ import annotations

import gc
import json
import os
import pickle
import resource
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from neuroncore.eval import answers, frames, isolation
from neuroncore.eval.answers import Isolation
from neuroncore.eval.isolation import Level, ProcessLimits
from neuroncore.frontend import alias
from neuroncore.hosts.warm import warm

READY = b"ready"
ENDING = 2.0  # after its answer, a process has at least this many seconds to end
# Linux enforces the limit of CPU time by counting ticks of the clock, but reports the CPU time that
# it measures. If processes share a core, the two differ: when Linux kills a process for its limit,
# the measured time may be only this fraction of the limit.
TICKS = 0.5
FAULT = 97  # the exit code of a process that could not be set up
BY_SIGNAL = 128  # exit code BY_SIGNAL + n means that signal n ended the inner process
PIPE = 3  # the file descriptor to which a candidate's process writes its answer


class CandidateWork(Protocol):
    """The work of a candidate's process.

    `answer`: returns the bytes of the answer to a request
    `target`: the machine; the modules that its kernels need are loaded before the first fork"""

    @property
    def target(self) -> str: ...
    def answer(self, request: Any, /) -> bytes: ...


class Assignment(NamedTuple):
    """The settings for all candidates: the work, the limits, the level of isolation, the folders
    that candidates may read, and their environment variables."""

    work: CandidateWork
    limits: ProcessLimits
    level: Level
    readable: tuple[str, ...]
    environment: dict[str, str]


class End(NamedTuple):
    """The way in which a candidate's process ended.

    `refusal`: the code of a refusal, or ""
    `signal`: the signal that ended the process, or 0
    `exit`: the exit code

    The other fields are the CPU time and wall time in milliseconds, and the peak memory in MiB."""

    refusal: str
    signal: int
    exit: int
    cpu_ms: float
    wall_ms: float
    peak_mib: int


def main() -> None:
    """Serve requests until standard input is closed."""
    isolation.dies_with_parent()
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    assigned: Assignment = pickle.loads(frames.receive(requests))
    alias.activate()
    warm(assigned.work.target)
    gc.collect()
    gc.freeze()
    isolation.hidden_from_others()
    frames.send(replies, READY)
    while True:
        try:
            request = pickle.loads(frames.receive(requests))
        except EOFError:
            return
        content, end = played(request, assigned)
        frames.send(replies, json.dumps(end._asdict()).encode())
        frames.send(replies, content)


def played(request: Any, assigned: Assignment) -> tuple[bytes, End]:
    """Fork a process that runs a candidate. Return the process's answer and how it ended."""
    begun = time.perf_counter()
    reads, writes = os.pipe()
    process = os.fork()
    if process == 0:
        _child(reads, writes, request, assigned)
    os.close(writes)
    content, refusal = _answer(reads, assigned.limits)
    os.close(reads)
    remaining = max(ENDING, assigned.limits.seconds - (time.perf_counter() - begun))
    status, usage, late = _ended(process, 0.0 if refusal else remaining)
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0
    by_signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else max(0, code - BY_SIGNAL)
    cpu = usage.ru_utime + usage.ru_stime
    if not refusal:
        refusal = _refusal(by_signal, late, cpu, assigned.limits)
    wall = time.perf_counter() - begun
    return content, End(refusal, by_signal, code, 1e3 * cpu, 1e3 * wall, usage.ru_maxrss >> 10)


def _refusal(by_signal: int, late: bool, cpu: float, limits: ProcessLimits) -> str:
    if late:
        return "LINGERS"
    if by_signal == signal.SIGXCPU or (by_signal and cpu >= TICKS * limits.cpu_seconds):
        return "TIME"
    if by_signal == signal.SIGXFSZ:
        return "FILES"
    return "KILLED" if by_signal else ""


def _answer(file: int, limits: ProcessLimits) -> tuple[bytes, str]:
    """Read the answer of a candidate's process from `file`, within the limits of time and size.
    Return the bytes of the answer, and the code of a refusal, which is "" if no limit was
    exceeded."""
    parts: list[bytes] = []
    size, last = 0, time.monotonic() + limits.seconds
    while True:
        remaining = last - time.monotonic()
        if remaining <= 0 or not select.select([file], [], [], remaining)[0]:
            return b"".join(parts), "TIME"
        part = os.read(file, 1 << 20)
        if not part:
            return b"".join(parts), ""
        parts.append(part)
        size += len(part)
        if size > limits.answer:
            return b"", "BAD_ANSWER"


def _ended(process: int, seconds: float) -> tuple[int, Any, bool]:
    """Wait for a process, and end it and its whole process group after `seconds`. Return three
    results:

    1. the status of the process,
    2. the resources that it used (`resource.getrusage`),
    3. a flag: whether it exceeded `seconds`. If `seconds` is 0, the flag is False."""
    last = time.monotonic() + seconds
    while True:
        done, status, usage = os.wait4(process, os.WNOHANG)
        if done:
            return status, usage, False
        if time.monotonic() >= last:
            break
        time.sleep(0.0005)
    try:
        os.killpg(process, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(process, signal.SIGKILL)
    _, status, usage = os.wait4(process, 0)
    return status, usage, seconds > 0


def _child(reads: int, writes: int, request: Any, assigned: Assignment) -> None:
    """Run one candidate in this process, and end the process. This function never returns."""
    try:
        os.close(reads)
        os.setsid()
        isolation.dies_with_parent()
        _close_files(writes)
        os.environ.clear()
        os.environ.update(assigned.environment)
        granted = _isolated(assigned)
        isolation.hidden_from_others()
        isolation.limit(assigned.limits)
        answers.write(PIPE, answers.ISOLATION.pack(*granted))
        answers.write(PIPE, assigned.work.answer(request))
        os._exit(0)
    except BaseException:
        os._exit(FAULT)


def _close_files(writes: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    kept = writes if writes == PIPE else os.dup2(writes, PIPE)
    for number in range(PIPE):
        os.dup2(nothing, number)
    os.closerange(kept + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _isolated(assigned: Assignment) -> Isolation:
    """Isolate the process that will run the candidate, and return the isolation that the operating
    system grants.

    If the system grants namespaces, this process forks a child, which is the first process of the
    new namespaces. This function then returns only in the child. The parent waits until the child
    ends, and ends too."""
    if assigned.level != "linux":
        return Isolation()
    namespaces = isolation.unshare()
    if namespaces:
        inner = os.fork()
        if inner:
            os.close(PIPE)
            _pass_on(os.waitpid(inner, 0)[1])
        isolation.dies_with_parent()
    return isolation.restrict(assigned.readable)._replace(namespaces=int(namespaces))


def _pass_on(status: int) -> None:
    """End this process with the exit code or the signal of the inner process."""
    if os.WIFSIGNALED(status):
        os._exit(BY_SIGNAL + os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def readable() -> tuple[str, ...]:
    """Return the folders and files that a candidate may read: Python, its packages, this package,
    the system's libraries, and two devices."""
    package = Path(__file__).absolute().parents[1]
    siblings = [str(package.parent / name) for name in ("isa", "kernels")]
    system = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/dev/null", "/dev/urandom")
    return (*system, sys.prefix, sys.base_prefix, str(package), *siblings)
