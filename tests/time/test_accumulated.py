"""Products that are added to a tile in PSUM accumulate there in programs of the older API's
compiler."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import Device

from neuroncore.time.compiled import ACCUMULATED, compiled
from neuroncore.time.policy import POLICIES
from neuroncore.time.schedule import schedule

SHAPE = (128, 512)


def add(device, total, product):
    """Issue total += product. One operand is copied, because an addition cannot read PSUM twice."""
    copy = device.empty(SHAPE)
    device.issue("tensor_copy", copy, total)
    device.issue("tensor_tensor", total, copy, product, nl.add)


def multiply(device):
    product = device.empty(SHAPE, buffer="psum")
    moving, stationary = device.zeros(SHAPE, "bfloat16"), device.zeros((128, 128), "bfloat16")
    device.issue("nc_matmul", product, stationary, moving)
    return product


def left_out(device, order="compiled"):
    """Return the names of instructions that products replace, and of all others."""
    form = compiled(device.core.program, device.core.machine, order)
    names = [form.program.calls[c].name for c in form.program.columns().call]
    gone = form.fate == ACCUMULATED
    assert all(names[i] == "nc_matmul" for i in form.instead[gone])
    return [n for n, g in zip(names, gone, strict=True) if g], [
        n for n, g in zip(names, gone, strict=True) if not g
    ]


def summed(device, count=3, value=0.0, adds=add, makes=multiply):
    total = device.empty(SHAPE, buffer="psum")
    device.issue("memset", total, value)
    for _ in range(count):
        adds(device, total, makes(device))
    return total


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_products_accumulate_if_only_an_addition_reads_them(target):
    device = Device(target)
    device.issue("tensor_copy", device.empty(SHAPE), summed(device))
    gone, kept = left_out(device)
    assert gone == ["memset", *["tensor_copy", "tensor_tensor"] * 3]
    assert kept == [*["nc_matmul"] * 3, "tensor_copy"]


def copied_product(device, total, product):
    copy = device.empty(SHAPE)
    device.issue("tensor_copy", copy, product)
    device.issue("tensor_tensor", total, total, copy, nl.add)


def test_either_operand_may_be_the_copy():
    device = Device()
    summed(device, adds=copied_product)
    assert left_out(device)[1] == ["nc_matmul"] * 3


def read_again(device, total, product):
    add(device, total, product)
    device.issue("tensor_reduce", device.empty((128, 1)), nl.maximum, product, 1)


def read_with_other_bytes(device, total, product):
    add(device, total, product)
    device.issue("memset", product[:, :1], 0.0)
    device.issue("tensor_reduce", device.empty((128, 1)), nl.maximum, product, 1)


def subtracted(device, total, product):
    copy = device.empty(SHAPE)
    device.issue("tensor_copy", copy, total)
    device.issue("tensor_tensor", total, copy, product, nl.subtract)


def elsewhere(device, total, product):
    copy = device.empty(SHAPE)
    device.issue("tensor_copy", copy, total)
    device.issue("tensor_tensor", device.empty(SHAPE, buffer="psum"), copy, product, nl.add)


def in_part(device, total, product):
    copy = device.empty((128, 256))
    device.issue("tensor_copy", copy, total[:, :256])
    device.issue("tensor_tensor", total[:, :256], copy, product[:, :256], nl.add)


def in_sbuf(device):
    tile = device.empty(SHAPE)
    device.issue("tensor_copy", tile, multiply(device), engine=nisa.engine.vector)
    return tile


@pytest.mark.parametrize(
    "how",
    [
        {"adds": read_again},
        {"adds": read_with_other_bytes},
        {"adds": subtracted},
        {"adds": elsewhere},
        {"adds": in_part},
        {"makes": in_sbuf},  # by an engine that the kernel names
        {"value": 1.0},
    ],
)
def test_other_additions_are_kept(how):
    device = Device()
    summed(device, **how)
    assert left_out(device)[0] == []


@pytest.mark.parametrize("order", [order for order in POLICIES if order != "compiled"])
def test_the_current_compiler_keeps_additions(order):
    device = Device()
    summed(device)
    assert left_out(device, order)[0] == []


def test_the_sum_is_complete_when_the_last_product_is():
    device = Device()
    device.issue("tensor_copy", device.empty(SHAPE), summed(device), engine=nisa.engine.vector)
    timeline = schedule(device.core.program, device.core.machine, "compiled")
    products = np.flatnonzero(timeline.queue == 0)
    waits = 3 * device.core.machine.fixed.semaphore_ns  # the chain of additions takes no time
    assert timeline.begin[-1] <= timeline.end[products].max() + waits
