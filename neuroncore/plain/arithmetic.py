"""Arithmetic: the ALU's operators, folds, chains of products, and activation functions."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial, reduce
from math import erf, erfc, pi, sqrt
from typing import Any

import numpy as np

from neuroncore.plain.formats import FORMATS, Array, F

IDENTITY = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf,
            "abs_max": 0.0, "abs_min": np.inf}  # the register after a reset  # fmt: skip
_erf, _erfc = np.vectorize(erf, [np.float64]), np.vectorize(erfc, [np.float64])


def maximum(a: Any, b: Any) -> Any:
    """Return the greater number, or NaN if one of the two is NaN. +0 is greater than -0."""
    larger = np.where((a > b) | ((a == b) & np.signbit(b)), a, b)
    return np.where(np.isnan(a) | np.isnan(b), F(np.nan), larger)


def number(a: Any, b: Any) -> Any:
    """Return the greater number, or the operand that is not NaN (`Options.nan_minmax` =
    "number")."""
    return maximum(np.where(np.isnan(a), b, a), np.where(np.isnan(b), a, b))


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply,
    "maximum": maximum, "minimum": lambda a, b: -maximum(-a, -b),
    "maximum_number": number, "minimum_number": lambda a, b: -number(-a, -b),
    "equal": np.equal, "not_equal": np.not_equal, "greater": np.greater,
    "greater_equal": np.greater_equal, "less": np.less, "less_equal": np.less_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
    "abs_max": lambda a, b: np.where(np.abs(a) > np.abs(b), a, b),
    "abs_min": lambda a, b: np.where(np.abs(a) < np.abs(b), a, b),
    # with an array of exponents, numpy does not replace the power 0.5 by sqrt
    "power": lambda a, b: np.power(*np.array(np.broadcast_arrays(a, b), np.float64)),
    "divide": np.divide, "mod": np.mod, "fmod": np.fmod,  # operators of Options.simulator_operators
}  # fmt: skip
UNARY: dict[str, Callable[[Any], Any]] = {
    "abs": np.abs, "square": np.square, "relu": lambda a: maximum(a, F(0)), "bypass": np.array,
    "reciprocal": lambda a: F(1) / a, "rsqrt": lambda a: 1 / np.sqrt(a, dtype=np.float64),
}  # fmt: skip
INTEGER: dict[str, Any] = BINARY | {"maximum": np.maximum, "minimum": np.minimum}
BITS: dict[str, Callable[[Any, Any], Any]] = {
    "invert": lambda a, b: ~a, "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor, "left_shift": lambda a, b: shift(np.left_shift, a, b),
    "right_shift": lambda a, b: shift(np.right_shift, a, b),
}  # fmt: skip


def shift(move: Any, a: Array, b: Array) -> Array:
    """Shift unsigned codes, and fill with zeros. A shift by the width or more gives 0."""
    inside = b < 8 * a.itemsize
    return np.where(inside, move(a, np.where(inside, b, 0).astype(a.dtype)), a.dtype.type(0))


def apply(op: str, a: Any, b: Any = None, reverse: bool = False) -> Array:
    """Return a <op> b (b <op> a if `reverse` is True), rounded once to float32."""
    if op in UNARY:
        return np.asarray(UNARY[op](a), F)
    return np.asarray(BINARY[op](b, a) if reverse else BINARY[op](a, b), F)


def fold(op: str, x: Array) -> Array:
    """Return (x[:, 0] <op> x[:, 1]) <op> x[:, 2] ..., a vector [P] for x [P, F]."""
    return reduce(BITS[op] if op in BITS else partial(apply, op), x.T)


def fma(a: Array, b: Array, c: Array, narrow: bool = False) -> Array:
    """Return a * b + c of float32 numbers, rounded once. `narrow` is True if products have at most
    24 significant bits: float32 represents them exactly unless they overflow or underflow.

    The product is exact in float64. The sum of the product and c is first rounded to float64. If
    this sum is inexact and halfway between two float32 numbers, it is moved by one step of float64
    toward the exact sum."""
    if narrow:
        with suppress(FloatingPointError), np.errstate(over="raise", under="raise"):
            return a * b + c
    product = np.multiply(a, b, dtype=np.float64)
    total = product + c
    back = total - product
    error = (product - (total - back)) + (c - back)  # the part that was cut off (Knuth)
    halfway = (total.view(np.int64) & 0xFFFFFFF == 0) & (error != 0)
    total[halfway] = np.nextafter(total[halfway], np.copysign(np.inf, error[halfway]))
    return total.astype(F)


def chain(s: Array, x: Array, group: int = 1, narrow: bool = False, scales: Any = None) -> Array:
    """Return sum_k s[k, m] * x[k, n], added by fused multiply-adds from k = 0 on. If `group` is
    over 1, the exact products of each group of rows are first added, from the left. `scales`
    contains a scale for each element of s and x. The scales of a group's first row multiply the
    group's sum. `narrow` is explained at `fma`."""
    out = np.zeros((s.shape[1], x.shape[1]), F)
    for k in range(0, len(s), group):
        if group == 1 and scales is None:
            out = fma(s[k][:, np.newaxis], x[k], out, narrow)
            continue
        total = sum(s[i][:, np.newaxis] * x[i] for i in range(k, k + group))
        if scales is not None:
            total = (total * (scales[0][k][:, np.newaxis] * scales[1][k])).astype(F)
        out = out + total
    return out


def four_passes(s: Array, x: Array) -> list[Array]:
    """Return four products of matrices, whose sum is the product of s and x. `Options.fp32_matmul`
    = "four_pass" uses them. Each number is split into its upper 12 significant bits and the rest.
    Infinity and NaN only appear in the last product."""
    halves = []
    for matrix in (s, x):
        finite = np.where(np.isfinite(matrix), matrix, F(0))
        high = (finite.view(np.uint32) & np.uint32(0xFFFFF000)).view(F)
        halves.append((matrix - (finite - high), finite - high, high))
    (s_all, s_low, s_high), (x_all, x_low, x_high) = halves
    pairs = (s_low, x_low), (s_low, x_high), (s_high, x_low), (s_all, x_all)
    return [chain(left, right, narrow=True) for left, right in pairs]


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def silu_dx(x: Any) -> Any:
    return sigmoid(x) * (1 + x * sigmoid(-x))


def normal(x: Any) -> Any:
    """Return the cumulative distribution function of the normal distribution."""
    return _erfc(-x / sqrt(2)) / 2


def gelu_dx(x: Any) -> Any:
    x = np.clip(x, -19.0, None)  # below, float32 represents only the sign of the result
    return normal(x) + x * np.exp(-x * x / 2) / sqrt(2 * pi)


def sin(x: Any) -> Any:
    """Return sin x from -pi to pi, and a cubic beyond (nki.api.shared.rst: sin(9) is 27.65)."""
    to_pi = (pi - np.abs(x)) + 1.2246467991473532e-16  # plus pi minus the nearest float64
    return np.where(to_pi < 0, np.copysign(1.0, x) * (to_pi - to_pi**3 / 6), np.sin(x))


EXACT = {name: UNARY[name] for name in ("square", "abs", "relu", "reciprocal")}
EXACT |= {"copy": np.array, "sign": np.sign, "sqrt": np.sqrt, "prelu": UNARY["relu"]}
"""Functions whose float32 results are exact, or correctly rounded to nearest even."""

ELEMENTARY: dict[str, Callable[[Any], Any]] = {
    "sigmoid": sigmoid, "tanh": np.tanh, "exp": np.exp, "log": np.log,
    "gelu": lambda x: x * normal(x), "gelu_dx": gelu_dx,
    "gelu_apprx_tanh": lambda x: x * sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 * x**3)),
    "gelu_apprx_sigmoid": lambda x: x * sigmoid(1.702 * x),
    "gelu_apprx_sigmoid_dx": lambda x: silu_dx(1.702 * x),
    "silu": lambda x: x * sigmoid(x), "silu_dx": silu_dx,
    "softplus": lambda x: np.logaddexp(0, x), "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "erf": _erf, "erf_dx": lambda x: 2 / sqrt(pi) * np.exp(-x * x),
    "sin": sin, "arctan": np.arctan, "rsqrt": lambda x: 1 / np.sqrt(x),
}  # fmt: skip
"""Functions that are computed in float64. The emulator's results may differ in the last bits."""

BOUNDED = ("gelu", "gelu_dx", "gelu_apprx", "silu", "mish")  # at infinity, they return the limit
ULPS = {name: dict.fromkeys(FORMATS, 1) for name in ELEMENTARY}
"""The allowed difference between the results of the emulator and of ELEMENTARY, in units in the
last place of a format. Both results are within 0.51 units of the true value."""


def activation_of(name: str, x: Array) -> Array:
    """Return the float32 results of an activation function for float32 numbers."""
    if name in EXACT:
        return np.asarray(EXACT[name](x), F)
    wide = x.astype(np.float64)
    if name.startswith(BOUNDED):
        wide = np.clip(wide, -1e30, np.inf if not name.endswith("_dx") else 1e30)
    return np.asarray(ELEMENTARY[name](wide)).astype(F)
