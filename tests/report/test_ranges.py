"""Ranges of estimates: order statistics by hand, classes that are too small, what reports say."""

import math

import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuroncore import machine
from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.report import text, units
from neuroncore.report.ranges import (
    Coverage,
    Range,
    Residual,
    chosen,
    coverage,
    fitted,
    left_out,
    limit_of,
    range_of,
)
from neuroncore.report.summary import summary
from neuroncore.schedule import schedule

ORDER, DMA = "scheduled", "scheduled, DMA"


def residuals(ratios, limit="DMA", sources=5, order=ORDER):
    return [
        Residual(ratio, limit, order, f"source {i % sources}") for i, ratio in enumerate(ratios)
    ]


def test_a_range_leaves_a_tenth_out_on_either_side():
    # of 19, numbers 2 and 18: 20 / 10 from either end
    assert fitted(residuals(range(1, 20)))[DMA] == Range(2, 18, 19, 5)
    # of 20, 2.1 from either end is rounded outwards
    assert fitted(residuals(range(1, 21)))[DMA] == Range(2, 19, 20, 5)
    # of fewer than nine it has them all
    assert fitted(residuals([3.0, 1.0, 2.0]))["all"] == Range(1.0, 3.0, 3, 3)


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=60))
def test_at_least_four_fifths_are_inside(ratios):
    found = fitted(residuals(ratios))["all"]
    assert sum(found.low <= r <= found.high for r in ratios) >= 0.8 * len(ratios)


def test_a_range_is_expected_to_hold_for_what_it_was_not_made_of():
    rng = np.random.default_rng(5)
    draws = np.exp(rng.normal(size=(4000, 25)))
    held = 0
    for *known, new in draws.tolist():
        found = fitted(residuals(known))["all"]
        held += found.low <= new <= found.high
    assert 0.8 <= held / len(draws) < 0.88


@pytest.mark.parametrize(
    ("count", "sources", "names"),
    [(15, 3, {DMA, ORDER, "all"}), (14, 3, {"all"}), (15, 2, {"all"})],
)
def test_small_classes_have_no_range_of_their_own(count, sources, names):
    assert set(fitted(residuals(range(1, count + 1), sources=sources))) == names


def test_a_class_falls_back_on_its_order_and_an_order_on_everything():
    many = residuals([1.0] * 20, "Tensor") + residuals([2.0] * 20, "Vector", order="compiled")
    found = fitted([*many, *residuals([5.0], order="compiled")])
    engines = {f"{order}, engine" for order in ("scheduled", "compiled")}
    own = {"scheduled, Tensor", "compiled, Vector", "scheduled", "compiled", "all"}
    assert set(found) == own | engines
    assert chosen(found, "GpSimd", "compiled") is found["compiled, engine"]
    assert chosen(found, "Tensor", ORDER).high == 1.0
    assert chosen(found, "DMA", "compiled") is found["compiled"]
    assert chosen(found, "latency", "in-order") is found["all"]
    assert found["compiled"].points == 21 and found["all"].points == 41


def test_a_source_that_is_left_out_has_the_range_of_the_others():
    every = [*residuals([1.0, 2.0], sources=1), Residual(8.0, "DMA", ORDER, "other")]
    found = {(r.ratio, s.low, s.high) for r, s in left_out(every)}
    assert found == {(8.0, 1.0, 2.0), (1.0, 8.0, 8.0), (2.0, 8.0, 8.0)}
    pairs = [(r, Range(1.0, 1.5, 3, 2)) for r in every]
    assert coverage(pairs) == Coverage(1 / 3, 0.25)


@pytest.mark.parametrize("order", ["in-order", "scheduled", "compiled"])
@pytest.mark.parametrize("what", ["Tensor", "Vector", "Scalar", "GpSimd", "Sync", "DMA", "latency"])
def test_every_bound_has_a_range_around_one(what, order):
    found = range_of(what, order)
    assert 0 < found.low < 1 < found.high and math.isfinite(found.high)
    assert found.points >= 15 and found.sources >= 3


# --- what is said ---------------------------------------------------------------------------------


def copy(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out


def nothing(x):
    return x


def timeline(kernel):
    x = np.ones((128, 64), np.float32)
    run = launch(kernel, (x,), tensor=NkiTensor, target="trn2", grid=())
    return schedule(run.cores[0].program, machine.load("trn2"))


def test_an_estimate_is_told_with_its_range():
    made = timeline(copy)
    stated, total = range_of(limit_of(made), made.order), made.total_ns
    first = next(text.estimated(made))
    said = f"{units.duration(total * stated.low)} to {units.duration(total * stated.high)}"
    assert first.startswith(f"estimate   {units.duration(total)} (80 % range {said})   bound by ")
    fields = summary(made)
    assert fields["total_time_p10"] == pytest.approx(total * stated.low / 1e9)
    assert fields["total_time_p90"] == pytest.approx(total * stated.high / 1e9)


def test_nothing_has_no_range():
    made = timeline(nothing)
    assert range_of("nothing", "scheduled") is None
    assert "range" not in next(text.estimated(made))
    assert not {"total_time_p10", "total_time_p90"} & set(summary(made))
