"""A pytest plugin for tests of kernels. It is off by default.

`--neuroncore`, `neuroncore = true` in the configuration or `-p neuroncore.pytest` turns the plugin
on, also in workers of pytest-xdist. Then `import nki` works, and errors of kernels have the message
that `neuroncore run` prints. A test fails if a launch has an error or a warning among its findings,
for example because the kernel issues no instruction."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from neuroncore.base.errors import KernelError, NotEmulated
from neuroncore.base.lazy import Lazy
from neuroncore.hosts import budgets
from neuroncore.hosts.assertions import KernelTest

if TYPE_CHECKING:
    from neuroncore.frontend import alias, misuse, outcome
    from neuroncore.frontend import settings as setting
    from neuroncore.hosts import api
    from neuroncore.view import page as pages
else:
    alias = Lazy("neuroncore.frontend.alias")
    api = Lazy("neuroncore.hosts.api")
    misuse = Lazy("neuroncore.frontend.misuse")
    setting = Lazy("neuroncore.frontend.settings")
    outcome = Lazy("neuroncore.frontend.outcome")
    pages = Lazy("neuroncore.view.page")


NAME = "neuroncore.pytest"
BUDGET = "neuroncore_budget"  # the name of a property of a test
MARKER = "neuroncore(allow=[]): codes of findings that do not fail this test"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("neuroncore", "kernels on an emulated NeuronCore")
    group.addoption(
        "--neuroncore",
        action="store_true",
        help="provide `import nki`, and fail tests with findings",
    )
    group.addoption(
        "--neuroncore-target",
        action="append",
        metavar="MACHINE",
        help="run tests that use the fixture neuroncore_target on this machine; repeatable",
    )
    group.addoption(
        "--neuroncore-pages",
        metavar="FOLDER",
        help="write a page of the launched kernels for each failing test",
    )
    group.addoption(
        "--neuroncore-verify",
        action="store_true",
        help="execute the record of each launch in plain numpy too, and compare the bits",
    )
    group.addoption(
        "--neuroncore-update-budgets",
        action="store_true",
        help="write the figures of the tests to the file of budgets, instead of comparing them",
    )
    parser.addini("neuroncore", "the same as --neuroncore", type="bool", default=False)
    parser.addini(
        "neuroncore_budgets",
        "the file with the budgets of tests (neuroncore_test.budget)",
        default="neuroncore_budgets.json",
    )
    parser.addini(
        "neuroncore_targets", "the values of --neuroncore-target", type="args", default=[]
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Activate the alias before test files import nki."""
    if _asked(early_config, early_config.known_args_namespace):
        alias.activate()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)
    if _asked(config, config.option):
        alias.activate()
        # a launch with a test's own settings has no observer here; its findings raise this warning
        warned = "neuroncore.frontend.outcome.NeuronWarning"
        config.addinivalue_line("filterwarnings", f"error::{warned}")
        config.pluginmanager.register(Kernels(config), f"{NAME}.kernels")


def _asked(config: pytest.Config, options: Any) -> bool:
    return bool(
        options.neuroncore or NAME in (options.plugins or ()) or config.getini("neuroncore")
    )


class LaunchWatch:
    """Observes the launches of a test. Each launch is a tuple with a Launch for each rank."""

    def __init__(self) -> None:
        self.launches: list[tuple[Any, ...]] = []
        self.allowed: set[str] = set()

    def begun(self, core: Any) -> None:
        pass

    def done(self, *ranks: Any) -> None:
        self.launches.append(ranks)

    def met(self) -> dict[Any, Any]:
        """Return the errors and warnings among the findings of all launches, by the line of the
        kernel."""
        findings = (each for ranks in self.launches for one in ranks for each in one.findings)
        return outcome.by_line(outcome.likely_wrong(findings))


WATCH = pytest.StashKey[LaunchWatch]()


class Kernels:
    """The hooks and the fixtures of pytest sessions in which the plugin is on."""

    def __init__(self, config: pytest.Config) -> None:
        self.targets = config.option.neuroncore_target or config.getini("neuroncore_targets")
        self.pages = config.option.neuroncore_pages
        self.verify = config.option.neuroncore_verify
        self.update = config.option.neuroncore_update_budgets
        self.budget_file = config.rootpath / config.getini("neuroncore_budgets")
        # filled only in the process that writes the report
        self.updated: dict[str, budgets.Figures] = {}

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if self.targets and "neuroncore_target" in metafunc.fixturenames:
            metafunc.parametrize("neuroncore_target", self.targets, indirect=True)

    @pytest.fixture
    def neuroncore_target(self, request: pytest.FixtureRequest) -> Iterator[str]:
        """The name of the machine on which the test's kernels run. The test runs once for each
        requested machine, or once on the default machine."""
        name = setting.target_machine(getattr(request, "param", None)).name
        current = setting.current_settings()
        with self._settings(name, current.observer):
            yield name

    @pytest.fixture
    def neuroncore_test(self, request: pytest.FixtureRequest) -> Iterator[KernelTest]:
        """Assertions about the kernels of a test: `assert_close`, `refused` and `budget`."""
        node: pytest.Item = request.node
        watch = node.stash[WATCH] = LaunchWatch()
        kept: dict[str, budgets.Figures] | None = {} if self.update else None
        yield KernelTest(watch, node.nodeid, self.budget_file, kept)
        node.user_properties += [(BUDGET, figures) for figures in (kept or {}).items()]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the budgets that workers of pytest-xdist measure."""
        if report.when == "teardown":
            kept: Any = report.user_properties
            self.updated.update(figures for name, figures in kept if name == BUDGET)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the file of budgets. Workers of pytest-xdist do not write it."""
        if self.updated and not hasattr(session.config, "workerinput"):
            budgets.write(self.budget_file, self.updated)

    def _settings(self, target: str | None, observer: Any) -> AbstractContextManager[None]:
        """Return a context manager in which `observer` observes all launches on the machine
        `target`. If the session writes pages, launches keep their arguments, so that the pages show
        values."""
        options, keeps = setting.current_settings().options, bool(self.pages)
        return setting.settings(
            target, options, observer, keeps=keeps, verify=self.verify, in_every_thread=True
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Fail the test if its launches have an error or a warning among their findings. The marker
        `neuroncore` and `neuroncore_test.refused` can allow the code of a finding."""
        watch = item.stash.setdefault(WATCH, LaunchWatch())
        with self._settings(setting.current_settings().target, watch):
            result = yield
        marks = item.iter_markers("neuroncore")
        allowed = {code for mark in marks for code in mark.kwargs.get("allow", ())}
        allowed |= watch.allowed
        met = watch.met().items()
        if report := [outcome.counted(same) for line, same in met if line.code not in allowed]:
            pytest.fail("\n".join(report), pytrace=False)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Report a kernel error without its traceback, unless --full-trace is given."""
        report = yield
        if not report.failed or call.excinfo is None:
            return report
        if not item.config.option.fulltrace and (message := _message(call.excinfo.value)):
            report.longrepr = message
        watch = item.stash.get(WATCH, None)
        if self.pages and call.when == "call" and watch is not None and watch.launches:
            report.sections.append(("neuroncore", f"page: {self._page(item, watch.launches)}"))
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Release the launches of the test. Launches may take gigabytes, and pytest keeps its items
        until the end."""
        if WATCH in item.stash:
            del item.stash[WATCH]

    def _page(self, item: pytest.Item, launches: Sequence[tuple[Any, ...]]) -> Path:
        """Write a page with the launches of a test, and return its path."""
        name = re.sub(r"[^\w.-]+", "_", item.nodeid).strip("_")
        path = Path(self.pages) / f"{name}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        pages.page([api.of(*ranks).shown() for ranks in launches]).save(path)
        return path


def _message(error: BaseException) -> str | None:
    """Return the message of a kernel error, or None for any other error."""
    explained = error if isinstance(error, KernelError | NotEmulated) else misuse.explanation(error)
    return None if explained is None else str(explained)
