"""The schedule: queues run in order, engines run in parallel, and instructions wait for data and
for space."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import TARGETS, Device, issue_ns
from every import for_all

from neuroncore import machine
from neuroncore.time.queues import QUEUES
from neuroncore.time.schedule import schedule

VECTOR, SCALAR, GPSIMD = nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd


def copy(device, dst, src, engine=VECTOR):
    device.issue("tensor_copy", dst, src, engine=engine)


def load(device, dst, src):
    device.issue("dma_copy", dst, src)


def waits(device, second, first):
    """Return whether an instruction begins only when the result of another can be read."""
    timeline = device.timeline()
    elsewhere = timeline.queue[first] != timeline.queue[second]
    there = timeline.end[first] + elsewhere * device.core.machine.fixed.semaphore_ns
    begins = timeline.begin[second]
    assert begins == pytest.approx(there) or begins < timeline.end[first]
    return bool(begins == pytest.approx(there))


def tiles(device, count, shape=(128, 1024)):
    return [device.zeros(shape) for _ in range(count)]


# --- queues ---------------------------------------------------------------------------------------


def test_a_queue_takes_instructions_in_order_and_one_at_a_time():
    device = Device()
    for _ in range(4):
        copy(device, *tiles(device, 2))
    timeline = device.timeline()
    assert timeline.begin == pytest.approx(np.arange(4) * timeline.busy[0])
    assert list(timeline.cause) == [-1, -2, -2, -2]


def test_engines_work_in_parallel():
    device = Device()
    for engine in (VECTOR, SCALAR, GPSIMD):
        copy(device, *tiles(device, 2), engine)
    timeline = device.timeline()
    assert list(timeline.begin) == [0, 0, 0]
    assert timeline.total_ns == timeline.end.max()
    assert [QUEUES[q] for q in timeline.queue] == ["Vector", "Scalar", "GpSimd"]


def shared_with_gpsimd(target, issue):
    """Return in nanoseconds how much longer a copy by GpSimd takes at the same time as the
    instructions of `issue`, and how much longer those take."""

    def alone(*parts):
        device = Device(target)
        for part in parts:
            part(device)
        return device.timeline().busy

    def by_gpsimd(device):
        copy(device, *tiles(device, 2, (128, 600)), GPSIMD)

    both, (own,), (gpsimd,) = alone(by_gpsimd, issue), alone(issue), alone(by_gpsimd)
    shorter = min(own, gpsimd)
    return (both - [gpsimd, own]) / shorter


@for_all("length", [50, 600, 4000])
@for_all("target", TARGETS)
def test_vector_and_gpsimd_share_a_port_of_sbuf(target, length):
    """While both work, each takes twice as long, so each is delayed by the time of the shorter
    one."""

    def issue(device):
        copy(device, *tiles(device, 2, (128, length)))

    assert shared_with_gpsimd(target, issue) == pytest.approx([1, 1])


@pytest.mark.parametrize("target", TARGETS)
def test_from_v3_on_vector_uses_the_shared_port_in_fast_modes_only(target):
    """A copy from PSUM is not fast, and writes to SBUF at one element per cycle."""

    def from_psum(device):
        copy(device, device.zeros((128, 512)), device.zeros((128, 512), buffer="psum"))

    def by_scalar(device):
        activate(device, nl.copy)

    share = 1.0 if target == "trn1" else 0.0
    assert shared_with_gpsimd(target, from_psum) == pytest.approx([share, share])
    assert shared_with_gpsimd(target, by_scalar) == pytest.approx([0, 0])


def test_readers_wait_for_an_instruction_that_a_shared_port_delays():
    device = Device()
    a, b, c, d, out = tiles(device, 5)
    copy(device, b, a)
    copy(device, out, b, SCALAR)
    copy(device, d, c, GPSIMD)
    timeline = device.timeline()
    assert timeline.busy[0] > 1.9 * alone_ns(device, VECTOR)
    assert waits(device, 1, 0)


def alone_ns(device, engine):
    other = Device(device.core.machine.name)
    copy(other, *tiles(other, 2), engine)
    return other.timeline().busy[0]


def test_an_instruction_that_waits_blocks_only_its_queue():
    device = Device()
    a, b, c, d, e, f = tiles(device, 6)
    load(device, a, device.zeros((128, 1024), buffer="hbm"))
    copy(device, b, a)
    copy(device, d, c)
    copy(device, f, e, SCALAR)
    timeline = device.timeline()
    assert timeline.begin[2] == pytest.approx(timeline.begin[1] + timeline.busy[1])
    assert timeline.begin[3] == 0


def test_a_store_that_waits_does_not_block_loads():
    device = Device()
    a, b, c = tiles(device, 3)
    hbm = [device.zeros((128, 1024), buffer="hbm") for _ in range(3)]
    load(device, a, hbm[0])
    copy(device, b, a)
    load(device, hbm[1], b)
    load(device, c, hbm[2])
    timeline = device.timeline()
    assert waits(device, 2, 1)
    assert timeline.begin[3] == pytest.approx(issue_ns(device.core.machine))


def test_transfers_use_shared_engines_in_order_of_arrival():
    device = Device()
    hbm = device.zeros((128, 1024), buffer="hbm")
    for tile in tiles(device, 2):
        load(device, tile, hbm)
    timeline = device.timeline()
    issue = issue_ns(device.core.machine)
    assert timeline.done == pytest.approx(issue + timeline.transfer_ns * [1, 2])


def test_transfers_on_different_engines_run_in_parallel():
    device = Device()
    hbm, (tile,) = device.zeros((64, 1024), buffer="hbm"), tiles(device, 1)
    for half in (tile[0:64, :], tile[64:128, :]):
        load(device, half, hbm)
    timeline = device.timeline()
    issue = issue_ns(device.core.machine)
    assert timeline.done == pytest.approx(issue * np.array([1, 2]) + timeline.transfer_ns)


def test_a_ring_completes_transfers_in_order():
    """A transfer that needs both engines waits for the long one too; others overtake it on free
    engines."""
    device = Device()
    long, short = device.empty((64, 4096)), device.empty((128, 128), address=(0, 0))
    load(device, short[64:128, :], device.zeros((64, 128), buffer="hbm"))
    load(device, long, device.zeros((64, 4096), buffer="hbm"))
    load(device, short[64:128, :], device.zeros((64, 128), buffer="hbm"))
    dst = device.empty((128, 512), buffer="psum")
    device.issue("nc_matmul", dst, short[64:128, :], long[:, 0:512])
    timeline = device.timeline()
    assert timeline.begin[3] >= timeline.end[:3].max()
    assert np.all(np.diff(timeline.end[:3]) >= 0)


# --- dependencies ---------------------------------------------------------------------------------


def test_a_read_waits_for_the_write_before_it():
    device = Device()
    a, b, c = tiles(device, 3)
    copy(device, b, a)
    copy(device, c, b, SCALAR)
    assert waits(device, 1, 0)
    assert list(device.timeline().cause) == [-1, 0]


def test_a_write_waits_for_the_write_before_it():
    device = Device()
    a, b, c = tiles(device, 3)
    copy(device, c, a)
    copy(device, c, b, SCALAR)
    assert waits(device, 1, 0)


def test_a_write_waits_for_reads_before_it():
    device = Device()
    a, b, c, d = tiles(device, 4)
    copy(device, b, a)
    copy(device, c, a, GPSIMD)
    copy(device, a, d, SCALAR)
    timeline = device.timeline()
    semaphore = device.core.machine.fixed.semaphore_ns
    assert timeline.begin[2] == pytest.approx(timeline.end[:2].max() + semaphore)


def test_two_reads_do_not_wait_for_each_other():
    device = Device()
    a, b, c = tiles(device, 3)
    copy(device, b, a)
    copy(device, c, a, SCALAR)
    assert list(device.timeline().begin) == [0, 0]


def test_instructions_on_one_engine_wait_for_results_too():
    device = Device()
    a, b, c = tiles(device, 3)
    copy(device, b, a)
    copy(device, c, b)
    timeline = device.timeline()
    assert timeline.begin[1] == pytest.approx(timeline.end[0])
    assert timeline.end[0] > timeline.busy[0]


@for_all(
    "first, second, waiting",
    [
        (np.s_[:, 0:512], np.s_[:, 512:1024], False),
        (np.s_[:, 0:513], np.s_[:, 512:1024], True),
        (np.s_[0:64, :], np.s_[64:128, :], False),
        (np.s_[0:64, :], np.s_[32:64, :], True),
        (np.s_[0:32, 0:512], np.s_[0:32, 512:1024], False),
        (np.s_[:, 0:1024:2], np.s_[:, 1:1024:2], False),
        (np.s_[:, 0:1024:2], np.s_[:, 0:1024:4], True),
        (np.s_[:, 0:1024:3], np.s_[:, 1:1024:2], True),
        (np.s_[:, 0:1000:4], np.s_[:, 2:1000:4], False),
        (np.s_[:, 0:8], np.s_[:, 0:8], True),
    ],
)
@for_all("buffer", ["sbuf", "hbm"])
def test_parts_of_a_tensor_wait_if_they_share_bytes(first, second, waiting, buffer):
    """A write of one part is followed by a read of another."""
    device = Device()
    shared = device.zeros((128, 1024), buffer=buffer)
    other = device.zeros((128, 1024))
    one, two = shared[first], shared[second]
    load(device, one, other[0 : one.shape[0], 0 : one.shape[1]])
    out = device.empty(two.shape)
    if buffer == "sbuf":
        copy(device, out, two)
    else:
        load(device, out, two)
    assert waits(device, 1, 0) is waiting


BANK = 2048  # where a tensor in PSUM may start


@pytest.mark.parametrize(
    ("buffer", "places", "waiting"),
    [("sbuf", ((0, 0), (0, 64)), False), ("sbuf", ((0, 0), (0, 60)), True),
     ("sbuf", ((0, 64), (0, 0)), False), ("sbuf", ((0, 0), (32, 0)), False),
     ("sbuf", ((32, 4), (32, 4)), True), ("psum", ((0, 0), (0, BANK)), False),
     ("psum", ((0, BANK), (0, 0)), False), ("psum", ((0, 0), (32, 0)), False),
     ("psum", ((32, BANK), (32, BANK)), True)],
)  # fmt: skip
def test_tensors_at_addresses_wait_if_they_overlap(places, waiting, buffer):
    device = Device()
    first, second = (device.zeros((32, 16), buffer=buffer, address=a) for a in places)
    copy(device, first, device.zeros((32, 16)))
    copy(device, device.empty((32, 16)), second, SCALAR)
    assert waits(device, 1, 0) is waiting


@pytest.mark.parametrize(
    ("byte", "start", "waiting"), [(4, 1, True), (4, 0, False), (0, 1, False), (0, 0, True)]
)
def test_strided_accesses_are_compared_at_their_addresses(byte, start, waiting):
    """Rows have different lengths; elements 0, 2, ... of one tensor are compared with every second
    one of the other."""
    device = Device()
    first = device.zeros((32, 16), address=(0, 0))
    second = device.zeros((32, 32), address=(0, byte))
    copy(device, first[:, 0:16:2], device.zeros((32, 8)))
    copy(device, device.empty((32, 16)), second[:, start:32:2], SCALAR)
    assert waits(device, 1, 0) is waiting


def test_the_same_strided_access_is_recorded_once():
    device = Device()
    a, b = device.zeros((1, 64)), device.zeros((1, 64))
    for _ in range(100):
        copy(device, a[:, 0:64:2], b[:, 1:64:2])
    assert len(table := device.core.program.box_table()) == 2 and table.flags.c_contiguous


def test_a_run_time_offset_may_be_anywhere_in_its_tensor():
    device = Device()
    src, register = device.zeros((1, 64)), device.call(nisa.register_alloc, 0)
    copy(device, src[:, 60:64], device.zeros((1, 4)), SCALAR)
    moved = src.ap([[64, 1], [1, 4]], scalar_offset=register, indirect_dim=1)
    copy(device, device.empty((1, 4)), moved)
    assert waits(device, 2, 1)


# --- space ----------------------------------------------------------------------------------------


def stream(device, row_bytes, count, target_buffer="sbuf"):
    """Load a tile, use it, and store the result, `count` times; only the loaded tile is large."""
    hbm = device.zeros((1, row_bytes // 4), buffer="hbm")
    small, out = device.zeros((1, 1)), device.zeros((1, 1), buffer="hbm")
    for _ in range(count):
        tile = device.empty((1, row_bytes // 4))
        load(device, tile, hbm)
        copy(device, small, tile[:, 0:1])
        load(device, out, small)
    return device.timeline()


@pytest.mark.parametrize("target", TARGETS)
def test_loads_run_ahead_while_there_is_space(target):
    timeline = stream(Device(target), 4096, 8)
    issue = issue_ns(timeline.machine)
    assert timeline.begin[0::3] == pytest.approx(issue * np.arange(8))


@for_all("target", TARGETS)
@for_all("fit", [1, 2, 3])
def test_as_many_loads_run_ahead_as_tiles_fit(target, fit):
    """One tile takes nearly a third, half or all of SBUF; two tiles of a half are two buffers."""
    device = Device(target)
    usable = device.core.machine.sbuf.usable_bytes
    row_bytes = (usable - 64) // fit // 4 * 4
    timeline = stream(device, row_bytes, 7)
    loads, users = timeline.begin[0::3], timeline.end[1::3]
    semaphore = timeline.machine.fixed.semaphore_ns
    assert loads[fit:] == pytest.approx(users[: 7 - fit] + semaphore)
    assert np.all(loads[:fit] < users[0])
    assert row_bytes < timeline.peak_sbuf <= usable


def test_one_byte_too_many_and_there_is_one_buffer_less():
    usable = machine.load("trn2").sbuf.usable_bytes
    fits = stream(Device(), (usable - 64) // 8 * 4, 4)
    tight = stream(Device(), usable // 8 * 4 + 4, 4)
    assert tight.total_ns > fits.total_ns
    assert tight.begin[3] > fits.begin[3]


def test_a_tile_that_is_used_later_keeps_its_space():
    device = Device()
    third = device.core.machine.sbuf.usable_bytes // 12 * 4
    hbm = device.zeros((1, third // 4), buffer="hbm")
    first, second, third_tile, fourth = (device.empty((1, third // 4)) for _ in range(4))
    small = device.zeros((1, 1))
    for tile in (first, second):
        load(device, tile, hbm)
    copy(device, small, second[:, 0:1])
    for tile in (third_tile, fourth):
        load(device, tile, hbm)
    copy(device, small, first[:, 0:1])
    timeline = device.timeline()
    semaphore = timeline.machine.fixed.semaphore_ns
    assert timeline.begin[3] < timeline.begin[2] < timeline.begin[4]
    assert timeline.begin[4] == pytest.approx(timeline.end[2] + semaphore)


@pytest.mark.parametrize("order", ["in-order", "compiled"])
@pytest.mark.parametrize("loaded", [False, True])
def test_if_tiles_exceed_sbuf_loads_wait_for_space_but_results_do_not(loaded, order):
    """A tile of three quarters of SBUF is used first and last; the last quarter is used and freed;
    then half of SBUF is needed. Only the older API's compiler spills."""
    device = Device()
    row = device.core.machine.sbuf.usable_bytes // 4
    big, sums = device.empty((1, 3 * row // 4)), device.empty((1, 16), buffer="psum")
    first = device.empty((1, row // 4))
    for tile in (big, first):
        load(device, tile, _row(device, tile.shape[1] * 4))
        copy(device, sums, tile[:, 0:16], SCALAR)
    half = device.empty((1, row // 2))
    if loaded:
        load(device, half, _row(device, 2 * row))
    else:
        device.issue("memset", half, 0.0, engine=VECTOR)
    copy(device, sums, big[:, 0:16], SCALAR)
    timeline = schedule(device.core.program, device.core.machine, order)
    assert timeline.peak_sbuf > 4 * row
    assert (timeline.begin[4] > timeline.end[3]) == (loaded or order == "in-order")


def test_space_that_a_result_got_by_a_spill_is_not_available_again():
    """A tile of SBUF's size, ten results meanwhile, then tiles of half that size, of which two
    fit."""
    device = Device()
    row = device.core.machine.sbuf.usable_bytes
    big, sums = device.empty((1, row // 4)), device.empty((1, 16), buffer="psum")
    device.issue("memset", big[:, 0:16], 0.0, engine=VECTOR)
    for _ in range(10):
        device.issue("memset", device.empty((1, row // 16)), 0.0, engine=VECTOR)
    copy(device, sums, big[:, 0:16])
    for _ in range(8):
        half = device.empty((1, row // 8))
        device.issue("memset", half[:, 0:16], 0.0, engine=VECTOR)
        copy(device, half, half, SCALAR)
    timeline = schedule(device.core.program, device.core.machine, "compiled")
    made, used = timeline.begin[12::2], timeline.end[13::2]
    assert (made[2:] > used[:-2]).all() and (made[1:] < used[:-1]).all()


@for_all("target", TARGETS)
@for_all("banks", [4, 8, 2])
def test_sums_wait_for_psum_to_be_emptied(target, banks):
    device = Device(target)
    fit = device.core.machine.psum.banks // banks
    stationary, moving = device.zeros((1, 1), "bfloat16"), device.zeros((1, 4), "bfloat16")
    out, count = device.zeros((1, 4)), fit + 2
    for _ in range(count):
        sums = device.empty((1, 512 * banks), buffer="psum")
        device.issue("nc_matmul", sums[:, 0:4], stationary, moving)
        copy(device, out, sums[:, 0:4])
    timeline = device.timeline()
    semaphore = timeline.machine.fixed.semaphore_ns
    products, emptied = timeline.begin[0::2], timeline.end[1::2]
    assert products[fit:] == pytest.approx(emptied[: count - fit] + semaphore)
    assert np.all(products[:fit] < emptied[0])
    assert timeline.peak_psum == 2048 * banks


def test_tiles_at_addresses_wait_for_bytes_and_not_for_space():
    device = Device()
    row = device.core.machine.sbuf.usable_bytes // 8 * 4
    for byte in (0, row, 0):
        load(device, device.empty((1, row // 4), address=(0, byte)), _row(device, row))
    timeline = device.timeline()
    issue = issue_ns(timeline.machine)
    assert timeline.begin[1] == pytest.approx(issue)
    assert timeline.begin[2] == pytest.approx(timeline.end[0])
    assert timeline.peak_sbuf == 2 * row


def _row(device, nbytes):
    return device.zeros((1, nbytes // 4), buffer="hbm")


# --- activation tables ----------------------------------------------------------------------------


def activate(device, op):
    device.issue("activation", device.empty((2, 256)), op, device.zeros((2, 256)))


@for_all("target", TARGETS)
@for_all(
    "functions, reloads",
    [
        ([nl.exp], [1]),
        ([nl.exp] * 4, [1, 0, 0, 0]),
        ([nl.exp, nl.gelu, nl.exp, nl.gelu], [1, 1, 1, 1]),
        ([nl.exp, nl.exp, nl.gelu, nl.gelu], [1, 0, 1, 0]),
        ([nl.exp, nl.copy, nl.square, nl.relu, nl.exp], [1, 0, 0, 0, 0]),
        ([nl.exp, nl.log], [1, 0]),
        ([nl.copy, nl.copy], [0, 0]),
    ],
)
def test_a_function_that_is_not_in_the_tables_loads_them(target, functions, reloads):
    device = Device(target)
    for op in functions:
        activate(device, op)
    timeline, fixed = device.timeline(), device.core.machine.fixed
    engine = device.core.machine.engines["scalar"]
    set_up = engine.overhead_cycles + engine.sbuf_access_cycles
    biased = [engine.column_cycles * (op is not nl.copy) for op in functions]
    plain = [(set_up + more + 256) / engine.clock_ghz for more in biased]
    expected = [
        ns + reload * fixed.activation_table_ns for ns, reload in zip(plain, reloads, strict=True)
    ]
    assert timeline.busy == pytest.approx(expected)
