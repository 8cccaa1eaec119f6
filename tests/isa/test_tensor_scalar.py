"""tensor_scalar: up to two operators with a number or a value per partition."""

from itertools import product

import nki.language as nl
import numpy as np
from alu import TWO_OPERANDS
from device import TARGETS, Device, noise
from every import for_all
from nki.isa import engine

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
NUMBERS = (0, 1.5, -3, 2**24 + 1, 0.1, np.inf, np.nan, np.float32(0.7), np.int32(3))


def result(device, data, *steps, dtype="float32", **options):
    """Return the result; `steps` are (op, operand) or (op, operand, reverse)."""
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


def test_numbers_are_rounded_to_float32():
    device = Device()
    assert result(device, np.zeros((1, 1), np.float32), ("add", 2**24 + 1)) == 2**24
    assert result(device, np.ones((1, 1), np.float32), ("multiply", 0.1)) == np.float32(0.1)


def test_32_bit_integers_are_converted_to_float32():
    data = np.array([[2**24 + 1, 2**31 - 1]], np.int32)
    assert result(Device(), data, ("add", 0), dtype="int32").tolist() == [[2**24, 2**31 - 1]]


# --- engines --------------------------------------------------------------------------------------


@for_all("target", ["trn2", "trn3"])
def test_the_scalar_engine_multiplies_and_adds(target):
    device, data = Device(target), noise((9, 5), "bfloat16")
    for steps in ([("multiply", 3.0), ("add", -1.0)], [("multiply", 0.1)], [("add", 0.1)]):
        result(device, data, *steps, engine=engine.scalar)
        assert unit_of_last(device) is engine.scalar
    device.agrees()


@for_all("unit", [engine.gpsimd, engine.unknown])
def test_rsqrt_and_power_run_on_gpsimd(unit):
    device, data = Device(), np.abs(noise((9, 5)))
    for steps in ([("rsqrt", None)], [("add", 1e-5), ("rsqrt", 0)], [("power", -0.5)]):
        result(device, data, *steps, engine=unit)
        assert unit_of_last(device) is engine.gpsimd
    device.agrees()


# --- bits -----------------------------------------------------------------------------------------


@for_all("dtype", INTEGERS)
def test_bit_operators_with_a_number_or_a_column(dtype):
    device, data, column = Device(), noise((4, 33), dtype), noise((4, 1), dtype, 1)
    for op in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        for value in (column, 0, 1, 0x5A, np.iinfo(dtype).max, np.iinfo(dtype).min):
            got = result(device, data, (op, value), dtype=dtype)
            assert np.array_equal(got, getattr(np, op)(data, np.array(value, dtype)))
    result(device, data, ("invert", None), dtype=dtype)
    result(device, data, ("invert", 0), ("bitwise_and", 0x0F), dtype=dtype)
    device.agrees()


# --- operands -------------------------------------------------------------------------------------
