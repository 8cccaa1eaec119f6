"""bench/calibration/fit.py: the choice for a source that is left out, and the evidence for a
choice."""

import sys
from dataclasses import replace
from pathlib import Path

import nki.language as nl
import numpy as np
import pytest
from every import for_all

FOLDER = Path(__file__).parents[2] / "bench/calibration"
sys.path.append(str(FOLDER))

import choices
import fit
from choices import Choice

from neuroncore import machine
from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.record.program import Record
from neuroncore.report import measurements
from neuroncore.report.measurements import Harness
from neuroncore.report.score import ScoredPoint
from neuroncore.time import policy

WINDOW = Choice("policy", "compiled", "window", without=1, in_use=8, also=(4,))
KNOWN = measurements.harnesses(FOLDER / "offsets.toml")
EVERY = choices.choices(KNOWN)


def kernel(source, in_use, **other):
    """A kernel of a source. `other` is its error with window1 and window4."""
    point = ScoredPoint("M", "k", "trn2", source, "f", "DMA", "DMA", "compiled", "", "c", False,
                  1.0, 1.0, 0.5, 2.0)  # fmt: skip
    values = {(WINDOW, int(name[6:])): bad for name, bad in other.items()}
    return fit.Kernel(point, in_use, values)


def test_a_choice_that_needs_no_evidence_stays_unless_another_value_is_better():
    alike = [kernel("a", 0.2, window1=0.2, window4=0.2)]
    assert fit.chosen(alike, WINDOW) == 1
    assert fit.chosen([kernel("a", 0.1, window1=0.2, window4=0.3)], WINDOW) == 8
    assert fit.chosen([kernel("a", 0.1, window1=0.2, window4=0.05)], WINDOW) == 4


def test_a_source_that_is_left_out_gets_the_choice_of_the_others():
    """Evidence that only one source has does not count for that source."""
    own = [kernel("a", 0.1, window1=0.5, window4=0.5), kernel("b", 0.2, window1=0.2, window4=0.2)]
    found = fit.settings(own, [WINDOW])
    assert found == {"a": {WINDOW: 1}, "b": {}}
    assert fit.shown_by(own, WINDOW) == {"a": pytest.approx(0.4), "b": 0.0}


def test_programs_of_two_other_authors_outweigh_latencies():
    shown = replace(WINDOW, shown_by=("a/programs", "c/traces", "d/logs"))
    own = [kernel(source, 0.5, window1=0.2, window4=0.5) for source in ("a/kernels", "b", "c")]
    assert fit.settings(own, [shown]) == {"a/kernels": {}, "b": {}, "c": {}}
    fewer = replace(shown, shown_by=shown.shown_by[:2])
    assert fit.settings(own, [fewer]) == {"a/kernels": {fewer: 1}, "b": {}, "c": {fewer: 1}}
    named = {choice.name for choice in EVERY if choice.shown_by}
    assert len(named) == 8 and named <= set(choices.OFF)


def test_a_kernel_with_an_unexplained_error_is_no_evidence():
    assert fit.badness(2.0, 1.0) == pytest.approx(np.log(2)) == fit.badness(1.0, 2.0)
    assert fit.badness(100.0, 1.0) == fit.badness(0.0, 1.0) == fit.MOST


def test_choices_are_fields_of_the_model():
    assert len({str(c) for c in EVERY}) == len(EVERY) > 20
    for choice in EVERY:
        assert choice.in_use in choice.values and choice.values[0] == choice.without
        assert type(choice.without) is type(choice.in_use) or isinstance(choice.without, float)
    trn1 = machine.load("trn1")
    name = "engines.vector.rate.reciprocal"
    (number,) = (c for c in EVERY if c.name == name and c.of == "trn1")
    assert number.in_use == trn1.engines["vector"].rate["reciprocal"]
    assert number.concerns("trn1", "compiled") and not number.concerns("trn2", "compiled")


def test_a_setting_applies_only_within_its_context():
    trn1, before = machine.load("trn1"), policy.POLICIES["compiled"]
    named = {str(c): c for c in EVERY}
    rate = named["trn1: engines.vector.rate.reciprocal"]
    setting = {rate: 0.125, named["compiled: window"]: 512}
    with choices.applied(setting, trn1) as changed:
        assert changed.engines["vector"].rate["reciprocal"] == 0.125
        assert policy.POLICIES["compiled"].window == policy.POLICIES["compiled"].reach == 512
    with choices.applied(setting, machine.load("trn2")) as other:
        assert other is machine.load("trn2")
    assert policy.POLICIES["compiled"] is before
    assert trn1.engines["vector"].rate["reciprocal"] != 0.125


def loading(x):
    """Load the same tile four times."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for _ in range(4):
        nl.store(out, nl.load(x))
    return out


@pytest.fixture(scope="module")
def record():
    x = np.ones((128, 2048), np.float32)  # bandwidth counts
    (core,) = launch(loading, (x,), tensor=NkiTensor, target="trn1", grid=()).cores
    core.program.order = "compiled"
    return Record([core.program], {"target": "trn1"})


def test_a_rule_that_is_off_changes_an_estimate(record):
    row = {"id": "loading", "generation": "trn1", "measured_by": "nobody"}
    (once,) = (c for c in EVERY if c.name == "repeated loads happen once")
    estimates = fit.Estimates(KNOWN)
    used, off = (estimates.us(row, record, setting) for setting in ({}, {once: False}))
    assert off > used > 0


def test_fitted_offsets_are_added_for_the_harnesses_of_a_machine():
    known = [Harness("trn1", "mine", 15.0, "fitted"), Harness("trn1", "theirs", 7.0, "measured")]
    added = Choice("offset", "trn1", "added", without=0.0, in_use=15.0)
    estimates = fit.Estimates(known)
    row = {"generation": "trn1", "kernel_source": ""}
    rows = [row | {"measured_by": by} for by in ("mine", "theirs", "nobody's")]
    assert [estimates.added_us(row, {}) for row in rows] == [15.0, 7.0, 0.0]
    assert [estimates.added_us(row, {added: 10.0}) for row in rows] == [10.0, 7.0, 0.0]


@for_all("rule", choices.OFF)
def test_a_rule_is_replaced_where_it_is_looked_up_each_time(rule):
    """A lazy module caches the names that were looked up. After the first estimate, a replacement
    there would have no effect."""
    assert not choices.OFF[rule][0].startswith("neuroncore.base.")


@pytest.mark.parametrize("rule", choices.OFF)
def test_every_rule_can_be_turned_off(rule, record):
    """Each replaced name exists: a rule that was renamed would otherwise stay on unnoticed."""
    (choice,) = (c for c in EVERY if c.name == rule)
    row = {"id": "loading", "generation": "trn1", "measured_by": "nobody"}
    assert fit.Estimates(KNOWN).us(row, record, {choice: False}) > 0
