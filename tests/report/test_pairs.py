"""Confidence in the order of two estimates: it rises with their difference, and falls with the
difference of their work."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuroncore.report import pairs
from neuroncore.report.pairs import (
    PairWork,
    Sureness,
    Variant,
    difference,
    faster,
    fitted,
    left_out,
    unlike,
)


def chain(name, *both, source="s"):
    return [Variant(name, source, PairWork(ns, {"Vector": 1}), measured) for ns, measured in both]


def test_a_difference_is_one_of_logarithms():
    assert difference(PairWork(10, {}), PairWork(20, {})) == pytest.approx(np.log(2))
    assert difference(PairWork(20, {}), PairWork(10, {})) == pytest.approx(np.log(2))
    assert (
        difference(PairWork(5, {}), PairWork(5, {})) == 0
        and difference(PairWork(0, {}), PairWork(5, {})) > 1e9
    )


def test_the_difference_of_work_is_measured_by_the_time_of_each_engine():
    one, other = (
        PairWork(9, {"Vector": 6, "DMA": 2}),
        PairWork(9, {"Vector": 3, "Scalar": 3, "DMA": 2}),
    )
    assert unlike(one, other) == unlike(other, one) == pytest.approx(6 / 11)
    assert unlike(one, one) == 0 and unlike(PairWork(1, {}), PairWork(1, {})) == 0
    assert unlike(PairWork(1, {"DMA": 1}), PairWork(1, {"Vector": 1})) == 1


def test_confidence_is_a_half_at_first_and_rises_to_a_maximum():
    sure = Sureness(noise=0.05, unlike=0.5, slope=1.0, most=0.97, pairs=9, chains=3, sources=2)
    assert sure.of(0, 0) == 0.5
    assert sure.of(0.05, 0) == pytest.approx(1 / (1 + np.exp(-1)))
    assert sure.of(0.1, 0.1) == pytest.approx(sure.of(0.05, 0))  # half of a tenth is noise, too
    assert sure.of(9, 0) == sure.of(float("inf"), 1) == 0.97


@given(st.lists(st.floats(0, 2), min_size=2, max_size=2), st.floats(0, 1))
def test_a_larger_difference_does_not_reduce_confidence(both, part):
    near, far = sorted(both)
    sure = pairs.stated()
    assert 0.5 <= sure.of(near, part) <= sure.of(far, part) <= sure.most
    assert sure.of(far, 1.0) <= sure.of(far, part)


def drawn(noise, unlike_noise, count=150):
    """Variants in chains of two, whose errors are normally distributed with a deviation that grows
    with the difference of their work."""
    rng = np.random.default_rng(3)
    for k in range(count):
        moved, far = rng.uniform(0, 40), np.exp(rng.uniform(0, 0.6, 2))
        estimates = (
            PairWork(far[0], {"Vector": 50, "DMA": 0}),
            PairWork(far[1], {"Vector": 50, "DMA": moved}),
        )
        apart = unlike(*estimates)
        errors = rng.normal(0, noise + unlike_noise * apart, 2)
        for one, error in zip(estimates, errors, strict=True):
            yield Variant(f"c{k}", f"s{k % 5}", one, one.ns * np.exp(error))


def test_confidence_is_correct_for_other_sources():
    """Among pairs of a source that is left out, the share in the right order equals the reported
    confidence."""
    told = [(p, pairs.in_order(a, b)) for a, b, p in left_out(list(drawn(0.03, 0.3)))]
    for low, high in ((0.5, 0.75), (0.75, 0.95), (0.95, 1.0)):
        own = [one for one in told if low <= one[0] < high]
        said, held = (sum(column) / len(own) for column in zip(*own, strict=True))
        assert len(own) > 10 and abs(said - held) < 0.12


def test_different_work_adds_noise_if_it_did_in_the_measurements():
    it_was, it_was_not = fitted(drawn(0.02, 1.0)), fitted(drawn(0.05, 0.0))
    assert it_was.of(0.2, 0.4) < it_was_not.of(0.2, 0.4)


def test_one_pair_gives_no_confidence():
    found = fitted(chain("a", (100, 1), (300, 2)))
    assert found.most == pytest.approx(0.75) and (found.pairs, found.chains) == (1, 1)
    assert fitted(chain("a", (100, 2), (300, 1))).most == 0.5  # no better than chance


def test_a_pair_of_a_long_chain_counts_for_less():
    one_wrong = chain("w", (100, 2), (300, 1))
    four = chain("r", (100, 1), (300, 2), (900, 3), (2700, 4))
    found = fitted([*one_wrong, *four])
    assert found.most == pytest.approx((6 * 2 / 4 + 0.5) / (6 * 2 / 4 + 1 + 1))
    assert found.pairs == 7 and found.chains == 2


def test_a_source_gets_what_the_others_show():
    known = [*chain("a", (100, 1), (300, 2)), *chain("b", (100, 2), (300, 1), source="t")]
    assert len(list(combinations(known, 2))) > len(told := list(left_out(known))) == 2
    assert {(a.chain, p > 0.5) for a, _, p in told} == {("a", False), ("b", True)}


def test_equal_measurements_are_in_order_by_half():
    assert pairs.in_order(*chain("a", (1, 2), (2, 2))) == 0.5
    assert pairs.in_order(*chain("a", (1, 2), (2, 3))) == 1
    assert pairs.in_order(*chain("a", (1, 3), (2, 2))) == 0


def test_the_faster_one_is_reported_for_either_order():
    fast, slow = PairWork(100, {"DMA": 90}), PairWork(120, {"DMA": 108})
    assert faster(slow, fast) == pytest.approx(1 - faster(fast, slow)) and faster(slow, fast) > 0.5
    assert faster(fast, fast) == 0.5


def test_the_table_in_use_is_better_than_chance():
    sure = pairs.stated()
    assert sure.of(0.01, 0.5) < pairs.UNCERTAIN < sure.of(0.5, 0.5) < 1
