"""The PE array is slow until it has worked for a while, and again after a while of little work."""

from dataclasses import replace

import nki.isa as nisa
import pytest
from device import Device

from neuroncore.time.policy import POLICIES
from neuroncore.time.schedule import schedule


def multiply(device, count, k=128, moving=None):
    """So many products of 512 columns with one stationary tile of k rows."""
    moving = device.zeros((128, 512), "bfloat16") if moving is None else moving
    dst, stationary = device.empty((128, 512), buffer="psum"), device.zeros((128, 128), "bfloat16")
    for _ in range(count):
        device.issue("nc_matmul", dst, stationary[0:k, :], moving[0:k, 0:512])


def full_clock(device):
    unit = device.core.machine.engines["tensor"]
    return (unit.overhead_cycles + 512) / unit.clock_ghz


@pytest.mark.parametrize("order", POLICIES)
@pytest.mark.parametrize("target", ["trn2", "trn3"])
@pytest.mark.parametrize("k", [65, 96, 128])
def test_the_array_is_slow_for_its_first_work_and_then_warm(order, target, k):
    device = Device(target)
    multiply(device, 30, k)
    timeline, fixed = (
        schedule(device.core.program, device.core.machine, order),
        device.core.machine.fixed,
    )
    cold = full_clock(device) / fixed.cold_clock_share
    slow = int(fixed.warmup_ns // cold)
    assert timeline.busy[:slow] == pytest.approx(cold)
    assert full_clock(device) < timeline.busy[slow] < cold
    assert timeline.busy[slow + 1 :] == pytest.approx(full_clock(device))
    assert timeline.busy.sum() == pytest.approx(
        30 * full_clock(device) + fixed.warmup_ns * (1 - fixed.cold_clock_share)
    )


def test_trn1_needs_no_warming_up():
    device = Device("trn1")
    multiply(device, 30)
    assert device.timeline().busy[1:] == pytest.approx(full_clock(device))


@pytest.mark.parametrize(("columns", "warm"), [(512, True), (16384, False)])
def test_the_array_is_cold_again_after_a_while_of_little_work(columns, warm):
    """Between two products their operand is written, which takes longer for more columns."""
    device = Device()
    moving, new = device.zeros((128, 16384), "bfloat16"), device.zeros((128, 16384))
    multiply(device, 30, moving=moving)
    copied = moving[:, 0:columns], new[:, 0:columns]
    device.issue("tensor_copy", *copied, engine=nisa.engine.vector)
    multiply(device, 1, moving=moving)
    timeline, fixed = device.timeline(), device.core.machine.fixed
    gap = timeline.begin[31] - timeline.begin[29] - timeline.busy[29]
    assert bool(gap < fixed.warmup_ns / 2) is warm
    expected = full_clock(device) / (1 if warm else fixed.cold_clock_share)
    assert timeline.busy[31] == pytest.approx(expected)


@pytest.mark.parametrize("k", [1, 32, 64])
def test_half_of_the_rows_never_warm_the_array(k):
    device = Device()
    multiply(device, 30, k)
    expected = full_clock(device) / device.core.machine.fixed.cold_clock_share
    assert device.timeline().busy == pytest.approx(expected)


def test_half_of_the_rows_keep_the_array_warm_until_what_it_had_is_used_up():
    device = Device()
    multiply(device, 30)
    multiply(device, 60, k=64)
    it, full = device.core.machine, full_clock(device)
    share = it.fixed.warmup_ns / (20 * full)  # of which 20 products use up a warm-up
    fixed = replace(it.fixed, cooling_share=share, cooling_ns=20.5 * full)
    busy = schedule(device.core.program, replace(it, fixed=fixed)).busy[30:]
    assert busy[:21] == pytest.approx(full)
    assert busy[21:] == pytest.approx(full / it.fixed.cold_clock_share)


@pytest.mark.parametrize(("between", "warm"), [(2, True), (30, False)])
def test_work_on_most_rows_in_between_warms_the_array_if_there_is_enough_of_it(between, warm):
    device = Device()
    for _ in range(20):
        multiply(device, 2)
        multiply(device, between, k=64)
    it, full = device.core.machine, full_clock(device)
    it = replace(it, fixed=replace(it.fixed, cooling_share=0.1, cooling_ns=1000 * full))
    last = schedule(device.core.program, it).busy[-between:]
    assert last == pytest.approx(full if warm else full / it.fixed.cold_clock_share)
