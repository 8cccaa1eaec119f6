"""Reference for the Tensor engine's sums."""

import numpy as np


def fused(a, b, c):
    """Return float32(a * b + c), rounded once. The product is exact in float64, and the sum is
    rounded to odd there, so that only the rounding to float32 counts (Boldo and Melquiond,
    2008)."""
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    total = product + addend
    there = total - product
    lost = (product - (total - there)) + (addend - there)
    codes = total.view(np.int64)
    nudge = np.where((lost > 0) == (total > 0), 1, -1)
    even_and_inexact = (lost != 0) & (codes & 1 == 0)
    return (codes + np.where(even_and_inexact, nudge, 0)).view(np.float64).astype(np.float32)


def chain(s, x):
    """The documented sum: fused multiply-adds from row 0 on, starting from +0."""
    out = np.zeros((s.shape[1], x.shape[1]), np.float32)
    for k in range(s.shape[0]):
        out = fused(s[k][:, None], x[k][None, :], out)
    return out


def normal(shape, seed=0, scale=1.0):
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)
