"""scalar_tensor_tensor and reciprocal."""

import nki.language as nl
import numpy as np
import pytest
from alu import MAGNITUDES, TWO_OPERANDS, UNARY, UNARY_V4, alu
from device import TARGETS, Device, converted, noise, same
from every import for_all

from neuroncore.errors import BufferKindError, OperatorError, SignatureError, TargetError

FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
SHAPES = ((1, 1), (3, 7), (128, 33), (96, 5, 3), (5, 2, 3, 4))
BITVEC = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")


# --- scalar_tensor_tensor -------------------------------------------------------------------------


def fused(device, data, op0, scalar, op1, other, dtype="float32", **flags):
    dst = device.empty(data.shape, dtype)
    scalar = device.tile(scalar) if isinstance(scalar, np.ndarray) else scalar
    device.issue(
        "scalar_tensor_tensor",
        *(dst, device.tile(data), getattr(nl, op0), scalar, getattr(nl, op1), device.tile(other)),
        **flags,
    )
    assert device.findings == []
    return dst.numpy()


def expected(data, op0, scalar, op1, other, reverse0=False, reverse1=False):
    if isinstance(scalar, np.ndarray):
        scalar = scalar.reshape(-1, *[1] * (data.ndim - 1))
    return alu(op1, alu(op0, data, scalar, reverse0), other.reshape(data.shape), reverse1)


@for_all("op1", TWO_OPERANDS)
@pytest.mark.parametrize("op0", [*TWO_OPERANDS, "abs", "reciprocal"])
def test_every_pair_of_operators(op0, op1):
    data, other, column = noise((32, 30)), noise((32, 30), seed=1), noise((32, 1), seed=2)
    for scalar in (0,) if op0 in UNARY else (column, -1.5):
        got = fused(Device(), data, op0, scalar, op1, other)
        same(got, expected(data, op0, scalar, op1, other))


@pytest.mark.parametrize("reverse0", [False, True])
@pytest.mark.parametrize("reverse1", [False, True])
@pytest.mark.parametrize(
    "ops", [("subtract", "subtract"), ("less", "subtract"), ("add", "greater")]
)
@pytest.mark.parametrize("target", TARGETS)
def test_operands_are_swapped_on_request(target, ops, reverse0, reverse1):
    flags = {"reverse0": reverse0, "reverse1": reverse1}
    data, other, column = noise((9, 5)), noise((9, 5), seed=1), noise((9, 1), seed=2)
    for scalar in (column, 2):
        given = data, ops[0], scalar, ops[1], other
        same(fused(Device(target), *given, **flags), expected(*given, **flags))


@for_all("after", ["float32", "bfloat16", "float8_e5m2", "int16", "uint8"])
@pytest.mark.parametrize("form", [*FLOATS, *INTEGERS])
def test_every_format_of_every_operand(form, after):
    data, other, column = noise((9, 33), form), noise((9, 33), form, 1), noise((9, 1), form, 2)
    given = data, "multiply", column, "add", other
    same(fused(Device(), *given, after), converted(expected(*given), after))


def test_the_intermediate_is_not_rounded_to_dst():
    data, other = np.full((1, 1), 256, "bfloat16"), np.full((1, 1), -256, "bfloat16")
    assert fused(Device(), data, "add", 1.0, "add", other, "bfloat16").astype(np.float32) == 1


def test_multiplication_and_addition_round_separately():
    x = np.float32([[1 + 2**-12]])
    got = fused(Device(), x, "multiply", x, "subtract", np.float32([[1 + 2**-11]]))
    assert got == 0  # a fused multiply-add would leave 2^-24


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("where", [("sbuf", "sbuf"), ("psum", "sbuf"), ("sbuf", "psum")])
def test_shapes_and_memories(shape, where):
    for dst_in, column_in in (("sbuf", "psum"), ("psum", "sbuf")):
        device = Device()
        data, other, column = noise(shape), noise(shape, seed=1), noise((shape[0], 1), seed=2)
        dst = device.empty(shape, "float16", dst_in)
        device.issue(
            "scalar_tensor_tensor",
            *(dst, device.tile(data, buffer=where[0]), nl.maximum),
            *(device.tile(column, buffer=column_in), nl.subtract),
            device.tile(other, buffer=where[1]),
        )
        want = converted(expected(data, "maximum", column, "subtract", other), "float16")
        same(dst.numpy(), want)


def test_both_tiles_may_not_be_in_psum():
    device = Device()
    dst, column = device.tile(noise((3, 4))), device.zeros((3, 1), buffer="psum")
    data, other = (device.zeros((3, 4), buffer="psum") for _ in range(2))
    given = dst, data, nl.add, column, nl.add, other
    words = ["data", "operand1", "psum"]
    error = device.refuses(BufferKindError, "scalar_tensor_tensor", *given, words=words)
    assert error.code == "BUFFER_KIND" and "tensor_copy" in error.hint


@for_all("starts", [(0, 0, 0), (1, 0, 2), (0, 1, 0), (0, 1, 1), (2, 1, 0)])
@pytest.mark.parametrize("ops", [("multiply", "add"), ("maximum", "minimum")])
@pytest.mark.parametrize("form", ["float32", "bfloat16"])
@pytest.mark.parametrize("rows", [1, 5])
def test_all_is_read_before_anything_is_written(form, ops, starts, rows):
    device = Device()
    values = noise((rows, 40), form)
    tile = device.tile(values)
    dst, data, other = (tile[:, s : s + 30] for s in starts)
    op0, op1 = (getattr(nl, op) for op in ops)
    device.issue("scalar_tensor_tensor", dst, data, op0, tile[:, 3:4], op1, other)
    a, b = (values[:, s : s + 30] for s in starts[1:])
    want = values.copy()
    part = expected(a, ops[0], values[:, 3:4], ops[1], b)
    want[:, starts[0] : starts[0] + 30] = converted(part, form)
    same(tile.numpy(), want)


def test_strided_broadcast_and_differently_shaped_operands():
    device = Device()
    data, other, old = noise((6, 9, 10)), noise((6, 1, 4), seed=1), noise((6, 24), "float16", 2)
    dst = device.tile(old)
    views = device.tile(data)[:, ::3, 1:9:2], device.tile(other).broadcast(1, 3)
    device.issue("scalar_tensor_tensor", dst[:, ::2], views[0], nl.subtract, 1, nl.less, views[1])
    want = old.copy()
    part = expected(data[:, ::3, 1:9:2], "subtract", 1, "less", np.repeat(other, 3, axis=1))
    want[:, ::2] = part.reshape(6, 12).astype(np.float16)
    same(dst.numpy(), want)


@pytest.mark.parametrize("place", ["op0", "op1"])
@pytest.mark.parametrize("op", [*BITVEC, "invert"])
def test_bits_are_refused(op, place):
    device = Device()
    x = device.tile(noise((3, 4), "int32"))
    ops = {"op0": nl.add, "op1": nl.add, place: getattr(nl, op)}
    given = {"dst": x, "data": x, "operand0": 1, "operand1": x, **ops}
    words = [place, op, "arithmetic"]
    error = device.refuses(OperatorError, "scalar_tensor_tensor", words=words, **given)
    assert error.code == "UNSUPPORTED_OP_COMBO"


@pytest.mark.parametrize("op", [*UNARY, *UNARY_V4])
def test_the_second_operator_has_two_operands(op):
    device = Device("trn3")
    x = device.tile(noise((3, 4)))
    given = x, x, nl.add, 1.0, getattr(nl, op), x
    device.refuses(OperatorError, "scalar_tensor_tensor", *given, words=["op1", op, "two operands"])


@pytest.mark.parametrize("op", MAGNITUDES)
def test_magnitudes_are_v4s(op):
    data, other = noise((9, 5)), noise((9, 5), seed=1)
    same(fused(Device("trn3"), data, op, 0.5, op, other), expected(data, op, 0.5, op, other))
    device = Device("trn2")
    x = device.tile(data)
    device.refuses(
        TargetError,
        "scalar_tensor_tensor",
        x,
        x,
        getattr(nl, op),
        0.5,
        nl.add,
        x,
        words=[op, "trn2"],
    )


@pytest.mark.parametrize("place", ["op0", "op1"])
@pytest.mark.parametrize("op", ["power", "rsqrt"])
def test_gpsimds_operators_are_refused(op, place):
    device = Device()
    x = device.tile(noise((3, 4)))
    ops = {"op0": nl.add, "op1": nl.add, place: getattr(nl, op)}
    given = {"dst": x, "data": x, "operand0": 0, "operand1": x, **ops}
    device.refuses(OperatorError, "scalar_tensor_tensor", words=[op], **given)


@pytest.mark.parametrize("value", ["1", None, [1.0], np.ones((3, 1), np.float32)])
def test_the_scalar_is_a_number_or_a_tile(value):
    device = Device()
    x = device.tile(noise((3, 4)))
    device.issue("scalar_tensor_tensor", x, x, nl.add, 1.0, nl.add, x)
    error = device.refuses(
        SignatureError, "scalar_tensor_tensor", x, x, nl.add, value, nl.add, x, words=["operand0"]
    )
    assert error.code == "SIGNATURE"


@pytest.mark.parametrize(
    "starts", [(0, 0, 0), (0, 1, 0), (1, 0, 0), (0, 0, 1), (1, 1, 0), (0, 9, 9)]
)
@pytest.mark.parametrize("column", [0, 5, 19])
@pytest.mark.parametrize("width", [1, 10])
def test_operands_may_overlap_dst(width, column, starts):
    device, values = Device(), noise((5, 20))
    tile = device.tile(values)
    dst, data, other = (tile[:, s : s + width] for s in starts)
    scalar = tile[:, column : column + 1]
    device.issue("scalar_tensor_tensor", dst, data, nl.subtract, scalar, nl.maximum, other)
    want = values.copy()
    first, second = (values[:, s : s + width] for s in starts[1:])
    part = expected(first, "subtract", values[:, column], "maximum", second)
    want[:, starts[0] : starts[0] + width] = part
    same(tile.numpy(), want)


# --- reciprocal -----------------------------------------------------------------------------------


def inverse(values):
    with np.errstate(all="ignore"):
        return np.float32(1) / values.astype(np.float32)


@for_all("after", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("before", [*FLOATS, *INTEGERS])
def test_a_reciprocal_is_correctly_rounded(before, after):
    device = Device()
    values = noise((64, 65), before)
    dst = device.empty(values.shape, after)
    device.issue("reciprocal", dst, device.tile(values))
    same(dst.numpy(), converted(inverse(values), after))


@pytest.mark.parametrize("target", TARGETS)
@for_all("where", [("sbuf", "sbuf"), ("sbuf", "psum"), ("psum", "sbuf"), ("psum",) * 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_reciprocals_of_all_shapes_in_both_memories(shape, where, target):
    device = Device(target)
    values = noise(shape)
    dst = device.empty(shape, buffer=where[0])
    device.issue("reciprocal", dst, device.tile(values, buffer=where[1]))
    same(dst.numpy(), inverse(values))


def test_reciprocals_of_what_has_none():
    device = Device()
    data = device.tile(np.float32([[0, -0.0, np.inf, -np.inf, np.nan, 1e-40]]))
    dst = device.empty((1, 6))
    device.issue("reciprocal", dst, data)
    same(dst.numpy(), np.float32([[np.inf, -np.inf, 0, -0.0, np.nan, np.inf]]))


@pytest.mark.parametrize("shift", [0, 1, 5])
@pytest.mark.parametrize("form", ["float32", "float16"])
@pytest.mark.parametrize("rows", [1, 5])
def test_reciprocals_in_place_and_shifted(form, shift, rows):
    device = Device()
    values = noise((rows, 40), form)
    tile = device.tile(values)
    device.issue("reciprocal", tile[:, shift:], tile[:, : 40 - shift])
    want = values.copy()
    want[:, shift:] = converted(inverse(values[:, : 40 - shift]), form)
    same(tile.numpy(), want)


def test_reciprocals_of_strided_views():
    device = Device()
    values, old = noise((7, 5, 6)), noise((7, 24), "bfloat16", 1)
    dst = device.tile(old)
    device.issue("reciprocal", dst[:, ::2], device.tile(values)[:, ::2, 1:5])
    want = old.copy()
    want[:, ::2] = converted(inverse(values[:, ::2, 1:5]), "bfloat16").reshape(7, 12)
    same(dst.numpy(), want)
