"""Hypothetical schedules: other times, fewer waits, other calls; and a comparison with schedules
that are computed directly."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import Device
from hypothesis import given, settings
from hypothesis import strategies as st
from neuroncore.kernels import ch05_matmul, ch07_attention

from neuroncore import run
from neuroncore.base.enums import engine
from neuroncore.clause import example
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.clause.legality import whole_call
from neuroncore.machine import load, names
from neuroncore.machine.world import World
from neuroncore.report import why
from neuroncore.time import alternatives, flow, lines, variation
from neuroncore.time.changes import ENGINES, RESOURCES, as_it_is
from neuroncore.time.edits.placement import elsewhere
from neuroncore.time.loops.dependencies import Accesses
from neuroncore.time.queues import QUEUES
from neuroncore.time.variation import Bench, Variation
from neuroncore.time.verdict import bound, outcome

SHAPE = (128, 512)


def add(device, dst, data, **where):
    device.issue("tensor_scalar", dst, data, nl.add, 1.0, **where)


def one_tile(rounds=4):
    """Loads into one tile, each of which waits for the reader of the previous one."""
    device = Device()
    tile = device.empty(SHAPE)
    for _ in range(rounds):
        device.issue("dma_copy", tile, device.zeros(SHAPE, buffer="hbm"))
        add(device, device.empty(SHAPE), tile)
    return device


def varied(device, order=None, **changes):
    program, machine = device.core.program, device.core.machine
    bench = Bench([program], machine, order or program.order, World())
    return bench.timelines([program], machine, [Variation(**changes)])[0]


def calls(device):
    program = device.core.program
    assert program is not None
    return program.calls


def change(timeline, name):
    (found,) = (r for r in RESOURCES if r.name == name)
    return found.change(as_it_is(timeline))


def test_a_variation_without_changes_equals_the_schedule():
    device = one_tile()
    base, same = device.timeline(), varied(device, times=np.ones(8), loose=np.zeros(8, bool))
    for name in ("begin", "busy", "done", "end", "cause"):
        assert np.array_equal(getattr(base, name), getattr(same, name))


def test_a_result_with_a_separate_place_does_not_wait_for_readers():
    device = one_tile()
    base, found = device.timeline(), varied(device, "in-order", renamed=True)
    loads, adds = np.arange(0, 8, 2), np.arange(1, 8, 2)
    assert (base.begin[loads[1:]] > base.end[adds[:-1]]).all()
    assert (found.begin[loads[1:]] < found.end[adds[:-1]]).all()
    assert (found.begin[adds] > found.end[loads]).all()  # readers still wait
    assert found.total_ns < base.total_ns


MOVES = st.tuples(st.sampled_from(["load", "add", "scale", "sum"]), *[st.integers(0, 2)] * 3)


@given(
    moves=st.lists(MOVES, min_size=1, max_size=25), order=st.sampled_from(["in-order", "scheduled"])
)
@settings(max_examples=40)
def test_readers_wait_for_data_in_separate_places_too(order, moves):
    device, writer, reads = Device(), {}, []
    tiles, source = [device.zeros(SHAPE) for _ in range(3)], device.zeros(SHAPE, buffer="hbm")
    for number, (what, dst, one, other) in enumerate(moves):
        used = {"load": (), "sum": (one, other)}.get(what, (one,))
        reads += [(number, writer[tile]) for tile in used if tile in writer]
        if what == "load":
            device.issue("dma_copy", tiles[dst], source)
        elif what == "sum":
            device.issue("tensor_tensor", tiles[dst], tiles[one], tiles[other], nl.add)
        else:
            unit = engine.vector if what == "add" else engine.scalar
            device.issue("tensor_scalar", tiles[dst], tiles[one], nl.add, 1.0, engine=unit)
        writer[dst] = number
    found = varied(device, order, renamed=True)
    assert all(found.begin[number] >= found.end[wrote] for number, wrote in reads)


def test_sums_of_products_keep_their_order_with_separate_places():
    device = Device()
    left, right, total = device.zeros((128, 64)), device.zeros((128, 64)), device.empty(
        (64, 64), buffer="psum"
    )  # fmt: skip
    for _ in range(3):
        add(device, left, left, engine=engine.vector)
        device.issue("nc_matmul", total, left, right)
    found = varied(device, renamed=True)
    assert (np.diff(found.begin[1::2]) > 0).all() and (found.begin[1::2] > found.end[::2]).all()


def test_no_tile_waits_with_unlimited_space():
    device = Device()
    for _ in range(6):
        tile = device.empty((128, 16384))  # 64 KiB per partition, of 192
        device.issue("dma_copy", tile, device.zeros((128, 16384), buffer="hbm"))
        add(device, device.empty(SHAPE), tile[:, :512])
        add(device, tile[:, :512], tile[:, :512])
    base = device.timeline()
    assert outcome(change(base, "space"), base).gain > 0


def test_a_loose_instruction_has_no_dependencies():
    device = one_tile()
    timeline = varied(device, loose=np.arange(8) % 2 == 0)
    assert timeline.begin[1] == 0 and set(timeline.cause.tolist()) <= {-1, -2}
    base, overlapped = device.timeline(), varied(device, loose=np.ones(8, bool))
    busiest = max(overlapped.busy[overlapped.queue == q].sum() for q in range(len(QUEUES)))
    assert busiest <= overlapped.total_ns < base.total_ns


def test_times_are_multiplied_row_by_row():
    device = one_tile()
    base, times = device.timeline(), np.where(np.arange(8) == 3, 3.0, 1.0)
    longer = varied(device, times=times)
    assert np.array_equal(longer.busy, base.busy * times)
    assert longer.end[3] - longer.begin[3] == pytest.approx(3 * (base.end[3] - base.begin[3]))


@pytest.mark.parametrize("resource", ENGINES, ids=lambda r: r.name)
def test_an_engine_twice_as_fast_equals_one_with_twice_the_clock(resource):
    device = Device()
    for unit in (resource.name.lower(), "scalar"):  # Vector and GpSimd share a port
        if unit != "tensor":
            tiles = device.empty(SHAPE), device.zeros(SHAPE)
            device.issue("tensor_copy", *tiles, engine=engine[unit])
    device.issue("nc_transpose", device.empty((64, 64), buffer="psum"), device.zeros((64, 64)))
    base = device.timeline()
    faster = resource.change(as_it_is(base)).scheduled(0)
    own = base.queue == QUEUES.index(resource.name)
    assert faster.busy[own] == pytest.approx(base.busy[own] / 2)
    assert np.array_equal(faster.busy[~own], base.busy[~own])


def test_a_bound_without_unlikely_variations_is_the_best_of_all():
    device = one_tile()
    for _ in range(20):
        add(device, device.empty((128, 4096)), device.zeros((128, 4096)), engine=engine.vector)
    base = device.timeline()
    every = [outcome(r.change(as_it_is(base)), base) for r in RESOURCES]
    best, found = max(every, key=lambda one: one.gain), bound(base)
    assert (found.what, found.gain) == (best.change.what, best.gain) and found.what == "Vector"


def test_if_nothing_is_saturated_the_chain_is_the_bound():
    assert bound(one_tile().timeline()).what == "serial chain"


def test_another_machine_needs_only_other_costs():
    base = as_it_is(one_tile(9).timeline())
    for resource in RESOURCES:
        change = resource.change(base)
        fresh = Bench(base.programs, change.machine, base.bench.order, base.bench.world)
        (anew,) = fresh.timelines(base.programs, change.machine, change.variations)
        assert np.array_equal(change.scheduled(0).end, anew.end)


# --- lines ----------------------------------------------------------------------------------------


def test_lines_on_the_path_add_up_to_the_path():
    base = one_tile().timeline()
    found = lines.on_the_path(base)
    assert sum(line.ns for line in found) == pytest.approx(base.total_ns)
    assert sum(line.steps for line in found) == len(base.critical_path)
    assert [line.ns for line in found] == sorted((line.ns for line in found), reverse=True)


@nki.jit
def twice(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile, more = (nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf) for _ in range(2))
    nisa.dma_copy(tile, x)
    nisa.tensor_scalar(more, tile, nl.add, 1.0, engine=nisa.engine.vector)  # one
    nisa.tensor_scalar(tile, more, nl.add, 1.0, engine=nisa.engine.vector)  # other
    nisa.dma_copy(out, tile)
    return out


def test_a_single_line_moves_to_another_engine():
    base = run(twice, np.ones(SHAPE, np.float32), target="trn2").timelines[0]
    found = {line.place.text.rpartition("# ")[2]: line for line in lines.on_the_path(base)}
    moved = {
        one.action: one.change.scheduled(0) for one in elsewhere(as_it_is(base), found["other"])
    }
    own = np.array([False, False, True, False])
    expected = np.where(own, QUEUES.index("Scalar"), base.queue)
    assert np.array_equal(moved["run tensor_scalar on Scalar"].queue, expected)


def test_a_call_moves_to_engines_that_run_it_and_reach_its_tiles():
    device = Device()
    device.issue("tensor_copy", device.empty((64, 64)), device.zeros((64, 64), buffer="psum"))
    (copy,) = calls(device)
    assert set(alternatives.engines([copy])) == {engine.scalar, engine.gpsimd}
    moved = alternatives.on(engine.scalar, copy)
    assert moved is not None and moved.engine is engine.scalar
    assert alternatives.on(engine.gpsimd, copy) is None  # no way to PSUM
    assert alternatives.on(engine.tensor, copy) is None


# --- cached results -------------------------------------------------------------------------------


@pytest.mark.parametrize("target", names())
def test_cached_costs_are_those_of_the_changed_machine(target):
    machine = load(target)
    changed = [one.machine(machine) for one in RESOURCES]
    for one in INSTRUCTIONS.values():
        call = (
            example.call(one, machine) if one.feature is None or machine.has(one.feature) else None
        )
        if call is not None and not any(whole_call(call, machine)):
            for unit in one.engines:
                call.engine = unit
                for other in (machine, *changed, machine):
                    assert call.cost(other) == one.cost(call, other)


@pytest.mark.parametrize("kernel", [ch05_matmul.naive, ch07_attention.attention])
def test_edits_of_costs_give_the_same_times_as_a_new_preparation(kernel, monkeypatch):
    module = ch05_matmul if kernel is ch05_matmul.naive else ch07_attention
    (timeline,) = run(kernel, *module.inputs(np.random.default_rng(0)), target="trn2").timelines
    kept = why.why("", timeline).answers.to_dict()
    monkeypatch.setattr(variation, "recosted", lambda *_: None)
    assert why.why("", timeline).answers.to_dict() == kept


def test_an_instruction_reads_all_tensors_that_share_bytes_with_its_inputs():
    rng = np.random.default_rng(0)
    begin = rng.integers(0, 40, 12)
    end = begin + rng.integers(1, 9, 12)
    share = (begin[:, None] < end) & (begin < end[:, None])
    count, reads = rng.integers(0, 4, 30), rng.integers(0, 3, 30)
    start = np.append(0, np.cumsum(count))
    near = np.flatnonzero(share.reshape(-1)) % 12
    accesses = Accesses(
        start,
        rng.integers(0, 12, start[-1]),
        np.minimum(reads, count).astype(np.int32),
        near.astype(np.int32),
        np.append(0, np.cumsum(share.sum(axis=1))),
    )
    boxes = np.column_stack([np.zeros((12, 3), np.int64), begin, end, np.arange(12) % 2])
    boxes[:, 2] = 1
    reader, writer = np.divmod(np.arange(900), 30)
    operands = np.split(accesses.operands, start[1:-1])
    inputs = [own[:n] for own, n in zip(operands, accesses.reads, strict=True)]
    outputs = [own[n:] for own, n in zip(operands, accesses.reads, strict=True)]
    wanted = [share[np.ix_(inputs[i], outputs[j])].any() for i in range(30) for j in range(30)]
    assert flow.read_of(accesses, boxes, reader, writer).tolist() == wanted
