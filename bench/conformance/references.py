"""The functions that published kernels compute, in numpy. Sums are computed in float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np


def wide(*arrays: Any) -> tuple[Any, ...]:
    return tuple(np.asarray(a, np.float64) for a in arrays)


def rounded(values: Any, to: Any = ml_dtypes.bfloat16) -> Any:
    """Return numbers rounded to a format, as float64."""
    return np.asarray(np.asarray(values, np.float32).astype(to), np.float64)


def add(a: Any, b: Any) -> Any:
    return a + b


def add_in_a_column(a: Any, b: Any) -> Any:
    return (a + b)[:, None]


def exponential(x: Any) -> Any:
    return np.exp(x.astype(np.float64))


def even_and_odd_columns(x: Any) -> Any:
    return x[:, 0::2], x[:, 1::2]


def windows(x: Any, size: int) -> Any:
    """Return x [C, H, W], cut into squares: [C, H / size, W / size, size * size]."""
    c, h, w = x.shape
    squares = x.reshape(c, h // size, size, w // size, size).swapaxes(2, 3)
    return squares.reshape(c, h // size, w // size, size * size)


def pooled_max(x: Any, size: int) -> Any:
    return windows(x, size).max(-1)


def pooled_mean(x: Any, size: int) -> Any:
    return windows(x.astype(np.float64), size).mean(-1)


def doubled(x: Any, axes: int) -> Any:
    """Return x with the last `axes` axes twice as long. Each number is interpolated from the
    nearest two numbers of x, 3/4 of the nearest and 1/4 of the next. At the ends it is the nearest
    number."""
    for axis in range(x.ndim - axes, x.ndim):
        size = x.shape[axis]
        before = np.take(x, np.maximum(np.arange(size) - 1, 0), axis)
        after = np.take(x, np.minimum(np.arange(size) + 1, size - 1), axis)
        pairs = np.stack([0.75 * x + 0.25 * before, 0.75 * x + 0.25 * after], axis + 1)
        x = pairs.reshape(*x.shape[:axis], 2 * size, *x.shape[axis + 1 :])
    return x


def bilinear(x: Any, *_: Any) -> Any:
    return doubled(x, 2)


def trilinear(x: Any, *_: Any) -> Any:
    return doubled(x, 3)


def rows_transposed(x: Any, shape: tuple[int, int]) -> Any:
    """Return x with each row, a matrix of the shape `shape`, replaced by its transpose."""
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
    """Return the numbers [K, F, 4] of packed codes [K, ...] with scales [K / 8, F]. The first of
    two 4-bit codes is the low half of its byte."""
    data = np.ascontiguousarray(codes).view(np.uint8)
    if form == ml_dtypes.float4_e2m1fn:
        data = np.stack([data & 15, data >> 4], -1).reshape(len(data), -1)
    values = np.asarray(data.view(form), np.float64).reshape(len(data), -1, 4)
    exponents = np.repeat(scales.astype(np.int64) - 127, 8, axis=0)
    return values * 2.0 ** exponents[..., None]


def format_of(packed: Any) -> Any:
    """Return the element format of a packed format, such as ml_dtypes.float8_e5m2 for
    float8_e5m2_x4."""
    return getattr(ml_dtypes, str(packed).removesuffix("_x4"))


def scaled_product(a: Any, a_scale: Any, b: Any, b_scale: Any, packed: Any) -> Any:
    form = format_of(packed)
    left, right = microscaled(a, a_scale, form), microscaled(b, b_scale, form)
    return np.einsum("kmq,knq->mn", left, right, optimize=True)


def half_scaled_product(a: Any, a_scale: Any, b: Any, a_packed: Any, _: Any) -> Any:
    """The product of microscaled codes `a` and a matrix `b` of numbers that quantization does not
    change."""
    left = microscaled(a, a_scale, format_of(a_packed))
    right = b.astype(np.float64).reshape(len(b), -1, 4)
    return np.einsum("kmq,knq->mn", left, right, optimize=True)


def strided_product(a: Any, b: Any, *_: Any) -> Any:
    return product(a, b)


# --- the harnesses of autocomp -------------------------------------------------------------------


def attention(q: Any, k: Any, v: Any, scale: float) -> Any:
    """Attention for q, k, v [..., S, D]."""
    q, k, v = wide(q, k, v)
    return softmax(q @ k.swapaxes(-1, -2) * scale) @ v


def attention_by_columns(q: Any, k: Any, v: Any) -> Any:
    """Attention for q, k, v [D, S], without a scale."""
    return attention(q.T, k.T, v.T, 1.0)


def attention_by_rows(q: Any, k: Any, v: Any, *_: Any) -> Any:
    return attention(q, k, v, q.shape[-1] ** -0.5)


def attention_by_pieces(q: Any, k: Any, v: Any, scale: float, *_: Any) -> Any:
    """Attention for q, k [B, D, S] and v [B, S, D]. It takes 512 queries at a time, because S may
    be large."""
    q, k, v = wide(q, k, v)
    pieces = np.split(q.swapaxes(1, 2), q.shape[-1] // 512, 1)
    return np.concatenate([softmax(piece @ k * scale) @ v for piece in pieces], 1)


def untransposed_attention(q: Any, k: Any, v: Any, scale: float) -> Any:
    """The function that a published kernel computes in place of attention, for q, v [B, S, 128] and
    k [B, 128, S]. The kernel passes queries and weights to the Tensor engine untransposed, in
    blocks of 128 x 128. On the harness's inputs all weights are close to 1, so its test does not
    detect the difference."""
    q, k, v = wide(q, k, v)
    out = np.empty_like(q)
    for batch, start in np.ndindex(len(q), q.shape[1] // 128):
        rows = slice(start * 128, start * 128 + 128)
        logits = rounded(q[batch, rows] * scale).T @ k[batch]
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        blocks = rounded(weights).reshape(128, -1, 128)
        values = v[batch].reshape(-1, 128, 128)
        mixed = np.einsum("kbm,bkn->mn", blocks, values, optimize=True)
        out[batch, rows] = mixed / weights.sum(-1, keepdims=True)
    return out


def expanded_mamba(delta: Any, u: Any, a: Any, b: Any, c: Any) -> Any:
    """`mamba` for b and c [B, states * 128, L], in which the row of each state is repeated 128
    times."""
    return mamba(delta, u, a, b[:, ::128], c[:, ::128])


def cumulative_sum(x: Any, *_: Any) -> Any:
    return np.cumsum(x.astype(np.float64), -1)


def swapped(x: Any, dim: int) -> Any:
    """Return x as [before, after, D]. D is the size of axis `dim`; the axes before it are merged
    into one axis, and so are the axes after it."""
    before = int(np.prod(x.shape[:dim]))
    return x.reshape(before, x.shape[dim], -1).swapaxes(1, 2)


def sliding_max(x: Any, size: int) -> Any:
    return np.lib.stride_tricks.sliding_window_view(x, (size, size)).max((-1, -2))


def rotary(x: Any, cos: Any, sin: Any, *_: Any) -> Any:
    upper, lower = np.split(x, 2)
    return np.concatenate([upper * cos - lower * sin, lower * cos + upper * sin])


def depthwise_conv1d(image: Any, filters: Any, padding: Any) -> Any:
    """Depthwise convolution for image [N, C, 1, W] and filters [C, 1, 1, width]."""
    padded = np.pad(image, ((0, 0), (0, 0), *padding)).astype(np.float64)
    width = filters.shape[-1]
    views = np.lib.stride_tricks.sliding_window_view(padded, width, -1)
    return np.einsum("nchwk,ck->nchw", views, filters.reshape(-1, width), optimize=True)


def conv2d(image: Any, filters: Any, padding: Any, *_: Any) -> Any:
    """Convolution for image [N, C, H, W] and filters [C, h, w, K], with one matrix product for each
    position in the filter."""
    padded = np.pad(image, ((0, 0), (0, 0), *padding))
    height, width = (padded.shape[2 + i] - filters.shape[1 + i] + 1 for i in range(2))
    out = np.zeros((len(image), filters.shape[-1], height, width), np.float32)
    for i, j in np.ndindex(filters.shape[1:3]):
        window = padded[:, :, i : i + height, j : j + width]
        weights = np.ascontiguousarray(filters[:, i, j].T)
        out += (weights @ window.reshape(*window.shape[:2], -1)).reshape(out.shape)
    return out


def conv2d_by_output(image: Any, filters: Any, padding: Any, *_: Any) -> Any:
    """Convolution as by `conv2d`, for filters [K, C, h, w]."""
    return conv2d(image, np.moveaxis(filters, 0, -1), padding)


def unnormalised(logits: Any, v: Any) -> Any:
    """Return three arrays: attention without its final division, the logarithm of the sums of
    exponentials, and the largest logits."""
    top = logits.max(-1, keepdims=True)
    weights = np.exp(logits - top)
    return weights @ v, np.log(weights.sum(-1, keepdims=True)) + top, top


def causal_attention(q: Any, k: Any, v: Any, mask: Any, *_: Any) -> Any:
    """Masked attention without its final division, for q, v [..., S, D] and k [..., D, S], rounded
    to bfloat16. Returns the arrays of `unnormalised`."""
    q, k, v = rounded(q), rounded(k), rounded(v)
    return unnormalised(np.where(mask > 0, q @ k, -9984.0), v)


def causal_attention_from_first(q: Any, k: Any, v: Any, *_: Any) -> Any:
    """Like `causal_attention`, but each query sees the keys up to its own, and logits are rounded
    to bfloat16."""
    q, k, v = rounded(q), rounded(k), rounded(v)
    seen = np.tri(q.shape[-2], dtype=bool)
    return unnormalised(rounded(np.where(seen, q @ k, -9984.0)), v)


def causal_attention_untransposed(q: Any, k: Any, v: Any, *more: Any) -> Any:
    """Like `causal_attention_from_first`, for a kernel that does not transpose its blocks of 128
    queries."""
    blocks = q.reshape(*q.shape[:-2], -1, 128, 128).swapaxes(-1, -2)
    return causal_attention_from_first(blocks.reshape(q.shape), k, v, *more)


def attention_step(
    q: Any,
    k: Any,
    v: Any,
    before: Any,
    _: Any,
    __: Any,
    mask: Any,
    index: int,
    rows: int,
    *___: Any,
) -> Any:
    """Attention of block `index` of `rows` queries over all keys, added to the running output, sum
    and maximum in `before` [rows, D + 2]. v is [128, S / 128, D]: the value of key 128 j + p is
    v[p, j]."""
    q, k, v, before = rounded(q), rounded(k), rounded(v), rounded(before)
    logits = q[:, index * rows : (index + 1) * rows].T @ k
    logits = np.where(mask, logits, -9984.0)
    output, total, top = before[:, :-2], before[:, -2:-1], before[:, -1:]
    new = np.maximum(logits.max(-1, keepdims=True), top)
    weights, decay = np.exp(logits - new), np.exp(top - new)
    values = v.swapaxes(0, 1).reshape(logits.shape[-1], -1)
    return np.concatenate(
        [output * decay + weights @ values, total * decay + weights.sum(-1, keepdims=True), new], -1
    )


def triangular_attention(q: Any, k: Any, v: Any, bias: Any, scale: float) -> Any:
    """For each row i and head h, attention with logits q[i, j, h] . k[i, k, h] scale + bias[j, k,
    h]; the softmax is over k."""
    heads = bias.shape[-1]
    q, k, v = (x.reshape(*x.shape[:2], heads, -1) for x in wide(q, k, v))
    logits = np.einsum("ijhd,ikhd->ihjk", q, k, optimize=True) * scale
    logits += np.transpose(bias, (2, 0, 1))
    out = np.einsum("ihjk,ikhd->ijhd", softmax(logits), v, optimize=True)
    return out.reshape(*out.shape[:2], -1)


def triangular_product(a: Any, b: Any) -> Any:
    """out[i, j, d] = sum_k a[i, k, d] b[j, k, d]"""
    a, b = wide(a, b)
    return np.einsum("ikd,jkd->ijd", a, b, optimize=True)


def fourier(real: Any, imaginary: Any, *factors: Any) -> Any:
    """The Fourier transform of 256 points by radix 2. The matrix and the twiddle factors are
    arguments of the harness: float32 numbers with errors of about 1e-5."""
    w_real, w_imag, t_real, t_imag = wide(*factors)
    x, matrix, twiddle = real + 1j * imaginary, w_real + 1j * w_imag, t_real + 1j * t_imag
    even, odd = x[:, 0::2] @ matrix.T, x[:, 1::2] @ matrix.T * twiddle
    spectrum = np.concatenate([even + odd, even - odd], -1)
    return spectrum.real, spectrum.imag


def selective_scan(decay: Any, fresh: Any, c: Any, skip: Any, _: Any, hd: Any, ss: Any) -> Any:
    """A scan for decay [H, L], fresh [D * S * H, L], c [S * H, L] and skip [D * H, L]: h[t] =
    h[t-1] decay[t] + fresh[t], y[t] = skip[t] + the sum over S of h[t] c[t]. Returns y and the last
    h."""
    decay, fresh, c, skip = wide(decay, fresh, c, skip)
    heads, length = decay.shape
    fresh = fresh.reshape(len(hd), len(ss), heads, length)
    states, state = np.empty_like(fresh), np.zeros(fresh.shape[:-1])
    for t in range(length):
        states[..., t] = state = state * decay[:, t] + fresh[..., t]
    out = (states * c.reshape(len(ss), heads, length)).sum(1) + skip.reshape(-1, heads, length)
    return out.reshape(-1, length), state.reshape(-1, 1)


def delta_rule(q: Any, k: Any, v: Any, decay: Any, beta: Any) -> Any:
    """S[t] = exp(decay[t]) S[t-1] + k[t] (v[t] - S^T k[t])^T beta[t];  o[t] = S[t]^T q[t]"""
    q, k, v, decay, beta = wide(q, k, v, decay, beta)
    state, out = np.zeros((q.shape[1], v.shape[1])), np.empty(q.shape)
    for t in range(len(q)):
        state = state * np.exp(decay[t, 0])
        state += np.outer(k[t], (v[t] - state.T @ k[t]) * beta[t, 0])
        out[t] = state.T @ q[t]
    return out


def trotter(
    real: Any, imaginary: Any, zz_r: Any, zz_i: Any, cos: Any, sin: Any, steps: Any, *_: Any
) -> Any:
    """Each step applies Rx to every qubit, the phases of ZZ, and Rx to every qubit again. The
    amplitudes of n qubits have the shape [2] * n. Rx = cos + i sin X acts along the axis of its
    qubit."""
    psi = real.astype(np.float64) + 1j * imaginary
    phases = (zz_r.astype(np.float64) + 1j * zz_i).reshape(-1)
    qubits = psi.size.bit_length() - 1
    c, s = float(cos[0, 0]), float(sin[0, 0])

    def rotated(state: Any) -> Any:
        state = state.reshape([2] * qubits)
        for axis in range(qubits):
            state = c * state + 1j * s * np.flip(state, axis)
        return state.reshape(-1)

    state = psi.reshape(-1)
    for _step in range(len(steps)):
        state = rotated(rotated(state) * phases)
    return state.real.reshape(real.shape), state.imag.reshape(real.shape)
