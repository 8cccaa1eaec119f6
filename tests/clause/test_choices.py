"""Chosen elements of large arrays, which loops copy: widths, gaps between rows, overlap."""

import numpy as np
import pytest

from neuroncore.clause import arithmetic as numeric
from neuroncore.clause.alu import OPERATORS

SHAPE = 33, 71  # more elements than numpy copies itself


def numbers(kind, seed):
    return np.random.default_rng(seed).integers(0, 200, SHAPE).astype(kind)


@pytest.mark.parametrize("kind", ["uint8", "int16", "float16", "int32", "float32", "float64"])
@pytest.mark.parametrize("gaps", [False, True])
def test_the_chosen_elements_are_copied_and_no_others(kind, gaps):
    chosen, source, before = numbers(int, 0) % 3 == 0, numbers(kind, 1), numbers(kind, 2)
    room = np.zeros((SHAPE[0], SHAPE[1] + gaps), kind)
    out = room[:, : SHAPE[1]]
    for codes in (source, np.asfortranarray(source), source[3, 4]):
        out[...] = before
        numeric.choose(chosen, codes, out)
        assert np.array_equal(out, np.where(chosen, codes, before))
    assert not room[:, SHAPE[1] :].any()


def test_a_source_that_lies_on_the_result_is_read_before():
    room = np.arange(2 * SHAPE[0] * SHAPE[1], dtype=np.int32)
    size = SHAPE[0] * SHAPE[1]
    out, source = room[7 : 7 + size].reshape(SHAPE), room[:size].reshape(SHAPE)
    chosen = numbers(int, 3) % 2 == 0
    expected = np.where(chosen, source, out)
    numeric.choose(chosen, source, out)
    assert np.array_equal(out, expected)


def test_values_are_chosen_with_one_of_each_lane_elsewhere():
    chosen, values = numbers(int, 4) % 2 == 0, numbers(np.float32, 5)
    lanes = np.arange(SHAPE[0], dtype=np.float32)[:, np.newaxis]
    assert np.array_equal(numeric.where(chosen, values, lanes), np.where(chosen, values, lanes))


def test_powers_of_minus_zero_and_minus_infinity_are_those_of_C():
    a, out = np.array([[-0.0, -np.inf, 4, -4]], np.float32), np.empty((1, 4), np.float32)
    OPERATORS["power"].apply(a, np.float32(0.5), out)
    assert out.tolist()[0][:3] == [0, np.inf, 2] and not np.signbit(out[0, 0])
    assert np.isnan(out[0, 3])
