"""Folds by magnitude keep the last of elements that differ only in their sign."""

import numpy as np
import pytest

from neuroncore.numerics.loops import fold


@pytest.mark.parametrize(
    ("loop", "rows", "last"),
    [
        (fold.larger_magnitude, [[3, -3, 1], [-3, 1, 3]], [-3, 3]),
        (fold.smaller_magnitude, [[1, -1, 3], [-1, 3, 1]], [-1, 1]),
    ],
    ids=["larger", "smaller"],
)
def test_the_last_of_equal_magnitudes_is_the_result(loop, rows, last):
    x = np.array(rows, np.float32)
    state = x[:, 0].copy()
    loop(x, state)
    assert state.tolist() == last
