"""What compilers make of the order of instructions: how far each order departs from the program's,
which engines get copies, what is not done twice, who chooses and who tells."""

import json
from typing import get_args

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import TARGETS, Device, launched
from neuronxcc import nki as older
from neuronxcc.nki import language as older_nl

from neuroncore import machine
from neuroncore.cli import main
from neuroncore.options import Order
from neuroncore.program import Program
from neuroncore.record import Record, load, save
from neuroncore.report import saved
from neuroncore.report.summary import summary
from neuroncore.report.text import estimated
from neuroncore.schedule import QUEUES, schedule
from neuroncore.schedule.order import POLICIES

VECTOR, SCALAR, GPSIMD = nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd
SHARED = {"Vector", "Scalar", "GpSimd"}
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
    """A load, so many copies that wait for it, and something that needn't, all on one engine."""
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
    """Whether the last instruction does."""
    return bool(in_order(device, order).begin[-1] == 0)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("count", [0, 1, 2, 127, 128])
def test_an_engine_looks_as_far_ahead_as_its_window(order, count):
    assert begins_at_once(blocked(count), order) is (POLICIES[order].window > count)


def test_reordering_helps_where_much_waits():
    """The older compiler's descriptors are there before; hardware writes those of today's."""
    times = {order: in_order(blocked(1), order).total_ns for order in ORDERS}
    assert times["compiled"] < times["scheduled"] < times["in-order"]


@pytest.mark.parametrize("target", TARGETS)
def test_no_order_helps_where_each_needs_the_one_before(target):
    device = Device(target)
    tile = device.empty((128, 64))
    descriptors = nisa.dge_mode.none
    device.issue("dma_copy", tile, device.zeros((128, 64), buffer="hbm"), dge_mode=descriptors)
    for i in range(12):
        following = device.empty((128, 64))
        if i % 2:
            device.issue("activation", following, nl.exp, tile)
        else:
            device.issue("tensor_scalar", following, tile, nl.multiply, 2.0)
        tile = following
    out = device.empty((128, 64), buffer="hbm")
    device.issue("dma_copy", out, tile, dge_mode=descriptors)
    first, *others = (in_order(device, order) for order in ORDERS)
    for timeline in others:
        assert np.array_equal(timeline.begin, first.begin)
        assert np.array_equal(timeline.end, first.end)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("count", [0, 1, 15, 16, 127, 128])
def test_transfers_have_a_window_of_their_own(order, count):
    """So many stores of what is not there yet, and one of what is."""
    device = Device()
    late, ready = device.empty((128, 64)), device.zeros((128, 64))
    device.issue("dma_copy", late, device.zeros((128, 64), buffer="hbm"))
    for tile in (*(late,) * count, ready):
        device.issue("dma_copy", device.empty((128, 64), buffer="hbm"), tile)
    assert begins_at_once(device, order) is (POLICIES[order].transfers > count)


@pytest.mark.parametrize("order", ORDERS)
def test_a_short_transfer_overtakes_a_long_one_unless_in_order(order):
    """They share no engine: the first is of 64 partitions, the second of the others."""
    device = Device()
    long, short = device.empty((64, 8192)), device.empty((128, 8))
    device.issue("dma_copy", long, device.zeros((64, 8192), buffer="hbm"))
    device.issue("dma_copy", short[64:128, :], device.zeros((64, 8), buffer="hbm"))
    timeline = in_order(device, order)
    if order == "in-order":
        assert timeline.done[1] == timeline.done[0]
    else:
        assert timeline.done[1] < timeline.done[0] / 2


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("count", [0, 1, 2, 15, 16, 127, 128])
def test_what_reads_nothing_is_moved_up_from_further_behind(order, count):
    assert begins_at_once(blocked(count, "memset"), order) is (POLICIES[order].reach > count)


# --- copies ---------------------------------------------------------------------------------------


def copies(count, engine=None, buffers=("sbuf", "sbuf"), target="trn2"):
    device = Device(target)
    dst, src = (device.zeros((128, 256), buffer=b) for b in buffers)
    for _ in range(count):
        copy(device, dst, src, engine)
    return device


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("engine", [VECTOR, SCALAR, GPSIMD])
def test_a_copy_stays_on_the_engine_that_the_kernel_names(order, engine):
    (name,) = set(engines(in_order(copies(30, engine), order)))
    assert name.lower() == engine.name


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("buffers", [("sbuf", "sbuf"), ("sbuf", "psum"), ("psum", "sbuf")])
def test_copies_that_name_no_engine_are_shared_out_by_the_older_compiler(target, buffers):
    device = copies(30, buffers=buffers, target=target)
    for order in ("in-order", "scheduled"):
        assert set(engines(in_order(device, order))) == {"Vector"}
    shared = SHARED - {"GpSimd"} if "psum" in buffers else SHARED
    timeline = in_order(device, "compiled")
    assert set(engines(timeline)) == shared
    given = [timeline.busy[timeline.queue == QUEUES.index(name)].sum() for name in shared]
    assert max(given) - min(given) <= timeline.busy.max() + 1e-6


def test_a_shared_copy_costs_what_it_costs_on_its_engine():
    shared = in_order(copies(30), "compiled")
    for engine in (VECTOR, SCALAR, GPSIMD):
        (alone,) = set(in_order(copies(1, engine), "compiled").busy)
        (found,) = set(shared.busy[[name.lower() == engine.name for name in engines(shared)]])
        assert found == alone


def test_nothing_but_copies_is_shared_out():
    device = Device()
    x, y, z = (device.zeros((128, 64)) for _ in range(3))
    for _ in range(9):
        device.issue("tensor_scalar", x, x, nl.add, 1.0)
        device.issue("tensor_tensor", y, z, y, nl.add)
        device.issue("memset", z, 0.0)
    timelines = [in_order(device, order) for order in ORDERS]
    assert all(engines(t) == engines(timelines[0]) for t in timelines)


@pytest.mark.parametrize("ahead", [5_000, 10_000, 100_000])
def test_an_engine_that_is_behind_takes_copies_for_as_long_as_the_horizon(ahead):
    """Vector has so many nanoseconds of other work; then come copies."""
    device = copies(0)
    dst, src = device.zeros((128, 256)), device.zeros((128, 256))
    device.issue("tensor_scalar", dst, src, nl.add, 1.0)
    each = device.timeline().busy[0]
    for _ in range(round(ahead / each) - 1):
        device.issue("tensor_scalar", dst, src, nl.add, 1.0)
    before = len(device.core.program)
    for _ in range(300):
        copy(device, dst, src)
    timeline = in_order(device, "compiled")
    first = before + engines(timeline)[before:].index("Vector")
    taken = {
        name: timeline.busy[before:first][timeline.queue[before:first] == QUEUES.index(name)].sum()
        for name in ("Scalar", "GpSimd")
    }
    horizon = min(ahead, POLICIES["compiled"].horizon_ns)
    for ns in taken.values():
        assert ns == pytest.approx(horizon, abs=2 * timeline.busy[before:].max())


# --- what is there already ------------------------------------------------------------------------


def add_twice(between=None):
    """The same sum in two tiles."""
    device = Device()
    a, b, x, y = (device.zeros((128, 512)) for _ in range(4))
    device.issue("tensor_tensor", x, a, b, nl.add, engine=VECTOR)
    if between is not None:
        between(device, a)
    device.issue("tensor_tensor", y, a, b, nl.add, engine=VECTOR)
    return device


@pytest.mark.parametrize("order", ORDERS)
def test_the_same_sum_is_made_once_by_the_older_compiler(order):
    timeline = in_order(add_twice(), order)
    if order == "compiled":
        assert timeline.busy[1] == 0 and timeline.end[1] == timeline.end[0]
    else:
        assert timeline.busy[1] == timeline.busy[0]


def test_a_sum_of_other_data_is_made():
    timeline = in_order(add_twice(lambda device, a: device.issue("memset", a, 1.0)), "compiled")
    assert timeline.busy[-1] == timeline.busy[0]
    different = add_twice(lambda device, a: copy(device, device.empty(a.shape), a))
    assert in_order(different, "compiled").busy[-1] == 0


def test_a_sum_that_has_been_overwritten_is_made_again():
    device = Device()
    a, b, x, y = (device.zeros((128, 512)) for _ in range(4))
    device.issue("tensor_tensor", x, a, b, nl.add, engine=VECTOR)
    device.issue("memset", x[:1], 1.0)
    device.issue("tensor_tensor", y, a, b, nl.add, engine=VECTOR)
    assert in_order(device, "compiled").busy[-1] > 0


def load_twice(between, rewritten=False, overwritten=False, dtype="float32"):
    """The same data into two tiles, and so many instructions between."""
    device = Device()
    hbm, other = (device.zeros((128, 512), buffer="hbm") for _ in range(2))
    first = device.empty((128, 512))
    device.issue("dma_copy", first, hbm)
    if overwritten:
        device.issue("memset", first[:, 100:200], 0.0)
    for _ in range(between):
        device.issue("memset", device.empty((1, 1)), 0.0)
    if rewritten:
        device.issue("dma_copy", hbm, other)
    device.issue("dma_copy", device.empty((128, 512), dtype), hbm)
    return device


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("between", "how", "repeats"),
    [
        (0, {}, True),
        (127, {}, True),
        (128, {}, False),
        (0, {"rewritten": True}, False),
        (0, {"overwritten": True}, False),
        (0, {"dtype": "bfloat16"}, False),
    ],
)
def test_a_load_that_is_repeated_soon_is_made_once_by_the_older_compiler(
    order, between, how, repeats
):
    timeline = in_order(load_twice(between, **how), order)
    once = repeats and order == "compiled"
    assert bool(timeline.transfer_ns[-1] == 0) is once
    assert bool(timeline.engines_used[-1] == 0) is once
    if once:
        assert timeline.end[-1] == timeline.end[0]


def copied(between=None, then=None, made="float32", kept="bfloat16", part=slice(None), **named):
    """A sum, and a copy of it."""
    device = Device()
    a, x = device.zeros((128, 512)), device.empty((128, 512), made)
    y = device.zeros((128, 512), kept)
    device.issue("tensor_tensor", x, a, a, nl.add, engine=VECTOR)
    if between is not None:
        between(device, x, y)
    copy(device, y[:, part], x[:, part], **named)
    where = len(device.core.program) - 1
    if then is not None:
        then(device, x, y)
    return device, where


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("made", "kept"), [("float32", "bfloat16"), ("bfloat16", "bfloat16")])
def test_a_sum_made_for_a_copy_is_written_in_its_place_by_the_older_compiler(order, made, kept):
    device, where = copied(made=made, kept=kept)
    timeline = in_order(device, order)
    assert bool(timeline.busy[where] == 0) is (order == "compiled")
    if order == "compiled":
        assert timeline.end[where] == timeline.begin[where] >= timeline.end[0]


def use(device, x, y):
    copy(device, device.empty(x.shape, "float8_e5m2"), x, SCALAR)


@pytest.mark.parametrize(
    "how",
    [
        {"then": use},  # the sum is wanted elsewhere
        {"between": use},
        {"between": lambda device, x, y: copy(device, device.empty(y.shape), y, VECTOR)},
        {"between": lambda device, x, y: device.issue("memset", y[:, :1], 0.0)},
        {"between": lambda device, x, y: device.issue("memset", x[:, :1], 0.0)},
        {"between": lambda device, x, y: device.issue("dma_copy", x, device.zeros(x.shape))},
        {"made": "bfloat16", "kept": "float32"},  # bits are lost on the way
        {"part": slice(0, 256)},
        {"engine": VECTOR},
    ],
)
def test_other_copies_are_made(how):
    device, where = copied(**how)
    assert in_order(device, "compiled").busy[where] > 0


def test_products_are_copied():
    device = Device()
    product = device.empty((128, 512), buffer="psum")
    device.issue("nc_matmul", product, device.zeros((128, 128)), device.zeros((128, 512)))
    copy(device, device.empty((128, 512)), product)
    assert in_order(device, "compiled").busy[-1] > 0


def test_one_of_two_results_may_be_written_in_a_copy_s_place():
    device = Device()
    x, total = device.empty((128, 512)), device.empty((128, 1))
    data = device.zeros((128, 512))
    device.issue("activation_reduce", x, nl.exp, data, reduce_op=nl.add, reduce_res=total)
    device.issue("reciprocal", device.empty((128, 1)), total)
    copy(device, device.empty((128, 512), "bfloat16"), x)
    timeline = in_order(device, "compiled")
    assert timeline.busy[2] == 0 < timeline.busy[1]


# --- who chooses ----------------------------------------------------------------------------------


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


@pytest.mark.parametrize("kernel", [today, before])
@pytest.mark.parametrize("order", ORDERS)
def test_options_choose_before_the_api_does(kernel, order):
    assert launched(kernel, FEW, order=order).core.program.order == order


@pytest.mark.parametrize("order", ORDERS)
def test_schedule_takes_another_order_than_the_program_s(order):
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


@pytest.mark.parametrize("order", ORDERS)
def test_an_empty_program_has_an_order(order):
    timeline = schedule(Program(), machine.load("trn2"), order)
    assert (timeline.order, timeline.total_ns) == (order, 0)


@pytest.mark.parametrize("order", ORDERS)
def test_the_report_says_which_order_it_is_of(order):
    timeline = in_order(copies(3), order)
    assert summary(timeline)["order"] == order
    (line,) = [line for line in estimated(timeline) if line.startswith("order ")]
    assert line == f"order      {POLICIES[order].said}"


@pytest.mark.parametrize("order", [None, *ORDERS])
def test_the_command_takes_an_order_and_tells_it(order, capsys, tmp_path):
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
    assert POLICIES[order or "scheduled"].said in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    (launched,) = json.loads(capsys.readouterr().out)["launches"]
    assert launched["estimate"]["order"] == (order or "scheduled")


def test_the_command_refuses_an_order_that_there_is_not(capsys):
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
