"""Operands with one number for each partition: their loops give the bits of numpy."""

import numpy as np
import pytest
from device import Device
from neuroncore.isa.operators import OPERATORS

from neuroncore.clause import arithmetic

LANES = 128


def numbers(count):
    """Random numbers, including -0, infinities, NaN and subnormal numbers."""
    found = np.random.default_rng(0).standard_normal(count).astype(np.float32)
    found[::7], found[::11], found[::13], found[::17] = -0.0, np.inf, np.nan, 1e-42
    return found


@pytest.mark.parametrize("name", ["multiply", "add", "subtract"])
@pytest.mark.parametrize("columns", [3, arithmetic.WORTH // LANES])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_column_gives_the_bits_of_numpy_for_any_place_of_the_result(name, columns):
    operator, operand = OPERATORS[name], Device().tile(np.zeros((LANES, 1), np.float32))
    run, size = arithmetic.applied((operator, operand, False)), LANES * columns
    for place in (size + 8, 8, 0):  # apart, overlapping, and the matrix itself
        memory = numbers(2 * size + 8)
        x, out = (memory[n : n + size].reshape(LANES, columns) for n in (0, place))
        for column in (numbers(LANES).reshape(LANES, 1), out[:, :1]):
            wanted = operator.apply(x.copy(), column.copy(), np.empty_like(x))
            run(x, column, out)
            assert out.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("columns", [3, arithmetic.WORTH // LANES])
@pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow")
def test_a_scale_and_a_bias_are_rounded_twice(columns):
    x, bias = numbers(LANES * columns).reshape(LANES, columns), numbers(LANES).reshape(LANES, 1)
    out, scale = np.empty_like(x), np.float32(1.1)
    done = arithmetic.scale_and_add(x, scale, bias, out)
    assert done == (x.size >= arithmetic.WORTH)
    if done:
        assert out.tobytes() == (x * scale + bias).tobytes()
    assert not arithmetic.scale_and_add(x.astype(np.float64), scale, bias, out)
