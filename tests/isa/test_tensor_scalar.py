"""tensor_scalar: up to two operators with a number or a value per partition."""

from itertools import cycle, product

import nki.language as nl
import numpy as np
from alu import COMPARISONS, LOGICAL, MAGNITUDES, PLAIN, TWO_OPERANDS, UNARY, UNARY_V4
from calls import PAIRS, values
from device import TARGETS, Device, noise
from every import for_all
from nki.isa import engine

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
NUMBERS = (0, 1.5, -3, 2**24 + 1, 0.1, np.inf, np.nan, np.float32(0.7), np.int32(3))


def result(device, data, *steps, dtype="float32", **options):
    """`steps` are (op, operand) or (op, operand, reverse)."""
    dst = device.empty(data.shape, dtype)
    for i, (op, value, *reverse) in enumerate(steps):
        value = device.tile(value) if isinstance(value, np.ndarray) else value
        options |= {f"op{i}": getattr(nl, op), f"operand{i}": value}
        options[f"reverse{i}"] = bool(reverse and reverse[0])
    device.issue("tensor_scalar", dst, device.tile(data), **options)
    return dst.numpy()


def unit_of_last(device):
    return device.core.program.calls[device.core.program.columns().call[-1]].engine


# --- float32 arithmetic ---------------------------------------------------------------------------


@for_all("target", TARGETS)
def test_every_operator(target):
    device, data, column = Device(target), noise((9, 20)), noise((9, 1), seed=1)
    for op, reverse in product(TWO_OPERANDS, (False, True)):
        for value in (column, *NUMBERS):
            result(device, data, (op, value, reverse))
    device.agrees()
    assert not device.findings


def test_every_pair_of_operators_in_every_order():
    """On the machine that has all operators; test_every_instruction.py has them on the others."""
    device, orders = Device("trn3"), cycle(product((False, True), (False, True)))
    data, column = noise((3, 7), "bfloat16"), noise((3, 1), seed=1)
    operators = [*TWO_OPERANDS, "abs", "reciprocal", *MAGNITUDES, *UNARY_V4]
    for op0, op1 in product(operators, operators):
        one = [op in (*UNARY, *UNARY_V4) for op in (op0, op1)]
        pairs = zip((op0, op1), (column, np.float32(0.75)), next(orders), one, strict=True)
        result(device, data, *((op, 0 if u else b, turn and not u) for op, b, turn, u in pairs))
    device.agrees()


def test_between_the_operators_nothing_is_rounded():
    data = np.full((1, 1), 256, "bfloat16")
    got = result(Device(), data, ("add", 1), ("subtract", 256), dtype="bfloat16")
    assert got.astype(np.float32) == 1  # 257 is not a bfloat16


def test_numbers_are_rounded_to_float32():
    device = Device()
    assert result(device, np.zeros((1, 1), np.float32), ("add", 2**24 + 1)) == 2**24
    assert result(device, np.ones((1, 1), np.float32), ("multiply", 0.1)) == np.float32(0.1)


def test_every_format():
    device, column = Device("trn3"), noise((3, 1), seed=1)
    for before, after in PAIRS:
        data = device.tile(values(before, (3, 11)), before)
        steps = nl.maximum, device.tile(column), False, nl.multiply, 3
        device.issue("tensor_scalar", device.empty((3, 11), after), data, *steps)
        device.issue("tensor_scalar", device.empty((3, 11), after), data, nl.subtract, 0.3, True)
    device.agrees()


def test_32_bit_integers_go_through_float32():
    data = np.array([[2**24 + 1, 2**31 - 1]], np.int32)
    assert result(Device(), data, ("add", 0), dtype="int32").tolist() == [[2**24, 2**31 - 1]]


def test_shapes():
    device = Device()
    for shape in ((1, 1), (33, 9), (9, 5, 3), (5, 2, 3, 4)):
        column = noise((shape[0], *[1] * (len(shape) - 1)), seed=1)
        result(device, noise(shape), ("subtract", column, True), ("maximum", 0.5), dtype="float16")
    device.agrees()


def test_strided_views_leave_the_rest_alone():
    device = Device()
    data, columns = device.tile(noise((9, 9, 10))), device.tile(noise((9, 4), seed=2))
    for op in ("multiply", "minimum", "less"):
        dst = device.tile(noise((9, 7, 11), "int16", 1))[:, 1:7:2, 2:11:3]
        view = data[:, 0:9:3, 1:4].permute((0, 2, 1))
        device.issue("tensor_scalar", dst, view, getattr(nl, op), columns[:, 2:3])
    device.agrees()


@for_all("starts", [(0, 0), (0, 1), (1, 0), (3, 1)])
def test_data_may_overlap_dst(starts):
    device = Device()
    for op, rows in product(("subtract", "maximum", "greater"), (1, 5)):
        tile = device.tile(noise((rows, 40)))
        dst, data = (tile[:, s : s + 30] for s in starts)
        device.issue("tensor_scalar", dst, data, getattr(nl, op), 0.5, True, nl.multiply, 3.0)
    device.agrees()


@for_all("columns", [(0, 0), (0, 1), (4, 0), (9, 9)])
def test_operands_may_be_columns_of_dst(columns):
    device = Device()
    for op0, op1, width in product((nl.multiply, nl.maximum), (nl.add, nl.minimum), (1, 10)):
        tile = device.tile(noise((5, 10)))
        first, second = (tile[:, c : c + 1] for c in columns)
        part = tile[:, :width]
        device.issue("tensor_scalar", part, part, op0, first, op1=op1, operand1=second)
    device.agrees()


# --- engines --------------------------------------------------------------------------------------


@for_all("target", ["trn2", "trn3"])
def test_the_scalar_engine_multiplies_and_adds(target):
    device, data = Device(target), noise((9, 5), "bfloat16")
    for steps in ([("multiply", 3.0), ("add", -1.0)], [("multiply", 0.1)], [("add", 0.1)]):
        result(device, data, *steps, engine=engine.scalar)
        assert unit_of_last(device) is engine.scalar
    device.agrees()


@for_all("unit", [engine.gpsimd, engine.unknown])
def test_rsqrt_and_power_are_gpsimds(unit):
    device, data = Device(), np.abs(noise((9, 5)))
    for steps in ([("rsqrt", None)], [("add", 1e-5), ("rsqrt", 0)], [("power", -0.5)]):
        result(device, data, *steps, engine=unit)
        assert unit_of_last(device) is engine.gpsimd
    device.agrees()


# --- bits -----------------------------------------------------------------------------------------


@for_all("dtype", INTEGERS)
def test_bits_with_a_number_or_a_column(dtype):
    device, data, column = Device(), noise((4, 33), dtype), noise((4, 1), dtype, 1)
    for op in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        for value in (column, 0, 1, 0x5A, np.iinfo(dtype).max, np.iinfo(dtype).min):
            got = result(device, data, (op, value), dtype=dtype)
            assert np.array_equal(got, getattr(np, op)(data, np.array(value, dtype)))
    result(device, data, ("invert", None), dtype=dtype)
    result(device, data, ("invert", 0), ("bitwise_and", 0x0F), dtype=dtype)
    device.agrees()


@for_all("dtype", INTEGERS)
def test_shifts_are_logical(dtype):
    device, width = Device(), np.dtype(dtype).itemsize * 8
    column = (np.arange(16) % width).astype(dtype).reshape(16, 1)
    counts = np.tile(np.arange(width).astype(dtype), (16, 1))
    for op in ("left_shift", "right_shift"):
        result(device, noise((16, 20), dtype), (op, column), dtype=dtype)
        result(device, counts, (op, column, True), dtype=dtype)
    device.agrees()
    one = np.array([[-1]]).astype(dtype)
    assert result(device, one, ("right_shift", width - 1), dtype=dtype) == 1


# --- operands -------------------------------------------------------------------------------------


def test_results_of_comparisons_are_0_and_1_in_any_format():
    device, data = Device(), noise((3, 33), special=False)
    for op, dtype in product((*COMPARISONS, *LOGICAL), ("float32", "bfloat16", "uint8", "int32")):
        got = result(device, data, (op, 0.5), dtype=dtype)
        assert set(np.unique(got.astype(np.float32))) <= {0, 1}
    device.agrees()


def test_nan_is_kept_by_arithmetic_and_unequal_to_itself():
    device, data, one = Device(), np.float32([[np.nan]]), np.ones((1, 1), np.float32)
    for op in PLAIN:
        assert np.isnan(result(device, data, (op, 1.0)))
        assert np.isnan(result(device, one, (op, np.nan)))
    wanted = {op: op == "not_equal" for op in COMPARISONS}
    assert {op: bool(result(device, data, (op, np.nan))) for op in COMPARISONS} == wanted
