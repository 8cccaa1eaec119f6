"""nc_matmul: sums in PSUM."""

import numpy as np
import pytest
from device import TARGETS, Device
from every import for_all
from published_machines import since

from neuroncore.base.errors import PsumBankError

OLDER = ("trn1", "trn2")


def ones(device, k=1, m=1, n=1, value=1.0):
    """Return operands whose product is `value` times k everywhere."""
    s = np.ones((k, m), np.float32)
    return device.tile(s), device.tile(np.full((k, n), value, np.float32))


def add(device, dst, value, accumulate=None):
    """Add `value` times k to dst, or set it."""
    s, x = ones(device, 1, dst.shape[0], dst.free_size, value)
    device.issue("nc_matmul", dst, s, x, accumulate=accumulate)


def test_strides_count_towards_the_bank():
    device = Device()
    dst = device.empty((3, 1024), buffer="psum")
    s, x = ones(device, 4, 3, 65)
    device.issue("nc_matmul", dst[:, 7:512:8], s, x[:, :64])
    assert (dst.numpy()[:, 7:512:8] == 4).all()
    device.refuses(PsumBankError, "nc_matmul", dst[:, 7:520:8], s, x, words=["dst", "28 to 2079"])


@for_all("target", TARGETS)
@for_all("first", [None, False])
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


@pytest.mark.parametrize("target", OLDER)
def test_overlapping_regions_begin_sums_only_in_unwritten_elements(target):
    device = Device(target)
    dst = device.empty((4, 12), buffer="psum")
    add(device, dst[:, 0:8], 1.0)
    add(device, dst[:, 4:12], 10.0)
    assert np.array_equal(dst.numpy()[0], [1] * 4 + [11] * 4 + [10] * 4)
    add(device, dst[:, ::3], 100.0)
    assert np.array_equal(dst.numpy()[0, ::3], [101, 101, 111, 110])
    assert device.findings == []


def test_each_row_of_outputs_begins_its_sum_separately():
    device = Device()
    dst = device.empty((64, 6), buffer="psum")
    add(device, dst[32:64], 1.0)
    add(device, dst, 10.0)
    assert (dst.numpy()[:32] == 10).all()
    assert (dst.numpy()[32:] == 11).all()


def test_another_tensor_at_the_same_address_begins_new_sums():
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
def test_adding_to_uninitialized_psum_is_reported(written):
    device = Device()
    dst = device.empty((2, 5), buffer="psum")
    if written:
        add(device, dst[:, :written], 1.0)
    add(device, dst, 1.0, accumulate=True)
    assert device.findings == ["UNINIT_READ"]
    assert (dst.numpy()[:, :written] == 2).all()
    assert np.isnan(dst.numpy()[:, written:]).all()


def test_overwriting_uninitialized_psum_is_not_reported():
    device = Device(uninitialized="raise")
    dst = device.empty((2, 5), buffer="psum")
    add(device, dst, 1.0, accumulate=False)
    add(device, dst, 1.0, accumulate=True)
    assert (dst.numpy() == 2).all()


@for_all("accumulate", [None, True])
@for_all("target", TARGETS)
def test_adding_to_data_of_another_engine(target, accumulate):
    """This is undefined before v4; the sum is still computed."""
    device = Device(target)
    dst = device.empty((3, 4), buffer="psum")
    device.issue("memset", dst, 5.0)
    add(device, dst, 1.0, accumulate)
    assert (dst.numpy() == 6).all()
    assert device.findings == ([] if target in since(4) else ["PSUM_FOREIGN"])


@pytest.mark.parametrize("target", OLDER)
def test_a_sum_that_begins_with_a_matmul_does_not_depend_on_earlier_data(target):
    device = Device(target)
    dst = device.empty((3, 4), buffer="psum")
    device.issue("memset", dst, 5.0)
    add(device, dst, 1.0, accumulate=False)
    add(device, dst, 1.0, accumulate=True)
    assert (dst.numpy() == 2).all()
    assert device.findings == []


@pytest.mark.parametrize("target", OLDER)
def test_only_elements_of_another_engine_are_reported(target):
    device = Device(target)
    dst = device.empty((3, 8), buffer="psum")
    device.issue("memset", dst[:, :4], 5.0)
    for _ in range(2):
        add(device, dst[:, 4:], 1.0)
    assert device.findings == []
    add(device, dst[:, 3:5], 1.0)
    assert device.findings == ["PSUM_FOREIGN"]
    assert np.array_equal(dst.numpy()[0], [5, 5, 5, 6, 3, 2, 2, 2])


def test_a_loop_has_one_finding_per_tensor_of_another_engine():
    device = Device("trn2")
    tensors = [device.empty((3, 4), buffer="psum") for _ in range(2)]
    for dst in tensors * 2:
        device.issue("memset", dst, 5.0)
        add(device, dst, 1.0)
    assert device.findings == ["PSUM_FOREIGN"] * 2
    add(device, tensors[0], 1.0)
    assert device.findings == ["PSUM_FOREIGN"] * 2, "add has the line of all of them"


def test_bfloat16_sums_begin_per_element_too():
    device = Device("trn3")
    dst = device.empty((1, 6), "bfloat16", "psum")
    add(device, dst[:, :4], 1.0)
    add(device, dst[:, 2:], 2.0)
    assert np.array_equal(dst.numpy().astype(np.float32)[0], [1, 1, 3, 3, 2, 2])


# --- transpose mode -------------------------------------------------------------------------------


def test_transpose_mode_follows_a_permutation():
    device = Device()
    data = np.arange(15, dtype=np.float32).reshape(5, 3)
    order = [3, 0, 4, 1]
    moving = np.eye(5, dtype=np.float32)[:, order]
    dst = device.empty((3, 4), buffer="psum")
    device.issue("nc_matmul", dst, device.tile(data), device.tile(moving), is_transpose=True)
    assert np.array_equal(dst.numpy(), data[order].T)
