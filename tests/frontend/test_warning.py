"""Findings as warnings: how often a process reports the same finding for a line of a kernel."""

import warnings

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from neuroncore.base.findings import Finding
from neuroncore.frontend import outcome
from neuroncore.frontend.launch import NeuronWarning, launch
from neuroncore.frontend.nki.tensor import NkiTensor


@nki.jit
def reads_nothing(x, times=1):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for _ in range(times):
        tile = nl.ndarray(x.shape, x.dtype)
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        nl.store(out, tile)
    return out


@nki.jit
def copies_nothing(x):
    tile = nl.ndarray(x.shape, x.dtype)
    return nl.store(out := nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm), tile) or out


SMALL, LARGE = np.zeros((2, 3), np.float32), np.zeros((8, 4), np.float32)


@pytest.fixture(autouse=True)
def no_earlier_warnings(monkeypatch):
    monkeypatch.setattr(outcome, "_warned", set())


def warnings_of(launches, action=None, **about):
    """Return the warnings of launches while a filter, if any, precedes Python's default filters."""
    with warnings.catch_warnings(record=True) as found:
        warnings.resetwarnings()
        if action:
            warnings.filterwarnings(action, **about)
        launches()
    return [str(one.message) for one in found]


def test_a_finding_of_a_line_is_reported_once_in_a_process():
    (first,) = warnings_of(
        lambda: [reads_nothing(SMALL), reads_nothing(SMALL), reads_nothing(LARGE)]
    )
    assert "warning[UNINIT_READ]" in first and "2 x 3" in first
    assert warnings_of(lambda: reads_nothing(SMALL)) == []
    (other,) = warnings_of(lambda: copies_nothing(SMALL))
    assert "warning[UNINIT_READ]" in other


def test_the_tiles_of_a_line_are_counted():
    (line,) = warnings_of(lambda: reads_nothing(SMALL, 4))
    assert line.endswith("(and 3 more on this line)")


def test_a_finding_without_a_line_has_another_text():
    findings = [Finding("CAPACITY", said, None) for said in ("too much", "too many", "too much")]
    assert [list(map(str, same)) for same in outcome.by_line(findings).values()] == [
        ["warning[CAPACITY] too much"] * 2,
        ["warning[CAPACITY] too many"],
    ]


def test_a_run_keeps_every_finding():
    run = launch(reads_nothing.function, (SMALL, 4), tensor=NkiTensor)
    assert [finding.code for finding in run.findings] == ["UNINIT_READ"] * 4


@pytest.mark.parametrize(
    "about", [{}, {"category": NeuronWarning}, {"message": r".*\[UNINIT_READ\]"}], ids=str
)
def test_a_filter_for_all_warnings_reports_all(about):
    assert (
        len(warnings_of(lambda: [reads_nothing(SMALL), reads_nothing(SMALL)], "always", **about))
        == 2
    )
    for _ in range(2):
        with pytest.raises(NeuronWarning):
            warnings_of(lambda: reads_nothing(SMALL), "error", **about)


@pytest.mark.parametrize(
    "about",
    [{"category": DeprecationWarning}, {"message": "other"}, {"module": "elsewhere"}],
    ids=str,
)
def test_a_filter_for_other_warnings_has_no_effect(about):
    assert (
        len(warnings_of(lambda: [reads_nothing(SMALL), reads_nothing(SMALL)], "always", **about))
        == 1
    )


def test_a_filter_that_ignores_warnings_reports_none():
    assert warnings_of(lambda: reads_nothing(SMALL), "ignore") == []


def test_a_warning_points_at_the_launch():
    with pytest.warns(NeuronWarning) as found:
        reads_nothing(SMALL)
    assert found[0].filename == __file__
