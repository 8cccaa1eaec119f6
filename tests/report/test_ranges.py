"""Ranges of estimates: order statistics by hand, classes that are too small, and the text of
reports."""

import math

import nki.language as nl
import numpy as np
import pytest
from every import for_all
from hypothesis import given
from hypothesis import strategies as st

from neuroncore import machine
from neuroncore.base import units
from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.report.estimate import (
    LEFT_OUT,
    Coverage,
    Kind,
    Range,
    Residual,
    chosen,
    classes,
    coverage,
    doubt_of,
    fitted,
    kind_of,
    left_out,
    range_of,
)
from neuroncore.report.summary import as_text, summary
from neuroncore.time.compiled import REPEATED
from neuroncore.time.schedule import schedule

DMA = Kind("DMA", "scheduled", "hardware")


def residuals(ratios, kind=DMA, sources=5):
    return [Residual(ratio, kind, f"source {i % sources}") for i, ratio in enumerate(ratios)]


def test_a_range_excludes_equal_shares_on_both_sides():
    # of 199, (199 + 1) * 0.095 is number 19, from either end
    found = fitted(residuals(range(1, 200), sources=199))["all"]
    assert found == Range(pytest.approx(19), pytest.approx(181), 199, 199)
    # of three it has nearly all
    found = fitted(residuals([3.0, 1.0, 2.0]))["all"]
    assert (found.low, found.high) == (1.0, 3.0)


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=60))
def test_at_least_three_quarters_are_inside(ratios):
    found = fitted(residuals(ratios, sources=len(ratios)))["all"]
    inside = sum(found.low * 0.999 <= r <= found.high * 1.001 for r in ratios)
    assert inside >= 0.75 * len(ratios)


def test_a_range_should_be_valid_for_other_sources():
    """Kernels of a source have similar errors: half of the variance is between sources."""
    rng = np.random.default_rng(5)
    held = []
    for _ in range(150):
        of = rng.normal(size=12)
        ratios = np.exp(0.1 * (of[:, None] + rng.normal(size=(12, 8))))
        known = [Residual(float(r), DMA, f"s{s}") for s in range(12) for r in ratios[s]]
        stated = fitted(known[8:])["all"]
        held += [stated.low <= r.ratio <= stated.high for r in known[:8]]
    assert 0.75 < sum(held) / len(held) < 0.88


def test_classes_are_from_all_to_one_limit():
    known = Kind("Vector", "compiled", "compiler")
    assert classes(known) == (
        "all", "certain", "compiled certain", "compiled certain, descriptors by compiler",
        "compiled certain, descriptors by compiler, Vector",
    )  # fmt: skip
    assert "compiled uncertain" in classes(known._replace(doubt="tiles are spilled"))


def test_a_class_of_few_has_nearly_the_range_of_the_wider_one():
    wide = residuals(np.linspace(0.9, 1.1, 60), DMA, sources=60)
    few = DMA._replace(limit="Tensor")
    found = fitted([*wide, Residual(3.0, few, "other")])
    own, all_ = chosen(found, few), found["all"]
    assert own.points == own.sources == 1
    assert own.low == pytest.approx(all_.low, rel=0.02)
    many = fitted([*wide, *residuals([3.0] * 60, few, sources=60)])
    assert chosen(many, few).high == 3.0 and chosen(many, few).low > chosen(many, DMA).low


def test_a_class_with_all_kernels_of_the_wider_one_has_the_same_range():
    found = fitted(residuals(np.linspace(0.5, 1.5, 30), sources=30))
    assert len(found) == 5 and len({(r.low, r.high) for r in found.values()}) == 1


def test_certain_and_uncertain_kernels_do_not_change_the_ranges_of_each_other():
    certain = residuals(np.linspace(0.9, 1.1, 60), sources=60)
    doubt = DMA._replace(doubt="why")
    uncertain = [Residual(ratio, doubt, f"of {ratio}") for ratio in (0.5, 1.0, 2.0)]
    both = fitted([*certain, *uncertain])
    for some in (certain, uncertain):
        kind = some[0].kind
        assert chosen(both, kind) == chosen(fitted(some), kind)


def test_a_kernel_of_a_source_of_many_counts_for_less():
    one = [Residual(2.0, DMA, "one"), *(Residual(1.0, DMA, "many") for _ in range(9))]
    each = [Residual(2.0, DMA, "one"), *residuals([1.0] * 9, sources=9)]
    assert fitted(one)["all"].high > fitted(each)["all"].high


def test_a_kind_without_measurements_has_the_range_of_the_next_wider_class():
    found = fitted(
        [*residuals([1.0] * 20), *residuals([2.0] * 20, Kind("Vector", "compiled", "compiler"))]
    )
    written = "compiled certain, descriptors by compiler"
    assert chosen(found, Kind("GpSimd", "compiled", "compiler")) is found[written]
    assert chosen(found, Kind("Vector", "compiled", "device")) is found["compiled certain"]
    assert chosen(found, Kind("Vector", "compiled", "device", "why")) is found["all"]
    assert chosen(found, Kind("latency", "in-order", "hardware")) is found["certain"]


def test_a_source_that_is_left_out_has_the_range_of_the_others():
    every = [*residuals([1.0, 2.0], sources=1), Residual(8.0, DMA, "other")]
    found = {(r.ratio, s.low, s.high) for r, s in left_out(every)}
    assert found == {(8.0, 1.0, 2.0), (1.0, 8.0, 8.0), (2.0, 8.0, 8.0)}
    pairs = [(r, Range(1.0, 1.5, 3, 2)) for r in every]
    assert coverage(pairs) == Coverage(1 / 3, 0.25)


@for_all("doubt", ["", "tiles are spilled"])
@for_all("order", ["in-order", "scheduled", "compiled"])
@for_all("what", ["Tensor", "Vector", "Scalar", "GpSimd", "Sync", "DMA", "latency"])
def test_every_kind_has_a_range_around_one(what, order, doubt):
    found = range_of(Kind(what, order, "hardware", doubt))
    assert 0 < found.low < 1 < found.high and math.isfinite(found.high)


def test_an_estimate_with_low_confidence_has_a_wider_range():
    doubt, known = (range_of(Kind("DMA", "compiled", "compiler", why)) for why in ("spills", ""))
    assert doubt.high - doubt.low > known.high - known.low


# --- text -----------------------------------------------------------------------------------------


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


def test_an_estimate_is_printed_with_its_range():
    made = timeline(copy)
    stated, total = range_of(kind_of(made)), made.total_ns
    first = next(as_text(made))
    said = f"{units.duration(total * stated.low)} to {units.duration(total * stated.high)}"
    assert first.startswith(f"estimate   {units.duration(total)} (80% range {said})   bound by ")
    fields = summary(made)
    assert fields["total_time_p10"] == pytest.approx(total * stated.low / 1e9)
    assert fields["total_time_p90"] == pytest.approx(total * stated.high / 1e9)


def test_nothing_has_no_range():
    made = timeline(nothing)
    assert range_of(kind_of(made)) is None
    assert "range" not in next(as_text(made))
    assert not {"total_time_p10", "total_time_p90"} & set(summary(made))


def loading(times):
    """A kernel of the older API that loads the same data this many times."""

    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for _ in range(times):
            nl.store(out, nl.load(x))
        return out

    return kernel


def test_omitted_instructions_are_a_reason_for_low_confidence():
    made = timeline(loading(4))
    assert doubt_of(made) == ""  # the current compiler omits nothing
    older = schedule(made.compiled.program, made.machine, "compiled")
    left_out = (older.compiled.fate == REPEATED).mean()
    assert left_out >= LEFT_OUT
    said = f"the compiler is assumed to omit {left_out:.0%} of the instructions"
    assert doubt_of(older) == said
    assert f"; low confidence: {said})" in next(as_text(older))
