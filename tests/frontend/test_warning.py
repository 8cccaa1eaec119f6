"""Findings as warnings: how often a process tells the same of a line of a kernel."""

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
def nothing_told(monkeypatch):
    monkeypatch.setattr(outcome, "_warned", set())


def told(launches, action=None, **about):
    """What launches tell while a filter, if any, stands before Python's default."""
    with warnings.catch_warnings(record=True) as found:
        warnings.resetwarnings()
        if action:
            warnings.filterwarnings(action, **about)
        launches()
    return [str(one.message) for one in found]


def test_a_line_tells_the_same_once_in_a_process():
    (first,) = told(lambda: [reads_nothing(SMALL), reads_nothing(SMALL), reads_nothing(LARGE)])
    assert "warning[UNINIT_READ]" in first and "2x3" in first
    assert told(lambda: reads_nothing(SMALL)) == []
    (other,) = told(lambda: copies_nothing(SMALL))
    assert "warning[UNINIT_READ]" in other


def test_the_tiles_of_a_line_are_counted():
    (line,) = told(lambda: reads_nothing(SMALL, 4))
    assert line.endswith("(and 3 more of this line)")


def test_what_is_of_no_line_is_told_in_its_own_words():
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
def test_who_asks_for_all_is_told_all(about):
    assert len(told(lambda: [reads_nothing(SMALL), reads_nothing(SMALL)], "always", **about)) == 2
    for _ in range(2):
        with pytest.raises(NeuronWarning):
            told(lambda: reads_nothing(SMALL), "error", **about)


@pytest.mark.parametrize(
    "about",
    [{"category": DeprecationWarning}, {"message": "other"}, {"module": "elsewhere"}],
    ids=str,
)
def test_a_filter_for_others_is_none_for_these(about):
    assert len(told(lambda: [reads_nothing(SMALL), reads_nothing(SMALL)], "always", **about)) == 1


def test_who_asks_for_none_is_told_none():
    assert told(lambda: reads_nothing(SMALL), "ignore") == []


def test_a_warning_points_at_the_launch():
    with pytest.warns(NeuronWarning) as found:
        reads_nothing(SMALL)
    assert found[0].filename == __file__
