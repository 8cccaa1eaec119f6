"""Gather and scatter by an index, as numpy and plain loops do them."""

import numpy as np


def snake(index, partition, count, group=16):
    """The offsets of one partition, in order: down the rows of its group, column by column."""
    first = partition - partition % group
    return [int(index[first + i % group, i // group]) for i in range(count)]


def gathered(values, index, count, group=16):
    """The elements of each partition whose offsets the index has."""
    flat = values.reshape(len(values), -1)
    return np.stack([row[snake(index, p, count, group)] for p, row in enumerate(flat)])


def scattered(old, new, index, group=16):
    """What is left of `old` when `new` has been written to its places, the last one on top."""
    result = old.copy()
    for p in range(len(new)):
        for i, place in enumerate(snake(index, p, new.shape[1], group)):
            result[p, place] = new[p, i]
    return result


def an_index(shape, elements, seed=0):
    """Random offsets, some of them more than once."""
    return np.random.default_rng([seed, *shape]).integers(0, elements, shape)


def distinct(rows, elements, count, group=16, seed=0):
    """An index [rows, K] with `count` different offsets for each group."""
    rng, columns = np.random.default_rng(seed), -(-count // group)
    groups = [rng.permutation(elements)[:count] for _ in range(-(-rows // group))]
    padded = [np.pad(g, (0, group * columns - count)).reshape(columns, group).T for g in groups]
    return np.vstack(padded)[:rows]
