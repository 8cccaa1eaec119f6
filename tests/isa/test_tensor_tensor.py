"""tensor_tensor: two tiles, element by element, in float32, in integers or in bits."""

from itertools import cycle, product

import nki.language as nl
import numpy as np
from alu import MAGNITUDES, TWO_OPERANDS
from calls import values
from device import TARGETS, Device, noise
from every import for_all
from nki.isa import engine

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
BITVEC = ("bitwise_and", "bitwise_or", "bitwise_xor")
SHIFTS = ("left_shift", "right_shift")


def combined(device, op, a, b, dtype="float32", **options):
    """The result's tile, of arrays or tiles."""
    tiles = [device.tile(x) if isinstance(x, np.ndarray) else x for x in (a, b)]
    dst = device.empty(tiles[0].shape, dtype)
    device.issue("tensor_tensor", dst, *tiles, getattr(nl, op), **options)
    return dst


def unit_of_last(device):
    return device.core.program.calls[device.core.program.columns().call[-1]].engine


# --- float32 arithmetic ---------------------------------------------------------------------------


@for_all("target", TARGETS)
def test_every_operator(target):
    device, a, b = Device(target), noise((16, 33)), noise((16, 33), seed=1)
    b = np.where(noise(a.shape, seed=2) > 0, a, b)  # equal ones among them
    for op in (*TWO_OPERANDS, *(MAGNITUDES if target == "trn3" else ())):
        combined(device, op, a, b)
        combined(device, op, a, noise(a.shape, "float16", 1), "bfloat16")
    device.agrees()
    assert not device.findings


def test_every_format():
    device, forms = Device(), ("float32", "bfloat16", "float16", "float8_e5m2", *INTEGERS)
    others = cycle(product(("subtract", "maximum"), ("float32", "bfloat16", "int32", "uint8")))
    for first, after in product(forms, forms):
        op, second = next(others)
        combined(device, op, values(first, (3, 11)), values(second, (3, 11), 1), after)
    device.agrees()


def test_free_shapes_need_not_be_equal():
    device = Device()
    a, b = device.tile(noise((6, 3, 4))), device.tile(noise((6, 12), seed=1))
    device.issue("tensor_tensor", device.empty((6, 2, 2, 3)), a, b, nl.maximum)
    device.agrees()


@for_all("after", ["float32", "int8"])
def test_strided_and_broadcast_views_leave_the_rest_alone(after):
    device = Device()
    for op in ("multiply", "minimum", "less"):
        a, b = device.tile(noise((9, 9, 10))), device.tile(noise((9, 3, 3), seed=1))
        dst = device.tile(noise((9, 7, 11), after, 2))
        views = a[:, 0:9:3, 1:4], b.permute((0, 2, 1))
        device.issue("tensor_tensor", dst[:, 1:7:2, 2:11:3], *views, getattr(nl, op))
        views = a[:, :1, :5].broadcast(1, 4), b[:, :1, :1].broadcast(1, 4).broadcast(2, 5)
        device.issue("tensor_tensor", device.empty((9, 4, 5)), *views, getattr(nl, op))
    device.agrees()


STARTS = [(0, 0, 0), (0, 0, 9), (0, 9, 0), (1, 0, 0), (0, 1, 1), (1, 0, 2), (2, 1, 0), (1, 2, 1)]


@for_all("starts", STARTS)
def test_all_is_read_before_anything_is_written(starts):
    device = Device()
    for op, form, rows in product(("subtract", "maximum"), ("float32", "bfloat16"), (1, 5)):
        tile = device.tile(noise((rows, 40), form))
        views = [tile[:, start : start + 30] for start in starts]
        device.issue("tensor_tensor", *views, getattr(nl, op))
    device.agrees()


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
def test_power_is_gpsimds(unit):
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

EXACT = ("add", "subtract", "multiply", "maximum", "minimum", "equal", "less", "greater_equal")


@for_all("forms", [("int32",) * 3, ("uint32",) * 3, ("int32", "uint32", "int32")])
def test_integers_of_32_bits_are_exact_on_gpsimd(forms):
    a, b = noise((8, 33), forms[1]), noise((8, 33), forms[2], 1)
    b = np.where(noise((8, 33), seed=2) > 0, a.astype(forms[2]), b)
    device = Device()
    for op in EXACT:
        got = combined(device, op, a, b, forms[0]).numpy()
        assert unit_of_last(device) is engine.gpsimd
        with np.errstate(all="ignore"):
            want = np.asarray(getattr(np, op)(a.astype(np.int64), b.astype(np.int64)))
        assert np.array_equal(got, want.astype(np.int64).astype(forms[0]))  # mod 2^32
        combined(device, op, a, b, forms[0], engine=engine.vector)
        assert unit_of_last(device) is engine.vector
    device.agrees()


def test_in_psum_integers_are_the_vector_engines():
    for place in range(3):
        device, where = Device(), ["sbuf"] * 3
        where[place] = "psum"
        big = np.array([[2**31 - 1, 2**24 + 1]], np.int32)
        dst = device.empty((1, 2), "int32", where[0])
        tiles = device.tile(big, buffer=where[1]), device.tile(0 * big, buffer=where[2])
        device.issue("tensor_tensor", dst, *tiles, nl.add)
        assert unit_of_last(device) is engine.vector
        assert dst.numpy().tolist() == [[2**31 - 1, 2**24]]  # 2^31 saturates


def test_one_other_format_is_enough_for_float32():
    device, a = Device(), np.array([[2**24 + 1]], np.int32)
    for form in ("int16", "float32", "uint8"):
        got = combined(device, "add", a, np.zeros((1, 1), form), "int32")
        assert unit_of_last(device) is engine.vector and got.numpy().tolist() == [[2**24]]


# --- bits -----------------------------------------------------------------------------------------


@for_all("dtype", INTEGERS)
def test_bits_are_not_converted_and_shifts_are_logical(dtype):
    device, a, b = Device(), noise((4, 33), dtype), noise((4, 33), dtype, 1)
    for op in BITVEC:
        got = combined(device, op, a, b, dtype)
        assert np.array_equal(got.numpy(), getattr(np, op)(a, b))
        assert unit_of_last(device) is engine.vector
    width = np.dtype(dtype).itemsize * 8
    counts = np.broadcast_to(np.arange(33) % width, a.shape).astype(dtype)
    for op in SHIFTS:
        combined(device, op, a, counts, dtype)
        past = combined(device, op, a, np.full(a.shape, width, dtype), dtype)
        assert not past.numpy().any()
    device.agrees()
