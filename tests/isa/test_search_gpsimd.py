"""topk and nonzero_with_count: searches of the GpSimd engine, with sixteen partitions per
processor."""

from itertools import product

import numpy as np
import pytest
from device import TARGETS, Device
from every import for_all
from hypothesis import given
from hypothesis import strategies as st

# --- topk -----------------------------------------------------------------------------------------


def wound(rows, columns):
    """Lay out rows of elements as snakes: element j is in partition j % 16 and column j // 16."""
    snake = np.zeros((len(rows) * 16, columns), np.float32)
    for g, row in enumerate(rows):
        for j, value in enumerate(row):
            snake[16 * g + j % 16, j // 16] = value
    return snake


def unwound(snake, count):
    """Return the rows of a snake."""
    groups = range(len(snake) // 16)
    return np.array([[snake[16 * g + j % 16, j // 16] for j in range(count)] for g in groups])


def run_topk(device, rows, k, columns=None):
    """Return values and indices of the k greatest of each row, and the tiles that have them."""
    n = rows.shape[1]
    src = device.tile(wound(rows, columns or -(-n // 16)), "bfloat16")
    val, idx = (device.empty((len(src.codes()), k), d) for d in ("bfloat16", "uint32"))
    device.issue("topk", val, idx, src, n)
    return unwound(val.numpy(), k), unwound(idx.numpy(), k), val, idx


def distinct(groups, n, seed=0):
    """Return rows of different bfloat16 numbers, of both signs."""
    codes = np.concatenate([np.arange(1, 0x7F80), np.arange(0x8001, 0xFF80)]).astype(np.uint16)
    rng = np.random.default_rng([seed, groups, n])
    rows = [rng.choice(codes, n, replace=False) for _ in range(groups)]
    return np.array(rows).view("bfloat16").astype(np.float32)


@for_all("target", TARGETS)
def test_the_greatest_of_each_snake_in_ascending_order(target):
    device = Device(target)
    for groups, n, k in ((1, 8, 1), (1, 8, 8), (2, 15, 3), (3, 16, 16), (8, 42, 8), (8, 100, 33)):
        rows = distinct(groups, n)
        values, indices, *_ = run_topk(device, rows, k)
        assert np.array_equal(indices, np.argsort(rows, axis=1)[:, n - k :])
        assert np.array_equal(values.astype(np.float32), np.sort(rows, axis=1)[:, n - k :])
    device.agrees()
    assert not device.findings


def test_a_snake_may_have_as_many_elements_as_the_counter_can_count():
    device = Device()
    rows = np.random.default_rng(1).integers(-9, 9, (1, 65535)).astype(np.float32)
    rows[0, [77, 65534, 4000]] = 20, 30, 40
    values, indices, *_ = run_topk(device, rows, 3)
    assert values.astype(int).tolist() == [[20, 30, 40]]
    assert indices.tolist() == [[77, 65534, 4000]]


FEW = st.sampled_from([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf])


@given(st.lists(FEW, min_size=8, max_size=40), st.data())
def test_topk_of_any_row(row, data):
    device = Device()
    run_topk(device, np.float32([row]), data.draw(st.integers(1, len(row))))
    device.agrees()


def test_the_first_of_equal_elements_are_selected():
    row = np.float32([[1, 5, 5, 2, 5, 5, 0, 5]])
    values, indices, *_ = run_topk(Device(), row, 3)
    assert values.astype(int).tolist() == [[5, 5, 5]]
    assert indices.tolist() == [[4, 2, 1]]


def test_nan_is_the_greatest():
    row = np.float32([[1, np.inf, -np.inf, np.nan, 0, 2, 3, -4]])
    values, indices, *_ = run_topk(Device(), row, 2)
    assert indices.tolist() == [[1, 3]]
    assert np.isnan(values[0, 1]) and values[0, 0] == np.inf


def test_unused_partitions_are_not_read():
    device = Device()
    src = device.empty((32, 4), "bfloat16")
    rows = distinct(2, 40)
    columns = wound(rows, 3)
    src[:, 0:2].codes()[...] = device.tile(columns[:, 0:2], "bfloat16").codes()
    src[:, 0:2].mark_written()
    for g in (0, 16):
        src[g : g + 8, 2:3].codes()[...] = device.tile(columns[g : g + 8, 2:3], "bfloat16").codes()
        src[g : g + 8, 2:3].mark_written()
    val, idx = device.empty((32, 5), "bfloat16"), device.empty((32, 5), "uint32")
    device.issue("topk", val, idx, src, 40)
    assert not device.findings
    assert np.array_equal(unwound(idx.numpy(), 5), np.argsort(rows, axis=1)[:, 35:])
    device.issue("topk", val, idx, src, 41)
    assert device.findings == ["UNINIT_READ"]


def test_elements_after_the_results_are_unchanged():
    device, rows = Device(), distinct(2, 30)
    src = device.tile(wound(rows, 2), "bfloat16")
    for k in (5, 16, 20):
        results = [device.tile(np.full((32, k), 0xABC), d) for d in ("bfloat16", "uint32")]
        device.issue("topk", *results, src, 30)
    device.agrees()


def test_topk_marks_its_whole_result_tiles_as_written():
    device = Device()
    *_, val, idx = run_topk(device, distinct(2, 30), 5)
    assert val.unwritten() is None and idx.unwritten() is None


def topk_operands(device, partitions=32, columns=3, k=8):
    return (
        device.zeros((partitions, k), "bfloat16"),
        device.zeros((partitions, k), "uint32"),
        device.zeros((partitions, columns), "bfloat16"),
    )


def test_topk_takes_four_cycles_for_each_element_and_one_for_each_result():
    def busy(n, k):
        device = Device()
        device.issue("topk", *topk_operands(device, columns=100, k=k), n)
        (call,) = device.core.program.calls
        return call.instruction.cost(call, device.core.machine).busy_ns

    clock = Device().core.machine.engines["gpsimd"].clock_ghz
    assert busy(1001, 8) - busy(1000, 8) == pytest.approx(4 / clock)
    assert busy(1000, 9) - busy(1000, 8) == pytest.approx(1 / clock)


# --- nonzero_with_count ---------------------------------------------------------------------------


@for_all("target", ["trn2", "trn3"])
def test_a_row_has_indices_then_padding_then_the_count(target):
    device, rng = Device(target), np.random.default_rng(0)
    shapes = (1, 1), (3, 7), (16, 5), (17, 20), (128, 33), (33, 4, 5)
    for shape, dtype in product(shapes, ("float32", "int32")):
        values = np.where(rng.random(shape) < 0.5, 0, rng.integers(-5, 5, shape)).astype(dtype)
        dst = device.tile(rng.integers(-99, 99, (shape[0], values[0].size + 1)), "int32")
        device.issue("nonzero_with_count", dst, device.tile(values))
    device.agrees()


def test_the_published_example_of_an_offset():
    device = Device()
    dst = device.empty((1, 9), "int32")
    src = device.tile(np.int32([[0, 1, 1, 0, 0, 1, 0, 0]]))
    device.issue("nonzero_with_count", dst, src, 16, -1)
    assert dst.numpy().tolist() == [[17, 18, 21, -1, -1, -1, -1, -1, 3]]


def test_offset_and_padding_are_32_bit_integers():
    device, src = Device(), np.float32([[0, 3, 4]])
    for offset, padding in ((-7, 0), (2**31 - 1, -(2**31)), (5, 2**31 - 1)):
        given, dst = {"index_offset": offset, "padding_val": padding}, device.empty((1, 4), "int32")
        device.issue("nonzero_with_count", dst, device.tile(src), **given)
    device.agrees()


def test_minus_zero_is_zero_and_nan_is_not():
    device = Device()
    dst = device.empty((1, 6), "int32")
    src = device.tile(np.float32([[-0.0, np.nan, 0, -np.inf, 1e-45]]))
    device.issue("nonzero_with_count", dst, src)
    assert dst.numpy().tolist() == [[1, 3, 4, -1, -1, 3]]


def test_other_partitions_are_neither_read_nor_written():
    device = Device()
    src, dst = device.empty((128, 4)), device.empty((128, 5), "int32")
    for p in range(0, 128, 16):
        src.codes()[p] = 1
        chosen = np.zeros((128, 4), bool)
        chosen[p] = True
        src.mark_written(chosen)
    device.issue("nonzero_with_count", dst, src)
    assert not device.findings
    assert np.array_equal(~dst.unwritten().any(axis=1), np.arange(128) % 16 == 0)
    device.issue("nonzero_with_count", dst[32:64], device.empty((32, 4)))
    assert device.findings == ["UNINIT_READ"]


def test_free_shapes_need_not_agree():
    device = Device()
    src = device.tile(np.eye(32, 12, dtype=np.float32).reshape(32, 3, 4))
    device.issue("nonzero_with_count", device.empty((32, 1, 13), "int32"), src)
    device.agrees()


def test_results_do_not_depend_on_what_surrounds_the_tile():
    device = Device()
    wide = device.tile(np.random.default_rng(3).normal(size=(32, 40)), "bfloat16")
    val, idx = (device.zeros((32, 30), d) for d in ("bfloat16", "uint32"))
    device.issue("topk", val[:, 3:11], idx[:, 20:28], wide[:, 10:14], 60)
    device.agrees()
