"""`Options.loads` and `Options.assume`: rules that only one source reports."""

from array import array
from dataclasses import replace

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import Device

import neuroncore
from neuroncore.base.errors import UsageError
from neuroncore.base.options import ASSUMPTIONS, Options, assumptions
from neuroncore.machine.world import World
from neuroncore.record import checks, saved
from neuroncore.record.program import Record
from neuroncore.report import summary
from neuroncore.report.summary import counted
from neuroncore.time.path import ON_PATH, steps
from neuroncore.time.prepare import prepared
from neuroncore.time.schedule import schedule
from neuroncore.time.variation import AS_IT_IS, Bench

SHAPE = (128, 256)


def streamed(use, loads="ahead", resident=0):
    """Load four tiles at one line and use them, next to a tile of this many bytes per partition
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
def test_loads_wait_in_order_on_request(use, loads, resident, waits):
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


def test_loads_in_order_need_no_separate_compilation_of_the_timeline():
    kinds = []
    for loads in ("ahead", "single"):
        timeline = streamed(multiplied, loads)
        work = prepared(timeline.compiled, timeline.machine).work
        kinds.append({name: column.dtype for name, column in work._asdict().items()})
    assert kinds[0] == kinds[1]


# --- Options.assume -------------------------------------------------------------------------------


@nki.jit
def looped(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for i in nl.dynamic_range(0, 512, 128):
        tile = nl.ndarray((128, 128), a.dtype, buffer=nl.sbuf)
        for _ in nl.dynamic_range(2):
            nisa.dma_copy(dst=tile, src=a[:, nl.ds(i, 128)])
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.dma_copy(dst=out[:, nl.ds(i, 128)], src=tile)
    nisa.dma_copy(dst=out[:, 0:128], src=a[:, 128:256])
    return out


def of_loops(assume, order="scheduled"):
    options = Options(assume=assume, order=order)
    run = neuroncore.run(looped, np.zeros((128, 512), np.float32), options=options)
    return run.timelines[0]


@pytest.mark.parametrize("order", ["in-order", "scheduled", "standalone"])
def test_iterations_of_device_loops_do_not_overlap_on_request(order):
    usual, drained = of_loops("", order), of_loops("loop-drains", order)
    ends = sorted(set(drained.program.data.loop_ends))
    assert ends == [1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 16]
    for end in ends:
        assert drained.begin[end:].min() >= drained.end[:end].max()
    assert drained.total_ns > usual.total_ns
    overlaps = [usual.begin[end:].min() < usual.end[:end].max() for end in ends]
    assert any(overlaps)


def test_waits_for_other_iterations_are_not_reported_as_waits_for_space():
    path = steps(of_loops("loop-drains", "standalone"))
    held = {ON_PATH[reason] for reason in path.held.tolist()}
    assert "order" in held and "space" not in held


def test_waits_for_an_earlier_load_are_not_reported_as_waits_for_space():
    path = steps(streamed(multiplied, "single"))
    held = [ON_PATH[reason] for reason in path.held.tolist()]
    assert held.count("order") == 3 and "space" not in held


def test_iterations_of_a_while_loop_are_recorded_too():
    device = Device()
    tile = device.empty((128, 4))

    def body(left):
        device.issue("memset", tile, 0.0)
        return left - 1

    device.call(nl.while_loop, device.call(nisa.register_alloc, 3), body)
    assert np.diff(device.core.program.data.loop_ends).tolist() == [1, 1]
    assert device.core.program.data.loop_ends[-1] == len(device.core.program)


def test_records_keep_the_ends_of_iterations(tmp_path):
    program = of_loops("loop-drains").program
    saved.save(Record([program]), tmp_path / "run")
    (again,) = saved.load(tmp_path / "run").programs
    assert (again.data.loop_ends, again.assume) == (program.data.loop_ends, ("loop-drains",))
    assert schedule(again, of_loops("").machine).total_ns == of_loops("loop-drains").total_ns
    for ends, message in (([99], "instructions"), ([2, 1], "not in the order")):
        again.data.loop_ends = array("q", ends)
        with pytest.raises(ValueError, match=message):
            checks.check(again)


@pytest.mark.parametrize("assume", ["", "slices"])
def test_slices_of_a_tile_free_their_space_separately_on_request(assume):
    device = Device()
    wide = device.core.machine.sbuf.usable_bytes // 16 * 3  # three quarters of a partition
    source = device.zeros((128, wide), buffer="hbm")
    for _ in range(2):
        tile = device.empty((128, wide))
        for half in (slice(0, wide // 2), slice(wide // 2, wide)):
            device.issue("dma_copy", tile[:, half], source[:, half])
        for half in (slice(0, wide // 2), slice(wide // 2, wide)):
            reduced(device, tile[:, half])
    device.core.program.assume = assumptions(assume)
    timeline = schedule(device.core.program, device.core.machine)
    first_reader, last_reader, load = 2, 3, 4
    assert timeline.begin[load] >= timeline.end[first_reader]
    assert (timeline.begin[load] >= timeline.end[last_reader]) == (not assume)


@pytest.mark.parametrize(
    ("shape", "columns", "slow"),
    [((128, 1024), 512, True), ((128, 512), 512, False), ((128, 1032), 512, False)],
)
def test_strides_of_a_power_of_two_are_slow_on_request(shape, columns, slow):
    device = Device("trn1")
    source = device.zeros(shape, buffer="hbm")
    device.issue("dma_copy", device.empty((128, columns)), source[:, 0:columns])
    device.issue("dma_copy", source[:, 0:columns], device.zeros((128, columns)))
    program, chip = device.core.program, device.core.machine
    moved = {}
    for assume in ("", "slow-strides"):
        program.assume = assumptions(assume)
        moved[assume] = schedule(program, chip).transfer_ns
    bytes_ns = 128 * columns * 4 / chip.dma.gigabytes_per_s_per_engine / chip.dma.engines
    assert moved["slow-strides"] - moved[""] == pytest.approx([bytes_ns * slow] * 2)


@pytest.mark.parametrize("assume", ["", "copies-in-turn"])
def test_copies_out_of_psum_stay_in_order_on_request(assume):
    device = Device()
    left, right = device.zeros((128, 128)), device.zeros((128, 128))
    slow = device.empty((128, 8192))
    device.issue("dma_copy", slow, device.zeros((128, 8192), buffer="hbm"))
    device.issue("activation", device.empty((128, 8192)), nl.exp, slow)
    product = device.empty((128, 128), buffer="psum")
    device.issue("nc_matmul", product, left, right)
    copied = len(device.core.program)
    device.issue("tensor_copy", device.empty((128, 128)), product, engine=nisa.engine.scalar)
    device.core.program.assume = assumptions(assume)
    timeline = schedule(device.core.program, device.core.machine, "compiled")
    before = copied - 2
    assert timeline.queue[copied] == timeline.queue[before]
    assert (timeline.begin[copied] >= timeline.end[before]) == bool(assume)


def test_rules_are_named_in_reports_and_refused_if_unknown():
    lines = list(summary.as_text(of_loops("slices,loop-drains")))
    assert "assumes    slices, loop-drains (--assume), which only one source reports" in lines
    assert Options(assume=",".join(ASSUMPTIONS)).assume
    for wrong in ("slice", "slices,", 3):
        with pytest.raises(
            UsageError, match=r"assume contains .*; known rules are slices, loop-drains"
        ):
            Options(assume=wrong)
