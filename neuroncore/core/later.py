"""Deferred products of the Tensor engine, which several threads compute.

A sum in PSUM consists of products that are added one after the other to the same elements. The
operands of a deferred product are packed copies (`packs`), which are never changed. The rows of the
result are divided into shares. A share is computed product by product, in the order of the kernel,
and by one thread at a time. So the bits of the result don't depend on the number of threads or on
their timing. A read of the elements (`Tile.codes`) first completes the sum, and the reading thread
helps to compute it. If there is only one thread, nothing is deferred.

The environment variable OMP_NUM_THREADS, which many numeric libraries use, sets the number of
threads. By default there is one thread for each processor."""

from __future__ import annotations

import os
import sys
from queue import SimpleQueue
from threading import Condition, Thread
from typing import Any

import numpy as np

from neuroncore.base import buffers
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics.formats import float32
from neuroncore.numerics.loops import matmul
from neuroncore.numerics.loops.blocks import ROWS

THREADS = "OMP_NUM_THREADS"
MOST = 64  # the largest number of deferred products of a sum; more would take too much memory
WORTH = 1 << 20  # the least number of multiplications of a deferred product
AHEAD = 4  # another thread is woken after each group of this many products
SHARES = 2  # shares of a sum per thread
SWITCH = 2e-4  # seconds after which Python switches to a thread that has computed its share


def threads() -> int:
    """Return the number of threads that compute products."""
    setting = os.environ.get(THREADS, "")
    if setting.isdecimal() and int(setting):
        return int(setting)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_for(dst: Tile, stationary: Tile) -> int:
    """Return how many threads should compute products of these tiles: 1 for small tiles, and if
    `dst` is not a float32 matrix."""
    whole = dst.dtype is float32 and len(dst.shape) == 2
    return threads() if whole and dst.size * stationary.shape[0] >= WORTH else 1


class Sum:
    """Deferred products that `count` threads add to one window of a tensor in PSUM."""

    def __init__(self, dst: Tile, count: int) -> None:
        self._storage, self._geometry, self._offset = dst.storage, dst.geometry, dst.offset
        self._out = dst.codes()
        blocks = -(-len(self._out) // ROWS)
        shares = min(SHARES * count, blocks)
        self._ends = [blocks * share // shares for share in range(shares + 1)]
        self._done, self._busy = [0] * shares, [False] * shares
        self._operands: list[Any] = []
        self._listed = np.empty((MOST, 4), np.int64)
        self._count, self._is_called = 0, False
        self._changed = Condition()

    def is_at(self, dst: Tile) -> bool:
        return dst.offset == self._offset and dst.geometry is self._geometry

    def add(self, s: Array, x: Array, accumulate: bool) -> None:
        """Defer a product of packed operands. It is added to the window, or replaces its
        contents."""
        if self._count == MOST:
            self._compute_all()
            self._operands.clear()
            with self._changed:
                self._count, self._done = 0, [0] * len(self._done)
        self._operands += s, x
        self._listed[self._count] = _address(s), _address(x), s.shape[1], accumulate
        with self._changed:
            self._count += 1
        if self._count % AHEAD == 0:
            self._call()

    def _call(self) -> None:
        """Wake another thread to help."""
        if not self._is_called:
            self._is_called = True
            _waiting.put(self)

    def finish(self) -> None:
        """Compute all deferred products, possibly with the help of other threads. No further
        product can be added."""
        if self._count > 1:
            self._call()
        self._compute_all()
        self._storage.pending = None
        self._operands.clear()

    def help(self) -> None:
        """Compute outstanding products of the shares that no other thread is computing."""
        self._is_called = False
        while self._share():
            pass

    def _compute_all(self) -> None:
        while True:
            self.help()
            with self._changed:
                if not any(self._busy):
                    if min(self._done) == self._count:
                        return
                    continue
                self._changed.wait()

    def _share(self) -> bool:
        """Compute the products of one share that no thread computes: the share with the fewest
        completed products. Return False if there is none."""
        with self._changed:
            free = [n for n, busy in enumerate(self._busy) if not busy]
            share = min(free, key=self._done.__getitem__, default=-1)
            if share < 0 or self._done[share] == self._count:
                return False
            self._busy[share] = True
            first, end = self._done[share], self._count
        try:
            low, high = self._ends[share : share + 2]
            edge = buffers.scratch("edge", matmul.EDGE)
            matmul.chains()(self._listed, first, end, low, high, self._out, edge)
        finally:
            with self._changed:
                self._done[share], self._busy[share] = end, False
                self._changed.notify_all()
        return True


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def put_off(count: int, dst: Tile, s: Array, x: Array, accumulate: bool) -> bool:
    """Defer a product of packed operands, and return True. Return False if it can't be deferred.

    `count`: the number of threads
    `accumulate`: whether the product is added to `dst`

    Products at addresses that the kernel chose are not deferred: reads of other tensors at these
    addresses would not complete them."""
    if s.ndim < 3 or x.ndim > 1 or dst.storage.image is not None:
        return False
    pending = dst.storage.pending
    if not isinstance(pending, Sum) or not pending.is_at(dst):
        if not _start(count):
            return False
        pending = Sum(dst, count)
        dst.storage.pending = pending
    pending.add(s, x, accumulate)
    return True


# --- threads --------------------------------------------------------------------------------------

_waiting: SimpleQueue[Sum | None] = SimpleQueue()
_started: list[Thread] = []


def _start(count: int) -> bool:
    """Start threads until there are `count`, with the calling thread. Return False if none can
    start."""
    while len(_started) < count - 1:
        thread = Thread(target=_serve, name="neuroncore products", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the process may not start threads
            return bool(_started)
        _started.append(thread)
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH))
    return True


def _serve() -> None:
    while (waiting := _waiting.get()) is not None:
        waiting.help()


def _stop() -> None:
    """End the threads before a fork, because a process with threads can't be forked safely."""
    for _ in _started:
        _waiting.put(None)
    while _started:
        _started.pop().join()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_stop)
