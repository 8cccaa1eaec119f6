"""Reordering by compilers: how much each order differs from the program's, the engines of copies,
the first load, and the choice of the order."""

import json
from collections import Counter
from typing import get_args

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import TARGETS, Device, launched
from every import for_all
from neuronxcc import nki as older
from neuronxcc.nki import language as older_nl

from neuroncore import machine
from neuroncore.base.options import PATHS, Order, order_of
from neuroncore.cli import main
from neuroncore.record.program import Program, Record
from neuroncore.record.saved import load, save
from neuroncore.report import saved
from neuroncore.report.summary import as_text, summary
from neuroncore.time.policy import EXPECTED_CYCLES, POLICIES
from neuroncore.time.queues import QUEUES
from neuroncore.time.schedule import schedule

VECTOR, SCALAR, GPSIMD = nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd
SHARED = {"Vector", "Scalar"}
ORDERS = tuple(POLICIES)
FEW = np.ones((4, 8), np.float32)


def in_order(device, order):
    return schedule(device.core.program, device.core.machine, order)


def copy(device, dst, src, engine=None):
    named = {} if engine is None else {"engine": engine}
    device.issue("tensor_copy", dst, src, **named)


def engines(timeline):
    return [QUEUES[q] for q in timeline.queue]


def test_every_order_has_a_policy():
    assert get_args(Order) == ORDERS


# --- windows --------------------------------------------------------------------------------------


def blocked(count, then="copy"):
    """A load, so many copies that wait for it, and an instruction that does not, all on one
    engine."""
    device = Device()
    late, ready = device.empty((128, 64)), device.zeros((128, 64))
    device.issue("dma_copy", late, device.zeros((128, 64), buffer="hbm"))
    for _ in range(count):
        copy(device, device.empty((128, 64)), late, VECTOR)
    if then == "copy":
        copy(device, device.empty((128, 64)), ready, VECTOR)
    else:
        device.issue("memset", device.empty((128, 64)), 0.0, engine=VECTOR)
    return device


def begins_at_once(device, order):
    """Return whether the last instruction begins at once."""
    return bool(in_order(device, order).begin[-1] == 0)


@for_all("order", ORDERS)
@for_all("count", [0, 1, 2, 127, 128])
def test_an_engine_looks_as_far_ahead_as_its_window(order, count):
    assert begins_at_once(blocked(count), order) is (POLICIES[order].window > count)


def test_reordering_helps_if_many_instructions_wait():
    """The older compiler's descriptors exist before the kernel runs; hardware writes the
    descriptors of the current one."""
    times = {order: in_order(blocked(1), order).total_ns for order in ORDERS}
    assert times["compiled"] < times["scheduled"] < times["in-order"]


@pytest.mark.parametrize("target", TARGETS)
def test_no_order_helps_if_each_instruction_needs_the_previous_one(target):
    device = Device(target)
    tile = device.empty((128, 64))
    descriptors = nisa.dge_mode.none
    device.issue("dma_copy", tile, device.zeros((128, 64), buffer="hbm"), dge_mode=descriptors)
    for i in range(12):
        following = device.empty((128, 64))
        if i % 2:
            device.issue("activation", following, nl.exp, tile)
        else:
            device.issue("tensor_scalar", following, tile, nl.subtract, 2.0)
        tile = following
    out = device.empty((128, 64), buffer="hbm")
    device.issue("dma_copy", out, tile, dge_mode=descriptors)
    first, *others = (in_order(device, order) for order in ORDERS)
    for timeline in others:
        assert np.array_equal(timeline.begin, first.begin)
        assert np.array_equal(timeline.end, first.end)


@for_all("order", ORDERS)
@for_all("count", [0, 1, 15, 16, 127, 128])
def test_transfers_have_a_separate_window(order, count):
    """This many stores wait for their data, and one does not."""
    device = Device()
    late, ready = device.empty((128, 64)), device.zeros((128, 64))
    device.issue("dma_copy", late, device.zeros((128, 64), buffer="hbm"))
    for tile in (*(late,) * count, ready):
        device.issue("dma_copy", device.empty((128, 64), buffer="hbm"), tile)
    assert begins_at_once(device, order) is (POLICIES[order].transfers > count)


@pytest.mark.parametrize("order", ORDERS)
def test_a_short_transfer_overtakes_a_long_one_unless_rings_are_in_order(order):
    """They share no engine: the first transfer has 64 partitions, and the second has the others."""
    device = Device()
    long, short = device.empty((64, 8192)), device.empty((128, 8))
    device.issue("dma_copy", long, device.zeros((64, 8192), buffer="hbm"))
    device.issue("dma_copy", short[64:128, :], device.zeros((64, 8), buffer="hbm"))
    timeline = in_order(device, order)
    if POLICIES[order].transfers == 1:
        assert timeline.done[1] == timeline.done[0]
    else:
        assert timeline.done[1] < timeline.done[0] / 2


@for_all("order", ORDERS)
@for_all("count", [0, 1, 2, 15, 16, 127, 128])
def test_instructions_that_read_nothing_are_moved_up_from_further_behind(order, count):
    assert begins_at_once(blocked(count, "memset"), order) is (POLICIES[order].reach > count)


# --- copies ---------------------------------------------------------------------------------------


def copies(count, engine=None, buffers=("sbuf", "sbuf"), target="trn2"):
    """This many copies that do not wait for each other."""
    device = Device(target)
    src = device.zeros((128, 256), buffer=buffers[1])
    for _ in range(count):
        copy(device, device.zeros((128, 256), buffer=buffers[0]), src, engine)
    return device


@for_all("order", ORDERS)
@for_all("engine", [VECTOR, SCALAR, GPSIMD])
def test_a_copy_stays_on_the_engine_that_the_kernel_names(order, engine):
    (name,) = set(engines(in_order(copies(30, engine), order)))
    assert name.lower() == engine.name


@for_all("target", TARGETS)
@for_all("buffers", [("sbuf", "sbuf"), ("sbuf", "psum"), ("psum", "sbuf")])
def test_the_older_compiler_distributes_copies_that_name_no_engine(target, buffers):
    device = copies(30, buffers=buffers, target=target)
    for order in ("in-order", "scheduled"):
        assert set(engines(in_order(device, order))) == {"Vector"}
    shared = {"Scalar"} if buffers[1] == "psum" and target == "trn1" else SHARED
    timeline = in_order(device, "compiled")
    assert set(engines(timeline)) == shared
    counts = Counter(engines(timeline))
    if "psum" in buffers:
        taken = dict(zip(engines(timeline), timeline.busy, strict=True))
    else:
        clocks = {name: timeline.machine.engines[name.lower()].clock_ghz for name in shared}
        taken = {name: (256 + EXPECTED_CYCLES[name.lower()]) / clocks[name] for name in shared}
    given = [counts[name] * taken[name] for name in shared]
    assert max(given) - min(given) <= max(taken.values()) + 1e-6


def test_the_older_compiler_does_not_expect_that_vector_copies_several_elements_per_cycle():
    """Scalar gets nearly half of the copies, although each takes longer there."""
    timeline = in_order(copies(100), "compiled")
    busy = dict(zip(engines(timeline), timeline.busy, strict=True))
    assert busy["Scalar"] > 1.5 * busy["Vector"]
    assert 40 <= engines(timeline).count("Scalar") <= 50


def test_copies_that_wait_for_each_other_stay_on_the_faster_engine():
    """Both engines are idle at the same time, and Vector takes less time."""
    device = Device()
    tiles = [device.zeros((128, 256)) for _ in range(2)]
    for k in range(30):
        copy(device, tiles[k % 2], tiles[1 - k % 2])
    assert set(engines(in_order(device, "compiled"))) == {"Vector"}


def test_copies_out_of_psum_go_to_vector_while_scalar_is_busy():
    device = copies(0)
    src, other = device.zeros((128, 256), buffer="psum"), device.zeros((128, 4096))
    copy(device, device.zeros((128, 256)), src)
    copy(device, device.zeros((128, 4096)), other, SCALAR)
    copy(device, device.zeros((128, 256)), src)
    found = engines(in_order(device, "compiled"))
    assert found == ["Scalar", "Scalar", "Vector"]


def test_a_distributed_copy_has_the_cost_of_its_engine():
    shared = in_order(copies(30), "compiled")
    for engine in (VECTOR, SCALAR):
        (alone,) = set(in_order(copies(1, engine), "compiled").busy)
        (found,) = set(shared.busy[[name.lower() == engine.name for name in engines(shared)]])
        assert found == alone


def test_other_instructions_are_not_distributed():
    """Only copies, and instructions that Scalar's multiplier and adder can do, are distributed."""
    device = Device()
    x, y, z = (device.zeros((128, 64)) for _ in range(3))
    for _ in range(9):
        device.issue("tensor_scalar", x, x, nl.subtract, 1.0)
        device.issue("tensor_tensor", y, z, y, nl.add)
        device.issue("memset", z, 0.0)
    timelines = [in_order(device, order) for order in ORDERS]
    assert all(engines(t) == engines(timelines[0]) for t in timelines)


# --- loads ----------------------------------------------------------------------------------------


def weights_first(others=10):
    """Large loads that are used at the end, then a small load that is used at once."""
    device = Device()
    large = [device.empty((128, 256)) for _ in range(others)]
    for tile in large:
        device.issue("dma_copy", tile, device.zeros((128, 256), buffer="hbm"))
    small = device.empty((1, 1))
    device.issue("dma_copy", small, device.zeros((1, 1), buffer="hbm"))
    for tile in (small, *large):
        copy(device, device.empty((1, 1)), tile[:1, :1], VECTOR)
    return device


@pytest.mark.parametrize("order", ORDERS)
def test_the_current_compiler_moves_the_load_that_is_used_first_to_the_front(order):
    timeline = in_order(weights_first(), order)
    loads = np.argsort(timeline.begin[:11])
    assert loads.tolist() == ([10, *range(10)] if POLICIES[order].by_first_use else [*range(11)])


@pytest.mark.parametrize("order", [*PATHS.values()])
def test_a_load_by_software_is_moved_to_the_front_too(order):
    device = weights_first()
    device.core.program.software = True
    begin = in_order(device, order).begin[:11]
    assert np.argsort(begin).tolist() == [10, *range(10)]


def test_a_load_is_moved_before_any_number_of_others():
    begin = in_order(weights_first(300), "scheduled").begin[:301]
    assert np.argsort(begin)[0] == 300


def other_loads(device, shape):
    """Load 300 tiles, each for one copy."""
    for _ in range(300):
        tile = device.empty(shape)
        device.issue("dma_copy", tile, device.zeros(shape, buffer="hbm"))
        copy(device, device.empty((1, 1)), tile[:1, :1], VECTOR)


@pytest.mark.parametrize("in_place", [False, True])
def test_data_is_not_overwritten_before_it_is_loaded(in_place):
    """Data in HBM, and a tile, are loaded 40 times, first for the instruction that uses them
    last."""
    device = Device()
    hbm, tile = device.zeros((128, 64), buffer="hbm"), device.zeros((128, 64))
    source = tile if in_place else hbm
    first = device.empty((128, 64))
    device.issue("dma_copy", first, source)
    for _ in range(40):
        again = device.empty((128, 64))
        device.issue("dma_copy", again, source)
        copy(device, device.empty((1, 1)), again[:1, :1], VECTOR)
    overwrite = len(device.core.program)
    device.issue("dma_copy", *((tile, hbm) if in_place else (hbm, tile)))
    other_loads(device, (128, 64))
    copy(device, device.empty((1, 1)), first[:1, :1], VECTOR)
    timeline = in_order(device, "scheduled")
    assert timeline.begin[overwrite] >= timeline.end[0]


def test_the_space_of_a_tile_is_reused_after_it_was_read():
    device = Device()
    room = device.core.machine.sbuf.usable_bytes // 4 - 3000
    tile, first, second = device.zeros((128, room)), *(device.empty((128, 64)) for _ in range(2))
    device.issue("memset", tile, 0.0, engine=VECTOR)
    for part in (first, second):
        device.issue("dma_copy", part, tile[:, :64])
    copy(device, device.empty((1, 1)), second[:1, :1], VECTOR)
    device.issue("memset", device.empty((128, room)), 1.0, engine=VECTOR)
    other_loads(device, (128, 1))
    copy(device, device.empty((1, 1)), first[:1, :1], VECTOR)
    timeline = in_order(device, "scheduled")
    assert timeline.begin[4] >= timeline.end[1]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("read", [False, True])
def test_unused_loads_delay_nothing(order, read):
    """Each tile is loaded and loaded again, and the second load has to wait for the first."""
    device = Device()
    hbm, tile = device.zeros((128, 8), buffer="hbm"), device.empty((128, 8))
    for _ in range(400):
        device.issue("dma_copy", tile, hbm)
        device.issue("memset", tile[:, :1], 0.0)
        if read:
            copy(device, device.empty((128, 7)), tile[:, 1:], VECTOR)
    timeline = in_order(device, order)
    assert (timeline.begin >= 0).all()


# --- choice of the order --------------------------------------------------------------------------


@nki.jit
def today(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(x), 1.0))
    return out


@older.jit
def before(x):
    out = older_nl.ndarray(x.shape, x.dtype, buffer=older_nl.shared_hbm)
    older_nl.store(out, older_nl.add(older_nl.load(x), 1.0))
    return out


@pytest.mark.parametrize(("kernel", "order"), [(today, "scheduled"), (before, "compiled")])
def test_each_api_has_the_order_of_its_compiler(kernel, order):
    program = launched(kernel, FEW).core.program
    timeline = schedule(program, machine.load("trn2"))
    assert program.order == timeline.order == order


@for_all("kernel", [today, before])
@for_all("order", ORDERS)
def test_options_take_precedence_over_the_order_of_the_api(kernel, order):
    assert launched(kernel, FEW, order=order).core.program.order == order


@pytest.mark.parametrize("order", ORDERS)
def test_schedule_accepts_another_order_than_the_program_s(order):
    device = copies(30)
    device.core.program.order = "compiled"
    timeline = in_order(device, order)
    assert timeline.order == order
    device.core.program.order = order
    assert np.array_equal(in_order(device, None).begin, timeline.begin)


@pytest.mark.parametrize("order", ORDERS)
def test_a_record_keeps_its_order(order, tmp_path):
    device = copies(30)
    device.core.program.order = order
    save(Record([device.core.program]), tmp_path / "x")
    (program,) = load(tmp_path / "x").programs
    assert program.order == order
    again = schedule(program, device.core.machine)
    assert np.array_equal(again.queue, in_order(device, order).queue)


@for_all("order", ORDERS)
@for_all("written_by_hardware", [False, True])
def test_an_empty_program_has_an_order(order, written_by_hardware):
    program = Program()
    program.dge = written_by_hardware
    timeline = schedule(program, machine.load("trn2"), order)
    assert (timeline.order, timeline.total_ns) == (order, 0)


@pytest.mark.parametrize("order", ORDERS)
def test_the_report_names_its_order(order):
    timeline = in_order(copies(3), order)
    assert summary(timeline)["order"] == order
    (line,) = [line for line in as_text(timeline) if line.startswith("order ")]
    assert line == f"order      {POLICIES[order].description}"


@pytest.mark.parametrize("order", [None, *ORDERS])
def test_the_command_accepts_an_order_and_prints_it(order, capsys, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import nki, nki.language as nl\n"
        "def copied(x):\n"
        "    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n"
        "    nl.store(out, nl.load(x))\n"
        "    return out\n"
    )
    command = [
        "run",
        f"{file}::copied",
        "--args",
        "float32[4,8]",
        *(["--order", order] * bool(order)),
    ]
    assert main(command) == 0
    assert POLICIES[order or "scheduled"].description in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    (launched,) = json.loads(capsys.readouterr().out)["launches"]
    assert launched["estimate"]["order"] == (order or "scheduled")


def test_the_command_refuses_an_unknown_order(capsys):
    with pytest.raises(SystemExit) as leaving:
        main(["run", "mine.py::kernel", "--order", "any"])
    assert leaving.value.code == 2
    assert "'any'" in capsys.readouterr().err


@pytest.mark.parametrize("kernel", [today, before])
def test_a_saved_profile_has_the_order(kernel, tmp_path):
    kept = launched(kernel, FEW)
    saved.save(kept, None, tmp_path / "x.ntff")
    (figures,) = saved.summaries(saved.read(tmp_path / "x.ntff", "ntff")).values()
    assert figures["order"] == kept.core.program.order


# --- launch paths ---------------------------------------------------------------------------------


def test_a_kernel_that_is_launched_alone_keeps_the_order_of_engines():
    """Later copies wait in order; memsets, which read nothing, run ahead."""
    assert begins_at_once(blocked(3), "scheduled")
    assert not begins_at_once(blocked(3), "standalone")
    assert begins_at_once(blocked(3, "memset"), "standalone")


def test_the_launch_path_affects_only_the_current_api():
    assert order_of("scheduled", "standalone") == "standalone"
    assert order_of("standalone", "framework") == "scheduled"
    assert order_of("compiled", "standalone") == "compiled"
    assert order_of("in-order", "standalone") == "in-order"


@nki.jit
def doubled(x):
    there = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=there, src=tile)
    return there


@pytest.mark.parametrize(
    ("options", "order", "path"),
    [
        ({}, "scheduled", "framework"),
        ({"launch": "standalone"}, "standalone", "standalone"),
        ({"launch": "standalone", "order": "in-order"}, "in-order", None),
    ],
)
def test_figures_name_the_launch_path(options, order, path):
    core = launched(doubled, FEW, **options).core
    figures = summary(schedule(core.program, core.machine))
    assert (figures["order"], figures.get("launch")) == (order, path)
