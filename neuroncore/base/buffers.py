"""Uninitialized memory for tiles and intermediate results, recycled.

Fresh large blocks come from the operating system page by page, which takes longer than to compute
what goes into them. A block is taken again once nothing refers to it any more.
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
SMALL = 1 << 18  # below, the allocator has no need of us
TRIES = 8  # blocks looked at before a new one is made
KEPT_BYTES = 1 << 27  # what may be made, on top of what is in use, before free blocks are let go
LARGE = KEPT_BYTES // 2  # above, what is kept would crowd out all else


# The reference count of a block that only its entry refers to, as Python's release counts it.
_sample = deque([(np.empty(1, np.uint8), 0)])
_UNUSED = sys.getrefcount(_sample[0][0])


class _Pool(threading.local):
    def __init__(self) -> None:
        self.blocks: dict[int, deque[tuple[Array, int]]] = {}  # each with where it is aligned
        self.total = 0
        self.limit = KEPT_BYTES  # of the total; to look for free blocks takes time for each
        self.roles: dict[str, Array] = {}  # the memory of each
        # what each was given last, of that, and its shape and type
        self.scratch: dict[str, tuple[tuple[int, ...], np.dtype[Any], Array]] = {}


_pool = _Pool()


def _made(nbytes: int) -> tuple[Array, int]:
    raw = np.empty(nbytes + CACHE_LINE, np.uint8)
    return raw, -raw.__array_interface__["data"][0] % CACHE_LINE


def fresh(nbytes: int) -> Array:
    """Bytes that start on a cache line, new from the allocator."""
    raw, skip = _made(nbytes)
    return raw[skip : skip + nbytes]


def _taken(nbytes: int) -> tuple[Array, int]:
    """Return a block that is not in use, and the position of its first cache line."""
    blocks = _pool.blocks.get(nbytes)
    if blocks is None:
        blocks = _pool.blocks[nbytes] = deque()
    for _ in range(min(TRIES, len(blocks))):
        # the block that was let go last is the one that caches still hold
        if sys.getrefcount(blocks[0][0]) == _UNUSED:
            return blocks[0]
        blocks.rotate(-1)
    if _pool.total > _pool.limit:
        _release()
        _pool.limit = _pool.total + _pool.total // 8 + KEPT_BYTES
        blocks = _pool.blocks[nbytes]
    made = _made(nbytes)
    blocks.append(made)
    _pool.total += nbytes
    return made


def take(nbytes: int) -> Array:
    """Bytes that start on a cache line and that nobody else uses."""
    if nbytes < SMALL:
        return np.empty(nbytes, BYTE)
    return array((nbytes,), BYTE) if nbytes <= LARGE else fresh(nbytes)


def floats(shape: tuple[int, ...]) -> Array:
    """An uninitialized float32 array."""
    return array(shape, FLOAT)


def array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An uninitialized array."""
    size = prod(shape) * dtype.itemsize
    if size < SMALL:
        return np.empty(shape, dtype)
    raw, skip = _taken(size)
    return np.ndarray(shape, dtype, raw, skip)


def filled(shape: tuple[int, ...], value: Any, dtype: npt.DTypeLike) -> Array:
    """An array that has the value everywhere."""
    made = array(shape, np.dtype(dtype))
    made.fill(value)
    return made


def copied(values: Array) -> Array:
    """A copy of a C-contiguous array, in recycled memory unless it is very large."""
    made = array(values.shape, values.dtype) if values.nbytes <= LARGE else np.empty_like(values)
    np.copyto(made, values)
    return made


def _release() -> None:
    """Free every block that nobody uses."""
    for nbytes, blocks in _pool.blocks.items():
        for _ in range(len(blocks)):
            if sys.getrefcount(blocks[0][0]) == _UNUSED:
                blocks.popleft()
                _pool.total -= nbytes
            else:
                blocks.rotate(-1)


def scratch(role: str, shape: tuple[int, ...], dtype: np.dtype[Any] = FLOAT) -> Array:
    """An uninitialized array for one step of one computation.

    Each request for a role returns the same memory, so nothing may keep it.
    """
    last = _pool.scratch.get(role)
    if last is not None and last[0] == shape and last[1] is dtype:
        return last[2]
    size = prod(shape) * dtype.itemsize
    block = _pool.roles.get(role)
    if block is None or block.size < size:
        block = _pool.roles[role] = fresh(size)
    made: Array = np.ndarray(shape, dtype, block)
    _pool.scratch[role] = shape, dtype, made
    return made


def contiguous(values: Array) -> Array:
    """The array itself if it is C-contiguous, else a copy."""
    if values.flags.c_contiguous:
        return values
    copy = array(values.shape, values.dtype)
    copy[...] = values
    return copy
