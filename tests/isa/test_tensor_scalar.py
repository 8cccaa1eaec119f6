"""tensor_scalar: up to two operators with a number or a value per partition."""

import nki.language as nl
import numpy as np
import pytest
from alu import COMPARISONS, LOGICAL, MAGNITUDES, PLAIN, TWO_OPERANDS, UNARY, UNARY_V4, alu
from device import TARGETS, Device, bits, converted, noise, same
from every import for_all
from nki.isa import engine

from neuroncore.base.errors import (
    TargetError,
)

FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
SHAPES = ((1, 1), (3, 7), (128, 33), (96, 5, 3), (5, 2, 3, 4))
NUMBERS = (0, 1.5, -3, 2**24 + 1, 0.1, np.inf, np.nan, np.float32(0.7), np.int32(3))


def operand(device, value):
    return device.tile(value) if isinstance(value, np.ndarray) else value


def result(device, data, *steps, dtype="float32", **options):
    """`steps` are (op, operand) or (op, operand, reverse)."""
    dst = device.empty(data.shape, dtype)
    for i, (op, value, *reverse) in enumerate(steps):
        options[f"op{i}"], options[f"operand{i}"] = getattr(nl, op), operand(device, value)
        options[f"reverse{i}"] = bool(reverse and reverse[0])
    device.issue("tensor_scalar", dst, device.tile(data), **options)
    assert device.findings == []
    return dst.numpy()


def expected(data, *steps):
    value = data.astype(np.float32)
    for op, b, *reverse in steps:
        if isinstance(b, np.ndarray):
            b = b.reshape(-1, *[1] * (data.ndim - 1))
        value = alu(op, value, b, bool(reverse and reverse[0]))
    return value


def unit_of_last(device):
    return device.core.program.calls[device.core.program.columns().call[-1]].engine


# --- float32 arithmetic ---------------------------------------------------------------------------


@for_all("target", TARGETS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("op", TWO_OPERANDS)
def test_every_operator(op, reverse, target):
    data, column = noise((128, 60)), noise((128, 1), seed=1)
    for step in ((op, column, reverse), *((op, value, reverse) for value in NUMBERS)):
        same(result(Device(target), data, step), expected(data, step))


@for_all("op1", [*TWO_OPERANDS, "abs", "reciprocal"])
@pytest.mark.parametrize("op0", [*TWO_OPERANDS, "abs", "reciprocal"])
def test_every_pair_of_operators(op0, op1):
    data, column = noise((32, 30), "bfloat16"), noise((32, 1), seed=1)
    steps = [
        (op0, None if op0 in UNARY else column),
        (op1, None if op1 in UNARY else np.float32(0.75), True),
    ]
    same(result(Device(), data, *steps), expected(data, *steps))


@pytest.mark.parametrize("op", UNARY_V4)
def test_unary_operators_of_v4(op):
    data = noise((32, 30))
    same(result(Device("trn3"), data, (op, None)), expected(data, (op, None)))
    same(result(Device("trn3"), data, (op, 0), ("add", 1)), expected(data, (op, 0), ("add", 1)))
    for target in ("trn1", "trn2"):
        device = Device(target)
        dst, x = device.tile(data), device.tile(data)
        words = [op, target]
        device.refuses(TargetError, "tensor_scalar", dst, x, getattr(nl, op), None, words=words)


@pytest.mark.parametrize("op", MAGNITUDES)
def test_magnitudes_of_v4(op):
    data, column = noise((32, 30)), noise((32, 1), seed=1)
    for reverse in (False, True):
        step = (op, column, reverse)
        same(result(Device("trn3"), data, step), expected(data, step))
    for place in ("op0", "op1"):
        device = Device("trn2")
        ops = {"op0": nl.add, "op1": nl.add, place: getattr(nl, op)}
        words = [op, "trn2"]
        device.refuses(
            TargetError, "tensor_scalar", device.tile(data), device.tile(data), operand0=1.0,
            operand1=1.0, words=words, **ops,
        )  # fmt: skip


def test_between_the_operators_nothing_is_rounded():
    data = np.full((1, 1), 256, "bfloat16")
    got = result(Device(), data, ("add", 1), ("subtract", 256), dtype="bfloat16")
    assert got.astype(np.float32) == 1  # 257 is not a bfloat16


def test_numbers_are_rounded_to_float32():
    got = result(Device(), np.zeros((1, 1), np.float32), ("add", 2**24 + 1))
    assert got == 2**24
    assert result(Device(), np.ones((1, 1), np.float32), ("multiply", 0.1)) == np.float32(0.1)


@for_all("after", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("before", [*FLOATS, *INTEGERS])
def test_every_format(before, after):
    data, column = noise((16, 33), before), noise((16, 1), seed=1)
    for steps in ([("maximum", column), ("multiply", 3)], [("subtract", column, True)]):
        got = result(Device(), data, *steps, dtype=after)
        same(got, converted(expected(data, *steps), after))


def test_32_bit_integers_go_through_float32():
    data = np.array([[2**24 + 1, 2**31 - 1]], np.int32)
    assert result(Device(), data, ("add", 0), dtype="int32").tolist() == [[2**24, 2**31 - 1]]


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_and_memories(shape):
    data, first, second = noise(shape), noise((shape[0], 1), seed=1), noise((shape[0], 1), seed=2)
    steps = [("subtract", first, True), ("maximum", second)]
    want = converted(expected(data, *steps), "float16")
    for where in np.ndindex(2, 2, 2, 2):
        device = Device()
        dst_in, data_in, *operands_in = (("sbuf", "psum")[i] for i in where)
        dst = device.empty(shape, "float16", dst_in)
        columns = [
            device.tile(v, buffer=b) for v, b in zip((first, second), operands_in, strict=True)
        ]
        device.issue(
            "tensor_scalar",
            *(dst, device.tile(data, buffer=data_in), nl.subtract, columns[0], True),
            *(nl.maximum, columns[1]),
        )
        same(dst.numpy(), want)


def test_a_column_may_have_more_axes():
    data, column = noise((6, 3, 4)), noise((6, 1, 1), seed=1)
    same(result(Device(), data, ("add", column)), expected(data, ("add", column)))


@pytest.mark.parametrize("op", ["multiply", "minimum", "less"])
def test_strided_views_leave_the_rest_alone(op):
    device = Device()
    data, old, columns = noise((96, 9, 10)), noise((96, 7, 11), "int16", 1), noise((96, 4), seed=2)
    dst = device.tile(old)
    device.issue(
        "tensor_scalar",
        *(dst[:, 1:7:2, 2:11:3], device.tile(data)[:, 0:9:3, 1:4].permute((0, 2, 1))),
        *(getattr(nl, op), device.tile(columns)[:, 2:3]),
    )
    want = old.copy()
    part = alu(op, data[:, 0:9:3, 1:4].transpose(0, 2, 1), columns[:, 2, None, None])
    want[:, 1:7:2, 2:11:3] = converted(part, "int16")
    same(dst.numpy(), want)


@pytest.mark.parametrize("op", ["subtract", "maximum", "greater"])
@pytest.mark.parametrize("starts", [(0, 0), (0, 1), (1, 0), (3, 1)])
@pytest.mark.parametrize("rows", [1, 5])
def test_data_may_overlap_dst(starts, op, rows):
    device = Device()
    values = noise((rows, 40))
    tile = device.tile(values)
    dst, data = (tile[:, s : s + 30] for s in starts)
    device.issue("tensor_scalar", dst, data, getattr(nl, op), 0.5, True, nl.multiply, 3.0)
    want = values.copy()
    part = values[:, starts[1] : starts[1] + 30]
    want[:, starts[0] : starts[0] + 30] = expected(part, (op, 0.5, True), ("multiply", 3.0))
    same(tile.numpy(), want)


@pytest.mark.parametrize("op0", ["multiply", "maximum"])
@pytest.mark.parametrize("op1", ["add", "minimum"])
@pytest.mark.parametrize("columns", [(0, 0), (0, 1), (4, 0), (9, 9)])
@pytest.mark.parametrize("width", [1, 10])
def test_operands_may_be_columns_of_dst(width, columns, op0, op1):
    device = Device()
    values = noise((5, 10))
    tile = device.tile(values)
    first, second = (tile[:, c : c + 1] for c in columns)
    part = tile[:, :width]
    device.issue(
        "tensor_scalar", part, part, getattr(nl, op0), first, op1=getattr(nl, op1), operand1=second
    )
    want = values.copy()
    steps = (op0, values[:, columns[0]]), (op1, values[:, columns[1]])
    want[:, :width] = expected(values[:, :width], *steps)
    same(tile.numpy(), want)


# --- engines --------------------------------------------------------------------------------------

SCALAR = ([("multiply", 3.0), ("add", -1.0)], [("multiply", 0.1)], [("add", 0.1)])


@pytest.mark.parametrize("target", ["trn2", "trn3"])
@pytest.mark.parametrize("steps", SCALAR)
def test_the_scalar_engine_multiplies_and_adds(steps, target):
    data = noise((9, 5), "bfloat16")
    device = Device(target)
    same(result(device, data, *steps, engine=engine.scalar), expected(data, *steps))
    assert unit_of_last(device) is engine.scalar


@pytest.mark.parametrize(
    "steps", [[("rsqrt", None)], [("add", 1e-5), ("rsqrt", 0)], [("power", -0.5)]]
)
@pytest.mark.parametrize("unit", [engine.gpsimd, engine.unknown])
def test_rsqrt_and_power_are_gpsimds(unit, steps):
    data = np.abs(noise((9, 5)))
    device = Device()
    same(result(device, data, *steps, engine=unit), expected(data, *steps))
    assert unit_of_last(device) is engine.gpsimd


# --- bits -----------------------------------------------------------------------------------------

BITVEC = {n: getattr(np, n) for n in ("bitwise_and", "bitwise_or", "bitwise_xor")}


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", BITVEC)
def test_bits_with_a_number_or_a_column(op, dtype):
    data, column = noise((16, 33), dtype), noise((16, 1), dtype, 1)
    same(result(Device(), data, (op, column), dtype=dtype), BITVEC[op](data, column))
    for value in (0, 1, 0x5A, np.iinfo(dtype).max, np.iinfo(dtype).min):
        want = BITVEC[op](data, np.array(value, dtype))
        same(result(Device(), data, (op, value), dtype=dtype), want)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits_are_inverted(dtype):
    data = noise((16, 33), dtype)
    same(result(Device(), data, ("invert", None), dtype=dtype), ~data)
    steps = ("invert", 0), ("bitwise_and", 0x0F)
    same(result(Device(), data, *steps, dtype=dtype), ~data & np.array(0x0F, dtype))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("op", ["left_shift", "right_shift"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_are_logical(dtype, op, reverse):
    width = np.dtype(dtype).itemsize * 8
    unsigned = np.dtype(f"uint{width}")
    column = np.arange(16).astype(dtype).reshape(16, 1) % width
    data = np.tile(np.arange(width).astype(dtype), (16, 1)) if reverse else noise((16, 20), dtype)
    got = result(Device(), data, (op, column.astype(dtype), reverse), dtype=dtype)
    a, b = (column, data) if reverse else (data, column)
    want = getattr(np, op)(a.astype(dtype).view(unsigned), b.astype(unsigned))
    assert np.array_equal(bits(got), want)


# --- operands -------------------------------------------------------------------------------------


def test_results_of_comparisons_are_0_and_1_in_any_format():
    data = noise((16, 33), special=False)
    for op in (*COMPARISONS, *LOGICAL):
        for dtype in ("float32", "bfloat16", "uint8", "int32"):
            got = result(Device(), data, (op, 0.5), dtype=dtype)
            assert set(np.unique(got.astype(np.float32))) <= {0, 1}
            same(got, converted(alu(op, data, 0.5), dtype))


def test_nan_is_kept_by_arithmetic_and_unequal_to_itself():
    data = np.float32([[np.nan]])
    for op in PLAIN:
        assert np.isnan(result(Device(), data, (op, 1.0)))
        assert np.isnan(result(Device(), np.ones((1, 1), np.float32), (op, np.nan)))
    wanted = {op: op == "not_equal" for op in COMPARISONS}
    assert {op: bool(result(Device(), data, (op, np.nan))) for op in COMPARISONS} == wanted
