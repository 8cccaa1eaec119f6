"""What published kernels compute, written out in numpy; in float64 where they add things up."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np


def wide(*arrays: Any) -> tuple[Any, ...]:
    return tuple(np.asarray(a, np.float64) for a in arrays)


def rounded(values: Any, to: Any = ml_dtypes.bfloat16) -> Any:
    """What a format leaves of numbers, in float64."""
    return np.asarray(np.asarray(values, np.float32).astype(to), np.float64)


def add(a: Any, b: Any) -> Any:
    return a + b


def exponential(x: Any) -> Any:
    return np.exp(x.astype(np.float64))


def even_and_odd_columns(x: Any) -> Any:
    return x[:, 0::2], x[:, 1::2]


def windows(x: Any, size: int) -> Any:
    """[C, H, W] cut into squares: [C, H / size, W / size, size * size]."""
    c, h, w = x.shape
    squares = x.reshape(c, h // size, size, w // size, size).swapaxes(2, 3)
    return squares.reshape(c, h // size, w // size, size * size)


def pooled_max(x: Any, size: int) -> Any:
    return windows(x, size).max(-1)


def pooled_mean(x: Any, size: int) -> Any:
    return windows(x.astype(np.float64), size).mean(-1)


def rows_transposed(x: Any, shape: tuple[int, int]) -> Any:
    """Every row is a matrix of that shape, and becomes its transpose."""
    return x.reshape(-1, *shape).swapaxes(1, 2).reshape(x.shape)


def product(lhs_t: Any, rhs: Any, *_: Any) -> Any:
    a, b = wide(lhs_t, rhs)
    return a.T @ b


def rms_norm(x: Any, weight: Any, eps: float = 0.0) -> Any:
    x, weight = wide(x, weight)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight


def layer_norm(x: Any, eps: float, gamma: Any, beta: Any) -> Any:
    x, gamma, beta = wide(x, gamma, beta)
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) * gamma + beta


def mamba(delta: Any, u: Any, a: Any, b: Any, c: Any) -> Any:
    """y[t] = sum_s c[s,t] h[s,t],  h[s,t] = exp(delta[t] a[s]) h[s,t-1] + delta[t] u[t] b[s,t]"""
    delta, u, a, b, c = wide(delta, u, a, b, c)
    state, out = np.zeros((*delta.shape[:2], a.shape[1])), np.empty(delta.shape)
    for t in range(delta.shape[-1]):
        step = delta[..., t, None]
        state = np.exp(step * a) * state + step * u[..., t, None] * b[:, None, :, t]
        out[..., t] = np.einsum("bds,bs->bd", state, c[..., t])
    return out


def softmax(logits: Any) -> Any:
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


# --- microscaling: four codes side by side in an element, a scale for 8 rows of them --------------


def microscaled(codes: Any, scales: Any, form: Any) -> Any:
    """[K, F, 4] from packed codes [K, ...] and scales [K / 8, F]; 4-bit codes low nibble first."""
    data = np.ascontiguousarray(codes).view(np.uint8)
    if form == ml_dtypes.float4_e2m1fn:
        data = np.stack([data & 15, data >> 4], -1).reshape(len(data), -1)
    values = np.asarray(data.view(form), np.float64).reshape(len(data), -1, 4)
    exponents = np.repeat(scales.astype(np.int64) - 127, 8, axis=0)
    return values * 2.0 ** exponents[..., None]


def format_of(packed: Any) -> Any:
    """The numpy format in an x4 format: float8_e5m2_x4 -> ml_dtypes.float8_e5m2."""
    return getattr(ml_dtypes, str(packed).removesuffix("_x4"))


def scaled_product(a: Any, a_scale: Any, b: Any, b_scale: Any, packed: Any) -> Any:
    form = format_of(packed)
    left, right = microscaled(a, a_scale, form), microscaled(b, b_scale, form)
    return np.einsum("kmq,knq->mn", left, right, optimize=True)


def half_scaled_product(a: Any, a_scale: Any, b: Any, a_packed: Any, _: Any) -> Any:
    """The other operand comes unquantized, and as numbers that quantizing doesn't change."""
    left = microscaled(a, a_scale, format_of(a_packed))
    right = b.astype(np.float64).reshape(len(b), -1, 4)
    return np.einsum("kmq,knq->mn", left, right, optimize=True)


def strided_product(a: Any, b: Any, *_: Any) -> Any:
    return product(a, b)
