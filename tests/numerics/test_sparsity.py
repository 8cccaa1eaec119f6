"""Structured sparsity: weights are compressed and tagged, and weights that break a pattern are
named."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuroncore.base.errors import UsageError
from neuroncore.numerics import packed


def sparse_weights(pattern, groups, columns, seed):
    """[N * groups, columns] with at most A numbers that are not zero in each group."""
    kept, among = pattern
    rng = np.random.default_rng([seed, *pattern])
    weights = np.zeros((groups, among, columns), np.float32)
    for group, column in np.ndindex(groups, columns):
        rows = rng.choice(among, rng.integers(0, kept + 1), replace=False)
        weights[group, rows, column] = rng.integers(1, 9, len(rows))
    return weights.reshape(-1, columns)


def decompressed(values, tags, pattern):
    """The dense weights, a number at a time."""
    kept, among = pattern
    dense = np.zeros((len(values) // kept * among, values.shape[1]), values.dtype)
    for k, m in np.ndindex(values.shape):
        tag = int(tags[k, m // 4]) >> 4 * (m % 4) & 15
        dense[k // kept * among + tag, m] += values[k, m]
    return dense


@pytest.mark.parametrize("pattern", packed.PATTERNS)
@given(seed=st.integers(0, 1 << 20), groups=st.integers(1, 5), words=st.integers(1, 4))
def test_compressed_weights_are_the_weights(pattern, seed, groups, words):
    weights = sparse_weights(pattern, groups, 4 * words, seed)
    values, tags = packed.compress(weights, pattern)
    kept, among = pattern
    assert len(values) * among == len(weights) * kept and tags.dtype == np.uint16
    assert np.array_equal(decompressed(values, tags, pattern), weights)


def test_the_patterns_are_the_published_ones():
    printed = ["4:16", "4:12", "4:8", "2:8", "2:4", "1:4", "1:2"]
    assert [f"{kept}:{among}" for kept, among in packed.PATTERNS] == printed


def test_weights_that_break_the_pattern_are_named():
    weights = np.zeros((32, 8), np.float32)
    weights[16:21, 3] = 1
    assert packed.compress(weights[:16], (4, 16))[0].shape == (4, 8)
    with pytest.raises(UsageError, match=r"rows 16 to 31 of column 3 have 5 weights .* keeps 4"):
        packed.compress(weights, (4, 16))


@pytest.mark.parametrize(
    ("shape", "pattern"), [((32, 8), (3, 16)), ((30, 8), (4, 16)), ((32, 6), (4, 16))]
)
def test_weights_of_no_pattern_are_refused(shape, pattern):
    with pytest.raises(UsageError, match="patterns are 4:16, 4:12"):
        packed.compress(np.zeros(shape, np.float32), pattern)
