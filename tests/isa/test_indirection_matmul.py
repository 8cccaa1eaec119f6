"""Tensor indirection on the Tensor engine, whose groups have 32 partitions."""

import numpy as np
import pytest
from device import Device
from every import for_all
from indices import an_index
from indices import distinct as distinct_of

from neuroncore.base.errors import ShapeError, StartPartitionError, ViewError

BF16 = "bfloat16"
NARROW = [BF16, "float16", "float8_e4m3", "float8_e5m2", "float8_e4m3fn"]


def distinct(rows, elements, count, seed=0):
    return distinct_of(rows, elements, count, 32, seed)


def small(shape, dtype=BF16, seed=0):
    """Return numbers whose products and sums are exact in every format."""
    return np.random.default_rng([seed, *shape]).integers(-2, 3, shape).astype(dtype)


# --- results --------------------------------------------------------------------------------------


@for_all("dtype", NARROW)
def test_stationary_and_moving_are_gathered(dtype):
    device = Device("trn3")
    for k, m, n in ((128, 64, 40), (64, 33, 7), (100, 4, 4), (1, 1, 1)):
        s, x = device.tile(small((k, 70), dtype)), device.tile(small((k, 90), dtype, seed=1))
        stationary = s.indirect(device.tile(an_index((k, 3), 70), "uint16"), m)
        moving = x.indirect(device.tile(an_index((k, 3), 90, seed=1), "int32"), n)
        for operands in ((stationary, moving), (s[:, :m], moving), (stationary, x[:, :n])):
            device.issue("nc_matmul", device.empty((m, n), "float32", "psum"), *operands)
    device.agrees()
    assert not device.findings


def accumulating(device, old, written):
    """Return a bfloat16 tile in PSUM in which the `written` columns have the value `old`."""
    dst = device.empty(old.shape, BF16, "psum")
    ones = device.tile(np.eye(len(old), dtype=BF16))
    device.issue("nc_matmul", dst[:, written], ones, device.tile(old[:, written]))
    return dst


def test_each_scattered_place_begins_or_continues_a_sum():
    device, (s, x) = Device("trn3"), (small((32, 64)), small((32, 20), seed=1))
    index, written = device.tile(distinct(64, 50, 20), "uint16"), (slice(0, 25), slice(None))
    for columns, accumulate in zip((written[0], *written), (None, False, True), strict=True):
        dst = accumulating(device, small((64, 50), seed=2), columns)
        operands = device.tile(s), device.tile(x)
        device.issue("nc_matmul", dst.indirect(index, 20), *operands, accumulate=accumulate)
    device.agrees()
    assert not device.findings


def test_accumulating_onto_an_uninitialized_place_is_reported():
    device = Device("trn3")
    dst = accumulating(device, small((32, 8)), slice(0, 4))
    operands = device.zeros((32, 32), BF16), device.zeros((32, 4), BF16)
    for elements, findings in ((4, []), (8, ["UNINIT_READ"])):
        index = device.tile(distinct(32, elements, 4, seed=1), "uint16")
        device.issue("nc_matmul", dst.indirect(index, 4), *operands, accumulate=True)
        assert device.findings == findings


def test_a_transpose_gathers_its_data_and_scatters_its_result():
    device = Device("trn3")
    i, j = (device.tile(one, "uint16") for one in (an_index((64, 2), 70), distinct(32, 80, 64)))
    data = device.tile(small((64, 70))).indirect(i, 32)
    out = device.tile(small((32, 80), seed=1), buffer="psum").indirect(j, 64)
    device.issue("nc_matmul", out, data, device.tile(np.eye(64, dtype=BF16)), is_transpose=True)
    device.agrees()


# --- microscaling ---------------------------------------------------------------------------------


def packed(device, shape, seed):
    """Random packed elements and their scales, [K, F] each."""
    rng = np.random.default_rng([seed, *shape])
    codes = device.tile(rng.integers(0, 1 << 32, shape) & 0xBFBFBFBF, "uint32")
    return codes.view("float8_e4m3fn_x4"), device.tile(rng.integers(120, 134, shape), "uint8")


def test_a_microscaling_product_of_selected_elements():
    device = Device("trn3")
    dst = device.tile(small((32, 70)), buffer="psum")
    (s, ss), (x, xs) = packed(device, (64, 50), 0), packed(device, (64, 60), 1)
    indices = an_index((64, 2), 50), an_index((64, 2), 60, seed=1), distinct(32, 70, 40)
    a, b, out = (device.tile(index, "uint16") for index in indices)
    picked = (s.indirect(a, 32), x.indirect(b, 40), ss.indirect(a, 32), xs.indirect(b, 40))
    device.issue("nc_matmul_mx", dst.indirect(out, 40), *picked, accumulate=False)
    device.agrees()
    assert not device.findings


def mx_operands(device):
    (s, ss), (x, xs) = packed(device, (32, 8), 0), packed(device, (32, 8), 1)
    return {"stationary": s, "stationary_scale": ss, "moving": x, "moving_scale": xs}


@pytest.mark.parametrize("name", ["stationary", "moving"])
def test_numbers_and_scales_have_the_same_index(name):
    device = Device("trn3")
    tiles, dst = mx_operands(device), device.empty((8, 8), "float32", "psum")
    indices = device.zeros((32, 1), "uint16"), device.zeros((32, 1), "uint16")
    for part, index in zip(("", "_scale"), indices):
        tiles[name + part] = tiles[name + part].indirect(index, 8)
    device.refuses(ViewError, "nc_matmul_mx", dst, words=[name, "different"], **tiles)


# --- what is refused ------------------------------------------------------------------------------


def operands(device, dtype=BF16, dst=BF16):
    return {
        "dst": device.empty((32, 32), dst, "psum"),
        "stationary": device.zeros((32, 32), dtype),
        "moving": device.zeros((32, 32), dtype),
    }


def test_32_partitions_share_their_offsets():
    device = Device("trn3")
    tiles = operands(device)
    tiles["moving"] = device.zeros((32, 9), BF16).indirect(device.zeros((32, 1), "uint8"), 32)
    device.issue("nc_matmul", **tiles)
    tiles["moving"] = device.zeros((32, 9), BF16).indirect(device.zeros((32, 1), "uint8"), 33)
    tiles["dst"] = device.empty((32, 33), BF16, "psum")
    device.refuses(ShapeError, "nc_matmul", words=["moving", "33", "32 partitions"], **tiles)


def placed(device, shape, start, byte, dtype=BF16, buffer="sbuf"):
    return device.zeros(shape, dtype, buffer, address=(start, byte))


@pytest.mark.parametrize("name", ["stationary", "moving"])
def test_an_operand_starts_at_the_partition_of_its_index(name):
    device = Device("trn3")
    for start in (32, 64):
        tiles = operands(device)
        data = placed(device, (32, 32), 32, 0)
        tiles[name] = data.indirect(placed(device, (32, 1), start, 4096, "uint16"))
        if start == 32:
            device.issue("nc_matmul", **tiles)
        else:
            device.refuses(StartPartitionError, "nc_matmul", words=[name, "32", "64"], **tiles)


def test_the_index_of_dst_starts_at_the_partition_of_stationary():
    device = Device("trn3")
    for start in (32, 64):
        tiles = operands(device)
        tiles["stationary"] = placed(device, (32, 32), 32, 0)
        index = placed(device, (32, 1), start, 4096, "uint16")
        tiles["dst"] = placed(device, (32, 32), 0, 0, buffer="psum").indirect(index)
        if start == 32:
            device.issue("nc_matmul", **tiles)
        else:
            device.refuses(
                StartPartitionError, "nc_matmul", words=["dst", "stationary", "64"], **tiles
            )


def test_weights_that_an_index_selects_are_loaded_each_time():
    device = Device("trn3")
    tiles = operands(device)
    tiles["moving"] = device.zeros((32, 1), BF16)
    tiles["dst"] = device.empty((32, 1), BF16, "psum")
    index = device.zeros((32, 1), "uint16")
    for _ in range(2):
        device.issue("nc_matmul", **{**tiles, "stationary": tiles["stationary"].indirect(index)})
    busy = device.timeline().busy
    assert busy[0] == busy[1]


def test_later_products_use_scattered_data():
    device = Device("trn3")
    ones, weights = device.tile(np.ones((32, 4)), "bfloat16"), device.tile(np.eye(32), "bfloat16")
    index = device.tile(np.zeros((32, 1)), "uint32")
    first, second = (device.empty((32, 4), buffer="psum") for _ in range(2))
    device.issue("nc_matmul", first, weights, ones)
    device.issue(
        "tensor_copy", ones.indirect(index, 1), device.tile(np.full((32, 1), 3), "bfloat16")
    )
    device.issue("nc_matmul", second, weights, ones)
    assert first.numpy().tolist() == [[1, 1, 1, 1]] * 32
    assert second.numpy().tolist() == [[3, 1, 1, 1]] * 32
