"""tensor_tensor: two tiles, element by element, in float32, in integers or in bits."""

import nki.language as nl
import numpy as np
import pytest
from alu import LOGICAL, MAGNITUDES, PLAIN, POWER, TWO_OPERANDS, alu
from device import TARGETS, Device, bits, converted, noise, same
from every import for_all
from nki.isa import engine

from neuroncore.base.errors import TargetError

FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
SHAPES = ((1, 1), (3, 7), (128, 33), (96, 5, 3), (5, 2, 3, 4))
BITVEC = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}
SHIFTS = ("left_shift", "right_shift")


def result(device, op, a, b, dtype="float32", **options):
    dst = device.empty(a.shape, dtype)
    tiles = [device.tile(x) if isinstance(x, np.ndarray) else x for x in (a, b)]
    device.issue("tensor_tensor", dst, *tiles, getattr(nl, op), **options)
    assert device.findings == []
    return dst.numpy()


def unit_of_last(device):
    return device.core.program.calls[device.core.program.columns().call[-1]].engine


# --- float32 arithmetic ---------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", TWO_OPERANDS)
def test_every_operator(op, target):
    a, b = noise((128, 60)), noise((128, 60), seed=1)
    b = np.where(noise((128, 60), seed=2) > 0, a, b)  # equal ones among them
    same(result(Device(target), op, a, b), alu(op, a, b))


@pytest.mark.parametrize("op", MAGNITUDES)
def test_operators_of_v4(op):
    a, b = noise((64, 60), "bfloat16"), noise((64, 60), "bfloat16", 1)
    same(result(Device("trn3"), op, a, b), alu(op, a, b))
    for target in ("trn1", "trn2"):
        device = Device(target)
        given = device.tile(noise((3, 4))), device.tile(a[:3, :4]), device.tile(b[:3, :4])
        error = device.refuses(
            TargetError, "tensor_tensor", *given, getattr(nl, op), words=[op, target]
        )
        assert error.code == "TARGET"


@for_all("after", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("first", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("op", ["subtract", "maximum"])
def test_every_format(op, first, after):
    for second in ("float32", "bfloat16", "int32", "uint8"):
        a, b = noise((16, 33), first), noise((16, 33), second, 1)
        if {first, second, after} <= {"int32", "uint32"}:
            continue  # exact, below
        same(result(Device(), op, a, b, after), converted(alu(op, a, b), after))


@pytest.mark.parametrize("op", ["add", "minimum", "greater", "logical_xor"])
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape, op):
    a, b = noise(shape), noise(shape, "float16", 1)
    same(result(Device(), op, a, b, "bfloat16"), converted(alu(op, a, b), "bfloat16"))


@pytest.mark.parametrize("op", ["add", "maximum"])
def test_free_shapes_need_not_be_equal(op):
    device = Device()
    a, b = noise((6, 3, 4)), noise((6, 12), seed=1)
    dst = device.empty((6, 2, 2, 3))
    device.issue("tensor_tensor", dst, device.tile(a), device.tile(b), getattr(nl, op))
    same(dst.numpy(), alu(op, a.reshape(6, 12), b).reshape(6, 2, 2, 3))


@pytest.mark.parametrize("after", ["float32", "int8"])
@pytest.mark.parametrize("op", ["multiply", "minimum", "less"])
def test_strided_views_leave_the_rest_alone(op, after):
    device = Device()
    a, b, old = noise((96, 9, 10)), noise((96, 3, 3), seed=1), noise((96, 7, 11), after, 2)
    dst = device.tile(old)
    views = device.tile(a)[:, 0:9:3, 1:4], device.tile(b).permute((0, 2, 1))
    device.issue("tensor_tensor", dst[:, 1:7:2, 2:11:3], *views, getattr(nl, op))
    want = old.copy()
    want[:, 1:7:2, 2:11:3] = converted(alu(op, a[:, 0:9:3, 1:4], b.transpose(0, 2, 1)), after)
    same(dst.numpy(), want)


@pytest.mark.parametrize("op", ["subtract", "maximum"])
def test_broadcast_views(op):
    device = Device()
    a, b = noise((8, 1, 5)), noise((8, 4, 1), seed=1)
    dst = device.empty((8, 4, 5))
    views = device.tile(a).broadcast(1, 4), device.tile(b).broadcast(2, 5)
    device.issue("tensor_tensor", dst, *views, getattr(nl, op))
    same(dst.numpy(), alu(op, *np.broadcast_arrays(a, b)))


@pytest.mark.parametrize("op", ["add", "subtract", "maximum", "greater"])
@pytest.mark.parametrize("which", ["first", "second", "both"])
def test_in_place(op, which):
    device = Device()
    a, b = noise((7, 20)), noise((7, 20), seed=1)
    x, y = device.tile(a), device.tile(b)
    if which == "both":
        b, y = a, x
    dst = y if which == "second" else x
    device.issue("tensor_tensor", dst, x, y, getattr(nl, op))
    same(dst.numpy(), alu(op, a, b))


@pytest.mark.parametrize("after", ["float32", "bfloat16"])
@pytest.mark.parametrize("op", ["add", "subtract", "maximum", "less_equal"])
@for_all("starts", [(1, 0, 0), (0, 1, 1), (1, 0, 2), (2, 1, 0), (1, 2, 1)])
@pytest.mark.parametrize("rows", [1, 5])
def test_all_is_read_before_anything_is_written(op, starts, after, rows):
    device = Device()
    values = noise((rows, 40), after)
    tile = device.tile(values)
    dst, x, y = (tile[:, start : start + 30] for start in starts)
    device.issue("tensor_tensor", dst, x, y, getattr(nl, op))
    a, b = (values[:, start : start + 30] for start in starts[1:])
    want = values.copy()
    want[:, starts[0] : starts[0] + 30] = converted(alu(op, a, b), after)
    same(tile.numpy(), want)


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("op", ["add", "maximum"])
def test_addresses_that_overlap_are_one_memory(op, rows):
    device = Device()
    values = noise((rows, 12))
    src, dst = device.tile(values, address=(32, 0)), device.empty((rows, 12), address=(32, 4))
    device.issue("tensor_tensor", dst, src, src, getattr(nl, op))
    same(dst.numpy(), alu(op, values, values))


# --- memories and engines -------------------------------------------------------------------------


@pytest.mark.parametrize("where", [("sbuf", "sbuf"), ("psum", "sbuf"), ("sbuf", "psum")])
@pytest.mark.parametrize("dst_in", ["sbuf", "psum"])
@pytest.mark.parametrize("op", [*PLAIN, *LOGICAL])
def test_one_input_may_be_in_psum(op, dst_in, where):
    device = Device()
    a, b = noise((9, 5), "bfloat16"), noise((9, 5), seed=1)
    dst = device.empty((9, 5), buffer=dst_in)
    tiles = device.tile(a, buffer=where[0]), device.tile(b, buffer=where[1])
    device.issue("tensor_tensor", dst, *tiles, getattr(nl, op))
    same(dst.numpy(), alu(op, a, b))


@pytest.mark.parametrize("start", [32, 64, 96])
def test_operands_may_start_in_different_quadrants(start):
    device = Device()
    a, b = noise((32, 6)), noise((32, 6), seed=1)
    dst = device.empty((32, 6), address=(start, 128))
    tiles = device.tile(a, address=(0, 0)), device.tile(b, address=(128 - start, 256))
    device.issue("tensor_tensor", dst, *tiles, nl.add)
    same(dst.numpy(), alu("add", a, b))


@pytest.mark.parametrize("op", POWER)
@pytest.mark.parametrize("unit", [engine.gpsimd, engine.unknown])
def test_power_is_gpsimds(op, unit):
    device = Device()
    a, b = np.abs(noise((9, 5))), noise((9, 5), "bfloat16", 1)
    same(result(device, op, a, b, engine=unit), alu(op, a, b))
    assert unit_of_last(device) is engine.gpsimd


@pytest.mark.parametrize("op", ["add", "multiply", "subtract"])
def test_gpsimd_computes_in_float32_too(op):
    a, b = noise((3, 40), "bfloat16"), noise((3, 40), seed=1)
    same(result(Device(), op, a, b, engine=engine.gpsimd), alu(op, a, b))


# --- 32-bit integers ------------------------------------------------------------------------------

EXACT = ("add", "subtract", "multiply", "maximum", "minimum", "equal", "less", "greater_equal")


def integer(op, a, b):
    """In 64 bits, to be wrapped around."""
    wide = [x.astype(np.int64) for x in (a, b)]
    with np.errstate(all="ignore"):
        return np.asarray(getattr(np, op)(*wide)).astype(np.int64)


@pytest.mark.parametrize("forms", [("int32",) * 3, ("uint32",) * 3, ("int32", "uint32", "int32")])
@pytest.mark.parametrize("op", EXACT)
def test_integers_of_32_bits_are_exact_on_gpsimd(op, forms):
    device = Device()
    a, b = noise((32, 33), forms[1]), noise((32, 33), forms[2], 1)
    b = np.where(noise((32, 33), seed=2) > 0, a.astype(forms[2]), b)
    got = result(device, op, a, b, forms[0])
    assert unit_of_last(device) is engine.gpsimd
    assert np.array_equal(got, integer(op, a, b).astype(forms[0]))  # mod 2^32


@pytest.mark.parametrize("op", EXACT)
def test_the_same_on_the_vector_engine_goes_through_float32(op):
    device = Device()
    a, b = noise((32, 33), "int32"), noise((32, 33), "int32", 1)
    got = result(device, op, a, b, "int32", engine=engine.vector)
    assert unit_of_last(device) is engine.vector
    same(got, converted(alu(op, a, b), "int32"))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_in_psum_integers_are_the_vector_engines(place):
    device = Device()
    where = ["sbuf"] * 3
    where[place] = "psum"
    big = np.array([[2**31 - 1, 2**24 + 1]], np.int32)
    dst = device.empty((1, 2), "int32", where[0])
    tiles = device.tile(big, buffer=where[1]), device.tile(0 * big, buffer=where[2])
    device.issue("tensor_tensor", dst, *tiles, nl.add)
    assert unit_of_last(device) is engine.vector
    assert dst.numpy().tolist() == [[2**31 - 1, 2**24]]  # 2^31 saturates


@pytest.mark.parametrize("form", ["int16", "float32", "uint8"])
def test_one_other_format_is_enough_for_float32(form):
    device = Device()
    a = np.array([[2**24 + 1]], np.int32)
    got = result(device, "add", a, np.zeros((1, 1), form), "int32")
    assert unit_of_last(device) is engine.vector and got.tolist() == [[2**24]]


# --- bits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", BITVEC)
def test_bits_are_not_converted(op, dtype):
    device = Device()
    a, b = noise((16, 33), dtype), noise((16, 33), dtype, 1)
    assert np.array_equal(result(device, op, a, b, dtype), BITVEC[op](a, b))
    assert unit_of_last(device) is engine.vector


@pytest.mark.parametrize("op", SHIFTS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_are_logical(dtype, op):
    width = np.dtype(dtype).itemsize * 8
    a = noise((16, width), dtype)
    count = np.broadcast_to(np.arange(width), a.shape).astype(dtype)
    got = result(Device(), op, a, count, dtype)
    want = getattr(np, op)(bits(a), count.astype(f"uint{width}"))
    assert np.array_equal(bits(got), want)
    past = np.full(a.shape, width, dtype)
    assert not result(Device(), op, a, past, dtype).any()


# --- operators ------------------------------------------------------------------------------------
