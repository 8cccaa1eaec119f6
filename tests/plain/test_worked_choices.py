"""Worked examples of instructions that make indices, select by them, and move data: the rules are
on the pages of the declarations (nki.isa, nki.collectives), and the numbers are computed by
hand."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import Device

import neuroncore

F = np.float32
LOWEST = float(np.finfo(F).min)


def left(device, *tiles):
    """Return the contents of tiles in the emulator, after a comparison with the plain reading."""
    device.agrees()
    return [tile.numpy().tolist() for tile in tiles]


def test_an_iota_counts_the_last_axis_fastest():
    device = Device()
    dst = device.empty((3, 2, 3), "int16")
    device.issue("iota", dst, [[10, 2], [1, 3]], offset=5, channel_multiplier=100)
    assert left(device, dst) == [
        [
            [[5, 6, 7], [15, 16, 17]],
            [[105, 106, 107], [115, 116, 117]],
            [[205, 206, 207], [215, 216, 217]],
        ]
    ]


def test_an_iota_in_a_narrow_format_is_rounded():
    device = Device()
    dst = device.empty((1, 3), "bfloat16")
    device.issue("iota", dst, [[1, 3]], offset=256)
    assert left(device, dst) == [[[256, 256, 258]]]  # 257 is between two, and 256 is the even one


def test_a_causal_mask():
    """Partition p keeps columns up to p: p - x >= 0."""
    device = Device()
    scores, dst = device.tile(np.array([[1, 2, 3, 4]] * 3, F)), device.empty((3, 4))
    device.issue(
        "affine_select", dst, [[-1, 4]], 1, scores, on_false_value=-9.0, cmp_op=nl.greater_equal
    )
    assert left(device, dst) == [[[1, -9, -9, -9], [1, 2, -9, -9], [1, 2, 3, -9]]]


def test_a_range_of_indices_that_begin_at_two():
    """Indices 2 to 6; those from 3 on and before 5 are kept, and the others are float32's least."""
    device = Device()
    x, dst = device.tile(np.array([[7, 1, 4, 9, 8]], F)), device.empty((1, 5))
    best = device.empty((1, 1))
    low, high = (device.tile(np.array([[bound]], F)) for bound in (3, 5))
    device.issue(
        "range_select", dst, x, comp_op0=nl.greater_equal, comp_op1=nl.less, bound0=low,
        bound1=high, reduce_res=best, range_start=2,
    )  # fmt: skip
    assert left(device, dst, best) == [[[LOWEST, 1, 4, LOWEST, LOWEST]], [[4]]]


def test_a_choice_by_a_tile_and_the_greatest_of_it():
    device = Device()
    flags = device.tile(np.array([[0, 1, 5], [0, 0, 0]], np.uint8))
    x, other = (
        device.tile(np.array([[1, -2, 3], [4, 5, 6]], F)),
        device.tile(np.array([[7], [8]], F)),
    )
    dst, most = device.empty((2, 3)), device.empty((2, 1))
    device.issue(
        "select_reduce", dst, flags, x, other, most, nisa.reduce_cmd.reset_reduce, nl.maximum
    )
    assert left(device, dst, most) == [[[7, -2, 3], [8, 8, 8]], [[7], [8]]]


def test_the_eight_greatest_and_where_each_is():
    """Values that are equal take one place after the other (release notes of NKI 0.6)."""
    device = Device()
    data = device.tile(np.array([[3, 1, 4, 1, 5, 9, 2, 6, 5]], F))
    vals, index = device.empty((1, 8)), device.empty((1, 8), "uint32")
    device.issue("max8", vals, data)
    device.issue("nc_find_index8", index, data, vals)
    assert left(device, vals, index) == [[[9, 6, 5, 5, 4, 3, 2, 1]], [[5, 7, 4, 8, 2, 0, 6, 1]]]


@pytest.mark.parametrize("form, none", [("uint16", 0xFFFF), ("uint32", 0xFFFFFFFF)])
def test_a_value_that_is_nowhere_has_all_ones_for_an_index(form, none):
    device = Device()
    data = device.tile(np.arange(8, dtype=F)[None])
    vals, index = (
        device.tile(np.array([[7, 9, 0, 0.5, 3, 3, -1, 1]], F)),
        device.empty((1, 8), form),
    )
    device.issue("nc_find_index8", index, data, vals)
    assert left(device, index) == [[[7, none, 0, none, 3, none, none, 1]]]


def test_a_gather_goes_over_all_free_axes():
    device = Device()
    data = device.tile(np.array([[[10, 11, 12], [13, 14, 15]]], F))
    dst, index = device.empty((1, 3)), device.tile(np.array([[5, 0, 3]], np.uint32))
    device.issue("nc_n_gather", dst, data, index)
    assert left(device, dst) == [[[15, 10, 13]]]


def test_a_gather_of_sixteen_partitions_reads_their_indices_partition_by_partition():
    """Index i is in partition i % 16 and column i // 16; each brings two elements."""
    device = Device()
    source = np.arange(16)[:, None] * 10 + np.arange(6)
    index = np.zeros((16, 2), np.uint16)
    index[:3, 0], index[0, 1] = [4, 0, 2], 3
    dst = device.empty((16, 34))
    tiles = device.tile(source.astype(F)), device.tile(index)
    device.issue("local_gather", dst, *tiles, num_elem_per_idx=2, num_valid_indices=17)
    (found,) = left(device, dst)
    assert found[0] == [4, 5, 0, 1, 2, 3, *[0, 1] * 13, 3, 4]
    assert found[7] == [74, 75, 70, 71, 72, 73, *[70, 71] * 13, 73, 74]


def test_folds_of_the_last_axis_and_of_partitions():
    device = Device()
    data = device.tile(np.array([[[1, 2, 4], [8, 16, 32]], [[1, 0, 0], [3, 5, 7]]], F))
    last, both, rows = device.empty((2, 2)), device.empty((2, 1)), device.empty((1, 2, 3))
    device.issue("tensor_reduce", last, nl.add, data, axis=2)
    device.issue("tensor_reduce", both, nl.maximum, data, axis=(1, 2), negate=True)
    device.issue("tensor_partition_reduce", rows, nl.add, data)
    assert left(device, last, both, rows) == [
        *([[7, 56], [1, 15]], [[-32], [-7]]),
        [[[2, 2, 4], [11, 21, 39]]],
    ]


def test_elements_are_copied_where_a_flag_is_set():
    device = Device()
    dst, src = device.tile(np.array([[1, 2, 3]], F)), device.tile(np.array([[10, 20, 30]], F))
    flags = device.tile(np.array([[0, 1, 2]], np.uint8))
    device.issue("tensor_copy_predicated", dst, src, flags)
    assert left(device, dst) == [[[1, 20, 30]]]


def test_partitions_of_a_quadrant_are_shuffled_and_255_leaves_one():
    device = Device()
    src, dst = device.tile(np.arange(32, dtype=F)[:, None]), device.tile(np.full((32, 1), -1, F))
    device.issue("nc_stream_shuffle", dst, src, [31, 255, *[4] * 30])
    assert left(device, dst) == [[[31], [-1], *[[4]] * 30]]


def test_rows_that_an_index_picks_are_read_and_written():
    device = Device()
    table = device.tile(np.arange(15, dtype=F).reshape(5, 3), buffer="hbm")
    index, dst = device.tile(np.array([[4], [1]], np.int32)), device.empty((2, 3))
    device.issue("dma_copy", dst, table.vector_select(0, index))
    device.issue("dma_copy", table[:, 1:3].vector_select(0, index), dst[:, 0:2])
    assert left(device, dst, table) == [
        [[12, 13, 14], [3, 4, 5]],
        [[0, 1, 2], [3, 3, 4], [6, 7, 8], [9, 10, 11], [12, 12, 13]],
    ]


def test_a_transfer_that_transposes():
    device = Device()
    src, dst = device.tile(np.array([[1, 2, 3], [4, 5, 6]], F)), device.empty((3, 2))
    device.issue("dma_transpose", dst, src)
    assert left(device, dst) == [[[1, 4], [2, 5], [3, 6]]]


def test_a_sum_in_memory_of_several_transfers():
    """2^24 + 1 + 1: in the order of the sources, each sum rounded to float32."""
    device = Device()
    sources = [device.tile(np.array([[x]], F), buffer="hbm") for x in (2.0**24, 1, 1)]
    dst = device.empty((1, 1), buffer="hbm")
    device.issue("dma_compute", dst, sources, nl.add)
    assert left(device, dst) == [[[2.0**24]]]


# --- ranks ----------------------------------------------------------------------------------------


@nki.jit
def exchanged(x, kind, size):
    """Return the result of one collective for x [2, 3] on two ranks."""
    group = ncc.ReplicaGroup([[0, 1]])
    source = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name="source")
    result = nl.ndarray((size, 3), x.dtype, buffer=nl.shared_hbm, name="result")
    out = nl.ndarray((size, 3), x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=source, src=x)
    if kind == "all_reduce":
        ncc.all_reduce([source], [result], group, nl.maximum)
    elif kind == "all_gather":
        ncc.all_gather([source], [result], group, 0)
    elif kind == "reduce_scatter":
        ncc.reduce_scatter([source], [result], group, 0, nl.add)
    else:
        ncc.collective_permute([source], [result], [(0, 1), (1, 0)])
    nisa.dma_copy(dst=out, src=result)
    return out


ONE, OTHER = [[1, 2, 3], [4, 5, 6]], [[3, 0, 3], [1, 9, 1]]


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("all_reduce", ([[3, 2, 3], [4, 9, 6]], [[3, 2, 3], [4, 9, 6]])),
        ("all_gather", ([*ONE, *OTHER], [*ONE, *OTHER])),
        ("reduce_scatter", ([[4, 2, 6]], [[5, 14, 7]])),
        ("collective_permute", (OTHER, ONE)),
    ],
)
def test_collectives_of_two_ranks(kind, wanted):
    given = [(np.array(x, F), kind, len(wanted[0])) for x in (ONE, OTHER)]
    run = neuroncore.run(exchanged, per_rank=given)
    assert [result.tolist() for result in run.results] == [*wanted]
    verdict = run.verify()
    assert verdict.difference is None and verdict.compared
