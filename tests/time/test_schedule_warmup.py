"""The PE array has half of its clock in a window unless enough rows moved in the previous
window."""

from dataclasses import replace

import nki.isa as nisa
import numpy as np
import pytest
from device import Device
from every import for_all

from neuroncore.capture import estimate
from neuroncore.report import clock
from neuroncore.time.policy import POLICIES
from neuroncore.time.schedule import schedule

WINDOW = 4096 / 1.2  # ns
FULL = (512 + 7) / 2.4  # for a product of 512 columns


def multiply(device, count, k=128, moving=None, dtype="bfloat16"):
    """Issue this many products of 512 columns with one stationary tile of k rows."""
    moving = device.zeros((128, 512), dtype) if moving is None else moving
    dst, stationary = device.empty((128, 512), buffer="psum"), device.zeros((128, 128), dtype)
    for _ in range(count):
        device.issue("nc_matmul", dst, stationary[0:k, :], moving[0:k, 0:512])


def timed(device, phase=0.74, order="in-order"):
    it = device.core.machine
    it = replace(it, fixed=replace(it.fixed, clock_phase=phase))
    return schedule(device.core.program, it, order)


@for_all("order", POLICIES)
@for_all("target", ["trn2", "trn3"])
@for_all("phase, slow", [(0.0, 1.0), (0.2, 0.8), (0.3, 1.7), (0.75, 1.25)])
def test_steady_work_is_slow_until_enough_rows_moved_in_a_window(order, target, phase, slow):
    """The rest of the first window is long enough for 3,072 rows at half clock if the phase is at
    most 1/4; otherwise one more window is slow."""
    device = Device(target)
    multiply(device, 30)
    busy = timed(device, phase, order).busy
    cold = int(slow * WINDOW / (2 * FULL))
    assert busy[:cold] == pytest.approx(2 * FULL)
    assert FULL < busy[cold] < 2 * FULL
    assert busy[cold + 1 :] == pytest.approx(FULL)
    assert busy.sum() == pytest.approx(30 * FULL + slow * WINDOW / 2, abs=0.1)


def test_the_phase_in_use_is_as_slow_as_the_mean_over_all():
    device = Device()
    multiply(device, 60)
    each = [timed(device, (n + 0.5) / 64).busy.sum() for n in range(64)]
    assert device.timeline().busy.sum() == pytest.approx(np.mean(each), rel=0.003)


def test_a_launch_uses_the_given_phase_and_a_report_has_the_range_over_all():
    device = Device()
    multiply(device, 9)
    stated = clock.clock_phase(device.timeline())
    device.core.program.clock_phase = 0.5
    given = clock.clock_phase(device.timeline())
    assert device.timeline().busy.tolist() == timed(device, 0.5, "scheduled").busy.tolist()
    assert (stated.phase, stated.assumed, given.phase, given.assumed) == (0.74, True, 0.5, False)
    assert given.over_all[0] <= device.timeline().total_ns <= given.over_all[1] < 9 * 2.1 * FULL
    assert given.over_all[0] < given.over_all[1]
    assert given.to_dict()["clock_phase"] == 0.5 and "(--clock-phase 0.5)" in str(given)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_no_phase_is_stated_without_windows_or_products(target):
    device = Device(target)
    if target == "trn1":
        multiply(device, 2)
    assert clock.clock_phase(device.timeline()) is None


def test_trn1_has_its_full_clock_always():
    device = Device("trn1")
    multiply(device, 30)
    unit = device.core.machine.engines["tensor"]
    full = (unit.overhead_cycles + 512) / unit.clock_ghz
    assert device.timeline().busy[1:] == pytest.approx(full)


@pytest.mark.parametrize(("columns", "warm"), [(512, True), (16384, False)])
def test_the_array_is_slow_again_after_a_window_of_little_work(columns, warm):
    """The operand is written between two products, which takes longer for more columns."""
    device = Device()
    moving, new = device.zeros((128, 16384), "bfloat16"), device.zeros((128, 16384))
    multiply(device, 30, moving=moving)
    copied = moving[:, 0:columns], new[:, 0:columns]
    device.issue("tensor_copy", *copied, engine=nisa.engine.vector)
    multiply(device, 1, moving=moving)
    timeline = device.timeline()
    gap = timeline.begin[31] - timeline.begin[29] - timeline.busy[29]
    assert bool(gap < WINDOW) is warm
    assert timeline.busy[31] == pytest.approx(FULL if warm else 2 * FULL)


@pytest.mark.parametrize(("count", "warm"), [(40, True), (8, False)])
def test_few_rows_in_a_window_slow_the_next_one(count, warm):
    """Groups of products of 128 columns wait for a copy each. 40 products take most of the time; 8
    take 450 ns of about 1,300."""
    device = Device()
    multiply(device, 60)
    moving, dst = device.zeros((128, 128), "bfloat16"), device.empty((128, 128), buffer="psum")
    for _ in range(20):
        for _ in range(count):
            device.issue("nc_matmul", dst, moving, moving)
        device.issue("tensor_copy", moving, dst, engine=nisa.engine.vector)
        device.issue("tensor_copy", moving, moving, engine=nisa.engine.scalar)
    timeline = device.timeline()
    last = timeline.busy[timeline.queue == 0][-count:]
    full = (128 + 7) / 2.4
    assert last == pytest.approx(full if warm else 2 * full)


@pytest.mark.parametrize("k", [1, 32, 64])
def test_half_of_the_rows_do_not_speed_up_the_array(k):
    device = Device()
    multiply(device, 30, k)
    assert device.timeline().busy == pytest.approx(2 * FULL)


@pytest.mark.parametrize("k", [65, 96, 128])
def test_more_than_half_of_the_rows_count_as_all_rows(k):
    device = Device()
    multiply(device, 30, k)
    assert device.timeline().busy[-10:] == pytest.approx(FULL)


def test_half_of_the_rows_keep_the_clock_for_a_while():
    """They count in products that begin soon enough after the last product with all rows."""
    device = Device()
    multiply(device, 30)
    multiply(device, 120, k=64)
    assert device.timeline().busy[30:] == pytest.approx(FULL)
    it = device.core.machine
    it = replace(it, fixed=replace(it.fixed, half_filled_ns=40 * FULL))
    timeline = schedule(device.core.program, it)
    slow = np.flatnonzero(timeline.busy[30:] > 1.99 * FULL)[0]
    counted = timeline.begin[29] + 41 * FULL  # the end of the time in which they count
    assert counted < timeline.begin[30 + slow] < counted + 2 * WINDOW
    assert timeline.busy[30 + slow :] == pytest.approx(2 * FULL)


def test_float32_counts_its_passes():
    """Each product has four passes of 128 columns: 512 rows, like 512 columns of bfloat16."""
    device = Device()
    dst, tile = device.empty((128, 128), buffer="psum"), device.zeros((128, 128))
    for _ in range(30):
        device.issue("nc_matmul", dst, tile, tile)
    full = (4 * 128 + 2 * 7) / 2.4
    busy = device.timeline().busy
    assert busy.sum() == pytest.approx(30 * full + 1.26 * WINDOW / 2, abs=0.1)


def test_the_estimate_of_a_compiled_program_has_the_same_windows():
    """Half of the rows of a window move at once: the next window has the full clock, and the one
    after it does not."""
    machine = Device().core.machine
    clock = estimate.Clock(machine, phase_ns=100.0)
    clock.move(100.0, 100.0 + WINDOW / 2, 4096)
    slow = [clock.slow(100.0 + (n + 0.5) * WINDOW) for n in range(3)]
    assert slow == [2.0, 1.0, 2.0]
