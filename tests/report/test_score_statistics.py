"""The statistics of neuroncore score, by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuroncore.report.score import (
    ScoredPoint,
    chain,
    chains,
    errors,
    grouped,
    order,
    ranks,
    spearman,
)

RANGE = (0.75, 1.25)  # of every estimate here


def point(measured, estimated, chain="a", generation="trn2", spilled=False):
    about = "M", "k", generation, "repo", "f", "DMA", "latency", "scheduled", "", chain, spilled
    return ScoredPoint(*about, measured, estimated, *RANGE)


def points(*pairs, **fields):
    return [point(m, e, **fields) for m, e in pairs]


def test_an_error_is_the_distance_of_the_ratio_from_one():
    low, high = point(100.0, 80.0), point(100.0, 150.0)
    assert (low.ratio, high.ratio) == (0.8, 1.5)
    assert low.error == pytest.approx(0.2) and high.error == pytest.approx(0.5)


def test_the_median_error_and_the_share_within_a_fifth():
    found = errors(points((100, 90), (100, 110), (100, 80), (100, 120), (100, 174)))
    assert found.count == 5
    assert found.median == pytest.approx(0.2)
    assert found.close == 0.8  # a fifth off is within a fifth
    even = errors(points((100, 110), (100, 150)))
    assert even.median == pytest.approx(0.3) and even.close == 0.5
    assert errors([]) is None


def test_a_measurement_is_in_a_range_that_has_it_at_an_end():
    found = errors(points((75, 100), (125, 100), (74, 100), (126, 100), (10, 10)))
    assert found.covered == 0.6
    assert found.half_width == 0.25


def test_equal_values_share_their_ranks():
    assert ranks([30.0, 10.0, 20.0]) == [3, 1, 2]
    assert ranks([5.0, 7.0, 5.0, 5.0]) == [2, 4, 2, 2]
    assert ranks([]) == []


def test_spearman_of_hand_worked_examples():
    # ranks 1 2 3 4 5 against 2 1 4 3 5: 1 - 6 * 4 / (5 * 24)
    assert spearman([10, 20, 30, 40, 50], [2.0, 1.0, 4.0, 3.0, 9.0]) == pytest.approx(0.8)
    assert spearman([1, 2, 3], [10, 100, 1000]) == pytest.approx(1.0)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    # ranks 1 2 3 against 1.5 1.5 3: the correlation of (-1, 0, 1) and (-0.5, -0.5, 1)
    assert spearman([1, 2, 3], [7, 7, 8]) == pytest.approx(1.5 / (2 * 1.5) ** 0.5)
    assert spearman([1, 2, 3], [4, 4, 4]) is None


@given(st.permutations(range(7)), st.permutations(range(7)))
def test_without_ties_spearman_is_the_textbook_formula(a, b):
    distance = sum((x - y) ** 2 for x, y in zip(a, b))
    assert spearman(a, b) == pytest.approx(1 - 6 * distance / (7 * 48))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=3, max_size=9))
def test_with_ties_spearman_is_the_correlation_of_ranks(pairs):
    def placed(values):
        return [np.mean([i + 1 for i, v in enumerate(sorted(values)) if v == w]) for w in values]

    first, second = zip(*pairs)
    found = spearman(first, second)
    if len(set(first)) == 1 or len(set(second)) == 1:
        assert found is None
    else:
        expected = np.corrcoef(placed(first), placed(second))[0, 1]
        assert found == pytest.approx(expected)


def test_pairs_count_if_they_differ_by_more_than_a_tenth():
    found = chain("a", points((100, 3), (110, 2), (111, 1), (200, 4)))
    # 100 and 110 don't differ by more than a tenth, nor do 110 and 111
    assert (found.count, found.pairs, found.right) == (4, 4, 3)
    assert found.spearman == pytest.approx(1 - 6 * (4 + 0 + 4 + 0) / (4 * 15))


def test_estimates_that_are_alike_are_not_in_order():
    assert chain("a", points((100, 5), (200, 5))).right == 0
    assert chain("a", points((200, 6), (100, 5))).right == 1


def test_two_points_have_no_rank_correlation():
    assert chain("a", points((100, 5), (200, 6))).spearman is None


def test_chains_are_separate_and_single_kernels_are_omitted():
    found = chains(
        [
            *points((1, 1), (2, 2), (3, 3), chain="up"),
            *points((1, 3), (2, 2), (3, 1), chain="down"),
            *points((1, 1), (2, 2), chain="pair"),
            *points((1, 9), chain="alone"),
            *points((1, 9), (2, 8), chain=""),
        ]
    )
    assert [(c.name, c.right, c.pairs) for c in found] == [
        ("down", 0, 3), ("pair", 1, 1), ("up", 3, 3)
    ]  # fmt: skip
    together = order(found)
    assert (together.chains, together.right, together.pairs) == (3, 4, 7)
    assert together.spearman == pytest.approx(0.0)  # between -1 and 1
    assert together.accuracy == pytest.approx(4 / 7)
    assert order([]).accuracy is None and order([]).spearman is None


def test_groups_are_sorted_by_name():
    mixed = [point(1, 1, generation=g) for g in ("trn2", "trn1", "trn2")]
    assert [(g, len(own)) for g, own in grouped(mixed, lambda p: p.generation)] == [
        ("trn1", 1), ("trn2", 2)
    ]  # fmt: skip
