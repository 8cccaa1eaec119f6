"""dma_transpose: the first axis and the last change places on the way."""

from itertools import product

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import numpy as np
import pytest
from device import Device, bits, noise
from every import for_all
from hypothesis import given
from hypothesis import strategies as st
from nki.isa import dge_mode, oob_mode, register_alloc

from neuroncore.base.errors import (
    BufferKindError,
    DtypeError,
    OutOfBoundsError,
    ShapeError,
    SignatureError,
    TargetError,
)

TWO_BYTES = ("bfloat16", "float16", "int16", "uint16")
FOUR_BYTES = ("float32", "int32", "uint32")
ORDERS = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
HARDWARE = {"dge_mode": dge_mode.hwdge}


def patterns(shape, dtype):
    """Values of a format, of all bit patterns."""
    return noise(shape, f"uint{8 * np.dtype(dtype).itemsize}").view(dtype)


def issue(device, src, **options):
    """dma_transpose into a fresh tile."""
    dst = device.empty([src.shape[i] for i in ORDERS[len(src.shape)]], src.dtype)
    device.issue("dma_transpose", dst, src, **options)
    return dst


# --- known addresses ------------------------------------------------------------------------------


SHAPES = [(1, 1), (128, 33), (300, 128), (5, 3, 96), (200, 2, 64), (6, 1, 4, 9), (2, 3, 5, 7)]


def test_transposes_of_any_shape():
    device = Device()
    for shape in SHAPES:
        for axes in (None, ORDERS[len(shape)], list(ORDERS[len(shape)])):
            issue(device, device.tile(patterns(shape, "int32"), buffer="hbm"), axes=axes)
    square, whole = device.tile(noise((32, 32))), device.zeros((64, 40))
    device.issue("dma_transpose", square, square)
    rows = device.tile(noise((20, 30)), buffer="hbm")[::2, ::3]
    device.issue("dma_transpose", whole[3:13, ::4], rows)
    device.agrees()


@for_all("dtype", [*TWO_BYTES, *FOUR_BYTES])
def test_a_transpose_moves_bits(dtype):
    device, data = Device(), patterns((40, 24), dtype)
    found = issue(device, device.tile(data, buffer="hbm")).numpy()
    assert np.array_equal(bits(found), bits(data.T))


@pytest.mark.parametrize(
    ("dtype", "codes"), [("float8_e5m2_x4", "uint32"), ("float4_e2m1fn_x4", "uint16")]
)
def test_four_packed_elements_move_as_one(dtype, codes):
    device = Device("trn3")
    data = patterns((40, 24), codes)
    dst = device.empty((24, 40), codes)
    src = device.tile(data, buffer="hbm").view(dtype)
    device.issue("dma_transpose", dst.view(dtype), src)
    assert np.array_equal(dst.numpy(), data.T)


def test_a_row_of_tiles_with_patterns():
    """As production kernels write it: 4-D patterns on 2-D tensors."""
    device = Device()
    data = patterns((96, 512), "bfloat16")
    src = device.tile(data, buffer="hbm").ap([[512, 96], [1, 1], [128, 4], [1, 128]])
    whole = device.tile(np.zeros((128, 4 * 96)), "bfloat16")
    device.issue("dma_transpose", whole.ap([[384, 128], [1, 1], [96, 4], [1, 96]]), src)
    want = data.reshape(96, 4, 128).transpose(2, 1, 0).reshape(128, 384)
    assert np.array_equal(bits(whole.numpy()), bits(want))


@for_all("kind, mode", product(["register", "tile"], dge_mode))
def test_a_run_time_offset(kind, mode):
    device, data = Device(), patterns((4, 16, 64), "bfloat16")
    number = device.call(register_alloc, 2) if kind == "register" else device.tile([[2]], "int32")
    found = issue(device, device.tile(data, buffer="hbm").select(0, number), dge_mode=mode)
    assert np.array_equal(bits(found.numpy()), bits(data[2].T))


def test_a_run_time_offset_past_the_end():
    device = Device()
    src = device.zeros((4, 16, 64), "bfloat16", "hbm").select(0, device.call(register_alloc, 4))
    dst = device.tile(np.ones((64, 16)), "bfloat16")
    device.refuses(OutOfBoundsError, "dma_transpose", dst, src, words=["src", "4", "0 to 3"])
    device.issue("dma_transpose", dst, src, oob_mode=oob_mode.skip)
    assert (dst.numpy() == 1).all()


# --- gathers --------------------------------------------------------------------------------------


def gather(device, table, index, rows):
    """`rows` rows of a table in HBM, by the numbers in an index."""
    tensor = device.tile(table, buffer="hbm")
    pattern = [[s, n] for s, n in zip(tensor.strides, (rows, *table.shape[1:]))]
    return tensor.ap(pattern, vector_offset=device.tile(index), indirect_dim=0)


def indices(shape, end):
    return np.random.default_rng(1).integers(0, end, shape).astype(np.uint32)


INDICES = [((16, 1), 16), ((48, 1), 32), ((128, 1), 128), ((128, 2), 256), ((128, 3), 272)]


@for_all("columns", [(1,), (128,), (3, 40), (1, 4, 25), (4, 1, 25)])
def test_rows_are_counted_down_the_columns_of_the_index(columns):
    device = Device("trn3")
    for index, rows in INDICES:
        table = patterns((300, *columns), "bfloat16")
        issue(device, gather(device, table, indices(index, 300), rows))
    device.agrees()
    assert not device.findings


@given(st.lists(st.integers(0, 12), min_size=15, max_size=15))
def test_rows_that_do_not_exist_are_skipped(numbers):
    device = Device()
    dst = device.tile(np.full((6, 16), 7, np.uint16))
    index = np.array([*numbers, 2**32 - 1], np.uint32).reshape(16, 1)
    src = gather(device, patterns((10, 6), "uint16"), index, 16)
    device.issue("dma_transpose", dst, src, oob_mode=oob_mode.skip)
    device.agrees()


def test_a_skipped_row_is_still_not_written():
    device = Device()
    numbers = np.arange(16, dtype=np.uint32).reshape(16, 1)
    numbers[5] = 99
    dst = device.empty((6, 16), "uint16")
    src = gather(device, patterns((20, 6), "uint16"), numbers, 16)
    device.issue("dma_transpose", dst, src, oob_mode=oob_mode.skip)
    missing = dst.unwritten()
    assert missing[:, 5].all() and missing.sum() == 6


def test_a_row_that_does_not_exist_is_refused():
    device = Device()
    numbers = np.zeros((16, 1), np.uint32)
    numbers[9] = 10
    src = gather(device, patterns((10, 6), "uint16"), numbers, 16)
    dst = device.zeros((6, 16), "uint16")
    device.refuses(OutOfBoundsError, "dma_transpose", dst, src, words=["src", "10", "0 to 9"])


def test_rows_that_nothing_has_written_are_found():
    device = Device()
    table = device.empty((40, 6), "uint16", "hbm")
    device.issue("dma_copy", table[:20], device.zeros((20, 6), "uint16"))
    for first, found in [(0, []), (16, ["UNINIT_READ"])]:
        numbers = np.arange(first, first + 16, dtype=np.uint32).reshape(16, 1)
        src = table.ap([[6, 16], [1, 6]], vector_offset=device.tile(numbers), indirect_dim=0)
        device.issue("dma_transpose", device.empty((6, 16), "uint16"), src)
        assert device.findings == found


@pytest.mark.parametrize(
    "index", [(8, 1), (24, 1), (17, 1), (16, 2), (64, 2), (16, 1, 1), (127, 1), (32, 1)]
)
def test_an_index_fills_groups_of_16(index):
    device = Device()
    src = gather(device, patterns((10, 6), "uint16"), np.zeros(index, np.uint32), 48)
    dst = device.zeros((6, 48), "uint16")
    device.refuses(ShapeError, "dma_transpose", dst, src, words=["index", str(index), "48"])


@pytest.mark.parametrize("dtype", ["int32", "uint16"])
def test_an_index_is_uint32(dtype):
    device = Device()
    src = gather(device, patterns((10, 6), "uint16"), np.zeros((16, 1), dtype), 16)
    dst = device.zeros((6, 16), "uint16")
    device.refuses(ShapeError, "dma_transpose", dst, src, words=["uint32", dtype])


@pytest.mark.parametrize(
    ("columns", "rows", "words"),
    [((6,), 17, ["16"]), ((2, 2, 6), 16, ["1 along axis 1 or 2"])],
)
def test_a_gather_fits_its_descriptors(columns, rows, words):
    device = Device()
    table = np.zeros((40, *columns), np.uint16)
    src = gather(device, table, np.zeros((128, 1), np.uint32), rows)
    dst = device.zeros(tuple(src.shape[i] for i in ORDERS[len(src.shape)]), "uint16")
    device.refuses(ShapeError, "dma_transpose", dst, src, words=["src", *words])


@pytest.mark.parametrize("dtype", FOUR_BYTES)
def test_a_gather_moves_two_bytes(dtype):
    device = Device()
    src = gather(device, np.zeros((10, 6), dtype), np.zeros((16, 1), np.uint32), 16)
    dst = device.zeros((6, 16), dtype)
    device.refuses(DtypeError, "dma_transpose", dst, src, words=["src", dtype, "2 bytes"])


def test_a_gather_needs_v3():
    device = Device("trn1")
    src = gather(device, np.zeros((10, 6), np.uint16), np.zeros((16, 1), np.uint32), 16)
    dst = device.zeros((6, 16), "uint16")
    device.refuses(TargetError, "dma_transpose", dst, src, words=["trn1", "indirect_transpose"])


@pytest.mark.parametrize("mode", [dge_mode.hwdge, dge_mode.none])
def test_a_gathers_descriptors_are_written_by_software(mode):
    device = Device()
    src = gather(device, np.zeros((16, 6), np.uint16), np.zeros((16, 1), np.uint32), 16)
    dst = device.zeros((6, 16), "uint16")
    words = [mode.name, "gather", "unknown or swdge"]
    device.refuses(SignatureError, "dma_transpose", dst, src, dge_mode=mode, words=words)
    device.issue("dma_transpose", dst, src, dge_mode=dge_mode.swdge)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float8_e4m3", "float8_e5m2", "bool"])
def test_units_are_2_or_4_bytes(dtype):
    device = Device()
    src, dst = device.zeros((3, 5), dtype, "hbm"), device.zeros((5, 3), dtype)
    wider = device.zeros((5, 3), "float16")
    device.refuses(DtypeError, "dma_transpose", dst, src, words=["dst", dtype, "2 or 4 bytes"])
    device.refuses(DtypeError, "dma_transpose", wider, src, words=["src", dtype, "2 or 4 bytes"])


def test_nothing_is_converted():
    device = Device()
    src, dst = device.zeros((3, 5), "float32", "hbm"), device.zeros((5, 3), "bfloat16")
    device.refuses(DtypeError, "dma_transpose", dst, src, words=["dst", "bfloat16", "float32"])


@pytest.mark.parametrize(
    ("src", "dst"),
    [((3, 5), (3, 5)), ((3, 5), (5, 4)), ((3, 5), (5, 1, 3)), ((3, 4, 5), (5, 3, 4)),
     ((2, 3, 4, 5), (5, 4, 3, 2)), ((2, 3, 4, 5), (5, 12, 2)), ((4, 4), (2, 8))],
)  # fmt: skip
def test_dst_has_the_shape_of_the_transpose(src, dst):
    device = Device()
    wanted = str(tuple(src[i] for i in ORDERS[len(src)]))
    device.refuses(
        ShapeError, "dma_transpose", device.zeros(dst), device.zeros(src, buffer="hbm"),
        words=["dst", wanted, " x ".join(map(str, dst))],
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(5,), (1, 2, 3, 4, 5)])
def test_two_to_four_axes(shape):
    device = Device()
    src = device.zeros(shape, "uint16", "hbm")
    for options in ({}, HARDWARE):
        dst, words = device.zeros((5, 1), "uint16"), ["src", "2, 3 or 4"]
        device.refuses(ShapeError, "dma_transpose", dst, src, words=words, **options)


@pytest.mark.parametrize("rank", ORDERS)
def test_axes_go_in_one_order(rank):
    device = Device()
    shape = (6, 5, 4, 3)[:rank]
    src = device.zeros(shape, buffer="hbm")
    dst = device.zeros(tuple(shape[i] for i in ORDERS[rank]))
    for axes in [tuple(range(rank)), (1, 0, *range(2, rank + 1)), (0,), [2, 3, 1, 0]]:
        device.refuses(
            ShapeError, "dma_transpose", dst, src, axes, words=[str(ORDERS[rank]), str(tuple(axes))]
        )


@pytest.mark.parametrize("where", ["psum", "hbm"])
def test_the_result_is_in_sbuf(where):
    device = Device()
    dst, src = device.zeros((5, 3), buffer=where), device.zeros((3, 5), buffer="hbm")
    device.refuses(BufferKindError, "dma_transpose", dst, src, words=["dst", "sbuf", where])


def test_dma_does_not_reach_psum():
    device = Device()
    dst, src = device.zeros((5, 3)), device.zeros((3, 5), buffer="psum")
    device.refuses(BufferKindError, "dma_transpose", dst, src, words=["src", "psum"])


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_shapes_of_hardware_descriptors(target):
    device = Device(target)
    for shape in ((16, 64), (1, 16, 64), (2, 8, 64), (4, 3, 4, 9), (16, 2, 3, 128)):
        issue(device, device.tile(noise(shape), "bfloat16", "hbm"), **HARDWARE)
    issue(device, device.tile(noise((16, 64)), "bfloat16", "hbm"), dge_mode=dge_mode.none)
    device.agrees()


@pytest.mark.parametrize(
    ("shape", "words"),
    [((15, 64), ["16 rows"]), ((32, 64), ["16 rows"]), ((3, 16, 9), ["1, 2, 4, 8 or 16"]),
     ((32, 1, 1, 9), ["1, 2, 4, 8 or 16"]), ((4, 6, 9), ["multiple of 16", "axes 0 and 1"]),
     ((2, 8, 4, 9), ["multiple of 16", "axes 0 and 2"])],
)  # fmt: skip
def test_hardware_descriptors_do_not_express_every_shape(shape, words):
    device = Device()
    src = device.zeros(shape, "bfloat16", "hbm")
    dst = device.zeros(tuple(shape[i] for i in ORDERS[len(shape)]), "bfloat16")
    device.refuses(ShapeError, "dma_transpose", dst, src, **HARDWARE, words=["src", *words])
    device.issue("dma_transpose", dst, src)


@pytest.mark.parametrize("dtype", FOUR_BYTES)
def test_hardware_descriptors_move_two_bytes(dtype):
    device = Device()
    src, dst = device.zeros((16, 5), dtype, "hbm"), device.zeros((5, 16), dtype)
    device.refuses(DtypeError, "dma_transpose", dst, src, **HARDWARE, words=[dtype, "2 bytes"])


def test_v2_has_no_hardware_descriptors():
    device = Device("trn1")
    src, dst = device.zeros((16, 5), "bfloat16", "hbm"), device.zeros((5, 16), "bfloat16")
    device.refuses(TargetError, "dma_transpose", dst, src, **HARDWARE, words=["trn1"])


def test_software_does_not_write_descriptors_of_known_addresses():
    device = Device()
    src, dst = device.zeros((3, 5), buffer="hbm"), device.zeros((5, 3))
    device.refuses(
        SignatureError, "dma_transpose", dst, src, dge_mode=dge_mode.swdge,
        words=["swdge", "static", "unknown or none or hwdge"],
    )  # fmt: skip


def test_only_run_time_indices_can_be_out_of_bounds():
    device = Device()
    src, dst = device.zeros((3, 5), buffer="hbm"), device.zeros((5, 3))
    device.refuses(
        SignatureError, "dma_transpose", dst, src, oob_mode=oob_mode.skip,
        words=["out of bounds", "oob_mode.error"],
    )  # fmt: skip


def test_priorities_need_v4():
    src_shape, dst_shape = (3, 5), (5, 3)
    for target in ("trn1", "trn2"):
        device = Device(target)
        tiles = device.zeros(dst_shape), device.zeros(src_shape, buffer="hbm")
        device.refuses(TargetError, "dma_transpose", *tiles, priority=1, words=[target])
    device = Device("trn3")
    tiles = device.zeros(dst_shape), device.zeros(src_shape, buffer="hbm")
    for priority in range(4):
        device.issue("dma_transpose", *tiles, priority=priority)
    device.refuses(SignatureError, "dma_transpose", *tiles, priority=4, words=["0 (first) to 3"])


# --- cost -----------------------------------------------------------------------------------------


def moved(target, name, where):
    """The time that the DMA engines are kept by one transfer of a square tile, and how much later
    its result can be read."""
    device = Device(target)
    device.issue(
        name, device.empty((128, 128), "bfloat16"), device.zeros((128, 128), "bfloat16", where)
    )
    timeline = device.timeline()
    return timeline.transfer_ns[0], timeline.end[0] - timeline.done[0]


@pytest.mark.parametrize(("where", "share"), [("hbm", 0.9), ("sbuf", 0.5)])
@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_a_transpose_gets_a_share_of_the_bandwidth(target, where, share):
    copied, copy_after = moved(target, "dma_copy", where)
    transposed, after = moved(target, "dma_transpose", where)
    assert transposed == pytest.approx(copied / share)
    assert after == pytest.approx(copy_after)
