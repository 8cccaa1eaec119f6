"""Recycled uninitialized memory for tiles and intermediate results.

The operating system hands out fresh large blocks page by page, which takes longer than computing
their contents. So a block is reused as soon as no array refers to it.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

CACHE_LINE = 64
BYTE, FLOAT = np.dtype(np.uint8), np.dtype(np.float32)
SMALL = 1 << 18  # for smaller blocks the allocator is fast enough
TRIES = 8  # the most existing blocks that are checked before a new one is allocated
# bytes that may be allocated on top of those in use, before unused blocks are freed
KEPT_BYTES = 1 << 27
LARGE = KEPT_BYTES // 2  # larger blocks are not kept: they would crowd out all others


# The reference count of a block that only its pool entry refers to, as this version of Python
# counts.
_sample = deque([(np.empty(1, np.uint8), 0)])
_UNUSED = sys.getrefcount(_sample[0][0])


class _Pool(threading.local):
    def __init__(self) -> None:
        # by size: each block and the position of its first cache line
        self.blocks: dict[int, deque[tuple[Array, int]]] = {}
        self.total = 0
        # of `total`: at this many bytes unused blocks are searched for and freed
        self.limit = KEPT_BYTES
        self.roles: dict[str, Array] = {}  # by role: the memory of its scratch array
        # by role: the shape, the type and the array of its last request
        self.scratch: dict[str, tuple[tuple[int, ...], np.dtype[Any], Array]] = {}


_pool = _Pool()


def _allocated(nbytes: int) -> tuple[Array, int]:
    """Allocate a block. Return it, and the offset in bytes of its first cache-line boundary, after
    which the block has at least `nbytes` bytes."""
    raw = np.empty(nbytes + CACHE_LINE, np.uint8)
    return raw, -raw.__array_interface__["data"][0] % CACHE_LINE


def fresh(nbytes: int) -> Array:
    """Return newly allocated bytes that start on a cache line."""
    raw, skip = _allocated(nbytes)
    return raw[skip : skip + nbytes]


def _unused_block(nbytes: int) -> tuple[Array, int]:
    """Return a block that no array uses, and the offset in bytes of its first cache-line
    boundary."""
    blocks = _pool.blocks.get(nbytes)
    if blocks is None:
        blocks = _pool.blocks[nbytes] = deque()
    for _ in range(min(TRIES, len(blocks))):
        # the block that was freed last is probably still in the caches
        if sys.getrefcount(blocks[0][0]) == _UNUSED:
            return blocks[0]
        blocks.rotate(-1)
    if _pool.total > _pool.limit:
        _release()
        _pool.limit = _pool.total + _pool.total // 8 + KEPT_BYTES
        blocks = _pool.blocks[nbytes]
    block = _allocated(nbytes)
    blocks.append(block)
    _pool.total += nbytes
    return block


def take(nbytes: int) -> Array:
    """Return bytes that no other array uses. They start on a cache line if `nbytes` is at least
    SMALL."""
    if nbytes < SMALL:
        return np.empty(nbytes, BYTE)
    return array((nbytes,), BYTE) if nbytes <= LARGE else fresh(nbytes)


def floats(shape: tuple[int, ...]) -> Array:
    """Return an uninitialized float32 array."""
    return array(shape, FLOAT)


def array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an uninitialized array, in recycled memory if it has at least SMALL bytes."""
    size = prod(shape) * dtype.itemsize
    if size < SMALL:
        return np.empty(shape, dtype)
    raw, skip = _unused_block(size)
    return np.ndarray(shape, dtype, raw, skip)


def filled(shape: tuple[int, ...], value: Any, dtype: npt.DTypeLike) -> Array:
    """Return an array with this value in every element."""
    result = array(shape, np.dtype(dtype))
    result.fill(value)
    return result


def copied(values: Array) -> Array:
    """Return a copy of a C-contiguous array, in recycled memory unless it is larger than LARGE."""
    copy = array(values.shape, values.dtype) if values.nbytes <= LARGE else np.empty_like(values)
    np.copyto(copy, values)
    return copy


def _release() -> None:
    """Free all blocks that no array uses."""
    for nbytes, blocks in _pool.blocks.items():
        for _ in range(len(blocks)):
            if sys.getrefcount(blocks[0][0]) == _UNUSED:
                blocks.popleft()
                _pool.total -= nbytes
            else:
                blocks.rotate(-1)


def scratch(role: str, shape: tuple[int, ...], dtype: np.dtype[Any] = FLOAT) -> Array:
    """Return an uninitialized array for one step of a computation.

    `role` is a name that the caller chooses. All requests of a thread for the same role return the
    same memory, so a caller must not keep the array.
    """
    last = _pool.scratch.get(role)
    if last is not None and last[0] == shape and last[1] is dtype:
        return last[2]
    size = prod(shape) * dtype.itemsize
    block = _pool.roles.get(role)
    if block is None or block.size < size:
        block = _pool.roles[role] = fresh(size)
    result: Array = np.ndarray(shape, dtype, block)
    _pool.scratch[role] = shape, dtype, result
    return result


def contiguous(values: Array) -> Array:
    """Return the array itself if it is C-contiguous, else a copy."""
    if values.flags.c_contiguous:
        return values
    copy = array(values.shape, values.dtype)
    copy[...] = values
    return copy
