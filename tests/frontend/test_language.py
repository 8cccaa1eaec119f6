"""nki.language compared with numpy: elementwise functions, reductions, products and selections."""

import functions
import ml_dtypes
import nki.language as nl
import numpy as np
import pytest
from alu import PLAIN as ARITHMETIC
from device import TARGETS, Device, called
from every import for_all
from functions import BITWISE, COMPARISONS, POSITIVE, reference

from neuroncore.base.errors import (
    BufferKindError,
    DtypeError,
    OperatorError,
    OutOfBoundsError,
    ShapeError,
    SignatureError,
    TargetError,
)

SHAPES = ((1, 1), (3, 7), (128, 33), (96, 5, 3))
FLOATS = (np.float32, np.float16, ml_dtypes.bfloat16)

ELEMENTWISE = (*ARITHMETIC, *COMPARISONS)


FUNCTIONS = (*functions.FUNCTIONS, "erf", "gelu", "gelu_dx", "gelu_apprx_sigmoid_dx")


def normal(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(dtype)


def close(got, want, dtype=np.float32):
    """Compare within two units in the last place of the format, or of 1 after cancellation."""
    eps = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(
        got.astype(np.float64), np.asarray(want, np.float64), rtol=2 * eps, atol=2 * eps
    )


# --- two operands ---------------------------------------------------------------------------------


@for_all("shape", SHAPES)
@for_all("name", ELEMENTWISE)
def test_two_tiles_combine_element_by_element(name, shape):
    x, y = normal(shape), normal(shape, seed=1)
    y.flat[::3] = x.flat[::3]
    y.flat[1::5] = 0
    got, opcodes = called(getattr(nl, name), x, y)
    np.testing.assert_array_equal(got, reference(name)(x, y).astype(np.float32))
    assert opcodes == ["TENSOR_TENSOR"]


@for_all("name", ELEMENTWISE)
def test_numbers_and_columns_are_broadcast_along_the_tile(name):
    x, column = normal((5, 9)), normal((5, 1), seed=1)
    function, want = getattr(nl, name), reference(name)
    for left, right in ((x, 0.5), (0.5, x), (x, column), (column, x)):
        got, opcodes = called(function, left, right)
        sides = (np.float32(s) if isinstance(s, float) else s for s in (left, right))
        np.testing.assert_array_equal(got, want(*sides).astype(np.float32))
        assert opcodes == ["TENSOR_SCALAR"]


@for_all("dtype", FLOATS)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_narrow_results_are_float32_results_rounded_once(name, dtype):
    x, y = normal((4, 11), dtype), normal((4, 11), dtype, seed=1)
    got, _ = called(getattr(nl, name), x, y)
    want = reference(name)(x.astype(np.float32), y.astype(np.float32)).astype(dtype)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


def test_two_formats_give_the_wider_one_and_dtype_overrides_both():
    x, y = normal((3, 4), ml_dtypes.bfloat16), normal((3, 4), seed=1)
    assert called(nl.add, x, y)[0].dtype == np.float32
    assert called(nl.add, y, x)[0].dtype == np.float32
    for dtype in (nl.float16, "float16", np.float16, np.dtype("float16")):
        assert called(nl.add, x, y, dtype=dtype)[0].dtype == np.float16


def test_comparisons_with_nan_are_unordered():
    nan = np.full((1, 3), np.nan, np.float32)
    for name in COMPARISONS:
        got, _ = called(getattr(nl, name), nan, nan)
        np.testing.assert_array_equal(
            got, reference(name)(nan, nan).astype(np.float32), err_msg=name
        )


def test_a_comparison_in_uint8_is_a_mask():
    x = normal((3, 7))
    got, _ = called(nl.greater, x, 0.0, dtype=nl.uint8)
    np.testing.assert_array_equal(got, (x > 0).astype(np.uint8))


@for_all("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
@pytest.mark.parametrize("name", BITWISE)
def test_bitwise_operators_work_on_bits(name, dtype):
    rng = np.random.default_rng(0)
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, (3, 7), dtype, endpoint=True)
    y = rng.integers(0, 7, (3, 7), dtype)
    got, opcodes = called(getattr(nl, name), x, y)
    np.testing.assert_array_equal(got, reference(name)(x, y))
    assert opcodes == ["TENSOR_TENSOR"]
    got, opcodes = called(getattr(nl, name), x, 3)
    np.testing.assert_array_equal(got, reference(name)(x, np.array(3, dtype)))
    assert opcodes == ["TENSOR_SCALAR"]


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32"])
def test_a_right_shift_brings_zeros_in(dtype):
    x, y = np.array([[-1, 100, -128]], dtype), np.array([[1, 3, 2]], dtype)
    unsigned = np.dtype(f"u{dtype}")
    want = (x.view(unsigned) >> y.view(unsigned)).view(dtype)
    np.testing.assert_array_equal(called(nl.right_shift, x, y)[0], want)


def test_integers_of_32_bits_are_added_exactly_tile_to_tile():
    x, y = np.array([[2**24 + 1, -(2**30) - 3]], np.int32), np.array([[2, 5]], np.int32)
    np.testing.assert_array_equal(called(nl.add, x, y)[0], x + y)
    np.testing.assert_array_equal(called(nl.multiply, x, y)[0], x * y)


def test_power_raises():
    x, y = np.abs(normal((3, 7))), normal((3, 7), seed=1)
    close(called(nl.power, x, y)[0], x.astype(np.float64) ** y)
    close(called(nl.power, x, 2.0)[0], x.astype(np.float64) ** 2)
    close(called(nl.power, 2.0, x)[0], 2.0 ** x.astype(np.float64))


def test_larger_and_smaller_magnitude_keep_the_sign_and_a_tie_gives_the_second():
    x, y = np.array([[-5, 3, 1]], np.float32), np.array([[3, -5, -1]], np.float32)
    assert called(nl.abs_max, x, y, target="trn3")[0].tolist() == [[-5, -5, -1]]
    assert called(nl.abs_min, x, y, target="trn3")[0].tolist() == [[3, 3, -1]]


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_magnitude_operators_exist_from_trn3_on(target):
    with pytest.raises(TargetError, match=f"{target} does not have the operator nl.abs_max"):
        called(nl.abs_max, normal((1, 3)), normal((1, 3)), target=target)


def test_division_is_a_product_with_the_reciprocal():
    x, y = normal((3, 7)), normal((3, 7), seed=1)
    got, opcodes = called(nl.divide, x, y)
    np.testing.assert_array_equal(got, x * (np.float32(1) / y))
    assert opcodes == ["RECIPROCAL", "TENSOR_TENSOR"]
    got, opcodes = called(nl.divide, x, 3.0)
    np.testing.assert_array_equal(got, x * np.float32(1 / 3))
    assert opcodes == ["TENSOR_SCALAR"]
    got, opcodes = called(nl.divide, 3.0, x)
    np.testing.assert_array_equal(got, np.float32(3) * (np.float32(1) / x))
    assert opcodes == ["RECIPROCAL", "TENSOR_SCALAR"]


def test_division_by_zero_gives_infinity_and_nan():
    got, _ = called(nl.divide, np.array([[1, -1, 0]], np.float32), 0.0)
    np.testing.assert_array_equal(got, [[np.inf, -np.inf, np.nan]])


@pytest.mark.parametrize(("name", "rounded"), [("mod", "floor"), ("fmod", "trunc")])
def test_remainders_have_no_instruction(name, rounded):
    with pytest.raises(OperatorError, match=rf"nl.{name} has no hardware instruction") as refusal:
        called(getattr(nl, name), normal((1, 3)), 2.0)
    assert f"nl.{rounded}(nl.divide(x, y))" in refusal.value.hint


@pytest.mark.parametrize("buffers", [("sbuf", "psum"), ("psum", "sbuf"), ("psum", "psum")])
def test_a_second_operand_in_psum_is_copied_to_sbuf(buffers):
    device, values = Device(), normal((3, 7))
    tiles = [device.tile(values, buffer=b) for b in buffers]
    total = device.call(nl.add, *tiles)
    np.testing.assert_array_equal(total.numpy(), values + values)
    copied = ["COPY"] if buffers == ("psum", "psum") else []
    assert device.opcodes == [*copied, "TENSOR_TENSOR"]


# shapes of x and y, and the instructions of nl.add
SHUFFLE, TENSOR, SCALAR = "NC_STREAM_SHUFFLE", "TENSOR_TENSOR", "TENSOR_SCALAR"
BROADCAST = (
    ((77, 1), (1, 33), [SHUFFLE] * 3 + [SCALAR]),
    ((1, 33), (128, 1), [SHUFFLE] * 4 + [SCALAR]),
    ((1, 1), (19, 1), [SHUFFLE, TENSOR]),
    ((19, 1), (1, 1), [SHUFFLE, TENSOR]),
    ((1, 1), (33, 5), [SHUFFLE] * 2 + [SCALAR]),
    ((1, 7), (3, 7), [SHUFFLE, TENSOR]),
    ((5, 3, 1), (5, 1, 4), [TENSOR]),
    ((5, 3, 4), (1, 1, 4), [SHUFFLE, TENSOR]),
    ((1, 5), (1, 1), [SCALAR]),
)


@for_all("shapes", BROADCAST)
@for_all("name", ELEMENTWISE)
def test_axes_of_size_1_are_broadcast_and_partitions_need_an_instruction(name, shapes):
    *given, _ = shapes
    x, y = (np.rint(normal(shape, seed=seed)) for seed, shape in enumerate(given))
    got, _ = called(getattr(nl, name), x, y)
    np.testing.assert_array_equal(got, reference(name)(x, y).astype(np.float32))


@for_all("shapes", BROADCAST)
@for_all("dtype", (*FLOATS, np.int32, np.uint8))
def test_a_broadcast_operand_keeps_its_format(shapes, dtype):
    *given, want = shapes
    x, y = (np.rint(4 * abs(normal(shape, seed=shape[0]))).astype(dtype) for shape in given)
    got, opcodes = called(nl.add, x, y)
    np.testing.assert_array_equal(got, x + y)
    column = SCALAR in want and dtype is not np.float32  # which the instruction wants in float32
    assert got.dtype == dtype and sorted(opcodes) == sorted([*want, *["COPY"] * column])


@pytest.mark.parametrize("name", BITWISE)
def test_bits_of_a_column_and_a_row_are_combined(name):
    x, y = np.arange(40, dtype=np.int32)[:, None], np.arange(9, dtype=np.int32)[None, :]
    got, opcodes = called(getattr(nl, name), x, y)
    np.testing.assert_array_equal(got, reference(name)(x, y))
    assert opcodes == [SHUFFLE, SHUFFLE, SCALAR]


@pytest.mark.parametrize("buffers", [("sbuf", "psum"), ("psum", "sbuf"), ("psum", "psum")])
def test_a_row_in_psum_is_repeated_in_sbuf(buffers):
    device, column, row = Device(), normal((40, 1)), normal((1, 9))
    given = [device.tile(v, buffer=b) for v, b in zip((column, row), buffers, strict=True)]
    np.testing.assert_array_equal(device.call(nl.multiply, *given).numpy(), column * row)
    assert device.opcodes == [SHUFFLE, SHUFFLE, SCALAR]


@for_all("other", [(2, 7), (3, 1, 7), (7, 3), (4, 7), (3, 2), (1, 3)])
def test_different_shapes_are_refused_with_a_hint(other):
    with pytest.raises(ShapeError, match=r"nl.add: the shapes") as caught:
        called(nl.add, normal((3, 7)), normal(other))
    assert "broadcast_to" in caught.value.hint


def test_different_shapes_leave_no_trace():
    device = Device()
    with pytest.raises(ShapeError):
        device.call(nl.add, device.tile(normal((3, 7))), device.tile(normal((1, 6))))
    assert not device.opcodes


def test_operands_that_no_engine_takes_are_refused():
    with pytest.raises(SignatureError, match=r"nl.add needs at least one tile"):
        called(nl.add, 1.0, 2.0)
    with pytest.raises(SignatureError, match=r"3\.0 is not a tile"):
        called(nl.exp, 3.0)
    with pytest.raises(DtypeError, match="bitvec"):
        called(nl.bitwise_and, normal((1, 3)), 1)
    with pytest.raises(BufferKindError, match="data must be in sbuf or psum"):
        called(nl.add, normal((1, 3)), 1.0, tiles_in="hbm")
    with pytest.raises(OperatorError, match="only an argument of"):
        called(nl.prelu, normal((1, 3)))


# --- one operand ----------------------------------------------------------------------------------


@for_all("name", FUNCTIONS)
def test_an_activation_function_is_one_instruction(name):
    for shape in SHAPES:
        x = np.clip(normal(shape), -1.5, 1.5)
        got, opcodes = called(getattr(nl, name), x)
        close(got, reference(name)(x.astype(np.float64)))
        assert opcodes == ["ACTIVATE"]


@for_all("dtype", FLOATS)
@pytest.mark.parametrize("name", [*FUNCTIONS, *POSITIVE])
def test_functions_keep_the_format_unless_dtype_is_given(name, dtype):
    x = np.minimum(np.abs(normal((3, 7))) + 0.1, 1.5).astype(dtype)  # arctan's tables end there
    want = reference(name)(x.astype(np.float64))
    got, _ = called(getattr(nl, name), x)
    assert got.dtype == dtype
    close(got, want, dtype)
    wide, _ = called(getattr(nl, name), x, dtype=nl.float32, tiles_in="psum")
    close(wide, want)


@pytest.mark.parametrize("target", TARGETS)
def test_simple_functions_are_exact(target):
    x = normal((128, 33))
    for name, want, opcode in (
        ("abs", np.abs(x), "TENSOR_SCALAR"),
        ("negative", -x, "TENSOR_SCALAR"),
        ("reciprocal", np.float32(1) / x, "RECIPROCAL"),
        ("copy", x, "COPY"),
        ("logical_not", (x == 0).astype(np.float32), "TENSOR_SCALAR"),
    ):
        got, opcodes = called(getattr(nl, name), x, target=target)
        np.testing.assert_array_equal(got, want, err_msg=name)
        assert opcodes == [opcode]


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32"])
def test_invert_flips_every_bit_of_an_integer(dtype):
    x = np.arange(-6, 6).reshape(2, 6).astype(dtype)
    got, opcodes = called(nl.invert, x)
    np.testing.assert_array_equal(got, ~x)
    assert opcodes == ["TENSOR_SCALAR"]
    with pytest.raises(DtypeError):
        called(nl.invert, normal((1, 2)))


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc"])
@for_all("dtype", FLOATS)
def test_rounding_to_integers_is_exact_for_every_number(name, dtype):
    edges = [0.5, 1.5, 2.5, 0.99999994, 1e-30, 2.0**22 + 0.5, 2.0**23 + 1, 3e9, 1e38, np.inf, 0.0]
    with np.errstate(over="ignore"):
        x = np.array([edges, np.negative(edges), np.arange(11) - 5, [np.nan] * 11]).astype(dtype)
    got, _ = called(getattr(nl, name), x)
    want = getattr(np, name)(x.astype(np.float32)).astype(dtype)
    np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_trigonometric_functions_of_large_angles(name):
    x = np.linspace(-300, 300, 700, dtype=np.float32).reshape(7, 100)
    got, _ = called(getattr(nl, name), x)
    want = getattr(np, name)(x.astype(np.float64))
    slope = 1 + want**2 if name == "tan" else 1
    assert np.all(np.abs(got - want) < 1e-6 * slope)


def test_the_sine_of_nan_is_nan():
    assert np.isnan(called(nl.sin, np.full((1, 1), np.nan, np.float32))[0]).all()


# --- reductions -----------------------------------------------------------------------------------

FOLDS = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}


@pytest.mark.parametrize("name", FOLDS)
@for_all(
    ("shape", "axis"),
    [((3, 7), 1), ((128, 33), -1), ((1, 1), 1), ((96, 5, 3), 2), ((96, 5, 3), (1, 2))],
)
def test_reductions_fold_the_last_axes(name, shape, axis):
    x = normal(shape)
    want = FOLDS[name](x.astype(np.float64), axis=axis)
    for buffer in ("sbuf", "psum"):
        got, opcodes = called(getattr(nl, name), x, axis, tiles_in=buffer)
        assert got.shape == (want.shape if want.ndim > 1 else (*want.shape, 1))
        np.testing.assert_allclose(got.reshape(want.shape), want, rtol=1e-5, atol=1e-5)
        assert opcodes == ["TENSOR_REDUCE"]
    kept, _ = called(getattr(nl, name), x, axis, keepdims=True)
    assert kept.shape == FOLDS[name](x, axis=axis, keepdims=True).shape
    np.testing.assert_array_equal(kept.ravel(), got.ravel())


@for_all("name", ["max", "min"])
def test_maximum_and_minimum_can_be_operators_of_instructions(name):
    device, x = Device(), normal((8, 33))
    tile, out = device.tile(x), device.tile(np.zeros((8, 1), np.float32))
    device.issue("tensor_reduce", out, getattr(nl, name), tile, 1)
    assert np.array_equal(out.numpy()[:, 0], getattr(np, name)(x, 1))
    device.refuses(SignatureError, "tensor_reduce", out, nl.sum, tile, 1, words=["operator"])


def test_narrow_sums_are_rounded_once():
    x = normal((3, 200), ml_dtypes.bfloat16)
    got, _ = called(nl.sum, x, 1)
    total = np.zeros(3, np.float32)
    for column in x.astype(np.float32).T:
        total = total + column
    np.testing.assert_array_equal(got[:, 0], total.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize(("shape", "axis"), [((4, 1), 1), ((4, 3, 1), 2), ((4, 1, 1), (1, 2))])
def test_all_of_a_single_element_is_zero_or_one(shape, axis):
    x = normal(shape) * (np.arange(4) != 2).reshape(4, *[1] * (len(shape) - 1))
    got, _ = called(nl.all, x.astype(np.float32), axis)
    np.testing.assert_array_equal(got.reshape(4, -1), x.reshape(4, -1) != 0)


def test_all_is_true_if_no_element_is_zero():
    x = np.ones((4, 5), np.uint8)
    x[1, 3] = x[2, 0] = 0
    got, opcodes = called(nl.all, x, 1)
    np.testing.assert_array_equal(got[:, 0], x.all(axis=1))
    assert opcodes == ["TENSOR_REDUCE"]


@pytest.mark.parametrize(("shape", "axis"), [((3, 7), 1), ((128, 33), -1), ((96, 5, 3), (1, 2))])
def test_mean_variance_and_softmax_follow_their_definitions(shape, axis):
    x = 3 + normal(shape)
    wide = x.astype(np.float64)
    got, opcodes = called(nl.mean, x, axis, keepdims=True)
    np.testing.assert_allclose(got, wide.mean(axis=axis, keepdims=True), rtol=1e-6)
    assert opcodes == ["TENSOR_REDUCE", "TENSOR_SCALAR"]
    for keepdims in (False, True):  # the axes stay either way
        got, _ = called(nl.var, x, axis, keepdims=keepdims)
        np.testing.assert_allclose(got, wide.var(axis=axis, keepdims=True), rtol=1e-5)
    got, opcodes = called(nl.softmax, x, axis)
    powers = np.exp(wide - wide.max(axis=axis, keepdims=True))
    np.testing.assert_allclose(got, powers / powers.sum(axis=axis, keepdims=True), rtol=1e-5)
    assert opcodes == ["TENSOR_REDUCE", "ACTIVATE", "RECIPROCAL", "TENSOR_SCALAR"]


def test_softmax_does_not_overflow_and_accepts_minus_infinity():
    x = np.array([[1000, 1000, -np.inf], [-1000, -1000, -1000]], np.float32)
    got, _ = called(nl.softmax, x)
    np.testing.assert_allclose(got, [[0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_rms_norm_scales_rows_to_unit_mean_square(dtype):
    x, w = normal((33, 20), dtype), normal((33, 20), dtype, seed=1)
    got, _ = called(nl.rms_norm, x, w, 1, 20, epsilon=0.5)
    wide = x.astype(np.float64)
    want = wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + 0.5) * w.astype(np.float64)
    assert got.dtype == dtype
    close(got / 4, want / 4, dtype)


@pytest.mark.parametrize("name", ["sum", "mean", "softmax", "var", "rms_norm"])
def test_an_axis_that_is_not_streamed_is_refused(name):
    x = normal((4, 3, 5))
    more = (x,) if name == "rms_norm" else ()
    count = (15,) if name == "rms_norm" else ()
    for axis in (0, (0, 1), -3):
        with pytest.raises(ShapeError, match=r"axis 0 of .* can't be reduced"):
            called(getattr(nl, name), x, *more, axis, *count)
    for square in (x, normal((4, 3, 3))):
        with pytest.raises(ShapeError):
            called(getattr(nl, name), square, *more, 1, *count)
    with pytest.raises(OutOfBoundsError, match="no axis 3"):
        called(getattr(nl, name), x, *more, 3, *count)


@pytest.mark.parametrize(("shape", "axis"), [((4, 3, 5), -1), ((96, 2, 3, 4), (2, 3))])
@pytest.mark.parametrize("buffer", ["sbuf", "psum"])
def test_functions_of_some_of_the_free_axes(shape, axis, buffer):
    x = 3 + normal(shape)
    wide, kept = x.astype(np.float64), {"axis": axis, "keepdims": True}
    powers = np.exp(wide - wide.max(**kept))
    got, _ = called(nl.softmax, x, axis, tiles_in=buffer)
    np.testing.assert_allclose(got, powers / powers.sum(**kept), rtol=1e-5)
    got, _ = called(nl.var, x, axis, tiles_in=buffer)
    np.testing.assert_allclose(got, wide.var(**kept), rtol=1e-5)
    got, _ = called(nl.rms_norm, x, x, axis, 7, epsilon=0.5)
    scale = np.sqrt((wide**2).sum(**kept) / 7 + 0.5)
    np.testing.assert_allclose(got, wide / scale * wide, rtol=1e-5)


@pytest.mark.parametrize("form", ["float8_e4m3fn_x4", "float8_e8m0fnu"])
def test_formats_that_no_engine_computes_with_are_refused(form):
    device = Device("trn3")
    packed, x = device.zeros((4, 8), form), device.zeros((4, 8))
    for operands in ((packed, x), (x, packed), (packed, packed)):
        with pytest.raises(DtypeError, match=f"{form}, and no engine computes with"):
            device.call(nl.add, *operands)
    assert device.call(nl.add, x, x).dtype == "float32"


def test_a_tensor_of_hbm_may_be_filled_that_is_larger_than_sbuf():
    device = Device()
    made = device.call(nl.full, (1024, 8192), 3.0, nl.float32, nl.shared_hbm)
    assert (made.numpy() == 3).all() and len(device.opcodes) == 4
