"""The DMA engines' time: the engines that move a tile, its number of packets, and fixed costs."""

from dataclasses import replace

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import TARGETS, Device, issue_ns
from every import for_all

from neuroncore.machine import load
from neuroncore.memory.register import VirtualRegister
from neuroncore.report.perfetto import events
from neuroncore.report.summary import summary
from neuroncore.time.path import parts, steps
from neuroncore.time.policy import POLICIES
from neuroncore.time.queues import GPSIMD, LOADS, QUEUES, SCALAR, STORES
from neuroncore.time.schedule import schedule


def moved(device, dst, src, **how):
    """Issue a copy; return the time of each engine that the transfer uses, and the number of these
    engines."""
    device.issue("dma_copy", dst, src, **how)
    timeline = device.timeline()
    return timeline.transfer_ns[-1], timeline.engines_used[-1]


def bandwidth(it, on_chip=False):
    """Return bytes per nanosecond of one engine. The limit of all engines together is the rate of
    an HBM stack, which one core may use alone."""
    own = it.dma.gigabytes_per_s_per_engine
    return own if on_chip else min(own, it.hbm.stack_gigabytes_per_s / it.dma.engines)


def share(it, packets, nbytes, engines=1, on_chip=False):
    """Return the time for which one of the engines is busy: its part of so many packets of
    `nbytes`, and the cost of every transfer."""
    each = nbytes / bandwidth(it, on_chip) + it.dma.packet_ns
    return packets * each / engines + it.dma.transfer_ns


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("store", [False, True])
def test_a_tile_of_all_partitions_is_moved_by_sixteen_engines(target, store):
    device = Device(target)
    it = device.core.machine
    pair = device.zeros((128, 512)), device.zeros((128, 512), buffer="hbm")
    each, engines = moved(device, *(pair[::-1] if store else pair))
    assert engines == 16
    assert each == pytest.approx(share(it, 8, 2048))


@pytest.mark.parametrize(
    ("first", "rows", "engines"),
    [(0, 1, 1), (0, 8, 1), (0, 9, 2), (4, 8, 2), (120, 8, 1), (64, 64, 8), (127, 1, 1)],
)
def test_eight_partitions_share_an_engine(first, rows, engines):
    device = Device()
    tile, hbm = device.zeros((128, 64)), device.zeros((rows, 64), buffer="hbm")
    each, found = moved(device, tile[first : first + rows, :], hbm)
    it = device.core.machine
    assert found == engines
    assert each == pytest.approx(share(it, rows, 256, engines))


def test_an_axis_of_one_element_does_not_end_a_row():
    device, times = Device(), []
    for middle in ((), (1,), (1, 1)):
        shape = 64, *middle, 32
        pair = (device.zeros(shape, buffer="hbm") for _ in range(2))
        times.append(moved(device, *pair)[0])
    rows = (device.zeros((64, 2, 32), buffer="hbm")[:, 0:1, :] for _ in range(2))
    assert times[0] == times[1] == times[2] < moved(device, *rows)[0]


@pytest.mark.parametrize("target", TARGETS)
def test_few_partitions_take_longer_than_many_for_the_same_bytes(target):
    times = []
    for shape in ((128, 64), (8, 1024)):
        device = Device(target)
        moved(device, device.empty(shape), device.zeros(shape, buffer="hbm"))
        times.append(device.timeline().total_ns)
    assert times[0] < times[1]


def from_runs(device, run):
    """Return the time of each engine for a tile that is gathered from runs of so many elements in
    HBM."""
    hbm = device.zeros((128, 512 // run, 2 * run), buffer="hbm")[:, :, 0:run]
    return moved(device, device.empty((128, 512 // run, run)), hbm)[0]


@for_all("target", TARGETS)
@for_all("run", [2, 64, 512])
def test_short_runs_make_many_packets(target, run):
    device = Device(target)
    expected = share(device.core.machine, 8 * 512 // run, 4 * run)
    assert from_runs(device, run) == pytest.approx(expected)


@pytest.mark.parametrize("target", TARGETS)
def test_elements_with_a_constant_step_share_a_packet(target):
    device = Device(target)
    it = device.core.machine
    moving = 8 * 2048 / bandwidth(it) + it.dma.transfer_ns
    assert from_runs(device, 1) == pytest.approx(moving + 8 * 512 * it.dma.run_ns)


def without_bytes(device, pattern, shape):
    """Return the time of each engine for a tile of elements of HBM, without the time of moving its
    bytes."""
    it = device.core.machine
    hbm = device.zeros((64, 128), buffer="hbm").ap(pattern)
    each, engines = moved(device, device.empty(shape), hbm)
    return each - it.dma.transfer_ns - np.prod(shape) * 4 / engines / bandwidth(it)


def test_a_transposed_load_moves_element_by_element():
    device = Device()
    beside = without_bytes(device, [[1, 128], [128, 64]], (128, 64))
    assert beside == pytest.approx(8 * 64 * device.core.machine.dma.run_ns)


@pytest.mark.parametrize("target", TARGETS)
def test_repeated_elements_are_read_again_but_repeated_rows_are_not(target):
    device = Device(target)
    it = device.core.machine.dma
    elements = without_bytes(device, [[1, 128], [0, 8]], (128, 8))
    assert elements == pytest.approx(8 * 8 * it.repeated_read_ns)
    assert without_bytes(device, [[0, 128], [1, 16]], (128, 16)) == pytest.approx(8 * it.packet_ns)
    assert without_bytes(device, [[1, 128], [0, 1]], (128, 1)) == pytest.approx(8 * it.packet_ns)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", ["sbuf", "hbm"])
def test_the_rate_of_an_hbm_stack_limits_the_engines(target, source):
    """On a chip with a slow HBM, the limit does not apply to transfers within SBUF."""
    device = Device(target)
    moved(device, device.empty((128, 512)), device.zeros((128, 512), buffer=source))
    it = device.core.machine
    slow = replace(it, hbm=replace(it.hbm, stack_gigabytes_per_s=100.0))
    found = schedule(device.core.program, slow).transfer_ns[0]
    assert found == pytest.approx(share(slow, 8, 2048, on_chip=source == "sbuf"))
    assert bandwidth(slow) == 100 / 16


def test_between_two_places_in_hbm_all_engines_work():
    device = Device()
    hbm = device.empty((4, 4096), buffer="hbm"), device.zeros((4, 4096), buffer="hbm")
    each, engines = moved(device, *hbm)
    it = device.core.machine
    assert engines == 16
    assert each == pytest.approx(share(it, 1, 4 * 4096 * 4, engines))


@pytest.mark.parametrize(("dst", "src"), [("float32", "bfloat16"), ("bfloat16", "float32")])
def test_a_conversion_costs_as_much_as_its_larger_side(dst, src):
    device = Device()
    it = device.core.machine
    each, _ = moved(device, device.empty((128, 512), dst), device.zeros((128, 512), src, "hbm"))
    assert each == pytest.approx(share(it, 8, 2048))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("store", [False, True])
def test_a_transfer_is_issued_moved_and_then_announced(target, store):
    device = Device(target)
    pair = device.zeros((128, 512)), device.zeros((128, 512), buffer="hbm")
    each, _ = moved(device, *(pair[::-1] if store else pair))
    timeline, dma = device.timeline(), device.core.machine.dma
    latency = dma.store_latency_ns if store else dma.load_latency_ns
    issue = issue_ns(device.core.machine)
    assert timeline.busy[0] == pytest.approx(issue)
    assert timeline.done[0] == pytest.approx(issue + each)
    assert timeline.total_ns == pytest.approx(issue + each + latency)


def test_the_descriptors_of_a_gather_are_written_one_by_one():
    device = Device()
    table, rows = device.zeros((256, 64), buffer="hbm"), device.tile(np.zeros((128, 1), np.int32))
    chosen = table.ap([[64, 128], [1, 64]], vector_offset=rows)
    moved(device, device.empty((128, 64)), chosen, dge_mode=nisa.dge_mode.swdge)
    dma = device.core.machine.dma
    expected = dma.issue_ns + 128 * dma.software_descriptor_ns
    assert device.cost().busy_ns == pytest.approx(expected)


def issued(device, dst, src, **more):
    """Return the time for which a transfer occupies its queue."""
    device.issue("dma_copy", dst, src, **more)
    return device.cost().busy_ns


@pytest.mark.parametrize(
    ("mode", "by_software"), [("unknown", True), ("swdge", True), ("hwdge", False)]
)
def test_software_writes_a_descriptor_for_each_row_at_an_offset_in_memory(mode, by_software):
    device = Device()
    table, at = device.zeros((8, 64, 96), buffer="hbm"), device.tile(np.zeros((1, 1), np.int32))
    rows = table.ap([[96, 64], [48, 2], [1, 32]], scalar_offset=at, indirect_dim=0)
    found = issued(device, device.empty((64, 2, 32)), rows, dge_mode=nisa.dge_mode[mode])
    dma = device.core.machine.dma
    written = dma.issue_ns + 64 * 2 * dma.software_descriptor_ns
    by_hardware = issue_ns(device.core.machine, generators=2)
    assert found == pytest.approx(written if by_software else by_hardware)


def test_transfers_that_request_software_use_it():
    device = Device()
    pair = device.empty((64, 96)), device.zeros((64, 96), buffer="hbm")
    dma = device.core.machine.dma
    found = issued(device, *pair, dge_mode=nisa.dge_mode.swdge)
    assert found == pytest.approx(dma.issue_ns + 64 * dma.software_descriptor_ns)


def test_rows_that_an_index_selects_need_separate_descriptors():
    device = Device()
    table, rows = device.zeros((256, 64), buffer="hbm"), device.tile(np.zeros((128, 1), np.int32))
    chosen = table.ap([[64, 128], [1, 64]], vector_offset=rows)
    found = issued(device, device.empty((128, 64), buffer="hbm"), chosen)
    it = device.core.machine
    assert found == pytest.approx(it.dma.issue_ns + 128 * it.dma.software_descriptor_ns)
    together = 128 * (it.dma.packet_ns + 64 * 4 / bandwidth(it))
    assert device.timeline().transfer_ns[-1] == pytest.approx(together / it.dma.engines)


def test_elements_with_the_same_step_share_a_descriptor():
    device = Device()
    table, at = device.zeros((8, 64, 96), buffer="hbm"), device.tile(np.zeros((1, 1), np.int32))
    rows = table.ap([[96, 64], [3, 32]], scalar_offset=at, indirect_dim=0)
    dma = device.core.machine.dma
    found = issued(device, device.empty((64, 32)), rows)
    assert found == pytest.approx(dma.issue_ns + 64 * dma.software_descriptor_ns)


@pytest.mark.parametrize("target", TARGETS)
def test_hardware_writes_the_descriptors_of_an_offset_in_a_register(target):
    device = Device(target)
    table, register = device.zeros((8, 64, 96), buffer="hbm"), VirtualRegister(3)
    rows = table.ap([[96, 64], [1, 96]], scalar_offset=register, indirect_dim=0)
    found = issued(device, device.empty((64, 96)), rows)
    assert found == pytest.approx(issue_ns(device.core.machine))


@pytest.mark.parametrize("target", TARGETS)
def test_descriptors_that_exist_before_the_kernel_runs_cost_less(target):
    device = Device(target)
    pair = device.empty((64, 96)), device.zeros((64, 96), buffer="hbm")
    it = device.core.machine
    found = issued(device, *pair, dge_mode=nisa.dge_mode.none)
    assert found == pytest.approx(it.dma.issue_ns) and found <= issue_ns(it)
    older = schedule(device.core.program, it, "compiled")
    device.issue("dma_copy", *pair)
    assert schedule(device.core.program, it, "compiled").busy == pytest.approx([*older.busy] * 2)


@for_all("rows", [1, 8, 9, 128])
@for_all("mode, generators", [("unknown", 1), ("hwdge", 2)])
def test_hardware_takes_the_same_time_for_a_row_and_a_tile(rows, mode, generators):
    """One generator writes the descriptors, or both if the kernel requests it."""
    device = Device()
    pair = device.empty((rows, 96)), device.zeros((rows, 96), buffer="hbm")
    found = issued(device, *pair, dge_mode=nisa.dge_mode[mode])
    assert found == pytest.approx(issue_ns(device.core.machine, generators))


def test_hardware_does_not_convert():
    device = Device()
    pair = device.empty((64, 96), "bfloat16"), device.zeros((64, 96), buffer="hbm")
    assert issued(device, *pair) == pytest.approx(device.core.machine.dma.issue_ns)


@pytest.mark.parametrize("target", TARGETS)
def test_long_streams_reach_the_bandwidth_of_the_engines(target):
    """Sixteen megabytes in rows of 16 KiB reach at least nine tenths of the bandwidth."""
    device = Device(target)
    hbm = device.zeros((128, 4096), buffer="hbm")
    for _ in range(8):
        device.issue("dma_copy", device.empty((128, 4096)), hbm)
    reached = 8 * 128 * 4096 * 4 / device.timeline().total_ns
    together = 16 * bandwidth(device.core.machine)
    assert 0.9 * together < reached < together


# --- GpSimd ---------------------------------------------------------------------------------------


def gathering(times, work=0):
    """Gathers, whose descriptors GpSimd writes, and other work of GpSimd."""
    device = Device()
    table, rows = device.zeros((256, 64), buffer="hbm"), device.tile(np.zeros((128, 1), np.int32))
    chosen = table.ap([[64, 128], [1, 64]], vector_offset=rows)
    for _ in range(times):
        device.issue("dma_copy", device.empty((128, 64)), chosen)
    for _ in range(work):
        device.issue("iota", device.empty((128, 64), "int32"), [[1, 64]], 0)
    return device


@for_all("order", POLICIES)
@for_all("target", TARGETS)
def test_gpsimd_writes_descriptors_or_computes(order, target):
    timeline = schedule(gathering(3, work=4).core.program, load(target), order)
    begin, until = timeline.begin, timeline.begin + timeline.busy
    by_begin = np.argsort(begin, kind="stable")
    assert (begin[by_begin[1:]] >= until[by_begin[:-1]] - 1e-6).all()
    assert timeline.busy_share["GpSimd"] == pytest.approx(timeline.busy.sum() / timeline.total_ns)
    assert timeline.moves.tolist() == [True] * 3 + [False] * 4
    told = summary(timeline)
    assert told["dma_transfer_count"] == 3 and told["gpsimd_engine_instruction_count"] == 7
    assert told["dma_transfer_total_bytes"] == 3 * 128 * 64 * 4


@pytest.mark.parametrize("order", POLICIES)
def test_in_program_order_descriptors_are_written_in_turn(order):
    device = Device()
    a = device.zeros((128, 512))
    for _ in range(20):
        device.issue("tensor_scalar", a, a, nl.add, 1.0)
    device.issue("tensor_copy", device.empty(a.shape), a, engine=nisa.engine.gpsimd)
    pair = device.empty((64, 96)), device.zeros((64, 96), buffer="hbm")
    device.issue("dma_copy", *pair, dge_mode=nisa.dge_mode.swdge)
    begin = schedule(device.core.program, device.core.machine, order).begin
    assert bool(begin[-1] > begin[-2]) is (POLICIES[order].window == 1)


def test_issuing_occupies_gpsimd_and_moving_occupies_the_dma_engines():
    timeline = gathering(1).timeline()
    found = parts(timeline, steps(timeline))
    assert found.issue == pytest.approx(timeline.busy[0])
    assert found.moves == pytest.approx(timeline.transfer_ns[0])
    assert found.transfer_latency == pytest.approx(timeline.total_ns - found.issue - found.moves)


@pytest.mark.parametrize("mode", ["hwdge", "swdge"])
def test_the_engine_that_issues_a_store(mode):
    device = Device()
    pair = device.empty((64, 96), buffer="hbm"), device.zeros((64, 96))
    device.issue("dma_copy", *pair, dge_mode=nisa.dge_mode[mode])
    timeline = device.timeline()
    assert timeline.moves.all() and timeline.engines_used[0] > 0
    assert timeline.queue.tolist() == [GPSIMD if mode == "swdge" else STORES]


def test_gpsimd_issues_a_scatter():
    device = Device()
    table, rows = device.zeros((256, 64), buffer="hbm"), device.tile(np.zeros((128, 1), np.int32))
    device.issue(
        "dma_copy", table.ap([[64, 128], [1, 64]], vector_offset=rows), device.zeros((128, 64))
    )
    assert device.timeline().queue.tolist() == [GPSIMD]


def test_gpsimd_issues_sums_of_selected_rows():
    device = Device()
    table, rows = device.zeros((256, 64), buffer="hbm"), device.tile(np.zeros((128, 1), np.int32))
    chosen, total = table.ap([[64, 128], [1, 64]], vector_offset=rows), device.zeros((128, 64))
    device.issue("dma_compute", total, [total, chosen], nl.add)
    assert device.timeline().queue.tolist() == [GPSIMD]


def test_equal_loads_by_software_are_executed_once_too():
    device = Device()
    source = device.zeros((64, 96), buffer="hbm")
    for _ in range(2):
        device.issue("dma_copy", device.empty((64, 96)), source, dge_mode=nisa.dge_mode.swdge)
    timeline = schedule(device.core.program, device.core.machine, "compiled")
    assert timeline.busy[1] == timeline.transfer_ns[1] == 0 < timeline.busy[0]


def test_the_trace_shows_descriptors_in_the_row_of_gpsimd_and_the_transfer_in_another():
    timeline = gathering(1).timeline()
    told = list(events([timeline]))
    rows = {e["tid"]: e["args"]["name"] for e in told if e["name"] == "thread_name"}
    transfer, descriptors = (e for e in told if e.get("cat") == "DMA_DIRECT2D")
    assert rows[transfer["tid"]] == "qGpSimdDynamic 0" and rows[descriptors["tid"]] == "GpSimd"
    assert transfer["dur"] == pytest.approx(timeline.end[0] / 1e3, abs=0.0005)
    assert descriptors["dur"] == pytest.approx(timeline.busy[0] / 1e3, abs=0.0005)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
@pytest.mark.parametrize("dge", [False, True])
def test_without_disable_dge_gpsimd_writes_the_descriptors_of_arguments_and_results(target, dge):
    device = Device(target)
    tile = device.zeros((128, 2))
    for _ in range(10):
        device.issue("dma_copy", device.empty((128, 2)), device.zeros((128, 2), buffer="hbm"))
        device.issue("dma_copy", device.empty((128, 2), buffer="hbm"), tile)
    timeline = generated(device, dge)
    dma, writes = device.core.machine.dma, dge and target == "trn2"
    each = dma.gpsimd_issue_ns + 128 * dma.gpsimd_descriptor_ns if writes else dma.issue_ns
    assert timeline.busy == pytest.approx(np.full(20, each))
    last = timeline.begin.max() - timeline.begin.min()
    assert last == pytest.approx(19 * each if writes else 9 * each)
    assert set(timeline.queue) == ({GPSIMD} if writes else {LOADS, STORES})


def test_hardware_writes_descriptors_of_tensors_that_the_kernel_writes_and_reads():
    device = Device("trn2")
    between, tile = device.empty((128, 2), buffer="hbm"), device.empty((128, 2))
    device.issue("dma_copy", tile, device.zeros((128, 2), buffer="hbm"))
    device.issue("dma_copy", between, tile)
    device.issue("dma_copy", device.empty((128, 2)), between)
    timeline = generated(device, True)
    assert timeline.queue.tolist() == [GPSIMD, SCALAR, LOADS]
    assert timeline.busy[1:] == pytest.approx(device.core.machine.dma.hardware_issue_ns)


def generated(device, dge):
    device.core.program.dge = dge
    return schedule(device.core.program, device.core.machine, "compiled")


# --- descriptors by software ----------------------------------------------------------------------


def by_software(device, order="scheduled"):
    device.core.program.software = True
    return schedule(device.core.program, device.core.machine, order)


@pytest.mark.parametrize("target", TARGETS)
def test_the_release_determines_the_mode_of_transfers_that_name_none(target):
    device = Device(target)
    for mode in (nisa.dge_mode.unknown, nisa.dge_mode.none):
        pair = device.empty((64, 96)), device.zeros((64, 96), buffer="hbm")
        device.issue("dma_copy", *pair, dge_mode=mode)
    dma, timeline = device.core.machine.dma, by_software(device)
    written = dma.gpsimd_issue_ns + 64 * dma.gpsimd_descriptor_ns
    assert timeline.busy == pytest.approx([written, dma.issue_ns])
    assert [QUEUES[q] for q in timeline.queue] == ["GpSimd", "DMA ring 1"]
    older = by_software(device, "compiled")
    assert "GpSimd" not in [QUEUES[q] for q in older.queue]


@pytest.mark.parametrize("order", ["scheduled", "standalone"])
def test_loads_overtake_waiting_stores_in_the_queue_of_software(order):
    device = Device()
    tile, hbm = device.zeros((128, 512)), device.zeros((128, 512), buffer="hbm")
    for _ in range(20):
        device.issue("tensor_scalar", tile, tile, nl.add, 1.0)
    device.issue("dma_copy", device.empty((128, 512), buffer="hbm"), tile)
    device.issue("dma_copy", device.empty((128, 512)), hbm)
    begin = by_software(device, order).begin
    assert begin[-1] == 0 < begin[-2]
