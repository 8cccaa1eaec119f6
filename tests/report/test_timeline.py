"""Figures from a timeline: totals, the critical path, bounds and shares. They depend only on the
record and the machine."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import TARGETS, Device, issue_ns
from every import for_all

from neuroncore import machine
from neuroncore.report.summary import bound_by, summary
from neuroncore.time.path import parts as of_path
from neuroncore.time.path import steps
from neuroncore.time.schedule import schedule
from neuroncore.time.verdict import bound

VECTOR, SCALAR = nisa.engine.vector, nisa.engine.scalar
COLUMNS = ("queue", "begin", "busy", "done", "end", "cause", "transfer_ns", "engines_used")


def copy(device, shape, engine):
    device.issue("tensor_copy", device.empty(shape), device.zeros(shape), engine=engine)


def chain(target="trn2", columns=512):
    """Load, compute and store: each instruction waits for the previous one."""
    device = Device(target)
    a, b = device.empty((128, columns)), device.empty((128, columns))
    device.issue("dma_copy", a, device.zeros((128, columns), buffer="hbm"))
    device.issue("activation", b, nl.exp, a)
    device.issue("dma_copy", device.empty((128, columns), buffer="hbm"), b)
    return device


@pytest.mark.parametrize("target", TARGETS)
def test_a_chain_takes_the_sum_of_its_parts(target):
    timeline = chain(target).timeline()
    it = timeline.machine
    scalar, dma = it.engines["scalar"], it.dma
    bandwidth = min(dma.gigabytes_per_s_per_engine, it.hbm.stack_gigabytes_per_s / dma.engines)
    transfer = issue_ns(it) + dma.transfer_ns + 8 * (2048 / bandwidth + dma.packet_ns)
    set_up = scalar.overhead_cycles + scalar.sbuf_access_cycles + scalar.column_cycles
    compute = (set_up + 512) / scalar.clock_ghz  # the table is loaded before the data are there
    parts = (
        *(transfer, dma.load_latency_ns, it.fixed.semaphore_ns),
        *(compute, scalar.latency_ns, it.fixed.semaphore_ns),
        *(transfer, dma.store_latency_ns),
    )
    assert timeline.total_ns == pytest.approx(sum(parts))
    assert timeline.critical_path.tolist() == [0, 1, 2]
    found = of_path(timeline, steps(timeline))
    waiting = dma.load_latency_ns + it.fixed.semaphore_ns + dma.store_latency_ns
    assert found.transfer_latency == pytest.approx(waiting)
    assert found.latency == pytest.approx(scalar.latency_ns + it.fixed.semaphore_ns)
    assert found.work == {"Scalar": pytest.approx(compute)}
    assert found.issue == pytest.approx(2 * issue_ns(it))
    assert found.moves == pytest.approx(2 * (transfer - issue_ns(it)))


def test_a_short_chain_is_mostly_the_latency_of_its_transfers():
    timeline = chain(columns=64).timeline()
    found = of_path(timeline, steps(timeline))
    assert bound(timeline).what == "serial chain" and next(iter(found.named)) == "DMA latency"


def test_an_engine_that_is_always_busy_is_the_bound():
    device = Device()
    for engine, count in ((VECTOR, 20), (SCALAR, 2)):
        for _ in range(count):
            copy(device, (1, 4096), engine)
    timeline = device.timeline()
    found = bound(timeline)
    assert found.what == "Vector"
    assert 0.4 < found.gain <= timeline.busy[0] * 20 / 2 / timeline.total_ns
    assert bound_by(timeline)["bound_by"] == "Vector"


def test_loads_that_keep_all_dma_engines_busy_are_the_bound():
    device = Device()
    for _ in range(8):
        src = device.zeros((128, 4096), buffer="hbm")
        device.issue("dma_copy", device.empty((128, 4096)), src)
    assert bound(device.timeline()).what == "DMA bandwidth"
    assert device.timeline().busy_share["DMA"] > 0.9


def test_an_eighth_of_the_engines_is_an_eighth_of_the_dma():
    device = Device()
    device.issue("dma_copy", device.empty((16, 8192)), device.zeros((16, 8192), buffer="hbm"))
    timeline = device.timeline()
    share = timeline.transfer_ns[0] * 2 / 16 / timeline.total_ns
    assert timeline.busy_share["DMA"] == pytest.approx(share)


def test_an_empty_program_takes_no_time():
    timeline = Device().timeline()
    assert timeline.total_ns == 0
    assert timeline.critical_path.tolist() == []
    assert bound(timeline).what == "nothing"
    assert set(timeline.busy_share.values()) == {0}
    assert (timeline.peak_sbuf, timeline.peak_psum) == (0, 0)
    assert summary(timeline)["instruction_count"] == 0


def test_the_same_program_has_the_same_timeline_to_the_last_bit():
    one, two = chain(), chain()
    for timeline in (two.timeline(), one.timeline()):
        for name in COLUMNS:
            found, expected = getattr(timeline, name), getattr(one.timeline(), name)
            assert found.tobytes() == expected.tobytes()


@for_all("recorded", TARGETS)
@for_all("target", TARGETS)
def test_a_record_is_timed_for_another_machine_without_running_again(recorded, target):
    timeline, native = chain(recorded).timeline(target), chain(target).timeline()
    assert timeline.machine is native.machine
    for name in COLUMNS:
        assert np.array_equal(getattr(timeline, name), getattr(native, name))


def test_a_schedule_does_not_change_the_record():
    device = chain()
    before = device.timeline()
    for target in TARGETS:
        schedule(device.core.program, machine.load(target))
    assert np.array_equal(device.timeline().begin, before.begin)
    copy(device, (128, 1024), VECTOR)
    after = device.timeline()
    assert len(after.begin) == 4
    assert np.array_equal(after.begin[:3], before.begin)
