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


def add_in_a_column(a: Any, b: Any) -> Any:
    return (a + b)[:, None]


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


def doubled(x: Any, axes: int) -> Any:
    """The last axes twice as long: every number between the nearest two, 3/4 of the one and 1/4 of
    the other; at the ends the nearest one."""
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


# --- the harnesses of autocomp -------------------------------------------------------------------


def attention(q: Any, k: Any, v: Any, scale: float) -> Any:
    """q, k, v [..., S, D]."""
    q, k, v = wide(q, k, v)
    return softmax(q @ k.swapaxes(-1, -2) * scale) @ v


def attention_by_columns(q: Any, k: Any, v: Any) -> Any:
    """q, k, v [D, S], without a scale."""
    return attention(q.T, k.T, v.T, 1.0)


def attention_by_rows(q: Any, k: Any, v: Any, *_: Any) -> Any:
    return attention(q, k, v, q.shape[-1] ** -0.5)


def attention_by_pieces(q: Any, k: Any, v: Any, scale: float, *_: Any) -> Any:
    """q, k [B, D, S], v [B, S, D]: 512 queries at a time, for S may be large."""
    q, k, v = wide(q, k, v)
    pieces = np.split(q.swapaxes(1, 2), q.shape[-1] // 512, 1)
    return np.concatenate([softmax(piece @ k * scale) @ v for piece in pieces], 1)


def untransposed_attention(q: Any, k: Any, v: Any, scale: float) -> Any:
    """q, v [B, S, 128], k [B, 128, S]. What the published kernel computes, which isn't attention:
    it gives the Tensor engine queries and weights untransposed, in blocks of 128 where that fits.
    On the harness's inputs all weights are close to 1, and its test doesn't see the difference."""
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
    """b and c [B, states * 128, L] hold each state's row 128 times."""
    return mamba(delta, u, a, b[:, ::128], c[:, ::128])


def cumulative_sum(x: Any, *_: Any) -> Any:
    return np.cumsum(x.astype(np.float64), -1)


def swapped(x: Any, dim: int) -> Any:
    """Axis `dim` and everything after it change places."""
    before = int(np.prod(x.shape[:dim]))
    return x.reshape(before, x.shape[dim], -1).swapaxes(1, 2)


def sliding_max(x: Any, size: int) -> Any:
    return np.lib.stride_tricks.sliding_window_view(x, (size, size)).max((-1, -2))


def rotary(x: Any, cos: Any, sin: Any, *_: Any) -> Any:
    upper, lower = np.split(x, 2)
    return np.concatenate([upper * cos - lower * sin, lower * cos + upper * sin])


def depthwise_conv1d(image: Any, filters: Any, padding: Any) -> Any:
    """image [N, C, 1, W], filters [C, 1, 1, width]."""
    padded = np.pad(image, ((0, 0), (0, 0), *padding)).astype(np.float64)
    width = filters.shape[-1]
    views = np.lib.stride_tricks.sliding_window_view(padded, width, -1)
    return np.einsum("nchwk,ck->nchw", views, filters.reshape(-1, width), optimize=True)


def conv2d(image: Any, filters: Any, padding: Any, *_: Any) -> Any:
    """image [N, C, H, W], filters [C, h, w, K]: one product for each place in the filter."""
    padded = np.pad(image, ((0, 0), (0, 0), *padding))
    height, width = (padded.shape[2 + i] - filters.shape[1 + i] + 1 for i in range(2))
    out = np.zeros((len(image), filters.shape[-1], height, width), np.float32)
    for i, j in np.ndindex(filters.shape[1:3]):
        window = padded[:, :, i : i + height, j : j + width]
        weights = np.ascontiguousarray(filters[:, i, j].T)
        out += (weights @ window.reshape(*window.shape[:2], -1)).reshape(out.shape)
    return out


def conv2d_by_output(image: Any, filters: Any, padding: Any, *_: Any) -> Any:
    """The same with filters [K, C, h, w]."""
    return conv2d(image, np.moveaxis(filters, 0, -1), padding)


def unnormalised(logits: Any, v: Any) -> Any:
    """Attention without its last division, the logarithm of the sum of exponentials that it would
    divide by, and the largest logit."""
    top = logits.max(-1, keepdims=True)
    weights = np.exp(logits - top)
    return weights @ v, np.log(weights.sum(-1, keepdims=True)) + top, top


def causal_attention(q: Any, k: Any, v: Any, mask: Any, *_: Any) -> Any:
    """q, v [..., S, D], k [..., D, S], held as bfloat16."""
    q, k, v = rounded(q), rounded(k), rounded(v)
    return unnormalised(np.where(mask > 0, q @ k, -9984.0), v)


def causal_attention_from_first(q: Any, k: Any, v: Any, *_: Any) -> Any:
    """The same with every query seeing the keys up to its own, and with logits in bfloat16."""
    q, k, v = rounded(q), rounded(k), rounded(v)
    seen = np.tri(q.shape[-2], dtype=bool)
    return unnormalised(rounded(np.where(seen, q @ k, -9984.0)), v)


def causal_attention_untransposed(q: Any, k: Any, v: Any, *more: Any) -> Any:
    """The same for a kernel that multiplies each block of 128 queries as it is, untransposed."""
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
    """One block of `rows` queries over all keys, added to the running output, sum and maximum
    `before` [rows, D + 2]. v [128, S / 128, D]: key 128 j + p is v[p, j]."""
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
    """For each row i and head h: softmax over k of q[i,j,h] . k[i,k,h] scale + bias[j,k,h]."""
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
    """256 points by radix 2. The matrix and the twiddles are the harness's own, in float32 and off
    by some 1e-5."""
    w_real, w_imag, t_real, t_imag = wide(*factors)
    x, matrix, twiddle = real + 1j * imaginary, w_real + 1j * w_imag, t_real + 1j * t_imag
    even, odd = x[:, 0::2] @ matrix.T, x[:, 1::2] @ matrix.T * twiddle
    spectrum = np.concatenate([even + odd, even - odd], -1)
    return spectrum.real, spectrum.imag


def selective_scan(decay: Any, fresh: Any, c: Any, skip: Any, _: Any, hd: Any, ss: Any) -> Any:
    """decay [H, L], fresh [D * S * H, L], c [S * H, L], skip [D * H, L]."""
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
    """Steps of Rx on every qubit, the phases of ZZ, and Rx again. The amplitudes of n qubits are
    [2] * n; Rx = cos + i sin X along its own axis."""
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
