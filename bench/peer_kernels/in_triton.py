"""The kernels in Triton, for its interpreter. The variable TRITON_INTERPRET must be set before this
module is imported."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

ROWS, WIDE = 128, 512  # rows and columns of a tile


@triton.jit
def _places(rows: tl.constexpr, columns: tl.constexpr):
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    return row[:, None] * columns + tl.arange(0, columns)[None, :]


@triton.jit
def _add(a, b, out, rows: tl.constexpr, columns: tl.constexpr):
    at = _places(rows, columns)
    tl.store(out + at, tl.load(a + at) + tl.load(b + at))


@triton.jit
def _softmax(x, out, rows: tl.constexpr, columns: tl.constexpr):
    at = _places(rows, columns)
    tile = tl.load(x + at)
    powers = tl.exp(tile - tl.max(tile, 1)[:, None])
    tl.store(out + at, powers / tl.sum(powers, 1)[:, None])


@triton.jit
def _rmsnorm(x, out, rows: tl.constexpr, columns: tl.constexpr):
    at = _places(rows, columns)
    tile = tl.load(x + at)
    mean = tl.sum(tile * tile, 1) / columns
    tl.store(out + at, tile * tl.rsqrt(mean + 1e-6)[:, None])


@triton.jit
def _matmul(a_t, b, out, depth, height, width, rows: tl.constexpr, wide: tl.constexpr):
    m = tl.program_id(0) * rows + tl.arange(0, rows)
    n = tl.program_id(1) * wide + tl.arange(0, wide)
    total = tl.zeros((rows, wide), tl.float32)
    for first in range(0, depth, rows):
        k = first + tl.arange(0, rows)
        left = tl.load(a_t + k[None, :] * height + m[:, None])
        total += tl.dot(left, tl.load(b + k[:, None] * width + n[None, :]))
    tl.store(out + m[:, None] * width + n[None, :], total)


def _by_rows(kernel, out, *given):
    rows, columns = out.shape
    arrays = [torch.from_numpy(array) for array in (*given, out)]
    kernel[(rows // ROWS,)](*arrays, ROWS, columns)


def add(a, b, out):
    _by_rows(_add, out, a, b)


def softmax(x, out):
    _by_rows(_softmax, out, x)


def rmsnorm(x, out):
    _by_rows(_rmsnorm, out, x)


def matmul(a_t, b, out):
    arrays = [torch.from_numpy(array) for array in (a_t, b, out)]
    sizes = (*a_t.shape, b.shape[1])
    _matmul[(out.shape[0] // ROWS, out.shape[1] // WIDE)](*arrays, *sizes, ROWS, WIDE)
