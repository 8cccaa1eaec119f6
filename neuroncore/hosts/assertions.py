"""The pytest fixture `neuroncore_test`, which has assertions about the kernels of a test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from neuroncore.base.errors import KernelError
from neuroncore.base.lazy import Lazy
from neuroncore.hosts import budgets

if TYPE_CHECKING:
    from neuroncore.frontend import outcome
    from neuroncore.hosts import api
    from neuroncore.report import closeness, compare
else:
    api = Lazy("neuroncore.hosts.api")
    closeness = Lazy("neuroncore.report.closeness")
    compare = Lazy("neuroncore.report.compare")
    outcome = Lazy("neuroncore.frontend.outcome")


class TestLaunches(Protocol):
    """The launches of a test, each as a tuple with a Launch for each rank. `allowed` contains the
    codes of findings that do not fail the test."""

    launches: list[tuple[Any, ...]]
    allowed: set[str]


class KernelTest:
    """Assertions for one test. `name` is the name of the test, and `file` the file of budgets. If
    `kept` is a dict, figures are not compared with the budgets, but stored in the dict to update
    the file later."""

    def __init__(
        self, watch: TestLaunches, name: str, file: Path, kept: dict[str, budgets.Figures] | None
    ) -> None:
        self._watch, self._name, self._file, self._kept = watch, name, file, kept

    def assert_close(self, got: Any, want: Any, tolerance: float | None = None) -> None:
        """Compare a result with its reference, or a tuple of results with a tuple of references.
        `tolerance` is the allowed relative L2 error; the default depends on the format.

        Raises AssertionError with the worst element and a histogram of errors in units in the last
        place. Raises UsageError for different shapes or numbers of results."""
        __tracebackhide__ = True  # pytest shows the line of the test
        pairs = zip(_several(got), _several(want), strict=True)
        for n, (result, reference) in enumerate(pairs):
            agreement = compare.agreement([result], [reference], tolerance)
            if not agreement:
                text = closeness.described(
                    result, reference, agreement.comparisons[0], agreement.tolerances[0]
                )
                which = f"result {n}: " if isinstance(got, tuple | list) else ""
                raise AssertionError(which + text)

    @contextmanager
    def refused(self, code: str) -> Iterator[None]:
        """Assert that a kernel in the `with` block is refused with this code, or has an error or
        warning with this code among its findings. Raises AssertionError otherwise. Kernel errors
        with other codes are not caught."""
        __tracebackhide__ = True
        before = len(self._watch.launches)
        try:
            yield
        except KernelError as error:
            if error.code != code:
                raise
            return
        runs = [api.of(*ranks) for ranks in self._watch.launches[before:]]
        findings = [finding for run in runs for finding in run.findings]
        codes = {finding.code for finding in outcome.likely_wrong(findings)}
        if code not in codes:
            others = f"; its findings are {', '.join(sorted(codes))}" if codes else ""
            raise AssertionError(f"no kernel was refused with {code}{others}")
        self._watch.allowed.add(code)

    @contextmanager
    def budget(
        self,
        *,
        us: float | None = None,
        hbm_bytes: float | None = None,
        sbuf_kib: float | None = None,
    ) -> Iterator[None]:
        """Assert that the launches in the `with` block stay within a budget.

        `us`: the limit of the estimated time of all launches, in microseconds
        `hbm_bytes`: the limit of the bytes that all cores read from HBM and write to HBM in all
            launches
        `sbuf_kib`: the limit of the SBUF of each core, in KiB per partition

        If no limit is passed, the limits for this test in the budget file apply. The ini option
        `neuroncore_budgets` names the budget file; --neuroncore-update-budgets writes it. Raises
        AssertionError for a larger figure, or if the file has no budget for the test."""
        __tracebackhide__ = True
        before = len(self._watch.launches)
        yield
        passed = {"us": us, "hbm_bytes": hbm_bytes, "sbuf_kib": sbuf_kib}
        limits = {name: limit for name, limit in passed.items() if limit is not None}
        measured = budgets.figures([api.of(*ranks) for ranks in self._watch.launches[before:]])
        if text := budgets.over(measured, limits or self._of_file(measured)):
            raise AssertionError(text)

    def _of_file(self, measured: budgets.Figures) -> budgets.Figures:
        __tracebackhide__ = True
        if self._kept is not None:
            self._kept[self._name] = measured
            return {}
        known = budgets.read(self._file)
        if self._name not in known:
            hint = "--neuroncore-update-budgets writes one"
            raise AssertionError(f"{self._file} has no budget for {self._name}: {hint}")
        return known[self._name]


def _several(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple | list) else (value,)
