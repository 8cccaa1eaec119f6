"""Recycled memory: a free block is used again, and free blocks are released before the pool grows
past the size of the blocks in use."""

from itertools import pairwise
from threading import Thread

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


VIEWS = {
    "slice": lambda block: block[5:7],
    "view of a view": lambda block: block[4:][::2][3:9],
    "array at an offset": lambda block: np.ndarray((3, 2), np.float32, block, 8, (8, 4)),
    "reshaped": lambda block: block.reshape(4, -1).T[1:],
    "other type": lambda block: block.view(np.float64)[1:],
    "broadcast": lambda block: np.broadcast_to(block[:3], (2, 3)),
    "strided": lambda block: np.lib.stride_tricks.as_strided(block, (2, 3), (6, 1)),
    "buffer": lambda block: np.frombuffer(memoryview(block)[8:], np.uint16),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_a_view_keeps_a_block_in_use(pool, view):
    part = view(buffers.take(BLOCK))
    where = part.ctypes.data
    assert not np.may_share_memory(part, buffers.take(BLOCK))
    del part
    again = buffers.take(BLOCK).ctypes.data
    assert again <= where < again + BLOCK


def test_the_block_that_was_freed_last_is_used_first(pool):
    held = dict(enumerate(taken(20)))
    order = [7, 3, 11]
    where = [held[n].ctypes.data for n in order]
    for n in order:
        del held[n]
    again = taken(3)
    assert [block.ctypes.data for block in again] == where[::-1]
    assert pool.total == 20 * BLOCK


def test_another_thread_may_free_a_block(pool):
    held = taken(2)
    where = {block.ctypes.data for block in held}
    thread = Thread(target=held.clear)
    thread.start()
    thread.join()
    assert {block.ctypes.data for block in taken(2)} == where


def test_free_blocks_are_released_for_blocks_of_other_sizes(pool):
    held = taken(100)
    del held
    held = [taken(10, BLOCK + 64 * n) for n in range(1, 6)]
    in_use = sum(block.nbytes for blocks in held for block in blocks)
    assert pool.total <= in_use + in_use // 8 + KEPT


def test_the_pool_looks_for_free_blocks_only_after_it_has_grown(pool, monkeypatch):
    looked, release = [], buffers.release
    monkeypatch.setattr(buffers, "release", lambda: (looked.append(pool.total), release()))
    held = taken(400)
    assert len(held) == 400 and 1 <= len(looked) < 400 * BLOCK / KEPT
    assert all(later - earlier >= KEPT for earlier, later in pairwise(looked))
