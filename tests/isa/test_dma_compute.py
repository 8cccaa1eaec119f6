"""dma_compute: sums during transfers between memories."""

from itertools import product

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from calls import PAIRS, values
from device import TARGETS, Device, noise
from every import for_all
from hypothesis import given
from hypothesis import strategies as st
from nki.isa import oob_mode

from neuroncore.base.errors import BufferKindError, OutOfBoundsError, ShapeError, SignatureError

SKIP = {"oob_mode": oob_mode.skip}


def compute(device, dst, srcs, *args, **options):
    device.issue("dma_compute", dst, srcs, nl.add, *args, **options)
    return dst.numpy()


# --- known addresses ------------------------------------------------------------------------------


def test_the_sum_runs_from_left_to_right():
    device = Device()
    for count in (1, 2, 15, 16):
        srcs = [device.tile(noise((8, 40), seed=seed), buffer="hbm") for seed in range(count)]
        compute(device, device.empty((8, 40)), srcs)
    device.agrees()


def test_scales_of_one_may_come_before_the_operator_like_in_releases_before_0_3():
    device = Device()
    dst, tiles = device.empty((5, 7)), [device.tile(noise((5, 7), seed=n)) for n in range(2)]
    device.issue("dma_compute", dst, tiles, [1.0, 1.0], nl.add)
    device.issue("dma_compute", dst, tiles, (1.0, 1.0), reduce_op=nl.add)
    for scales in (None, [1.0, 1.0], (1.0, 1.0), [1, 1], [np.float32(1), True]):
        compute(device, device.empty((5, 7)), tiles, scales)
    device.agrees()


def test_zeros_keep_their_sign():
    device = Device()
    zeros = device.tile(np.full((1, 2), -0.0, np.float32))
    assert np.signbit(compute(device, device.empty((1, 2)), [zeros])).all()
    assert np.signbit(compute(device, device.empty((1, 2)), [zeros, zeros])).all()


def test_formats_convert_through_float32():
    device = Device("trn3")
    for before, after in PAIRS:
        first, second = (device.tile(values(before, (5, 12), n), before) for n in (0, 1))
        compute(device, device.empty((5, 12), after), [first, second])
    srcs = device.tile(noise((6, 8), "bfloat16")), device.tile(noise((48,)), buffer="hbm")
    compute(device, device.empty((4, 12)), [*srcs, device.tile(noise((2, 3, 8), "int16"))])
    device.agrees()


def test_integers_are_exact_up_to_24_bits():
    device = Device()
    ones = device.tile(np.ones((1, 2)), "int32")
    big = device.tile(np.array([[2**24 - 1, 2**24]]), "int32")
    assert compute(device, device.empty((1, 2), "int32"), [big, ones]).tolist() == [[2**24, 2**24]]


def test_strided_views_and_results_in_a_source():
    device = Device()
    whole, row = device.tile(noise((6, 20)), buffer="hbm"), device.tile(noise((1, 20)))
    more = device.tile(noise((6, 10)))
    compute(device, whole[:, ::2], (whole[:, ::2], more, whole[:, 1::2]))
    compute(device, row[:, 1:], [row[:, :-1], row[:, 1:]])
    device.agrees()


def test_an_uninitialized_source_is_reported():
    device = Device()
    dst, written = device.empty((3, 5)), device.zeros((3, 5))
    compute(device, dst, [written, device.empty((3, 5))])
    assert device.findings == ["UNINIT_READ"]
    assert "srcs[1]" in device.core.findings[0].message


def test_every_source_is_in_the_record():
    """A later write waits until all of them have been read."""
    device = Device()
    srcs = [device.zeros((128, 512)) for _ in range(3)]
    compute(device, device.empty((128, 512), buffer="hbm"), srcs)
    for src in srcs:
        device.issue("memset", src, 0.0)
    timeline = device.timeline()
    assert (timeline.begin[1:] >= timeline.end[0]).all()


def test_calls_with_equally_many_sources_are_the_same_call():
    device = Device()
    tiles = [device.zeros((3, 5)) for _ in range(4)]
    for count in (2, 3, 2, 3, 2):
        compute(device, device.empty((3, 5)), tiles[:count])
    assert len(device.core.program.calls) == 2


# --- what is refused ------------------------------------------------------------------------------


def test_the_message_points_at_the_list():
    @nki.jit
    def kernel(x):
        near = nl.load(x)
        far = nl.ndarray(x.shape, x.dtype, buffer=nl.psum)
        nisa.dma_compute(dst=near, srcs=[near, far], reduce_op=nl.add)

    with pytest.raises(BufferKindError, match=r"srcs\[1\] must be in sbuf or hbm") as caught:
        nki.simulate(kernel)(np.zeros((3, 5), np.float32))
    place = caught.value.place
    assert place.text[place.column : place.end_column] == "[near, far]"


# --- rows picked at run time ----------------------------------------------------------------------


def picked(device, tensor, rows, dtype="int32"):
    """Return rows of a tensor in HBM, by number."""
    index = device.tile(np.reshape(rows, (-1, 1)), dtype)
    pattern = [[s, n] for s, n in zip(tensor.strides, (len(rows), *tensor.shape[1:]))]
    return tensor.ap(pattern, vector_offset=index, indirect_dim=0)


ROWS = [7, 0, 3, 9, 4]


@for_all("target, dtype", product(TARGETS, ["float32", "bfloat16", "int32"]))
def test_rows_are_added_to_a_tile_and_a_tile_to_rows(target, dtype):
    device = Device(target)
    for order in (1, -1):
        tensor = device.tile(values(dtype, (10, 6)), dtype, "hbm")
        tile = device.tile(values(dtype, (5, 6), 1), dtype)
        index = device.tile(np.reshape(ROWS, (-1, 1)), "int32")
        view, same = (tensor.vector_select(0, index) for _ in range(2))
        compute(device, tile, [picked(device, tensor, ROWS), tile][::order])
        compute(device, view, [same, tile][::order])
    device.agrees()
    assert not device.findings


@given(st.lists(st.integers(0, 14), min_size=5, max_size=5, unique=True))
def test_rows_that_do_not_exist_are_skipped(rows):
    device = Device()
    tensor, dst = device.tile(noise((10, 2, 3)), buffer="hbm"), device.tile(noise((5, 2, 3)))
    compute(device, dst, [picked(device, tensor, rows), dst], **SKIP)
    view = picked(device, tensor, rows, "uint32")
    compute(device, view, [view, dst], **SKIP)
    device.agrees()


@pytest.mark.parametrize("into", ["dst", "srcs"])
def test_a_row_that_does_not_exist_is_refused(into):
    device = Device()
    tensor, tile = device.zeros((10, 6), buffer="hbm"), device.zeros((5, 6))
    view = picked(device, tensor, [0, 1, 10, 2, 3])
    dst, srcs = (view, [view, tile]) if into == "dst" else (tile, [view, tile])
    device.refuses(
        OutOfBoundsError, "dma_compute", dst, srcs, nl.add, words=[into, "partition 2", "0 to 9"]
    )


def test_a_broken_promise_is_reported():
    device = Device()
    tensor = device.zeros((10, 6), buffer="hbm")
    view = picked(device, tensor, [4, 2, 4])
    compute(device, view, [view, device.tile(np.repeat([[1], [2], [5]], 6, 1), "float32")])
    assert device.findings == ["REPEATED_INDEX"]
    assert "row 4" in device.core.findings[0].message
    assert (tensor.numpy()[4] == 5).all()


def test_a_gather_may_take_a_row_twice():
    device = Device()
    dst, table = device.tile(noise((3, 6))), device.tile(noise((10, 6)), buffer="hbm")
    compute(device, dst, [picked(device, table, [4, 2, 4]), dst])
    device.agrees()
    assert not device.findings


def test_indices_must_differ():
    """The documentation of the current API: "non-unique not yet supported"."""
    device = Device()
    view = picked(device, device.zeros((10, 6), buffer="hbm"), ROWS)
    srcs = [view, device.zeros((5, 6))]
    for unique in ({"unique_indices": False}, {"unique_indices": None}):
        with pytest.raises(SignatureError, match="unique_indices must be True"):
            device.call(nisa.dma_compute, view, srcs, nl.add, **unique)
    with pytest.raises(SignatureError, match="unique_indices must be True"):
        device.call(nisa.dma_compute, view, srcs, nl.add, None, False)
    tile = device.zeros((5, 6))
    device.call(nisa.dma_compute, tile, [tile, tile], nl.add, unique_indices=False)


def test_sums_of_repeated_indices_are_added_in_order():
    """Each sum is rounded to the format of its row."""
    device = Device()
    for rows, form in product(([4, 2, 4, 4, 9, 2], [3] * 6, [*range(6)]), ("float32", "bfloat16")):
        tensor = device.tile(noise((10, 6)), form, "hbm")
        view = picked(device, tensor, rows)
        compute(device, view, [view, device.tile(noise((6, 6)))], unique_indices=False)
    wide = device.tile(noise((4, 2, 3)))
    compute(device, wide, [wide, picked(device, tensor, [10, 4, 10, 4])], **SKIP)
    view = picked(device, tensor, [10, 4, 10, 4])  # some of these rows do not exist
    sources = [view, device.tile(noise((4, 6)))]
    compute(device, view, sources, unique_indices=False, **SKIP)
    device.agrees()
    assert not device.findings


def test_indexed_rows_need_two_sources_including_the_sum():
    device = Device()
    tensor, tile, other = (device.zeros((10, 6), buffer="hbm"), *map(device.zeros, [(5, 6)] * 2))
    view = picked(device, tensor, ROWS)
    for dst, srcs in [
        (tile, [view]), (tile, [view, tile, other]), (tile, [view, view]), (view, [view]),
        (view, [tile, other]), (view, [view, view]), (view, [view, tile, other]),
        (tile, [view, other]), (view, [picked(device, tensor, ROWS[::-1]), tile]),
    ]:  # fmt: skip
        device.refuses(ShapeError, "dma_compute", dst, srcs, nl.add, words=["dst"])


# --- cost -----------------------------------------------------------------------------------------


def moved(target, name, count):
    """Return the time for which the DMA engines are busy with moving so many megabytes to SBUF."""
    device = Device(target)
    srcs = [device.zeros((128, 4096), "bfloat16", "hbm") for _ in range(count)]
    dst = device.empty((128, 4096), "bfloat16")
    device.issue(name, dst, *([srcs[0]] if name == "dma_copy" else [srcs, nl.add]))
    return device.timeline().transfer_ns[0]


@for_all(("target", "slowdown"), [("trn1", 2), ("trn2", 2), ("trn3", 1)])
@for_all("count", [2, 5])
def test_each_source_is_moved_at_the_rate_of_sums(target, slowdown, count):
    copy = moved(target, "dma_copy", 1)
    assert moved(target, "dma_compute", count) == pytest.approx(slowdown * count * copy)
