"""local_gather and nc_n_gather: elements selected by indices in SBUF."""

from itertools import product

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import numpy as np
import pytest
from device import TARGETS, Device, noise
from every import for_all

from neuroncore.base.errors import OutOfBoundsError

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
RUNS = (1, 2, 4, 8, 16, 32)


def table(device, shape, dtype):
    """Return a tile with all bit patterns of a format."""
    return device.tile(noise(shape, f"uint{8 * np.dtype(dtype).itemsize}")).view(dtype)


def gather(device, shape, columns, dtype="float32", run=1, valid=None, dst=None):
    """Issue local_gather into a fresh tile, with random indices."""
    places = np.random.default_rng(columns).integers(0, shape[-1] - run + 1, (shape[0], columns))
    places[3, columns - 1] = shape[-1] - run  # the last run
    if valid is not None:  # in the order that the core counts them
        order = np.arange(16 * columns).reshape(columns, 16).T
        places[np.tile(order, (shape[0] // 16, 1)) >= valid] = 65535
    out = device.empty(dst or (shape[0], (valid or 16 * columns) * run), dtype)
    index = device.tile(places, "uint16")
    device.issue("local_gather", out, table(device, shape, dtype), index, run, valid)


# --- local_gather ---------------------------------------------------------------------------------


def test_each_core_gathers_with_the_indices_of_its_partitions():
    device = Device()
    for partitions, columns in product((16, 48, 128), (1, 3)):
        gather(device, (partitions, 50), columns)
    device.agrees()


def test_each_index_fetches_a_run():
    device = Device()
    for run in RUNS:
        gather(device, (32, 70), 2, "bfloat16", run)
    device.agrees()


def test_indices_past_the_valid_ones_are_not_used():
    device = Device()
    for valid in (1, 15, 16, 17, 40, 48):
        gather(device, (32, 20), 3, "float32", 2, valid)
    device.agrees()


def test_gathers_move_bits():
    device = Device()
    for dtype in (*INTEGERS, *FLOATS):
        gather(device, (16, 9), 2, dtype)
        places = device.tile(np.random.default_rng(1).integers(0, 300, (5, 30)), "uint32")
        data = table(device, (5, 300), dtype)
        device.issue("nc_n_gather", device.empty((5, 30), dtype), data, places)
    device.agrees()


def test_free_shapes_count_elements_in_order():
    """The published example: runs of 4 out of 512, with the same indices for all cores."""
    device, data = Device(), noise((128, 512, 4), special=False)
    chosen = np.random.default_rng(1).integers(0, 512, (16, 4))
    index, dst = device.tile(np.tile(chosen, (8, 1)) * 4, "uint16"), device.empty((128, 4, 16, 4))
    device.issue("local_gather", dst, device.tile(data), index, 4, 64)
    want = np.take(data, chosen.flatten(order="F"), axis=1)
    assert np.array_equal(dst.numpy(), want.reshape(dst.shape))


def test_an_index_past_the_end_is_refused():
    for run, place in [(1, 20), (1, 65535), (4, 17)]:
        device = Device()
        index = np.zeros((32, 2), np.uint16)
        index[21, 1] = place
        dst = device.zeros((32, 32 * run))
        device.refuses(
            OutOfBoundsError, "local_gather", dst, device.zeros((32, 20)), device.tile(index), run,
            words=["core 1", "index 21", f"0 to {20 - run}", str(place), "a partition has 20"],
        )  # fmt: skip


# --- nc_n_gather ----------------------------------------------------------------------------------


def test_gathers_in_strided_views_and_in_place():
    device = Device()
    whole, backwards = device.tile(noise((32, 3, 40), "int32")), np.arange(6)[::-1]
    index = device.tile(np.random.default_rng(1).integers(0, 10, (32, 1)), "uint16")
    device.issue("local_gather", whole[:, 1, :32:2], whole[:, 1, ::4], index)
    indices = device.tile(np.tile(backwards, (32, 1)), "uint32")
    device.issue("nc_n_gather", whole[:, 2, :12:2], whole[:, 2, :12:2], indices)
    counts = np.random.default_rng(1).integers(0, 120, (32, 2, 600))
    device.issue(
        "nc_n_gather", device.empty(counts.shape, "int32"), whole, device.tile(counts, "uint32")
    )
    device.agrees()


@pytest.mark.parametrize("place", [7, 2**31, 2**32 - 1])
def test_an_index_past_the_partition_is_refused(place):
    device = Device()
    indices = np.zeros((3, 5), np.uint32)
    indices[2, 4] = place
    device.refuses(
        OutOfBoundsError, "nc_n_gather", device.zeros((3, 5)), device.zeros((3, 7)),
        device.tile(indices), words=["partition 2", "index 4", "0 to 6", str(place)],
    )  # fmt: skip


# --- both -----------------------------------------------------------------------------------------

LEGAL = {
    "local_gather": [((16, 16), "float32"), ((16, 9), "float32"), ((16, 1), "uint16")],
    "nc_n_gather": [((16, 5), "float32"), ((16, 9), "float32"), ((16, 5), "uint32")],
}


@pytest.mark.parametrize("name", LEGAL)
@for_all("dtype", ["float8_e4m3fn_x4", "float4_e2m1fn_x4", "float8_e8m0fnu"])
def test_packed_formats_and_scales_are_moved_too(name, dtype):
    device = Device("trn3")
    (shape, _), (table, _), index = LEGAL[name]
    width = {"float8_e4m3fn_x4": "uint32", "float4_e2m1fn_x4": "uint16"}.get(dtype, "uint8")
    device.issue(
        name, device.empty(shape, width).view(dtype), device.zeros(table, width).view(dtype),
        device.zeros(*index),
    )  # fmt: skip
    assert not device.findings


@pytest.mark.parametrize("target", TARGETS)
def test_longer_runs_gather_faster(target):
    """The same elements take fewer cycles with 32 times fewer indices."""
    times = []
    for run in (1, 32):
        device = Device(target)
        index = device.zeros((16, 128 // run), "uint16")
        device.issue("local_gather", device.empty((16, 2048)), device.zeros((16, 99)), index, run)
        times.append(device.timeline().total_ns)
    assert times[0] > 4 * times[1]


def test_each_512_elements_are_a_group_of_instructions():
    clock, times = 1.2, []
    for count in (512, 513):
        device = Device()
        indices = device.zeros((16, count), "uint32")
        device.issue("nc_n_gather", device.empty((16, count)), device.zeros((16, 9)), indices)
        times.append(device.timeline().total_ns)
    assert times[1] - times[0] > 100 / clock
