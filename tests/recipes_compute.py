"""Recipes of the instructions that compute: element by element, folds, scans, products, choices."""

from dataclasses import replace

import nki.isa as nisa
import nki.language as nl
import numpy as np
from alu import alu
from microscaling import pack
from recipes import FLOATS, FORMS, SHAPE, column, either, fold, given, put, recipe, single

from neuroncore.numerics import sparsity
from neuroncore.numerics.formats import lookup

LEAST = np.finfo(np.float32).min
RESET = nisa.reduce_cmd.reset_reduce
TALL = (SHAPE[0], 1)


# --- the Scalar engine ----------------------------------------------------------------------------


def squares(device, form, issue):
    """op((data * scale) + bias), and the sum of that."""
    data, x = given(device, form)
    scale, s = given(device, "float32", TALL, 1)
    if form == "float8_e4m3fn" and not device.core.machine.has(form):
        form = "float32"  # trn2 reads it, and that is all
    bias, b = given(device, either(form, {*FORMS} - {"tfloat32"}), TALL, 2)
    dst, total = device.empty(SHAPE, form), device.empty(TALL, form)
    issue(dst, data, bias, scale, total)
    y = alu("add", alu("multiply", x, column(s)), column(b))
    square = alu("square", y)
    yield dst, square
    yield total, fold(np.add, square)


@recipe
def activation(device, form):
    def issue(dst, data, bias, scale, total):
        device.issue(
            "activation", dst, nl.square, data, bias, scale, nl.add, total, reduce_cmd=RESET
        )

    yield from squares(device, form, issue)


@recipe
def activation_reduce(device, form):
    def issue(dst, data, bias, scale, total):
        device.issue("activation_reduce", dst, nl.square, data, nl.add, total, bias, scale)

    yield from squares(device, form, issue)


@recipe
def activate2(device, form):
    data, x = given(device, form)
    (first, a), (second, b) = (given(device, form, TALL, seed) for seed in (1, 2))
    slope, m = given(device, form, TALL, 3)
    dst, most = device.empty(SHAPE, form), device.empty(TALL, form)
    device.issue(
        "activate2", dst, nl.prelu, data, first, second, nl.multiply, nl.subtract, slope,
        reduce_op=nl.maximum, reduce_res=most, reduce_cmd=RESET,
    )  # fmt: skip
    y = alu("subtract", alu("multiply", x, column(a)), column(b))
    y = np.where(y > 0, y, alu("multiply", column(m), y))
    yield dst, y
    yield most, fold(np.maximum, y)


@recipe
def exponential(device, form):
    src, x = given(device, either(form, {*FORMS} - {"tfloat32"}))
    x = np.minimum(single(x), 9).astype(x.dtype)
    src = put(device, x, src.dtype)
    most, m = given(device, "float32", TALL, 1)
    dst = device.empty(SHAPE, either(form, {*FORMS} - {"uint32"}))
    total = device.empty(TALL, either(form, FLOATS))
    device.issue("exponential", dst, src, most, total, RESET)
    y = np.exp((single(x) - column(m)).astype(np.float64)).astype(np.float32)
    yield dst, y
    yield total, fold(np.add, y)


# --- the Vector engine, element by element --------------------------------------------------------


@recipe
def reciprocal(device, form):
    data, x = given(device, form)
    dst = device.empty(SHAPE, form)
    device.issue("reciprocal", dst, data)
    yield dst, alu("reciprocal", x)


@recipe
def tensor_tensor(device, form):
    (data1, a), (data2, b) = (given(device, form, seed=seed) for seed in (0, 1))
    dst = device.empty(SHAPE, form)
    device.issue("tensor_tensor", dst, data1, data2, nl.add)
    yield dst, a + b if form in ("int32", "uint32") else alu("add", a, b)


@recipe
def tensor_scalar(device, form):
    data, x = given(device, form)
    factor, a = given(device, "float32", TALL, 1)
    dst = device.empty(SHAPE, form)
    device.issue("tensor_scalar", dst, data, nl.multiply, factor, op1=nl.add, operand1=0.25)
    yield dst, alu("add", alu("multiply", x, column(a)), np.float32(0.25))


@recipe
def scalar_tensor_tensor(device, form):
    (data, x), (second, y) = (given(device, form, seed=seed) for seed in (0, 1))
    factor, a = given(device, form, TALL, 2)
    dst = device.empty(SHAPE, form)
    device.issue("scalar_tensor_tensor", dst, data, nl.multiply, factor, nl.subtract, second)
    yield dst, alu("subtract", alu("multiply", x, column(a)), y)


# --- folds and scans ------------------------------------------------------------------------------


@recipe
def tensor_scalar_reduce(device, form):
    data, x = given(device, form)
    factor, a = given(device, "float32", TALL, 1)
    dst, total = device.empty(SHAPE, form), device.empty(TALL, form)
    device.issue("tensor_scalar_reduce", dst, data, nl.multiply, factor, nl.add, total)
    y = alu("multiply", x, column(a))
    yield dst, y
    yield total, fold(np.add, y)


@recipe
def tensor_reduce(device, form):
    data, x = given(device, form)
    dst = device.empty(TALL, form)
    device.issue("tensor_reduce", dst, nl.add, data, (1, 2))
    yield dst, fold(np.add, single(x))


@recipe
def tensor_tensor_scan(device, form):
    (data0, a), (data1, b) = (given(device, form, seed=seed) for seed in (0, 1))
    initial, state = given(device, form, TALL, 2)
    dst = device.empty(SHAPE, form)
    device.issue("tensor_tensor_scan", dst, data0, data1, initial, nl.subtract, nl.maximum)
    state, steps = single(state), []
    for x, y in zip(*(single(v).reshape(len(v), -1).T for v in (a, b)), strict=True):
        state = alu("maximum", alu("subtract", x, state.reshape(-1)), y)
        steps.append(state)
    yield dst, np.stack(steps, axis=1).reshape(SHAPE)


@recipe
def tensor_scalar_cumulative(device, form):
    src, x = given(device, form)
    factor, a = given(device, "float32", TALL, 1)
    dst = device.empty(SHAPE, form)
    device.issue("tensor_scalar_cumulative", dst, src, nl.multiply, nl.add, factor)
    y = alu("multiply", x, column(a)).reshape(len(x), -1)
    yield dst, np.add.accumulate(y, axis=1, dtype=np.float32).reshape(SHAPE)


@recipe
def tensor_partition_reduce(device, form):
    data, x = given(device, form)
    dst = device.empty((1, *SHAPE[1:]), form)
    device.issue("tensor_partition_reduce", dst, nl.add, data)
    yield dst, np.add.accumulate(single(x), axis=0, dtype=np.float32)[-1:]


@recipe
def bn_stats(device, form):
    data, x = given(device, form)
    dst = device.empty((len(x), 6), form)
    device.issue("bn_stats", dst, data)
    parts = [single(x).reshape(len(x), -1)[:, i::2].astype(np.float64) for i in (0, 1)]
    columns = [
        (np.full(len(x), part.shape[1]), part.mean(axis=1), part.var(axis=1) * part.shape[1])
        for part in parts
    ]
    yield dst, np.stack([*columns[0], *columns[1]], axis=1).astype(np.float32)


@recipe
def bn_aggr(device, form):
    raw = np.tile(np.array([3, 1.5, 2, 1, -4, 0, 2, 6.25, 1.75]), (7, 1)).astype(np.float32)
    stored = np.maximum(raw, 0) if lookup(form).kind in ("uint", "bool") else raw
    stored = np.rint(stored) if lookup(form).is_integer else stored
    stored = stored.astype(lookup(form).numpy)
    dst = device.empty((7, 2), form)
    device.issue("bn_aggr", dst, put(device, stored, form))
    n, m, squares = single(stored).astype(np.float64).reshape(7, 3, 3).transpose(2, 0, 1)
    mean = (n * m).sum(axis=1) / n.sum(axis=1)
    variance = (squares + n * (m - mean[:, None]) ** 2).sum(axis=1) / n.sum(axis=1)
    yield dst, np.stack([mean, variance], axis=1).astype(np.float32)


# --- products -------------------------------------------------------------------------------------


@recipe
def nc_matmul(device, form):
    rng, kind = np.random.default_rng(0), lookup(form)
    s, x = (rng.integers(-3, 4, (33, free)).astype(kind.numpy) for free in (5, 7))
    has = device.core.machine.has
    total = either(form, ("bfloat16",) if has("psum_bfloat16") else ())
    dst, stationary = device.empty((5, 7), total, "psum"), put(device, s, form)
    device.issue("nc_matmul", dst, stationary, put(device, x, form))
    yield dst, single(s).T @ single(x)
    if has("native_transpose"):
        dst = device.empty((5, 33), either(form, {*FLOATS} - {"tfloat32"}), "psum")
        one = put(device, np.eye(33).astype(kind.numpy), form)
        device.issue("nc_matmul", dst, stationary, one, is_transpose=True)
        yield dst, s.T


@recipe
def nc_matmul_mx(device, form):
    rng, k, m, n = np.random.default_rng(0), 32, 6, 5
    element = form.removesuffix("_x4") if form.endswith("_x4") else "float8_e5m2"
    kind = either(form, ("uint8", "float8_e8m0fnu"), "float8_e8m0fnu")
    numbers = [rng.integers(-3, 4, (k, free, 4)).astype(element) for free in (m, n)]
    exponents = [rng.integers(125, 130, (k // 8, free)).astype(np.uint8) for free in (m, n)]
    data = [put(device, pack(v.view(np.uint8), element), f"{element}_x4") for v in numbers]
    scales = [put(device, e, kind) for e in exponents]
    dst = device.empty((m, n), either(form, ("bfloat16",)), "psum")
    device.issue("nc_matmul_mx", dst, *data, *scales)
    s, x = (
        single(v).astype(np.float64) * 2.0 ** (np.repeat(e, 8, axis=0)[:, :, None] - 127.0)
        for v, e in zip(numbers, exponents)
    )
    yield dst, np.einsum("kmi,kni->mn", s, x).astype(np.float32)


@recipe
def nc_matmul_sparse(device, form):
    device.core.options = replace(device.core.options, experimental=True)
    rng, pattern, columns, n = np.random.default_rng(0), (2, 8), 12, 5
    formats = ("bfloat16", "float16", "tfloat32", "float8_e4m3", "float8_e5m2")
    kind = either(form, formats, "bfloat16")
    weights = rng.integers(-3, 4, (24, columns)).astype(np.float32)
    weights *= np.arange(24)[:, None] % 8 // 2 == np.arange(columns) % 4  # two of each eight
    moving = rng.integers(-3, 4, (24, n)).astype(np.float32)
    values, tags = sparsity.compress(weights, pattern)
    dst = device.empty((columns, n), "float32", "psum")
    tiles = [put(device, one, kind) for one in (values, sparsity.arranged(moving, pattern))]
    device.issue("nc_matmul_sparse", dst, *tiles, put(device, tags, "uint16"), pattern=pattern)
    yield dst, weights.T @ moving


@recipe
def quantize_mx(device, form):
    element = "float8_e5m2" if form == "float8_e5m2_x4" else "float8_e4m3fn"
    kind = either(form, ("uint8", "float8_e8m0fnu"), "float8_e8m0fnu")
    src, x = given(device, either(form, ("float16", "bfloat16"), "bfloat16"), (32, 12))
    dst, scale = device.empty((32, 3), f"{element}_x4"), device.empty((4, 3), kind)
    device.issue("quantize_mx", dst, src, scale)
    groups = single(x).reshape(4, 8, 3, 4)
    greatest_exponent = {"float8_e4m3fn": 8, "float8_e5m2": 15}[element]
    amax = np.abs(groups).max(axis=(1, 3), keepdims=True)
    exponent = np.floor(np.log2(amax)) - greatest_exponent + 1
    codes = (groups / 2.0**exponent).astype(element).view(np.uint8)
    yield dst, pack(codes.reshape(32, 3, 4), element)
    yield scale, (exponent + 127).reshape(4, 3).astype(np.uint8)


# --- choices --------------------------------------------------------------------------------------


@recipe
def select_reduce(device, form):
    predicate, chosen = given(
        device, either(form, ("bool", "int8", "uint8", "int16", "uint16"), "bool")
    )
    on_true, x = given(device, either(form, {*FORMS} - {"tfloat32", "int32", "uint32"}), seed=1)
    on_false, y = given(device, form, TALL, 2)
    dst, most = device.empty(SHAPE, form), device.empty(TALL, either(form, FLOATS))
    device.issue("select_reduce", dst, predicate, on_true, on_false, most, RESET)
    want = np.where(chosen != 0, single(x), column(y))
    yield dst, want
    yield most, fold(np.maximum, want)


@recipe
def range_select(device, form):
    on_true, x = given(device, either(form, FLOATS), (33, 9))
    low, high = (device.tile(np.full((33, 1), v, np.float32)) for v in (2, 7))
    dst, most = device.empty((33, 9), form), device.empty((33, 1), form)
    device.issue(
        "range_select", dst, on_true, nl.greater_equal, nl.less, low, high, reduce_res=most
    )
    inside = (np.arange(9) >= 2) & (np.arange(9) < 7)
    want = np.where(inside, single(x), LEAST)
    yield dst, want
    yield most, fold(np.maximum, want)


@recipe
def iota(device, form):
    dst = device.empty((5, 3, 7), form)
    device.issue("iota", dst, [[40, 3], [-3, 7]], offset=-11, channel_multiplier=9)
    p, y, x = np.ogrid[:5, :3, :7]
    numbers = (40 * y - 3 * x + 9 * p - 11).astype(np.int32)
    yield dst, numbers.view(np.uint32) if form == "uint32" else numbers


@recipe
def affine_select(device, form):
    on_true, x = given(device, form, (5, 7))
    dst = device.empty((5, 7), form)
    device.issue("affine_select", dst, [[-1, 7]], 1, on_true, 2.0, nl.greater_equal)
    p, f = np.ogrid[:5, :7]
    yield dst, np.where(p >= f, x, np.array(2).astype(x.dtype))


@recipe
def max8(device, form):
    src, x = given(device, form, (5, 3, 7))
    dst = device.empty((5, 8), form)
    device.issue("max8", dst, src)
    yield dst, -np.sort(-single(x).reshape(5, -1), axis=1)[:, :8]
