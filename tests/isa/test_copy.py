"""tensor_copy and memset: what arrives, where it may come from and go, and what is refused."""

import numpy as np
import pytest
from device import TARGETS, Device, bits, converted, noise, same
from every import for_all
from nki.isa import engine

from neuroncore.errors import BufferKindError, DtypeError, SignatureError, TargetError

FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
ALL = (*FLOATS, *INTEGERS)
SHAPES = ((1, 1), (3, 7), (128, 33), (96, 5, 3), (5, 2, 3, 4))
UNITS = (engine.vector, engine.scalar, engine.gpsimd)


# --- tensor_copy ----------------------------------------------------------------------------------


@for_all("after", ALL)
@pytest.mark.parametrize("before", ALL)
def test_a_copy_rounds_once_from_float32(before, after):
    device = Device()
    values = noise((64, 65), before)
    src, dst = device.tile(values), device.empty(values.shape, after)
    device.issue("tensor_copy", dst, src)
    same(dst.numpy(), converted(values, after))
    assert device.findings == []


@pytest.mark.parametrize("after", ["float8_e4m3fn", "bfloat16", "uint8"])
@pytest.mark.parametrize("before", ["float8_e4m3fn", "float32", "int32"])
def test_ocp_floats_are_copied_on_v4(before, after):
    device = Device("trn3")
    values = noise((64, 65), before)
    dst = device.empty(values.shape, after)
    device.issue("tensor_copy", dst, device.tile(values))
    same(dst.numpy(), converted(values, after))


@pytest.mark.parametrize("target", ["trn1", "trn2"])
@pytest.mark.parametrize("role", [0, 1])
def test_older_machines_have_no_ocp_floats(target, role):
    device = Device(target)
    forms = ["float32", "float32"]
    forms[role] = "float8_e4m3fn"
    dst, src = (device.zeros((3, 4), form) for form in forms)
    words = ["dst" if role == 0 else "src", "float8_e4m3fn", target]
    error = device.refuses(TargetError, "tensor_copy", dst, src, words=words)
    assert error.code == "TARGET" and "NCC_EVRF051" in error.also


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("dtype", ALL)
def test_a_copy_between_equal_formats_moves_bits(unit, dtype):
    device = Device()
    width = np.dtype(dtype).itemsize
    codes = np.random.default_rng(1).integers(0, 256, (16, 24 * width), np.uint8)
    values = codes.view(f"uint{8 * width}").view(dtype)
    src, dst = device.tile(values, dtype), device.empty(values.shape, dtype)
    assert np.array_equal(bits(src.numpy()), bits(values))  # NaN payloads and all
    device.issue("tensor_copy", dst, src, engine=unit)
    assert np.array_equal(bits(dst.numpy()), bits(values))


def test_tfloat32_is_rounded_when_it_is_written():
    device = Device()
    dst = device.empty((1, 3), "tfloat32")
    device.issue("tensor_copy", dst, device.tile(np.float32([[1 + 2**-11, 1 + 3 * 2**-11, 1.25]])))
    assert dst.numpy().tolist() == [[1, 1 + 2**-9, 1.25]]


@pytest.mark.parametrize("unit", UNITS)
def test_int32_to_bfloat16_rounds_twice(unit):
    device = Device()
    values = np.array([[1077936129, 2**24 + 1, -(2**31)]], np.int32)  # numerics.md 1.4
    dst = device.empty((1, 3), "bfloat16")
    device.issue("tensor_copy", dst, device.tile(values), engine=unit)
    assert dst.numpy().astype(np.float64).tolist() == [[2.0**30, 2.0**24, -(2.0**31)]]


def test_integers_of_other_formats_go_through_float32_and_saturate():
    device = Device()
    src = device.tile(np.array([[2**31 - 1, -5, 300, -300]], np.int32))
    for dtype, want in (
        ("uint32", [2**31, 0, 300, 0]),
        ("int8", [127, -5, 127, -128]),
        ("uint8", [255, 0, 255, 0]),
    ):
        dst = device.empty((1, 4), dtype)
        device.issue("tensor_copy", dst, src)
        assert dst.numpy().tolist() == [want]


def test_halves_go_to_the_even_integer():
    device = Device()
    src = device.tile(np.float32([[0.5, 1.5, 2.5, -0.5, -1.5, np.nan, np.inf, -np.inf]]))
    dst = device.empty((1, 8), "int16")
    device.issue("tensor_copy", dst, src)
    assert dst.numpy().tolist() == [[0, 2, 2, 0, -2, 0, 32767, -32768]]


@pytest.mark.parametrize(
    "where", [("sbuf", "sbuf"), ("sbuf", "psum"), ("psum", "sbuf"), ("psum",) * 2]
)
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_and_memories(shape, where):
    device = Device()
    values = noise(shape)
    src, dst = device.tile(values, buffer=where[0]), device.empty(shape, "bfloat16", where[1])
    device.issue("tensor_copy", dst, src)
    same(dst.numpy(), converted(values, "bfloat16"))


@pytest.mark.parametrize("after", ["float32", "float16"])
def test_free_shapes_need_not_be_equal(after):
    device = Device()
    values = noise((6, 3, 4))
    dst = device.empty((6, 2, 6), after)
    device.issue("tensor_copy", dst, device.tile(values))
    same(dst.numpy(), converted(values.reshape(6, 2, 6), after))


@pytest.mark.parametrize("after", ["float32", "bfloat16", "int8"])
def test_strided_views_leave_the_rest_alone(after):
    device = Device()
    values, old = noise((96, 9, 10)), noise((96, 7, 11), after, seed=1)
    src, dst = device.tile(values), device.tile(old)
    device.issue("tensor_copy", dst[:, 1:7:2, 2:11:3], src[:, 0:9:3, 1:4])
    want = old.copy()
    want[:, 1:7:2, 2:11:3] = converted(values[:, 0:9:3, 1:4], after)
    same(dst.numpy(), want)


def test_transposed_free_axes():
    device = Device()
    values = noise((4, 3, 5))
    dst = device.empty((4, 5, 3))
    device.issue("tensor_copy", dst, device.tile(values).permute((0, 2, 1)))
    same(dst.numpy(), values.transpose(0, 2, 1))


def test_a_broadcast_source_repeats_itself():
    device = Device()
    values = noise((8, 1, 5))
    dst = device.empty((8, 4, 5), "float16")
    device.issue("tensor_copy", dst, device.tile(values).broadcast(1, 4))
    same(dst.numpy(), converted(np.repeat(values, 4, axis=1), "float16"))


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("shift", [-1, 1, 3])
def test_an_overlapping_copy_reads_all_before_it_writes(unit, shift):
    device = Device()
    values = noise((7, 40))
    tile = device.tile(values)
    first, second = max(0, -shift), max(0, shift)
    size = 40 - abs(shift)
    device.issue(
        "tensor_copy", tile[:, second : second + size], tile[:, first : first + size], engine=unit
    )
    want = values.copy()
    want[:, second : second + size] = values[:, first : first + size]
    same(tile.numpy(), want)


@pytest.mark.parametrize("first", range(0, 40, 7))
@pytest.mark.parametrize("narrow", ["bfloat16", "float16", "int16"])
def test_a_narrowing_copy_onto_its_own_source(narrow, first):
    device = Device()
    values = noise((1, 40), special=False)
    tile = device.tile(values)
    device.issue("tensor_copy", tile.view(narrow)[:, first : first + 40], tile)
    same(tile.view(narrow).numpy()[:, first : first + 40], converted(values, narrow))


@pytest.mark.parametrize("first", [0, 1, 20])
def test_a_widening_copy_onto_its_own_source(first):
    device = Device()
    values = noise((3, 40), "bfloat16")
    tile = device.tile(values)
    device.issue("tensor_copy", tile.view(np.float32), tile[:, first : first + 20])
    same(tile.view(np.float32).numpy(), values[:, first : first + 20].astype(np.float32))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("start", [0, 32, 64, 96])
def test_quadrants_are_addressed_by_their_first_partition(target, start):
    device = Device(target)
    values = noise((32, 6))
    src = device.tile(values, address=(start, 64))
    dst = device.empty((32, 6), "bfloat16", "psum", address=((start + 32) % 128, 2048))
    device.issue("tensor_copy", dst, src)
    same(dst.numpy(), converted(values, "bfloat16"))


def test_tiles_at_overlapping_addresses_are_one_memory():
    device = Device()
    values = noise((4, 12))
    src = device.tile(values, address=(0, 0))
    dst = device.empty((4, 12), address=(0, 4))
    device.issue("tensor_copy", dst, src)
    same(dst.numpy(), values)
    same(src.numpy()[:, 1:], values[:, :-1])


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_the_scalar_engine_copies(target):
    device = Device(target)
    values = noise((3, 5))
    dst = device.empty((3, 5), "bfloat16", "psum")
    device.issue("tensor_copy", dst, device.tile(values), engine=engine.scalar)
    same(dst.numpy(), converted(values, "bfloat16"))


def test_on_v2_the_scalar_engine_does_not_copy():
    device = Device("trn1")
    dst, src = device.empty((3, 5)), device.tile(noise((3, 5)))
    words = ["tensor_copy", "scalar", "trn1"]
    error = device.refuses(TargetError, "tensor_copy", dst, src, engine=engine.scalar, words=words)
    assert error.code == "TARGET" and "activation" in error.hint


@pytest.mark.parametrize("unit", [engine.tensor, engine.dma, engine.sync])
def test_other_engines_do_not_copy(unit):
    device = Device()
    dst, src = device.empty((3, 5)), device.tile(noise((3, 5)))
    error = device.refuses(BufferKindError, "tensor_copy", dst, src, engine=unit, words=[unit.name])
    assert error.code == "BUFFER_KIND"


@pytest.mark.parametrize(
    ("dst_in", "src_in", "word"), [("psum", "sbuf", "dst"), ("sbuf", "psum", "src")]
)
def test_gpsimd_does_not_reach_psum(dst_in, src_in, word):
    device = Device()
    dst, src = device.empty((3, 5), buffer=dst_in), device.tile(noise((3, 5)), buffer=src_in)
    error = device.refuses(
        BufferKindError, "tensor_copy", dst, src, engine=engine.gpsimd, words=[word, "psum"]
    )
    assert error.code == "BUFFER_KIND"


@pytest.mark.parametrize("unit", ["vector", 55, None])
def test_an_engine_is_a_member_of_the_enumeration(unit):
    device = Device()
    dst, src = device.empty((3, 5)), device.tile(noise((3, 5)))
    words = ["engine", "engine.vector"]
    error = device.refuses(SignatureError, "tensor_copy", dst, src, engine=unit, words=words)
    assert error.code == "SIGNATURE"


# --- memset ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [engine.vector, engine.gpsimd, engine.unknown])
@for_all("value", [0, -0.0, 1.5, -3, 0.1, 1e-7, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_are_filled_with_the_nearest(dtype, value, unit):
    device = Device()
    dst = device.empty((5, 3, 2), dtype)
    device.issue("memset", dst, value, engine=unit)
    same(dst.numpy(), np.full((5, 3, 2), value, np.float32).astype(dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_filled_exactly(dtype):
    device = Device()
    limits = np.iinfo(dtype)
    for value in (limits.min, limits.max, 0, 1, limits.max - 1, np.int32(7)):
        dst = device.empty((128, 3), dtype)
        device.issue("memset", dst, value)
        assert (dst.numpy() == value).all() and dst.numpy().dtype == dtype


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("value", [2.0, 0.5, np.float32(1), np.nan, np.inf])
def test_integers_are_not_filled_with_floats(dtype, value):
    device = Device()
    dst = device.tile(noise((3, 4), dtype))
    error = device.refuses(DtypeError, "memset", dst, value, words=["memset", dtype, "integer"])
    assert error.code == "DTYPE_RULE"


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("uint8", -1),
        ("uint8", 256),
        ("int8", 128),
        ("int8", -129),
        ("uint16", 65536),
        ("int32", 2**31),
    ],
)
def test_integers_are_not_filled_with_what_they_can_not_hold(dtype, value):
    device = Device()
    dst = device.tile(noise((3, 4), dtype))
    device.refuses(DtypeError, "memset", dst, value, words=[str(value), dtype, "from", "to"])


@pytest.mark.parametrize("value", ["1", None, [1.0], np.ones(3), 1j])
def test_a_fill_value_is_a_number(value):
    device = Device()
    for dtype in ("float32", "int8"):
        dst = device.tile(noise((3, 4), dtype))
        error = device.refuses(SignatureError, "memset", dst, value, words=["value", "number"])
        assert error.code == "SIGNATURE"


def test_a_fill_of_a_strided_view_in_psum():
    device = Device()
    old = noise((64, 5, 6), "float16")
    dst = device.tile(old, buffer="psum")
    device.issue("memset", dst[:, ::2, 1:6:2], 3.0)
    want = old.copy()
    want[:, ::2, 1:6:2] = 3
    same(dst.numpy(), want)


def test_a_fill_writes_every_element():
    device = Device()
    dst = device.empty((3, 4))
    device.issue("memset", dst[:, :2], 1.0)
    device.issue("tensor_copy", device.empty((3, 2)), dst[:, :2])
    assert device.findings == []
    device.issue("tensor_copy", device.empty((3, 4)), dst)
    assert device.findings == ["UNINIT_READ"]


@pytest.mark.parametrize("unit", [engine.scalar, engine.tensor, engine.dma])
def test_other_engines_do_not_fill(unit):
    device = Device()
    dst = device.tile(noise((3, 4)))
    words = ["memset", unit.name, "vector or gpsimd"]
    device.refuses(BufferKindError, "memset", dst, 0.0, engine=unit, words=words)


def test_gpsimd_does_not_fill_psum():
    device = Device()
    dst = device.tile(noise((3, 4)), buffer="psum")
    device.refuses(BufferKindError, "memset", dst, 0.0, engine=engine.gpsimd, words=["dst", "psum"])
