r"""The V series of numerics: cases for the Vector, Scalar and GpSimd engines that can be checked by
hand.

Broader tests of each instruction are in tests/isa; docs/numerics.md has the list of all series."""

import math

import mpmath
import nki.language as nl
import numpy as np
import pytest
from alu import MAGNITUDES, TWO_OPERANDS, UNARY, VALID
from device import Device, called, converted, same
from every import for_all
from nki.isa import engine, reduce_cmd

from neuroncore.plain.arithmetic import apply

NAN, INF = np.nan, np.inf
SPECIAL = np.array([0, 1, 2.0**-149, 2.0**-133, 2.0**-126, 1.5, 3.4028235e38, INF], np.float32)
SPECIAL = np.concatenate([SPECIAL, -SPECIAL, np.float32([NAN])])
COLUMN = SPECIAL[:, None]
MATRIX = np.ascontiguousarray(np.broadcast_to(SPECIAL, (len(SPECIAL), len(SPECIAL))))
BIG = 2**24 + 1  # the first integer that float32 does not have


def issued(name, shape, *arguments, dtype="float32", target="trn2", **options):
    """Return the numbers that an instruction writes to a fresh tile. Arrays among its arguments
    become tiles."""
    device = Device(target)
    dst = device.empty(shape, dtype)
    given = [device.tile(a) if isinstance(a, np.ndarray) else a for a in arguments]
    named = {k: device.tile(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    device.issue(name, dst, *given, **named)
    assert not device.findings
    return dst.numpy()


# --- operators ------------------------------------------------------------------------------------

OPERATORS = [
    *(("trn2", name) for name in (*TWO_OPERANDS, "power")),
    *(("trn3", name) for name in MAGNITUDES),
]


def applied(name, reverse=False):
    """Return the result of the plain reading, which tests/plain compares with numbers computed by
    hand."""
    with np.errstate(all="ignore"):
        return apply(name, MATRIX, COLUMN, reverse)


@for_all("reverse", [False, True])
@for_all("target, name", OPERATORS)
def test_V1_special_values_by_every_operator(target, name, reverse):
    op, want = getattr(nl, name), applied(name, reverse)
    given = {"target": target, "reverse0": reverse}
    same(issued("tensor_scalar", MATRIX.shape, MATRIX, op, COLUMN, **given), want)
    if name == "power":
        return  # the GpSimd engine's operators, which take one step
    shape, both = MATRIX.shape, np.ascontiguousarray(np.broadcast_to(COLUMN, MATRIX.shape))
    first = {"target": target, "reverse1": reverse}
    one = {"op1": op, "operand1": COLUMN}
    same(issued("tensor_scalar", shape, MATRIX, nl.multiply, 1.0, **one, **first), want)
    got = issued("scalar_tensor_tensor", shape, MATRIX, nl.multiply, 1.0, op, both, **first)
    same(got, want)
    if not reverse:
        same(issued("tensor_tensor", shape, MATRIX, both, op, target=target), want)


@pytest.mark.parametrize("name", UNARY)
def test_V1_special_values_by_operators_of_one_operand(name):
    for reverse in (False, True):
        got = issued("tensor_scalar", MATRIX.shape, MATRIX, getattr(nl, name), None, reverse)
        same(got, applied(name))


def test_V2_nothing_is_rounded_between_the_operators():
    """257 is not a bfloat16: if 256 + 1 were rounded in between, it would be 256."""
    x = np.array([[256]], "bfloat16")
    chain = {"op1": nl.subtract, "operand1": 256.0}
    assert issued("tensor_scalar", (1, 1), x, nl.add, 1.0, dtype="bfloat16", **chain) == 1
    got = issued("scalar_tensor_tensor", (1, 1), x, nl.add, 1.0, nl.subtract, x, dtype="bfloat16")
    assert got == 1
    assert issued("tensor_scalar", (1, 1), x, nl.add, 1.0, dtype="bfloat16") == 256


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_V3_bit_patterns(bits):
    x = np.array([[-1, -(2 ** (bits - 1)), 1, 5, 0]], f"int{bits}")
    top = 2 ** (bits - 1)

    def by(op, operand):
        return issued("tensor_scalar", x.shape, x, op, operand, dtype=x.dtype)[0].tolist()

    assert by(nl.right_shift, 1) == [top - 1, top // 2, 0, 2, 0]  # zeros come in
    assert by(nl.left_shift, 1) == [-2, 0, 2, 10, 0]
    for count in (bits, bits + 1, 100):
        assert by(nl.right_shift, count) == by(nl.left_shift, count) == [0] * 5
    assert by(nl.bitwise_and, 5) == [5, 0, 1, 5, 0]
    assert by(nl.bitwise_or, 4) == [-1, 4 - top, 5, 5, 4]
    assert by(nl.bitwise_xor, 1) == [-2, 1 - top, 0, 4, 1]
    assert by(nl.invert, None) == [0, top - 1, -2, -6, -1]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8", "int32"])
def test_V4_comparisons_are_one_and_zero(dtype):
    x, y = np.float32([[1, 2, 3, NAN, 0]]), np.float32([[2, 2, 2, NAN, -0.0]])
    want = {
        "equal": [0, 1, 0, 0, 1], "not_equal": [1, 0, 1, 1, 0], "greater": [0, 0, 1, 0, 0],
        "greater_equal": [0, 1, 1, 0, 1], "less": [1, 0, 0, 0, 0], "less_equal": [1, 1, 0, 0, 1],
    }  # fmt: skip
    for name, row in want.items():
        got = issued("tensor_tensor", x.shape, x, y, getattr(nl, name), dtype=dtype)
        assert got.dtype == dtype and got.astype(np.float32)[0].tolist() == row


def test_V5_integers_of_32_bits_are_exact_in_sbuf_only():
    device = Device()
    x = np.int32([[BIG, 2**31 - 1, -(2**31), 2**24 + 3]])
    data, zero, dst = device.tile(x), device.zeros(x.shape, "int32"), device.empty(x.shape, "int32")
    single = [2**24, 2**31 - 1, -(2**31), 2**24 + 4]  # 2^31 saturates
    device.issue("tensor_tensor", dst, data, zero, nl.add)
    assert dst.numpy().tolist() == x.tolist()
    device.issue("tensor_tensor", dst, data, zero, nl.add, engine.vector)
    assert dst.numpy().tolist() == [single]
    device.issue("tensor_tensor", dst, data, device.zeros(x.shape, "int32", "psum"), nl.add)
    assert dst.numpy().tolist() == [single]


# --- folds and registers --------------------------------------------------------------------------


@pytest.mark.parametrize("reverse0", [False, True])
@pytest.mark.parametrize("reverse1", [False, True])
def test_V6_a_scan_is_its_loop(reverse0, reverse1):
    a, b = (
        np.float32([[1, 2, 3, 4], [0.5, -1, 2, 256]]),
        np.float32([[1, 0, -5, 0.5], [9, 8, 7, 1]]),
    )
    state, want = np.float32([2, -3]), []
    start = state[:, None].copy()
    for j in range(4):
        first = state - a[:, j] if reverse0 else a[:, j] - state
        state = b[:, j] - first if reverse1 else first - b[:, j]
        want.append(state)
    for dtype in ("float32", "bfloat16"):  # the state is float32 in either case
        got = issued(
            "tensor_tensor_scan", a.shape, a, b, start, nl.subtract, nl.subtract, reverse0,
            reverse1, dtype=dtype,
        )  # fmt: skip
        same(got, np.array(want).T.astype(dtype))


def test_V6_the_state_of_a_scan_is_not_rounded():
    """256 + 1 + 1 in bfloat16: if each step were rounded, it would stay at 256."""
    ones = np.ones((1, 3), np.float32)
    got = issued(
        "tensor_tensor_scan", (1, 3), ones, ones, 255.0, nl.multiply, nl.add, dtype="bfloat16"
    )
    assert got.astype(np.float32).tolist() == [[256, 256, 258]]


def test_V7_a_running_fold_uses_the_value_on_its_left():
    device = Device()
    x, dst = device.tile(np.float32([[1, 2, 4]])), device.empty((1, 3))

    def after(*arguments):
        device.issue("tensor_scalar_cumulative", dst, x, nl.add, nl.subtract, 0.0, *arguments)
        return dst.numpy()[0].tolist()

    assert after() == [1, 1, 3]  # x - r, from 0
    assert after(None, reduce_cmd.reduce) == [-2, 4, 0]  # from 3
    assert after(10.0, reduce_cmd.load_reduce) == [-9, 11, -7]
    assert after(None, reduce_cmd.reset_reduce) == [1, 1, 3]


def test_V8_registers_of_the_vector_engine():
    device = Device()
    x, dst, total = device.tile(np.float32([[1, 2, 4]])), device.empty((1, 3)), device.empty((1, 1))

    def summed(**options):
        device.issue("tensor_scalar_reduce", dst, x, nl.multiply, 1.0, nl.add, total, **options)
        return float(total.numpy()[0, 0])

    assert summed() == 7
    assert summed(reduce_cmd=reduce_cmd.reduce) == 14
    assert summed(reduce_cmd=reduce_cmd.load_reduce, reduce_init=100.0) == 107
    assert summed(reduce_cmd=reduce_cmd.reset_reduce) == 7
    one = device.tile(np.ones((1, 3), np.uint8))
    device.issue("select_reduce", dst, one, x, 0.0)  # idle: it may overwrite the register
    assert math.isnan(summed(reduce_cmd=reduce_cmd.reduce))


def test_V8_registers_of_the_scalar_engine_and_a_sum_in_dst_itself():
    device = Device()
    x = device.tile(np.float32([[1, 2, 4]]))
    dst, total = device.empty((1, 3)), device.empty((1, 1))
    device.issue(
        "activation", dst, nl.copy, x, reduce_op=nl.add, reduce_cmd=reduce_cmd.reset_reduce
    )
    more = {"reduce_op": nl.add, "reduce_res": total, "reduce_cmd": reduce_cmd.reduce}
    device.issue("activation", dst, nl.square, x, **more)
    assert total.numpy() == 7 + 21
    device.issue("activation_reduce", x, nl.square, x, nl.add, x[:, :1])
    assert x.numpy().tolist() == [[21, 4, 16]]


# --- searches -------------------------------------------------------------------------------------


def test_V9_the_eight_greatest_with_duplicates_and_nan():
    x = np.float32([[3, 9, 9, -1, 0, -0.0, 3, 3, INF, NAN]])
    same(issued("max8", (1, 8), x), np.float32([[NAN, INF, 9, 9, 3, 3, 3, 0]]))


def test_V9_indices_of_values():
    x = np.float32([[7, 5, 7, 1, 5, 7, 0, -0.0]])
    vals = np.float32([[7, 7, 5, 7, 7, 2, 0, 0]])
    none = 2**32 - 1
    got = issued("nc_find_index8", (1, 8), x, vals, dtype="uint32")
    assert got.tolist() == [[0, 2, 1, 5, none, none, 6, 7]]
    assert issued("nc_find_index8", (1, 8), x, vals, dtype="uint16")[0, 4] == 2**16 - 1


def test_V9_the_published_replacement():
    device = Device()
    data = device.tile(np.float32([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]]))
    vals, found = device.tile(np.float32([[3] + [8] * 7])), device.empty((1, 8), "uint32")
    device.issue("nc_match_replace8", data, data, vals, 0.0, found)
    assert found.numpy().tolist() == [[2, 10, 9, 8, 7, 6, 5, 4]]
    assert data.numpy().tolist() == [[1, 2, 0, 4] + [0] * 7]


def test_V10_statistics_in_pieces():
    """1537 numbers in pieces of 512, of which the last has an odd length; mean and variance of all
    numbers."""
    device, x = Device(), np.random.default_rng(0).normal(3, 2, (128, 1537)).astype(np.float32)
    pieces = [x[:, i : i + 512] for i in range(0, 1537, 512)]
    assert pieces[-1].shape[1] == 1
    triples, moments = device.empty((128, 6 * len(pieces))), device.empty((128, 2))
    for i, piece in enumerate(pieces):
        device.issue("bn_stats", triples[:, 6 * i : 6 * i + 6], device.tile(piece))
    device.issue("bn_aggr", moments, triples)
    wide = x.astype(np.float64)
    want = np.stack([wide.mean(axis=1), wide.var(axis=1)], axis=1)
    np.testing.assert_allclose(moments.numpy(), want, rtol=1e-6)
    odd = issued("bn_stats", (1, 6), np.float32([[1, 10, 3, 20, 8]]))
    assert odd.tolist() == [[3, 4, 26, 2, 15, 50]]


# --- patterns and choices -------------------------------------------------------------------------


@for_all("dtype", ["int32", "float32", "bfloat16", "int8", "uint8", "float16"])
def test_V11_patterns_of_four_axes(dtype):
    device = Device()
    dst = device.empty((2, 2 * 3 * 1 * 2), dtype)
    device.issue("iota", dst, [[100, 2], [-7, 3], [5, 1], [-1, 2]], 3, 1000)
    w, z, x = np.meshgrid([0, 100], [0, -7, -14], [0, -1], indexing="ij")
    row = 3 + (w + z + x).reshape(-1)
    want = np.array([row, row + 1000], np.int32)
    same(dst.numpy(), converted(want, dtype))


def test_V11_patterns_wrap_around():
    device = Device()
    dst = device.empty((1, 2), "int32")
    device.issue("iota", dst, [[1, 2]], 2**31 - 1, 0)
    assert dst.numpy().tolist() == [[2**31 - 1, -(2**31)]]
    kept = device.empty((1, 2))
    x, top = device.tile(np.float32([[5, 6]])), 2**31 - 1
    device.issue("affine_select", kept, [[1, 2]], 0, x, -1.0, nl.greater, top)
    assert kept.numpy().tolist() == [[5, -1]]


def test_V12_places_are_compared_in_float32():
    """The indices 2^24 and 2^24 + 1 are equal in float32; the fill value overflows narrow
    formats."""
    device = Device()
    x = np.float32([[1, 2, 3, 4]])  # from 2^24 - 1 on
    bound, top = device.tile(np.float32([[2**24]])), device.tile(np.float32([[INF]]))
    for dtype in ("float32", "bfloat16", "float16", "float8_e4m3"):
        least = np.finfo(np.float32).min if dtype == "float32" else -INF
        dst, most = device.empty(x.shape, dtype), device.empty((1, 1))
        device.issue(
            "range_select", dst, device.tile(x), nl.greater, nl.less, bound, top, reduce_res=most,
            range_start=2**24 - 1,
        )  # fmt: skip
        assert dst.numpy().astype(np.float32).tolist() == [[least, least, least, 4]]
        assert most.numpy() == 4
    none = device.empty((1, 1))
    device.issue(
        "range_select", dst, device.tile(x), nl.greater, nl.less, top, top, reduce_res=none
    )
    assert none.numpy() == np.finfo(np.float32).min  # float32, before dst is rounded


def test_V13_shuffles():
    rows = np.arange(128, dtype=np.float32)[:, None]
    order = [*range(1, 32), 255]
    device = Device()
    whole = device.tile(rows)
    device.issue("nc_stream_shuffle", whole, whole, order)  # in place, in every quadrant
    want = np.where(np.arange(128) % 32 == 31, np.arange(128), np.arange(128) + 1)
    assert whole.numpy()[:, 0].tolist() == want.tolist()
    spread = device.zeros((128, 1))
    device.issue("nc_stream_shuffle", spread, device.tile(rows[32:64]), [7] * 32)
    assert (spread.numpy() == 39).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_V14_dropout(dtype):
    x = np.full((128, 512), 3, dtype)
    assert (issued("dropout", x.shape, x, 0.0, dtype=dtype) == x).all()
    assert (issued("dropout", x.shape, x, 1.0, dtype=dtype) == 0).all()
    got = issued("dropout", x.shape, x, 0.3, dtype=dtype)
    assert got.dtype == dtype and set(np.unique(got).tolist()) == {0, 3}  # nothing is scaled
    z = ((got == 0).sum() - 0.3 * x.size) / (0.21 * x.size) ** 0.5
    assert abs(z) < 4.5


# --- activation functions -------------------------------------------------------------------------


def test_V15_the_published_sine():
    device, x = Device(), np.float32([[9.0, 1.0]])
    dst = device.empty(x.shape)
    device.issue("activation", dst, nl.sin, device.tile(x))
    table = dst.numpy()
    assert device.findings == ["OUT_OF_RANGE"]
    assert abs(table[0, 0] - 27.65) < 0.01 and abs(table[0, 1] - math.sin(1)) < 1e-7
    function, _ = called(nl.sin, x)
    assert abs(function[0, 0] - 0.41212) < 5e-6


@pytest.mark.parametrize("name", VALID)
def test_V15_inputs_beyond_the_tables_are_found(name):
    """There is no finding at the ends of the published range, and one at the next number
    outside."""
    low, high = np.float32(VALID[name])
    below, above = np.nextafter(low, np.float32(-INF)), np.nextafter(high, np.float32(INF))
    mirrored = [-low, -high] if name == "reciprocal" else []
    for values in ([low, high, 0, -0.0, INF, -INF, NAN, *mirrored], [below], [above], [-above]):
        device = Device()
        x = device.tile(np.float32([values]))
        device.issue("activation", device.empty(x.shape), getattr(nl, name), x)
        assert device.findings == ([] if len(values) > 1 else ["OUT_OF_RANGE"])
    device = Device()
    x, factor = device.tile(np.float32([[1.0]])), float(above)
    device.issue("activation", device.empty((1, 1)), getattr(nl, name), x, scale=factor)
    (finding,) = device.core.findings
    assert f"nl.{name} gets the input {factor:.9g}" in finding.message
    assert f"{VALID[name][1]:.9g}" in finding.message


DERIVATIVES = {
    "gelu_dx": lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2,
    "gelu_apprx_sigmoid_dx": lambda x: x / (1 + mpmath.exp(-1.702 * x)),
    "silu_dx": lambda x: x / (1 + mpmath.exp(-x)),
    "erf_dx": mpmath.erf,
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_V16_derivatives_are_those_of_their_functions(name):
    x = np.linspace(-8, 8, 257, dtype=np.float32)[None]
    got = issued("activation", x.shape, getattr(nl, name), x)
    with mpmath.workdps(40):
        want = [float(mpmath.diff(DERIVATIVES[name], mpmath.mpf(float(v)))) for v in x[0]]
    np.testing.assert_allclose(got[0], want, rtol=1e-6, atol=1e-30)


# --- the GpSimd engine's lists --------------------------------------------------------------------


def test_V17_gathers():
    x = np.arange(32 * 6, dtype=np.float32).reshape(32, 6)
    index = np.zeros((32, 2), np.uint16)
    index[:16, 0], index[16:18, 0] = np.arange(16) % 6, [5, 2]
    got = issued("local_gather", (32, 18), x, index, num_valid_indices=18)
    order = [*(np.arange(16) % 6), 0, 0]  # down the column of a core's 16 partitions, then the next
    assert np.array_equal(got[:16], x[:16, order])
    assert np.array_equal(got[16:], x[16:, [5, 2] + [0] * 16])
    places = np.random.default_rng(0).integers(0, 6, (32, 9)).astype(np.uint32)
    got = issued("nc_n_gather", (32, 9), x, places)
    assert np.array_equal(got, np.take_along_axis(x, places.astype(int), 1))


def test_V17_bounds_and_positions_of_gathers():
    ids = np.int32([[1, 1, 2, 0, 0, 3, 3, 3]])
    got = issued("sequence_bounds", (1, 2, 8), ids, dtype="int32")
    assert got.tolist() == [[[0, 0, 2, 8, 8, 5, 5, 5], [2, 2, 3, -1, -1, 8, 8, 8]]]
    device = Device()
    dst, x = device.zeros((16, 6), "int32"), np.zeros((16, 5), np.int32)
    x[0] = [0, 7, 0, 0, -1]
    device.issue("nonzero_with_count", dst, device.tile(x), 10, -5)
    assert dst.numpy()[0].tolist() == [11, 14, -5, -5, -5, 2]
    assert (dst.numpy()[1:] == 0).all()
