"""tensor_tensor: two tiles, element by element, in float32, in integers or in bits."""

import nki.language as nl
import numpy as np
from device import Device, noise
from every import for_all
from nki.isa import engine

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
BITVEC = ("bitwise_and", "bitwise_or", "bitwise_xor")
SHIFTS = ("left_shift", "right_shift")


def combined(device, op, a, b, dtype="float32", **options):
    """Return the result's tile, for arrays or tiles."""
    tiles = [device.tile(x) if isinstance(x, np.ndarray) else x for x in (a, b)]
    dst = device.empty(tiles[0].shape, dtype)
    device.issue("tensor_tensor", dst, *tiles, getattr(nl, op), **options)
    return dst


def unit_of_last(device):
    return device.core.program.calls[device.core.program.columns().call[-1]].engine


# --- float32 arithmetic ---------------------------------------------------------------------------


@for_all("rows", [1, 4])
def test_addresses_that_overlap_are_one_memory(rows):
    numbers = noise((rows, 12))
    for op in ("add", "maximum"):
        device = Device()
        src, dst = device.tile(numbers, address=(32, 0)), device.empty((rows, 12), address=(32, 4))
        device.issue("tensor_tensor", dst, src, src, getattr(nl, op))
        with np.errstate(all="ignore"):
            want = getattr(np, op)(numbers, numbers)
        np.testing.assert_array_equal(dst.numpy(), want)


# --- memories and engines -------------------------------------------------------------------------


def test_operands_may_start_in_different_quadrants():
    device = Device()
    for start in (32, 64, 96):
        dst = device.empty((32, 6), address=(start, 128))
        a = device.tile(noise((32, 6)), address=(0, 0))
        b = device.tile(noise((32, 6), seed=1), address=(128 - start, 256))
        device.issue("tensor_tensor", dst, a, b, nl.add)
        np.testing.assert_array_equal(dst.numpy(), noise((32, 6)) + noise((32, 6), seed=1))


@for_all("unit", [engine.gpsimd, engine.unknown])
def test_power_runs_on_gpsimd(unit):
    device, a, b = Device(), np.abs(noise((9, 5))), noise((9, 5), "bfloat16", 1)
    combined(device, "power", a, b, engine=unit)
    device.agrees()
    assert unit_of_last(device) is engine.gpsimd


def test_gpsimd_computes_in_float32_too():
    device, a, b = Device(), noise((3, 40), "bfloat16"), noise((3, 40), seed=1)
    for op in ("add", "multiply", "subtract"):
        combined(device, op, a, b, engine=engine.gpsimd)
    device.agrees()


# --- 32-bit integers ------------------------------------------------------------------------------


def test_integers_in_psum_run_on_the_vector_engine():
    for place in range(3):
        device, where = Device(), ["sbuf"] * 3
        where[place] = "psum"
        big = np.array([[2**31 - 1, 2**24 + 1]], np.int32)
        dst = device.empty((1, 2), "int32", where[0])
        tiles = device.tile(big, buffer=where[1]), device.tile(0 * big, buffer=where[2])
        device.issue("tensor_tensor", dst, *tiles, nl.add)
        assert unit_of_last(device) is engine.vector
        assert dst.numpy().tolist() == [[2**31 - 1, 2**24]]  # 2^31 saturates


def test_one_operand_of_another_format_makes_the_arithmetic_float32():
    device, a = Device(), np.array([[2**24 + 1]], np.int32)
    for form in ("int16", "float32", "uint8"):
        got = combined(device, "add", a, np.zeros((1, 1), form), "int32")
        assert unit_of_last(device) is engine.vector and got.numpy().tolist() == [[2**24]]


# --- bits -----------------------------------------------------------------------------------------
