"""A pytest plugin for nki-library's own suite: it runs the tests in separate processes with limits.

The parent process collects the tests once. It forks workers, gives each a share of the tests, and
receives the outcomes from them. If a worker runs out of time or dies, its current test counts as
failed, and another worker gets the other tests of its share. Modules that the public repository
lacks are replaced by substitutes; the suite is not changed. `nki_library.py` passes the settings in
NKI_LIBRARY_RUN.
"""

from __future__ import annotations

import json
import math
import os
import re
import resource
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import neuron_dtypes
import nki
import nki_cpu_simulator
import pytest
import replayed
from outcome import WITH_ZEROS, Outcome, normalised

from neuroncore.base.errors import NeuronError, NotEmulated
from neuroncore.frontend.launch import NeuronWarning

SHARE = 24  # tests of one worker, which does the work that its tests share only once
SKIPPED_SHARE = 1000
LARGEST = 3  # number of dimensions whose product is the size of a test
CROWDED = 0.25  # a worker that still uses more than this share of its memory ends early
LINES, FRAMES = 12, 4  # shown lines of a message, and frames of its traceback


@dataclass(frozen=True)
class Settings:
    log: str
    workers: int = 2
    seconds: float = 600.0
    gigabytes: float = 8.0
    only: str = ""
    replay: bool = False
    smallest: bool = False

    def wants(self) -> Callable[[str], bool]:
        """Return a function that says whether to run the test with an id: it is not in the log, and
        it is in the file `only` if there is one."""
        done = {json.loads(line)["name"] for line in Path(self.log).read_text().splitlines()}
        only = set(Path(self.only).read_text().splitlines()) if self.only else None
        return lambda name: name not in done and (only is None or name in only)


SETTINGS = Settings(**json.loads(os.environ["NKI_LIBRARY_RUN"]))


# ---- what the public repository lacks ------------------------------------------------------------


def _stand_in(name: str, **contents: Any) -> None:
    module = ModuleType(name)
    module.__path__ = []  # type: ignore[attr-defined]
    vars(module).update(contents)
    sys.modules[name] = module


class Frontend:
    """A substitute for the compiler's front end. Tests that only trace a kernel run it instead."""

    def compile(
        self, kernel: Any, inputs: Any = None, target: str = "trn2", lnc: int = 1, **_: Any
    ) -> Any:
        generations = {name: generation for generation, name in nki_cpu_simulator.TARGETS.items()}
        os.environ["NKI_NC_VERSION"] = generations.get(target, "gen3")
        given = {name.removesuffix(".must_alias_input"): v for name, v in (inputs or {}).items()}
        nki_cpu_simulator.Simulation(kernel)[lnc](**given)
        return ModuleType("compiled")


def _traced(kernel: Any, target: str, lnc: int, inputs: Any, *_: Any) -> tuple[ModuleType, None]:
    """Run a kernel, in place of the function that traces kernels in release 2.28 of the suite."""
    return Frontend().compile(kernel, inputs, target, lnc), None


def _stand_in_for_unpublished() -> None:
    _stand_in("nki.compiler.frontend", NKIFrontend=Frontend, ParserFrontend=Frontend)
    _stand_in("test.utils.perf_analysis_private", analyze_trace=None)
    _stand_in("test.utils.scripts")
    locks = {"LockStatus": type("LockStatus", (), {}), "LockResult": type("LockResult", (), {})}
    _stand_in("test.utils.scripts.remote_lock_scripts", **locks)
    try:
        import_module("neuronxcc.nki.typing")
    except ImportError:  # the suite needs only an annotation from the older API
        _stand_in("neuronxcc", nki=nki)
        _stand_in("neuronxcc.nki", typing=nki.typing)
        sys.modules["neuronxcc.nki.typing"] = nki.typing
    _stand_in(
        "neuronxcc.nki_standalone",
        NKI_IR_VERSION=SimpleNamespace(beta2=None),
        _compile_nki_ir_to_tensorizer_ir=_traced,
        _write_tensorizer_ir=lambda module, folder: None,
        compile_nki_ir_kernel_to_neff=None,
    )
    for name in ("neuronxcc.starfish", "neuronxcc.starfish.support"):
        _stand_in(name)
    sys.modules["neuronxcc.starfish.support.dtype"] = neuron_dtypes


_stand_in_for_unpublished()


# ---- which tests, in which order -----------------------------------------------------------------


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Show every finding in every test, also findings about lines that an earlier test has run."""
    kind = f"{NeuronWarning.__module__}.{NeuronWarning.__qualname__}"
    config.addinivalue_line("filterwarnings", f"always::{kind}")


@pytest.hookimpl(trylast=True)  # after -k and the suite have deselected tests
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from test.utils.test_orchestrator import Orchestrator

    import_module("ranks_of_tests").install()
    # the simulation mode reads this, but never sets it
    if not hasattr(Orchestrator, "_compiled_kernel"):
        Orchestrator._compiled_kernel = None
    wanted = SETTINGS.wants()
    items[:] = [item for item in items if wanted(item.nodeid)]
    items.sort(key=lambda item: (not _skipped(item), _size(item.name)))
    if SETTINGS.smallest:
        items[:] = _smallest(items)


def _skipped(item: pytest.Item) -> bool:
    return item.get_closest_marker("skip") is not None


def _size(name: str) -> float:
    """Return the product of the largest numbers in the name of a test. These numbers are mostly
    sizes."""
    numbers = sorted(int(n) for n in re.findall(r"\d+", name.partition("[")[2]))
    return math.prod(numbers[-LARGEST:])


def _smallest(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the first test of each test function, without tests that the suite skips. `items` is
    sorted by size."""
    first: dict[str, pytest.Item] = {}
    for item in items:
        if not _skipped(item):
            first.setdefault(item.nodeid.partition("[")[0], item)
    return list(first.values())


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        cause = str(report.longrepr).strip().splitlines()[-1]
        _log(Outcome(report.nodeid, "failed", f"not collected: {normalised(cause)}"))


def _log(outcome: Outcome) -> None:
    with Path(SETTINGS.log).open("a") as log:
        log.write(json.dumps(asdict(outcome)) + "\n")


# ---- the parent ----------------------------------------------------------------------------------


@dataclass
class Worker:
    """A forked process, the tests of its share that have not ended, and the time at which it began
    the first of them."""

    process: Any
    connection: Connection
    share: list[pytest.Item]
    since: float

    @classmethod
    def begin(cls, share: list[pytest.Item]) -> Worker:
        context = get_context("fork")
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(share, theirs))
        process.start()
        theirs.close()
        return cls(process, ours, share, time.monotonic())

    def heard(self) -> bool:
        """Receive the next outcome of the worker, and write it to the log. Return False if the
        worker has ended."""
        try:
            outcome: Outcome | None = self.connection.recv()
        except EOFError:
            self.process.join()
            if self.share:
                self.lose("failed", f"the process ended with {self.process.exitcode}")
            return False
        if outcome is not None:
            self.share, self.since = self.share[1:], time.monotonic()
            _log(outcome)
        return outcome is not None

    def overdue(self) -> bool:
        return bool(self.share) and time.monotonic() - self.since > SETTINGS.seconds

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()

    def lose(self, verdict: str, cause: str) -> None:
        """Write an outcome for the test that the worker was running, and remove the test from its
        share."""
        lost, self.share = self.share[0], self.share[1:]
        _log(Outcome(lost.nodeid, verdict, cause, time.monotonic() - self.since))


def pytest_runtestloop(session: pytest.Session) -> bool:
    if not session.config.option.collectonly:
        shares = list(_shares(session.items))
        workers: list[Worker] = []
        try:
            while shares or workers:
                while shares and len(workers) < SETTINGS.workers:
                    workers.append(Worker.begin(shares.pop(0)))
                workers = [worker for worker in workers if _attended(worker, shares)]
        finally:
            for worker in workers:
                worker.end()
    return True


def _shares(items: list[pytest.Item]) -> Iterator[list[pytest.Item]]:
    """Yield the shares of the tests. A share has SHARE tests, or SKIPPED_SHARE tests that the suite
    skips, because skipped tests take no time."""
    left = list(items)
    while left:
        size = SKIPPED_SHARE if _skipped(left[0]) else SHARE
        yield left[:size]
        del left[:size]


def _attended(worker: Worker, shares: list[list[pytest.Item]]) -> bool:
    """Wait a moment for an outcome of a worker. Return False if the worker has ended; the rest of
    its share is then put back into `shares`."""
    if wait([worker.connection], timeout=0.1):
        if worker.heard():
            return True
    elif worker.overdue():
        worker.lose("timed out", "")
    else:
        return True
    worker.end()
    if worker.share:
        shares.insert(0, worker.share)
    return False


# ---- a worker ------------------------------------------------------------------------------------


def _work(share: list[pytest.Item], connection: Connection) -> None:
    if SETTINGS.replay:
        replayed.install()
    limit = int(SETTINGS.gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    for item, following in zip(share, [*share[1:], None], strict=True):
        connection.send(_outcome(item, following))
        if following is not None and _in_use() > CROWDED * limit:
            break  # memory that failed tests and caches still use would be missing later
    connection.send(None)


def _in_use() -> int:
    """Return the bytes of memory that this process uses (proc_pid_statm(5))."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _outcome(item: pytest.Item, following: pytest.Item | None) -> Outcome:
    begun = time.monotonic()
    nki_cpu_simulator.raised = None
    watch = _watched(item, following)
    verdict, cause, details = watch.judged()
    if verdict == "failed" and watch.read_undefined and _passes_with_zeros(item, following):
        verdict = WITH_ZEROS
    return Outcome(item.nodeid, verdict, cause, time.monotonic() - begun, tuple(details))


def _watched(item: pytest.Item, following: pytest.Item | None) -> Watch:
    watch = Watch(item.nodeid)
    item.config.pluginmanager.register(watch)
    try:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    finally:
        item.config.pluginmanager.unregister(watch)
    return watch


def _passes_with_zeros(item: pytest.Item, following: pytest.Item | None) -> bool:
    """Return whether a test that failed passes if uninitialized memory reads as 0."""
    usual = nki_cpu_simulator.OPTIONS
    nki_cpu_simulator.OPTIONS = replace(usual, uninitialized="zeros")
    try:
        return _watched(item, following).judged()[0] == "passed"
    finally:
        nki_cpu_simulator.OPTIONS = usual


class Watch:
    """Collects pytest's reports about one test, and the exception that made the test fail."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.reports: list[pytest.TestReport] = []
        self.error: BaseException | None = None
        self.warned: list[str] = []  # neuroncore's warnings

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, nodeid: str
    ) -> None:  # also called for earlier tests
        if nodeid == self.name and isinstance(warning_message.message, NeuronWarning):
            self.warned += str(warning_message.message).splitlines()[:1]

    @property
    def read_undefined(self) -> bool:
        return any("[UNINIT_READ]" in line for line in self.warned)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        report = yield
        self.reports.append(report)
        if report.failed and call.excinfo and self.error is None:
            self.error = call.excinfo.value
        return report

    def judged(self) -> tuple[str, str, list[str]]:
        """Return the verdict, the cause and the details of the test."""
        refusal = nki_cpu_simulator.raised
        if self.error is not None:
            return self._failed(_root(self.error))
        for report in self.reports:
            if report.skipped:
                xfail = getattr(report, "wasxfail", None)
                return "skipped", f"xfail: {xfail}" if xfail else _reason(report), []
        if isinstance(refusal, NotEmulated):  # the test expects a refusal, but not this one
            return "refused", _described(refusal), ["negative test"]
        details = [f"negative test: {_described(refusal)}"] if refusal else []
        return "passed", "", details

    def _failed(self, root: BaseException) -> tuple[str, str, list[str]]:
        ours = isinstance(root, NeuronError)  # its message has the place
        where = [] if ours else traceback.extract_tb(root.__traceback__)[-FRAMES:]
        details = [*str(root).splitlines()[:LINES], *self.warned[:FRAMES], *self._printed()]
        details += [f"in {at.name}, {at.filename}:{at.lineno}" for at in where]
        return "refused" if ours else "failed", _described(root), details

    def _printed(self) -> list[str]:
        """Return the last lines that the suite printed, which have the errors of the results."""
        lines = [line for report in self.reports for line in report.capstdout.splitlines()]
        return list(dict.fromkeys(line[:200] for line in lines if line.strip()))[-FRAMES:]


def _root(error: BaseException) -> BaseException:
    """Return the first exception of neuroncore in the chain of causes of an error. If there is
    none, return the exception from which the suite's exceptions were raised."""
    chain = [error]
    while follows := chain[-1].__cause__ or (
        None if chain[-1].__suppress_context__ else chain[-1].__context__
    ):
        chain.append(follows)
    ours = [e for e in chain if isinstance(e, NeuronError)]
    if ours:
        return ours[0]
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _described(error: BaseException) -> str:
    kind = getattr(error, "code", None) if isinstance(error, NeuronError) else None
    statement = getattr(error, "statement", None) or str(error)
    if isinstance(error, AttributeError):  # its message has only names
        return f"AttributeError: {statement}"
    return f"{kind or type(error).__name__}: {normalised(statement)}"


def _reason(report: pytest.TestReport) -> str:
    where = report.longrepr
    said = str(where[2] if isinstance(where, tuple) else where)
    return said.removeprefix("Skipped: ")
