"""How sure the order of two estimates is: shares of measured pairs, that rise with the distance."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuroncore.report import pairs
from neuroncore.report.pairs import STEPS, Step, Variant, apart, faster, fitted, left_out


def chain(name, *both):
    return [Variant(name, estimated, measured) for estimated, measured in both]


def test_distance_is_a_part_of_the_faster_one():
    assert apart(10, 12) == apart(12, 10) == pytest.approx(0.2)
    assert apart(5, 5) == 0 and apart(0, 5) == float("inf")


def test_pairs_are_counted_by_their_distance_and_one_more_is_even():
    found = fitted(chain("a", (100, 50), (130, 60)))  # one pair, 30 % apart, in order
    assert [s.pairs for s in found] == [0, 0, 0, 0, 0, 1, 0]
    assert found[5].chains == 1
    # nothing is known of what is further apart, which is not less sure: both are taken together
    assert found[5].right == found[6].right == pytest.approx((1 + 0.5 + 0.5) / (2 + 1))
    assert found[0].right == 0.5


def test_a_pair_of_a_long_chain_counts_for_less():
    four = chain("a", (100, 1), (130, 2), (170, 3), (221, 4))
    found = fitted(four)
    near = 3 * 2 / 4  # three pairs are 30 % apart, each of weight 2 / 4
    assert found[5].pairs == 3
    far = 3 * 2 / 4  # and as many further
    assert found[5].right == pytest.approx((near + 0.5 + far + 0.5) / (near + far + 2))


def test_what_is_further_apart_is_not_less_sure():
    wrong = [v for k in range(6) for v in chain(f"w{k}", (100, 2), (150, 1))]
    right = [v for k in range(6) for v in chain(f"r{k}", (100, 1), (115, 2))]
    found = fitted([*wrong, *right])
    shares = [s.right for s in found]
    assert shares == sorted(shares) and found[4].right == found[6].right
    assert all(share >= 0.5 for share in shares)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(1, 9), st.floats(1, 9)), max_size=20))
def test_shares_rise_and_are_probabilities(rows):
    shares = [s.right for s in fitted(Variant(*row) for row in rows)]
    assert len(shares) == len(STEPS) and shares == sorted(shares)
    assert all(0.5 <= share <= 1 for share in shares)


def test_equal_measurements_are_in_order_by_half():
    assert pairs.in_order(*chain("a", (1, 2), (2, 2))) == 0.5
    assert pairs.in_order(*chain("a", (1, 2), (2, 3))) == 1
    assert pairs.in_order(*chain("a", (1, 3), (2, 2))) == 0


def test_a_chain_gets_the_probabilities_of_the_others():
    known = [*chain("a", (100, 1), (150, 2)), *chain("b", (100, 2), (150, 1))]
    told = {(one.chain, p) for one, _, p in left_out(known)}
    assert told == {("a", 0.5), ("b", 0.75)}  # b is wrong, which is no better than chance


def test_which_is_faster_is_told_both_ways():
    steps = [Step(0.0, 0.5, 1, 1), Step(0.1, 0.9, 1, 1)]
    assert faster(120, 100, steps) == 0.9
    assert faster(100, 120, steps) == pytest.approx(0.1)
    assert faster(100, 105, steps) == 0.5


def test_the_table_in_use_is_one_of_rising_shares():
    table = pairs.stated()
    assert tuple(step.apart for step in table) == STEPS
    assert [s.right for s in table] == sorted(s.right for s in table)
    assert table[0].right < pairs.UNCERTAIN < table[-1].right
