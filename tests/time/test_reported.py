"""Loads that wait for their turn: `Options.loads`, rules that only one source reports."""

from dataclasses import replace

import nki.language as nl
import pytest
from device import Device

from neuroncore.machine.world import World
from neuroncore.report.summary import counted
from neuroncore.time.prepare import prepared
from neuroncore.time.schedule import schedule
from neuroncore.time.variation import AS_IT_IS, Bench

SHAPE = (128, 256)


def streamed(use, loads="ahead", resident=0):
    """Four tiles that are loaded at one line and used, next to one of so many bytes of a partition
    that is loaded before them and used after them."""
    device = Device()
    kept = device.empty((128, max(1, resident // 4)))
    source = device.zeros(SHAPE, buffer="hbm")
    device.issue("dma_copy", kept, device.zeros(kept.shape, buffer="hbm"))
    for _ in range(4):
        tile = device.empty(SHAPE)
        device.issue("dma_copy", tile, source)
        use(device, tile)
    device.issue("tensor_reduce", device.empty((128, 1)), nl.maximum, kept, 1)
    device.core.program.loads = loads
    return schedule(device.core.program, device.core.machine)


def multiplied(device, tile):
    device.issue("nc_matmul", device.empty(SHAPE, buffer="psum"), device.zeros((128, 128)), tile)


def reduced(device, tile):
    device.issue("tensor_reduce", device.empty((128, 1)), nl.maximum, tile, 1)


@pytest.mark.parametrize(
    ("use", "loads", "resident", "waits"),
    [
        (multiplied, "ahead", 96 << 10, False),
        (multiplied, "single", 0, True),
        (reduced, "single", 0, False),
        (reduced, "limited", 90 << 10, True),
        (reduced, "limited", 80 << 10, False),
    ],
)
def test_loads_wait_for_their_turn(use, loads, resident, waits):
    timeline = streamed(use, loads, resident)
    assert len(timeline.compiled.held) == (3 if waits else 0)
    for load, before in timeline.compiled.held.tolist():
        assert timeline.begin[load] >= timeline.end[before]


@pytest.mark.parametrize("loads", ["ahead", "once"])
@pytest.mark.parametrize("order", ["scheduled", "standalone"])
def test_the_same_bytes_are_loaded_once_on_request(order, loads):
    device = Device()
    source, other = (device.zeros(SHAPE, buffer="hbm") for _ in range(2))
    for hbm in (source, other, source):
        tile = device.empty(SHAPE)
        device.issue("dma_copy", tile, hbm)
        reduced(device, tile)
    device.core.program.loads = loads
    timeline = schedule(device.core.program, device.core.machine, order)
    moved = timeline.transfer_ns[timeline.lane[:, 0] >= 0]
    assert len(moved) == (2 if loads == "once" else 3)
    read = counted(timeline).bytes["hbm_read_bytes"]
    assert read == len(moved) * 128 * 256 * 4
    other = replace(device.core.machine, hbm=replace(device.core.machine.hbm, capacity_bytes=1))
    bench = Bench([device.core.program], device.core.machine, order, World(1, 1))
    again = bench.timelines([device.core.program], other, [AS_IT_IS])[0]
    assert again.total_ns == timeline.total_ns


def test_loads_that_wait_take_no_other_compilation_of_the_timeline():
    kinds = []
    for loads in ("ahead", "single"):
        timeline = streamed(multiplied, loads)
        work = prepared(timeline.compiled, timeline.machine).work
        kinds.append({name: column.dtype for name, column in work._asdict().items()})
    assert kinds[0] == kinds[1]
