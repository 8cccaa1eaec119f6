"""The semaphores of DMA queues in programs of the older API's compiler: stores in flight, and
waits for stores at the end of a program."""

from dataclasses import replace

import numpy as np
import pytest
from device import Device

from neuroncore.time.path import steps
from neuroncore.time.policy import POLICIES
from neuroncore.time.schedule import schedule

SHAPE = (128, 512)
MOST = POLICIES["compiled"].stores_in_flight


def stores(device, count, shape=(128, 1)):
    """Stores of tiles that exist from the beginning."""
    for _ in range(count):
        device.issue("dma_copy", device.empty(shape, buffer="hbm"), device.empty(shape))


def timed(device, order="compiled", wait_ns=0.0):
    machine = device.core.machine
    machine = replace(machine, dma=replace(machine.dma, store_wait_ns=wait_ns))
    return schedule(device.core.program, machine, order)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_the_older_compiler_has_at_most_16_stores_in_flight(target):
    device = Device(target)
    stores(device, MOST + 4, SHAPE)
    timeline = timed(device)
    begin, end = np.sort([timeline.begin, timeline.end])
    assert begin[MOST:] == pytest.approx(end[:4])
    assert steps(timeline).ns.sum() == pytest.approx(timeline.total_ns)
    assert [order for order in POLICIES if POLICIES[order].stores_in_flight] == ["compiled"]


def test_loads_are_not_counted():
    device = Device()
    for _ in range(MOST):
        device.issue("dma_copy", device.empty(SHAPE), device.empty(SHAPE, buffer="hbm"))
    stores(device, MOST)
    timeline = timed(device)
    assert timeline.begin.max() < timeline.end.min()


@pytest.mark.parametrize("count", [1, 2, 12])
def test_a_program_ends_when_it_has_waited_for_each_store(count):
    device = Device()
    stores(device, count)
    usual, slow = (timed(device, wait_ns=ns) for ns in (0.0, 5000.0))
    issued = usual.begin[-1] + usual.busy[-1]
    assert slow.total_ns == pytest.approx(issued + count * 5000)
    assert (slow.end[:-1] == usual.end[:-1]).all()
    assert steps(slow).ns.sum() == pytest.approx(slow.total_ns)


def test_a_wait_for_a_store_that_is_not_complete_takes_no_longer():
    device = Device()
    stores(device, 1, (128, 8192))
    assert timed(device, wait_ns=70.0).total_ns == timed(device).total_ns


def read_again(device, tile, stored):
    device.issue("dma_copy", device.empty(SHAPE), stored)


def overwritten(device, tile, stored):
    device.issue("memset", tile, 0.0)


@pytest.mark.parametrize("use", [read_again, overwritten])
def test_a_store_for_which_an_instruction_waits_is_not_waited_for_at_the_end(use):
    device = Device()
    tile, stored = device.empty(SHAPE), device.empty(SHAPE, buffer="hbm")
    device.issue("dma_copy", stored, tile)
    use(device, tile, stored)
    assert timed(device, wait_ns=1e6).total_ns == timed(device).total_ns


@pytest.mark.parametrize("order", [order for order in POLICIES if order != "compiled"])
def test_programs_of_todays_compiler_have_no_such_waits(order):
    device = Device()
    stores(device, 4)
    assert timed(device, order, 1e6).total_ns == timed(device, order).total_ns


def test_programs_whose_descriptors_the_device_writes_have_no_such_waits():
    device = Device()
    stores(device, 4)
    device.core.program.dge = True
    assert timed(device, wait_ns=1e6).total_ns == timed(device).total_ns
