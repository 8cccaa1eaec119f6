"""Loads that wait for their turn: `Options.loads`, rules that only one source reports."""

import nki.language as nl
import pytest
from device import Device

from neuroncore.time.prepare import prepared
from neuroncore.time.schedule import schedule

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


def test_loads_that_wait_take_no_other_compilation_of_the_timeline():
    kinds = []
    for loads in ("ahead", "single"):
        timeline = streamed(multiplied, loads)
        work = prepared(timeline.compiled, timeline.machine).work
        kinds.append({name: column.dtype for name, column in work._asdict().items()})
    assert kinds[0] == kinds[1]
