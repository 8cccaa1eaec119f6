"""dma_transpose exchanges the first axis and the last during a transfer."""

from itertools import product

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import numpy as np
import pytest
from device import Device, bits, noise
from every import for_all
from hypothesis import given
from hypothesis import strategies as st
from nki.isa import dge_mode, oob_mode, register_alloc

from neuroncore.base.errors import OutOfBoundsError, ShapeError

TWO_BYTES = ("bfloat16", "float16", "int16", "uint16")
FOUR_BYTES = ("float32", "int32", "uint32")
ORDERS = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
HARDWARE = {"dge_mode": dge_mode.hwdge}


def patterns(shape, dtype):
    """Return all bit patterns of a format."""
    return noise(shape, f"uint{8 * np.dtype(dtype).itemsize}").view(dtype)


def issue(device, src, **options):
    """Issue dma_transpose into a fresh tile."""
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
    """Production kernels use 4-D patterns on 2-D tensors in this way."""
    device = Device()
    data = patterns((96, 512), "bfloat16")
    src = device.tile(data, buffer="hbm").ap([[512, 96], [1, 1], [128, 4], [1, 128]])
    whole = device.tile(np.zeros((128, 4 * 96)), "bfloat16")
    device.issue("dma_transpose", whole.ap([[384, 128], [1, 1], [96, 4], [1, 96]]), src)
    want = data.reshape(96, 4, 128).transpose(2, 1, 0).reshape(128, 384)
    assert np.array_equal(bits(whole.numpy()), bits(want))


@for_all("kind, mode", product(["register", "tile"], dge_mode))
def test_a_transpose_at_a_run_time_offset(kind, mode):
    device, data = Device(), patterns((4, 16, 64), "bfloat16")
    number = device.call(register_alloc, 2) if kind == "register" else device.tile([[2]], "int32")
    found = issue(device, device.tile(data, buffer="hbm").select(0, number), dge_mode=mode)
    assert np.array_equal(bits(found.numpy()), bits(data[2].T))


def test_a_transpose_at_a_run_time_offset_past_the_end_is_refused():
    device = Device()
    src = device.zeros((4, 16, 64), "bfloat16", "hbm").select(0, device.call(register_alloc, 4))
    dst = device.tile(np.ones((64, 16)), "bfloat16")
    device.refuses(OutOfBoundsError, "dma_transpose", dst, src, words=["src", "4", "0 to 3"])
    device.issue("dma_transpose", dst, src, oob_mode=oob_mode.skip)
    assert (dst.numpy() == 1).all()


# --- gathers --------------------------------------------------------------------------------------


def gather(device, table, index, rows):
    """Return `rows` rows of a table in HBM, by the numbers in an index."""
    tensor = device.tile(table, buffer="hbm")
    pattern = [[s, n] for s, n in zip(tensor.strides, (rows, *table.shape[1:]))]
    return tensor.ap(pattern, vector_offset=device.tile(index), indirect_dim=0)


def indices(shape, end):
    return np.random.default_rng(1).integers(0, end, shape).astype(np.uint32)


INDICES = [((16, 1), 16), ((48, 1), 32), ((128, 1), 128), ((128, 2), 256), ((128, 3), 272)]


@for_all("columns", [(1,), (128,), (3, 40), (1, 4, 25), (4, 1, 25)])
def test_indices_are_ordered_by_columns(columns):
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


def test_a_skipped_row_stays_uninitialized():
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


def test_uninitialized_rows_are_reported():
    device = Device()
    table = device.empty((40, 6), "uint16", "hbm")
    device.issue("dma_copy", table[:20], device.zeros((20, 6), "uint16"))
    for first, found in [(0, []), (16, ["UNINIT_READ"])]:
        numbers = np.arange(first, first + 16, dtype=np.uint32).reshape(16, 1)
        src = table.ap([[6, 16], [1, 6]], vector_offset=device.tile(numbers), indirect_dim=0)
        device.issue("dma_transpose", device.empty((6, 16), "uint16"), src)
        assert device.findings == found


@for_all("index", [(8, 1), (24, 1), (17, 1), (16, 2), (64, 2), (16, 1, 1), (127, 1), (32, 1)])
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


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_shapes_of_hardware_descriptors(target):
    device = Device(target)
    for shape in ((16, 64), (1, 16, 64), (2, 8, 64), (4, 3, 4, 9), (16, 2, 3, 128)):
        issue(device, device.tile(noise(shape), "bfloat16", "hbm"), **HARDWARE)
    issue(device, device.tile(noise((16, 64)), "bfloat16", "hbm"), dge_mode=dge_mode.none)
    device.agrees()


# --- cost -----------------------------------------------------------------------------------------


def moved(target, name, where):
    """Return the time for which the DMA engines are busy with one transfer of a square tile, and
    how much later its result can be read."""
    device = Device(target)
    device.issue(
        name, device.empty((128, 128), "bfloat16"), device.zeros((128, 128), "bfloat16", where)
    )
    timeline = device.timeline()
    return timeline.transfer_ns[0], timeline.end[0] - timeline.done[0]


@pytest.mark.parametrize(("where", "share"), [("hbm", 0.9), ("sbuf", 0.5)])
@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_a_transpose_has_a_part_of_the_bandwidth(target, where, share):
    copied, copy_after = moved(target, "dma_copy", where)
    transposed, after = moved(target, "dma_transpose", where)
    assert transposed == pytest.approx(copied / share)
    assert after == pytest.approx(copy_after)
