"""nc_matmul: what becomes of the sum in PSUM."""

import numpy as np
import pytest
from chains import normal
from device import TARGETS, Device, bits

from neuroncore.base.errors import PsumBankError

OLDER = ("trn1", "trn2")


def ones(device, k=1, m=1, n=1, value=1.0):
    """Operands whose product is `value` times k everywhere."""
    s = np.ones((k, m), np.float32)
    return device.tile(s), device.tile(np.full((k, n), value, np.float32))


def add(device, dst, value, accumulate=None):
    """dst (+)= value"""
    s, x = ones(device, 1, dst.shape[0], dst.free_size, value)
    device.issue("nc_matmul", dst, s, x, accumulate=accumulate)


def test_strides_count_towards_the_bank():
    device = Device()
    dst = device.empty((3, 1024), buffer="psum")
    s, x = ones(device, 4, 3, 65)
    device.issue("nc_matmul", dst[:, 7:512:8], s, x[:, :64])
    assert (dst.numpy()[:, 7:512:8] == 4).all()
    device.refuses(PsumBankError, "nc_matmul", dst[:, 7:520:8], s, x, words=["dst", "28 to 2080"])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("first", [None, False])
def test_the_first_write_overwrites_and_later_ones_add(target, first):
    device = Device(target)
    dst = device.empty((5, 7), buffer="psum")
    add(device, dst, 1.0, first)
    add(device, dst, 10.0)
    add(device, dst, 100.0, True)
    assert (dst.numpy() == 111).all()
    add(device, dst, 3.0, False)
    assert (dst.numpy() == 3).all()
    assert device.findings == []


def test_two_roundings_the_sum_of_a_tile_then_the_sum_in_memory():
    """2^24 + (1 + 1 + 1): one long chain would lose every one of them."""
    device = Device()
    dst = device.empty((1, 1), buffer="psum")
    add(device, dst, 2.0**24)
    device.issue("nc_matmul", dst, *ones(device, k=3))
    assert dst.numpy() == 2.0**24 + 4


@pytest.mark.parametrize("target", OLDER)
def test_overlapping_regions_start_where_nothing_was_written(target):
    device = Device(target)
    dst = device.empty((4, 12), buffer="psum")
    add(device, dst[:, 0:8], 1.0)
    add(device, dst[:, 4:12], 10.0)
    assert np.array_equal(dst.numpy()[0], [1] * 4 + [11] * 4 + [10] * 4)
    add(device, dst[:, ::3], 100.0)
    assert np.array_equal(dst.numpy()[0, ::3], [101, 101, 111, 110])
    assert device.findings == []


def test_a_row_of_outputs_starts_by_itself():
    device = Device()
    dst = device.empty((64, 6), buffer="psum")
    add(device, dst[32:64], 1.0)
    add(device, dst, 10.0)
    assert (dst.numpy()[:32] == 10).all()
    assert (dst.numpy()[32:] == 11).all()


def test_another_tensor_at_the_same_address_starts_afresh():
    device = Device()
    first = device.empty((4, 8), buffer="psum", address=(0, 2048))
    add(device, first, 1.0)
    second = device.empty((4, 8), buffer="psum", address=(0, 2048))
    add(device, second, 10.0)
    assert (second.numpy() == 10).all()
    assert (first.numpy() == 10).all()  # the same bytes
    add(device, second, 100.0)
    assert (first.numpy() == 110).all()
    assert device.findings == []


@pytest.mark.parametrize("written", [0, 3])
def test_adding_to_what_nothing_wrote_is_found(written):
    device = Device()
    dst = device.empty((2, 5), buffer="psum")
    if written:
        add(device, dst[:, :written], 1.0)
    add(device, dst, 1.0, accumulate=True)
    assert device.findings == ["UNINIT_READ"]
    assert (dst.numpy()[:, :written] == 2).all()
    assert np.isnan(dst.numpy()[:, written:]).all()


def test_overwriting_what_nothing_wrote_is_not():
    device = Device(uninitialised="raise")
    dst = device.empty((2, 5), buffer="psum")
    add(device, dst, 1.0, accumulate=False)
    add(device, dst, 1.0, accumulate=True)
    assert (dst.numpy() == 2).all()


@pytest.mark.parametrize("accumulate", [None, True])
@pytest.mark.parametrize("target", TARGETS)
def test_adding_to_what_another_engine_wrote(target, accumulate):
    """Undefined before v4; the sum is what the arithmetic says all the same."""
    device = Device(target)
    dst = device.empty((3, 4), buffer="psum")
    device.issue("memset", dst, 5.0)
    add(device, dst, 1.0, accumulate)
    assert (dst.numpy() == 6).all()
    assert device.findings == (["PSUM_FOREIGN"] if target in OLDER else [])


@pytest.mark.parametrize("target", OLDER)
def test_a_sum_that_begins_with_a_matmul_is_its_own_whatever_was_there(target):
    device = Device(target)
    dst = device.empty((3, 4), buffer="psum")
    device.issue("memset", dst, 5.0)
    add(device, dst, 1.0, accumulate=False)
    add(device, dst, 1.0, accumulate=True)
    assert (dst.numpy() == 2).all()
    assert device.findings == []


@pytest.mark.parametrize("target", OLDER)
def test_only_the_elements_that_another_engine_wrote_are_foreign(target):
    device = Device(target)
    dst = device.empty((3, 8), buffer="psum")
    device.issue("memset", dst[:, :4], 5.0)
    for _ in range(2):
        add(device, dst[:, 4:], 1.0)
    assert device.findings == []
    add(device, dst[:, 3:5], 1.0)
    assert device.findings == ["PSUM_FOREIGN"]
    assert np.array_equal(dst.numpy()[0], [5, 5, 5, 6, 3, 2, 2, 2])


def test_a_loop_is_told_once_of_each_tensor_that_is_foreign():
    device = Device("trn2")
    tensors = [device.empty((3, 4), buffer="psum") for _ in range(2)]
    for dst in tensors * 2:
        device.issue("memset", dst, 5.0)
        add(device, dst, 1.0)
    assert device.findings == ["PSUM_FOREIGN"] * 2
    add(device, tensors[0], 1.0)
    assert device.findings == ["PSUM_FOREIGN"] * 2, "add has the line of all of them"


def test_bfloat16_sums_round_every_time():
    """256 + 1 four times: the nearest bfloat16 to 257 is 256 again; float32 keeps them all."""
    sums = {}
    for dtype in ("bfloat16", "float32"):
        device = Device("trn3")
        dst = device.empty((2, 3), dtype, "psum")
        for value in (256.0, 1.0, 1.0, 1.0, 1.0):
            add(device, dst, value)
        sums[dtype] = dst.numpy().astype(np.float32)
    assert (sums["bfloat16"] == 256).all()
    assert (sums["float32"] == 260).all()


def test_bfloat16_results_are_the_float32_sum_rounded_to_even():
    device = Device("trn3")
    s, x = device.tile(normal((40, 9))), device.tile(normal((40, 33)))
    device.issue("nc_matmul", device.empty((9, 33), "bfloat16", "psum"), s, x)
    device.agrees()


def test_bfloat16_overlaps_start_per_element_too():
    device = Device("trn3")
    dst = device.empty((1, 6), "bfloat16", "psum")
    add(device, dst[:, :4], 1.0)
    add(device, dst[:, 2:], 2.0)
    assert np.array_equal(dst.numpy().astype(np.float32)[0], [1, 1, 3, 3, 2, 2])


# --- transpose mode -------------------------------------------------------------------------------


def special(dtype):
    """NaN with a payload and a sign, infinities, zeros and subnormals of a format, [4, 3]."""
    nan = {2: 0x7FA5 if dtype == "bfloat16" else 0x7E15, 4: 0x7FA12345}[np.dtype(dtype).itemsize]
    sign = 1 << 8 * np.dtype(dtype).itemsize - 1
    infinity = int(bits(np.array([np.inf]).astype(dtype))[0])
    codes = [nan, nan | sign, infinity, infinity | sign, 0, sign, 1, 1 | sign, 2, 3, 4, 5]
    return np.array(codes, bits(np.empty(0, dtype)).dtype).view(dtype).reshape(4, 3)


@pytest.mark.parametrize("target", ["trn2", "trn3"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_transpose_mode_passes_every_bit(target, dtype):
    device = Device(target)
    data, identity = special(dtype), np.eye(4).astype(dtype)
    dst = device.empty((3, 4), dtype, "psum")
    device.issue("nc_matmul", dst, device.tile(data), device.tile(identity), is_transpose=True)
    assert np.array_equal(bits(dst.numpy()), bits(data).T)


@pytest.mark.parametrize("wide", ["bfloat16", "float16"])
@pytest.mark.parametrize("dtype", ["float8_e4m3", "float8_e5m2"])
def test_transpose_mode_puts_8_bits_into_16(dtype, wide):
    """Every code, in the lower half of a word whose upper half is zero."""
    device = Device()
    codes = np.arange(256, dtype=np.uint8).reshape(4, 64)
    data, identity = codes.view(dtype), np.eye(4).astype(dtype)
    dst = device.empty((64, 4), wide, "psum")
    device.issue("nc_matmul", dst, device.tile(data), device.tile(identity), is_transpose=True)
    assert np.array_equal(bits(dst.numpy()), codes.T.astype(np.uint16))


def test_transpose_mode_follows_a_permutation():
    device = Device()
    data = np.arange(15, dtype=np.float32).reshape(5, 3)
    order = [3, 0, 4, 1]
    moving = np.eye(5, dtype=np.float32)[:, order]
    dst = device.empty((3, 4), buffer="psum")
    device.issue("nc_matmul", dst, device.tile(data), device.tile(moving), is_transpose=True)
    assert np.array_equal(dst.numpy(), data[order].T)


def test_on_v2_transpose_mode_is_a_product_like_any_other():
    device = Device("trn1")
    data = np.array([[1, np.nan, 3], [np.inf, 5, -0.0]], np.float32)
    dst = device.empty((3, 2), buffer="psum")
    identity = device.tile(np.eye(2, dtype=np.float32))
    device.issue("nc_matmul", dst, device.tile(data), identity, is_transpose=True)
    nan = np.nan
    assert np.array_equal(dst.numpy(), [[nan, np.inf], [nan, nan], [3, 0]], equal_nan=True)
    assert not np.signbit(dst.numpy()[2, 1])
