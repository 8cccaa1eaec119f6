"""dma_copy: what it moves, from where to where, and what becomes of the formats."""

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import numpy as np
import pytest
from device import TARGETS, Device, bits
from every import for_all
from hypothesis import given
from hypothesis import strategies as st
from nki.isa import dge_mode, engine, oob_mode

from neuroncore.errors import (
    BufferKindError,
    DtypeError,
    OutOfBoundsError,
    ShapeError,
    SignatureError,
    TargetError,
)

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2", "float8_e4m3fn")
PLACES = [("hbm", "sbuf"), ("sbuf", "hbm"), ("hbm", "hbm"), ("sbuf", "sbuf")]


def samples(dtype):
    """Every code of a narrow format; of a wide one the awkward values, [2, n]."""
    width = np.dtype(dtype).itemsize
    if width < 4:
        codes = np.arange(1 << 8 * width, dtype=f"uint{8 * width}").view(dtype)
    elif dtype == "float32":
        halves = np.array([0, 0.5, 1.5, 2.5, 127.5, 255.5, 448, 464, 464.1, 240, 248, 65504, 65520])
        tiny = 2.0 ** np.arange(-149, 128, 3)
        special = [np.inf, np.nan, 3.4028235e38, 2**31, 2**32, 1e30, 61440, 2**24 + 2]
        codes = np.concatenate([halves, tiny, 1.3 * tiny, special]).astype(np.float32)
        codes = np.concatenate([codes, -codes])
    else:
        near = (0, 1, 127, 128, 255, 256, 2**15, 2**16, 2**24 + 1, 2**24 + 3, 1077936129, 2**31 - 1)
        low = np.iinfo(dtype).min
        codes = np.array([*near, *(-n for n in near if low), low, np.iinfo(dtype).max], dtype)
    return codes[: len(codes) // 2 * 2].reshape(2, -1)


def converted(values, dtype):
    """numpy's conversion, through float32; integers to nearest even, then saturated, NaN to 0."""
    if values.dtype == dtype:
        return values
    with np.errstate(all="ignore"):
        single = values.astype(np.float32)
        if dtype == "bool":
            return single != 0
        if dtype not in INTEGERS:
            return single.astype(dtype)
        bounds = np.iinfo(dtype)
        whole = np.rint(np.nan_to_num(single.astype(np.float64), nan=0, posinf=1e99, neginf=-1e99))
        return np.clip(whole, bounds.min, bounds.max).astype(np.int64).astype(dtype)


@for_all("after", [*FLOATS, *INTEGERS, "bool"])
@pytest.mark.parametrize("before", [*FLOATS, *INTEGERS])
def test_every_conversion(before, after):
    device = Device("trn3")
    values = samples(before)
    src, dst = device.tile(values, buffer="hbm"), device.empty(values.shape, after)
    device.issue("dma_copy", dst, src)
    got, want = dst.numpy(), converted(values, after)
    if before != after and after in FLOATS and "float16" in (before, after):
        odd = np.isnan(want)  # by class: numpy keeps payloads
        assert (np.isnan(got) == odd).all()
        got[odd] = want[odd] = 0
    assert np.array_equal(bits(got), bits(want))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float8_e4m3", "tfloat32"])
def test_one_format_is_a_copy_of_bits(dtype):
    device = Device()
    src = device.empty((2, 128), dtype)
    codes = np.arange(256, dtype=bits(src.numpy()).dtype).reshape(2, 128)
    codes <<= 8 * (codes.itemsize - 1)
    codes |= 1
    src.codes()[...] = codes.view(src.dtype.storage)
    src.mark_written()
    dst = device.empty((2, 128), dtype, "hbm")
    device.issue("dma_copy", dst, src)
    assert np.array_equal(bits(dst.numpy()), codes)


def test_tfloat32_loses_its_low_bits_only_when_it_is_made():
    device = Device()
    values = np.array([[1 + 2.0**-11, 1 + 2.0**-10 + 2.0**-11, -3.0, np.inf]], np.float32)
    dst = device.empty((1, 4), "tfloat32")
    device.issue("dma_copy", dst, device.tile(values))
    want = np.array([[1, 1 + 2.0**-9, -3, np.inf]], np.float32)
    assert np.array_equal(bits(dst.numpy()), bits(want))


# --- places and shapes ----------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("source", "where"), PLACES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (128, 33), (96, 5, 3)])
def test_from_anywhere_to_anywhere(target, source, where, shape):
    device = Device(target)
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    src, dst = device.tile(values, buffer=source), device.empty(shape, buffer=where)
    device.issue("dma_copy", dst, src)
    assert np.array_equal(dst.numpy(), values)
    assert device.findings == []


@pytest.mark.parametrize("name", ["dst", "src"])
@pytest.mark.parametrize("other", ["sbuf", "hbm", "psum"])
def test_psum_is_out_of_reach(name, other):
    device = Device()
    tiles = {n: device.tile(np.ones((3, 4), np.float32), buffer=other) for n in ("dst", "src")}
    tiles[name] = device.tile(np.ones((3, 4), np.float32), buffer="psum")
    device.refuses(BufferKindError, "dma_copy", words=["sbuf or hbm", "psum"], **tiles)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((6, 4), (3, 8)),
        ((24,), (4, 6)),
        ((2, 3, 4), (8, 3)),
        ((128, 2), (1, 256)),
        ((5, 1), (1, 5)),
    ],
)
@pytest.mark.parametrize(("source", "where"), [("hbm", "sbuf"), ("sbuf", "hbm"), ("sbuf", "sbuf")])
def test_elements_keep_their_row_major_order_in_another_shape(before, after, source, where):
    device = Device()
    values = np.arange(np.prod(before), dtype=np.float32).reshape(before)
    if source == "sbuf" and len(before) == 1:
        values = values[:, None]
    dst = device.empty(after, "int32", where)
    device.issue("dma_copy", dst, device.tile(values, buffer=source))
    assert np.array_equal(dst.numpy().reshape(-1), values.reshape(-1))


@pytest.mark.parametrize(("dst", "src"), [((3, 4), (3, 5)), ((3, 4), (4, 4)), ((2, 2), (1, 1))])
@pytest.mark.parametrize(("source", "where"), PLACES)
def test_a_different_number_of_elements_is_refused(dst, src, source, where):
    device = Device()
    tiles = [
        device.tile(np.ones(s, np.float32), buffer=b) for s, b in ((dst, where), (src, source))
    ]
    counts = [f"{np.prod(src)} elements", f"{np.prod(dst)}"]
    device.refuses(ShapeError, "dma_copy", *tiles, words=["src", "dst", *counts])


@pytest.mark.parametrize("start", [1, 7, 100])
def test_partitions_may_start_anywhere(start):
    device = Device()
    whole = device.tile(np.zeros((128, 4), np.float32))
    values = np.ones((9, 4), np.float32)
    device.issue("dma_copy", whole[start : start + 9], device.tile(values, buffer="hbm"))
    assert np.array_equal(np.flatnonzero(whole.numpy().all(axis=1)), np.arange(start, start + 9))


@pytest.mark.parametrize("convert", ["float32", "bfloat16"])
def test_strided_views_on_both_sides(convert):
    device = Device()
    values = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
    dst = device.tile(np.full((5, 3, 24), -1), convert)
    device.issue("dma_copy", dst[1:4, ::2, 2::8], device.tile(values, buffer="hbm")[1:, 1:3, ::2])
    want = np.full((5, 3, 24), -1, np.float32)
    want[1:4, ::2, 2::8] = values[1:, 1:3, ::2]
    assert np.array_equal(dst.numpy().astype(np.float32), want)


def test_more_axes_than_an_engine_could_walk():
    device = Device()
    values = np.arange(3**6, dtype=np.float32).reshape((3,) * 6)
    src = device.tile(values, buffer="hbm")[:2, :2, :2, :2, :2, :2]
    dst = device.empty((2, 32))
    device.issue("dma_copy", dst, src)
    assert np.array_equal(dst.numpy().reshape(-1), values[(slice(2),) * 6].reshape(-1))


@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 30))
def test_overlapping_pieces_of_one_tensor_read_first(to, origin, size):
    device = Device()
    values = np.arange(40, dtype=np.float32)
    tensor = device.tile(values, buffer="hbm")
    device.issue("dma_copy", tensor[to : to + size], tensor[origin : origin + size])
    want = values.copy()
    want[to : to + size] = values[origin : origin + size]
    assert np.array_equal(tensor.numpy(), want)


@pytest.mark.parametrize("buffer", ["sbuf", "hbm"])
def test_a_tensor_may_be_reversed_in_place(buffer):
    device = Device()
    tensor = device.tile(np.arange(12, dtype=np.int16).reshape(2, 6), buffer=buffer)
    device.issue("dma_copy", tensor, tensor.ap([[6, 2], [-1, 6]], offset=5))
    assert np.array_equal(tensor.numpy(), [[5, 4, 3, 2, 1, 0], [11, 10, 9, 8, 7, 6]])


# --- access patterns ------------------------------------------------------------------------------


def walked(flat, pattern, offset):
    """The elements of an access pattern, outermost axis first."""
    index = np.array(offset)
    for axis, (step, count) in enumerate(pattern):
        shape = [-1] + [1] * (len(pattern) - axis - 1)
        index = index + (np.arange(count) * step).reshape(shape)
    return flat[index]


PATTERNS = [
    ([[8, 5], [1, 8]], 0),
    ([[8, 5], [-1, 8]], 7),
    ([[-8, 5], [1, 8]], 32),
    ([[0, 3], [1, 4]], 9),
    ([[1, 8], [8, 5]], 0),
    ([[3, 4], [2, 3], [-1, 2]], 11),
    ([[0, 2], [0, 3]], 39),
    ([[1, 40]], 0),
]


@pytest.mark.parametrize(("pattern", "offset"), PATTERNS)
def test_patterns_walk_hbm_in_any_direction(pattern, offset):
    device = Device()
    values = np.arange(40, dtype=np.float32).reshape(5, 8)
    want = walked(values.reshape(-1), pattern, offset)
    dst = device.empty(want.shape, buffer="hbm")
    device.issue("dma_copy", dst, device.tile(values, buffer="hbm").ap(pattern, offset))
    assert np.array_equal(dst.numpy(), want)


@pytest.mark.parametrize(
    ("pattern", "offset"),
    [([[24, 3], [-1, 6]], 5), ([[24, 2], [0, 3], [4, 2]], 24 + 3), ([[24, 1], [5, 4], [2, 3]], 2)],
)
def test_patterns_walk_within_partitions(pattern, offset):
    device = Device()
    values = np.arange(72, dtype=np.float32).reshape(3, 24)
    want = walked(values.reshape(-1), pattern, offset)
    dst = device.empty(want.shape, buffer="hbm")
    device.issue("dma_copy", dst, device.tile(values).ap(pattern, offset))
    assert np.array_equal(dst.numpy(), want)


def test_a_pattern_as_destination():
    device = Device()
    dst = device.tile(np.zeros((4, 6), np.float32), buffer="hbm")
    values = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    device.issue("dma_copy", dst.ap([[12, 2], [-2, 3]], offset=5), device.tile(values))
    want = np.zeros((4, 6))
    want[0, 5::-2], want[2, 5::-2] = [1, 2, 3], [4, 5, 6]
    assert np.array_equal(dst.numpy(), want)


@pytest.mark.parametrize(
    ("buffer", "pattern", "offset"),
    [
        ("hbm", [[8, 5], [1, 9]], 0),
        ("hbm", [[8, 5], [-1, 8]], 6),
        ("hbm", [[8, 6], [1, 1]], 0),
        ("hbm", [[1, 1]], 40),
        ("hbm", [[1, 1]], -1),
        ("sbuf", [[8, 5], [1, 9]], 0),
        ("sbuf", [[8, 5], [1, 8]], 1),
        ("sbuf", [[8, 6], [1, 8]], 0),
        ("sbuf", [[8, 4], [1, 8]], 16),
        ("sbuf", [[8, 5], [-1, 8]], 6),
    ],
)
def test_a_pattern_that_leaves_its_tensor_is_refused(buffer, pattern, offset):
    device = Device()
    tensor = device.tile(np.zeros((5, 8), np.float32), buffer=buffer)
    outside = tensor.ap(pattern, offset)  # published kernels make such patterns, unused
    words = ["reaches elements"]
    device.refuses(OutOfBoundsError, "dma_copy", outside, outside, words=words)
    device.refuses(OutOfBoundsError, "dma_copy", outside[:1], outside[:1], words=words)


# --- modes ----------------------------------------------------------------------------------------


def pair(device, after="float32"):
    return device.empty((3, 4), after), device.tile(np.ones((3, 4), np.float32), buffer="hbm")


@pytest.mark.parametrize("mode", list(dge_mode))
@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_descriptors_may_come_from_anywhere(target, mode):
    device = Device(target)
    dst, src = pair(device)
    device.issue("dma_copy", dst, src, dge_mode=mode)
    assert (dst.numpy() == 1).all()


def test_v2_has_no_hardware_descriptors():
    device = Device("trn1")
    words = ["hardware", "trn1"]
    device.refuses(TargetError, "dma_copy", *pair(device), dge_mode=dge_mode.hwdge, words=words)
    for mode in (dge_mode.unknown, dge_mode.swdge, dge_mode.none):
        device.issue("dma_copy", *pair(device), dge_mode=mode)


def test_hardware_descriptors_convert_nothing():
    device = Device()
    tiles = pair(device, "bfloat16")
    words = ["float32", "bfloat16"]
    device.refuses(DtypeError, "dma_copy", *tiles, dge_mode=dge_mode.hwdge, words=words)
    device.issue("dma_copy", *tiles, dge_mode=dge_mode.swdge)


@pytest.mark.parametrize("unit", [engine.sync, engine.scalar])
def test_two_engines_command_hardware_descriptors(unit):
    device = Device()
    device.issue("dma_copy", *pair(device), dge_mode=dge_mode.hwdge, engine=unit)
    for mode in (dge_mode.unknown, dge_mode.swdge, dge_mode.none):
        words = ["engine=", "hwdge"]
        device.refuses(
            BufferKindError, "dma_copy", *pair(device), dge_mode=mode, engine=unit, words=words
        )


@pytest.mark.parametrize("unit", [engine.vector, engine.tensor, engine.gpsimd, engine.dma])
def test_other_engines_do_not(unit):
    device = Device()
    options = {"dge_mode": dge_mode.hwdge, "engine": unit}
    device.refuses(BufferKindError, "dma_copy", *pair(device), words=[unit.name], **options)


@pytest.mark.parametrize("priority", range(4))
def test_priorities_are_for_v4(priority):
    device = Device("trn3")
    device.issue("dma_copy", *pair(device), priority=priority)
    for target in ("trn1", "trn2"):
        device = Device(target)
        words = ["priorities", target]
        device.refuses(TargetError, "dma_copy", *pair(device), priority=priority, words=words)


@pytest.mark.parametrize("priority", [-1, 4, 1.0, "high"])
def test_there_are_four_priorities(priority):
    device = Device("trn3")
    words = ["priority", repr(priority)]
    device.refuses(SignatureError, "dma_copy", *pair(device), priority=priority, words=words)


@pytest.mark.parametrize("mode", list(oob_mode))
def test_the_oob_mode_of_a_static_copy_does_not_matter(mode):
    device = Device()
    dst, src = pair(device)
    device.issue("dma_copy", dst, src, oob_mode=mode)
    assert (dst.numpy() == 1).all()


@pytest.mark.parametrize("name", ["dst", "src"])
@pytest.mark.parametrize("value", [None, 1.0, np.ones((3, 4), np.float32)])
def test_only_tensors_will_do(name, value):
    device = Device()
    tiles = dict(zip(("dst", "src"), pair(device), strict=True))
    device.refuses(SignatureError, "dma_copy", words=[name], **{**tiles, name: value})


# --- what was never written -----------------------------------------------------------------------


@pytest.mark.parametrize("buffer", ["sbuf", "hbm"])
def test_copying_what_nothing_wrote_is_found(buffer):
    device = Device()
    src = device.empty((4, 6), buffer=buffer)
    device.issue("dma_copy", src[1:3], device.tile(np.ones((2, 6), np.float32)))
    dst = device.empty((2, 6))
    device.issue("dma_copy", dst, src[1:3])
    assert device.findings == []
    device.issue("dma_copy", device.empty((4, 6)), src)
    assert device.findings == ["UNINIT_READ"]
