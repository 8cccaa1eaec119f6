"""Recycles memory for tiles and intermediate results. The memory is uninitialized.

The operating system provides new large blocks page by page, which takes longer than computing their
contents. So a block is reused as soon as no array refers to it. The block that was freed last is
used first, because it is probably still in the caches."""

from __future__ import annotations

import threading
from math import prod
from typing import Any
from weakref import ref

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

CACHE_LINE = 64
BYTE, FLOAT = np.dtype(np.uint8), np.dtype(np.float32)
SMALL = 1 << 18  # smaller blocks are not recycled, because the allocator is fast enough for them
# about this many bytes may be allocated in addition to the bytes in use; then unused blocks are
# freed
KEPT_BYTES = 1 << 27
LARGE = KEPT_BYTES // 2  # larger blocks are not recycled, because they would replace all others


class _Raw(np.ndarray[Any, np.dtype[Any]]):
    """The memory of a block. Its type is not a plain array.

    A block is free when the array in it no longer exists, so this array must exist as long as its
    views do. numpy makes the array in the block the base of further views (PyArray_SetBaseObject).
    If the memory were a plain array, numpy would make the memory the base instead."""


Block = tuple[_Raw, int]  # the memory, and the position of its first cache line


class _Use(ref[Array]):
    """A reference to the array in a block. When the array no longer exists, the block is free."""

    __slots__ = "block", "free", "uses"

    block: Block
    free: list[Block]
    uses: dict[int, _Use]


def _end(use: Any) -> None:
    """Add a block to the free blocks when the array in it no longer exists. Another thread may call
    this."""
    use.free.append(use.block)
    del use.uses[id(use)]


class _Pool(threading.local):
    def __init__(self) -> None:
        self.free: dict[int, list[Block]] = {}  # the blocks that no array uses, by size
        self.uses: dict[int, _Use] = {}  # by the id of the _Use
        self.total = 0  # the bytes of all blocks
        # if `total` is larger than this, the unused blocks are freed
        self.limit = KEPT_BYTES
        self.roles: dict[str, Array] = {}  # the memory of the scratch array of each role
        # the shape, the type and the array of the last request for each role
        self.scratch: dict[str, tuple[tuple[int, ...], np.dtype[Any], Array]] = {}


_pool = _Pool()


def _first_line(raw: Array) -> int:
    """Return the offset in bytes of the first cache line that begins in an array."""
    return int(-raw.__array_interface__["data"][0] % CACHE_LINE)


def fresh(nbytes: int) -> Array:
    """Return newly allocated bytes that begin with a cache line."""
    raw = np.empty(nbytes + CACHE_LINE, np.uint8)
    skip = _first_line(raw)
    return raw[skip : skip + nbytes]


def _new_block(nbytes: int) -> Block:
    """Allocate a block. If the pool exceeds its limit, first free all blocks that no array uses."""
    if _pool.total > _pool.limit:
        release()
        _pool.limit = _pool.total + _pool.total // 8 + KEPT_BYTES
    raw = _Raw((nbytes + CACHE_LINE,), BYTE)
    _pool.total += nbytes
    return raw, _first_line(raw)


def take(nbytes: int) -> Array:
    """Return bytes that no other array uses. SMALL bytes or more begin at the start of a cache
    line."""
    return array((nbytes,), BYTE)


def floats(shape: tuple[int, ...]) -> Array:
    """Return an uninitialized float32 array."""
    return array(shape, FLOAT)


def array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an uninitialized array, in recycled memory if it has from SMALL to LARGE bytes."""
    size = prod(shape) * dtype.itemsize
    if size < SMALL:
        return np.empty(shape, dtype)
    if size > LARGE:
        return np.ndarray(shape, dtype, fresh(size))
    free = _pool.free.get(size)
    if free is None:
        free = _pool.free[size] = []
    block = free.pop() if free else _new_block(size)
    result: Array = np.ndarray(shape, dtype, *block)
    use = _Use(result, _end)
    use.block, use.free, use.uses = block, free, _pool.uses
    _pool.uses[id(use)] = use
    return result


def filled(shape: tuple[int, ...], value: Any, dtype: npt.DTypeLike) -> Array:
    """Return an array with this value in every element."""
    result = array(shape, np.dtype(dtype))
    result.fill(value)
    return result


def repeated(number: np.generic, count: int) -> Array:
    """Return a read-only array that contains a number `count` times and has the memory of one. It
    is made faster than np.broadcast_to makes it."""
    result: Array = np.ndarray((count,), number.dtype, number.tobytes(), strides=(0,))
    return result


def copied(values: Array) -> Array:
    """Return a copy of a C-contiguous array, in recycled memory unless it is larger than LARGE."""
    if values.nbytes < SMALL:
        return values.copy()
    copy = array(values.shape, values.dtype)
    np.copyto(copy, values)
    return copy


def release() -> None:
    """Free all blocks of this thread that no array uses."""
    for nbytes, free in _pool.free.items():
        count = len(free)  # another thread may add to them
        del free[:count]
        _pool.total -= nbytes * count


def scratch(role: str, shape: tuple[int, ...], dtype: np.dtype[Any] = FLOAT) -> Array:
    """Return an uninitialized array for one step of a computation.

    All requests of a thread for one `role`, a name that the caller chooses, return the same memory.
    So a caller must not keep the array."""
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
    """Return the array itself if it is C-contiguous, otherwise a C-contiguous copy."""
    if values.flags.c_contiguous:
        return values
    copy = array(values.shape, values.dtype)
    copy[...] = values
    return copy
