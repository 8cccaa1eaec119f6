"""Uninitialised memory for tiles and intermediate results, recycled.

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
SMALL = 1 << 15  # below, the allocator has no need of us
TRIES = 8  # blocks looked at before a new one is made
KEPT_BYTES = 1 << 26  # free and used together; beyond, a size's free blocks are let go


def _references(entry: tuple[Array, int]) -> int:
    return sys.getrefcount(entry[0])


# What that gives for a block that only its entry refers to; it differs between Python releases.
_sample = (np.empty(1, np.uint8), 0)
_UNUSED = _references(_sample)


class _Pool(threading.local):
    def __init__(self) -> None:
        self.blocks: dict[int, deque[tuple[Array, int]]] = {}  # each with where it is aligned
        self.total = 0


_pool = _Pool()


def _made(nbytes: int) -> tuple[Array, int]:
    raw = np.empty(nbytes + CACHE_LINE, np.uint8)
    return raw, -raw.__array_interface__["data"][0] % CACHE_LINE


def fresh(nbytes: int) -> Array:
    """Bytes that start on a cache line, new from the allocator."""
    raw, skip = _made(nbytes)
    return raw[skip : skip + nbytes]


def take(nbytes: int) -> Array:
    """Bytes that start on a cache line and that nobody else uses."""
    if nbytes < SMALL:
        return np.empty(nbytes, np.uint8)
    blocks = _pool.blocks.get(nbytes)
    if blocks is None:
        blocks = _pool.blocks[nbytes] = deque()
    for _ in range(min(TRIES, len(blocks))):
        # the block that was let go last is the one that caches still hold
        if _references(blocks[0]) == _UNUSED:
            raw, skip = blocks[0]
            return raw[skip : skip + nbytes]
        blocks.rotate(-1)
    if _pool.total > KEPT_BYTES:
        _release()
        blocks = _pool.blocks[nbytes]
    raw, skip = _made(nbytes)
    blocks.append((raw, skip))
    _pool.total += nbytes
    return raw[skip : skip + nbytes]


def _release() -> None:
    """Let go of every block that nobody uses."""
    for nbytes, blocks in _pool.blocks.items():
        used = deque(entry for entry in blocks if _references(entry) != _UNUSED)
        _pool.total -= nbytes * (len(blocks) - len(used))
        _pool.blocks[nbytes] = used


def floats(shape: tuple[int, ...]) -> Array:
    """An uninitialised float32 array."""
    size = prod(shape)
    if size < SMALL // 4:
        return np.empty(shape, np.float32)
    return take(size * 4).view(np.float32).reshape(shape)
