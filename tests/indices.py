"""Indices that select elements."""

import numpy as np


def an_index(shape, elements, seed=0):
    """Random offsets, some of which are repeated."""
    return np.random.default_rng([seed, *shape]).integers(0, elements, shape)


def distinct(rows, elements, count, group=16, seed=0):
    """An index [rows, K] with `count` different offsets for each group."""
    rng, columns = np.random.default_rng(seed), -(-count // group)
    groups = [rng.permutation(elements)[:count] for _ in range(-(-rows // group))]
    padded = [np.pad(g, (0, group * columns - count)).reshape(columns, group).T for g in groups]
    return np.vstack(padded)[:rows]
