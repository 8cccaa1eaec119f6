"""Recycled memory: a free block is used again, and free blocks are released before the pool grows
past the size of the blocks in use."""

from itertools import pairwise

import numpy as np
import pytest

from neuroncore.base import buffers

BLOCK = 2 * buffers.SMALL
KEPT = 16 * BLOCK


@pytest.fixture
def pool(monkeypatch):
    """A separate pool that keeps 16 free blocks in addition to the blocks in use."""
    monkeypatch.setattr(buffers, "KEPT_BYTES", KEPT)
    made = buffers._Pool()
    monkeypatch.setattr(buffers, "_pool", made)
    return made


def taken(count, nbytes=BLOCK):
    return [buffers.take(nbytes) for _ in range(count)]


def test_a_free_block_is_used_again_but_a_block_in_use_is_not(pool):
    first = buffers.take(BLOCK)
    where = first.ctypes.data
    second = buffers.take(BLOCK)
    assert not np.may_share_memory(first, second)
    del first
    assert buffers.take(BLOCK).ctypes.data == where
    assert pool.total == 2 * BLOCK


def test_a_view_keeps_a_block_in_use(pool):
    view = buffers.take(BLOCK)[5:7]
    assert not np.may_share_memory(view, buffers.take(BLOCK))


def test_free_blocks_are_released_for_blocks_of_other_sizes(pool):
    held = taken(100)
    del held
    held = [taken(10, BLOCK + 64 * n) for n in range(1, 6)]
    in_use = sum(block.nbytes for blocks in held for block in blocks)
    assert pool.total <= in_use + in_use // 8 + KEPT


def test_the_pool_looks_for_free_blocks_only_after_it_has_grown(pool, monkeypatch):
    looked, release = [], buffers._release
    monkeypatch.setattr(buffers, "_release", lambda: (looked.append(pool.total), release()))
    held = taken(400)
    assert len(held) == 400 and 1 <= len(looked) < 400 * BLOCK / KEPT
    assert all(later - earlier >= KEPT for earlier, later in pairwise(looked))
