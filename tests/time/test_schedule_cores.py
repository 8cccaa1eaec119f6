"""The schedule of two cores: at a synchronization, each continues when the other has arrived, and
not before."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import launched
from every import for_all
from hypothesis import given, settings
from hypothesis import strategies as st

from neuroncore import machine
from neuroncore.time.path import parts, steps
from neuroncore.time.policy import POLICIES
from neuroncore.time.prepare import prepared
from neuroncore.time.queues import GPSIMD, LOADS, QUEUES, SCALAR, VECTOR
from neuroncore.time.schedule import schedule, schedule_cores

ORDERS = tuple(POLICIES)
X = np.zeros((128, 512), np.float32)


def timed(kernel, *arguments, target="trn2", **options):
    """The timelines of both cores."""
    run = launched(kernel[2], X, *arguments, **{"order": "in-order"} | options)
    return schedule_cores([core.program for core in run.cores], machine.load(target))


def named(timeline, name):
    """Return the positions in the program of the instructions with a name."""
    calls = timeline.program.calls
    return [i for i, c in enumerate(timeline.columns.call) if calls[c].name == name]


def work(tile, times, engine=nisa.engine.vector):
    for _ in range(times):
        nisa.tensor_copy(tile, tile, engine=engine)


def loaded(x):
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    return tile


@nki.jit
def meet(x, before, after=1, rounds=1, engine=nisa.engine.gpsimd):
    """Core r works before[r] times on Vector, then waits, then works on the engine. In the next
    round the two counts are exchanged."""
    shared = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile, other = loaded(x), loaded(x)
    for i in range(rounds):
        work(tile, before[(nl.program_id(0) + i) % 2])
        nisa.dma_copy(shared, tile)
        nisa.core_barrier(shared, (0, 1), engine=engine)
        work(other, after, engine)
    return shared


@nki.jit
def meet_over_sbuf(x, before):
    """GpSimd waits for the other core during copies of Vector in a fast mode, which use its port of
    SBUF. Then Scalar reads the exchanged data."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile, other = (nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf) for _ in range(2))
    fast = [nl.ndarray((128, 64), nl.bfloat16, buffer=nl.sbuf) for _ in range(2)]
    for zeros in (fast[0], other, tile):
        nisa.memset(zeros, 0.0)
    work(tile, before[nl.program_id(0)], nisa.engine.scalar)
    nisa.core_barrier(tile, (0, 1), engine=nisa.engine.gpsimd)
    for _ in range(20):
        nisa.tensor_copy(fast[1], fast[0], engine=nisa.engine.vector)
    work(other, 5, nisa.engine.scalar)
    nisa.tensor_copy(tile[:, :64], tile[:, 64:128], engine=nisa.engine.scalar)
    nisa.dma_copy(out, tile)
    return out


@for_all("order", ORDERS)
@for_all("target", ["trn2", "trn3"])
def test_a_wait_at_a_barrier_is_not_prolonged_by_other_instructions(order, target):
    for timeline in timed(meet_over_sbuf, (40, 0), order=order, target=target):
        (barrier,) = named(timeline, "core_barrier")
        scalar = np.flatnonzero(timeline.queue == SCALAR)
        assert timeline.begin[scalar[-1]] >= timeline.end[barrier] > 20_000


@for_all("order", ORDERS)
@for_all("target", ["trn2", "trn3"])
def test_a_barrier_ends_when_the_later_core_arrives(order, target):
    one, other = timed(meet, (40, 3), order=order, target=target)
    (i,), (j,) = named(one, "core_barrier"), named(other, "core_barrier")
    assert one.done[i] > other.done[j] + 1000  # 40 against 3
    assert one.end[i] == other.end[j]
    semaphore = machine.load(target).fixed.semaphore_ns
    latency = one.end[i] - one.done[i] - semaphore
    assert 0 <= latency < 1000
    alone = schedule(other.program, other.machine.shared_by(2))
    assert alone.end[j] < other.end[j]


@for_all("engine", [nisa.engine.gpsimd, nisa.engine.vector, nisa.engine.scalar])
@for_all("order", ORDERS)
def test_the_engine_of_a_barrier_is_idle_meanwhile(order, engine):
    _, other = timed(meet, (40, 3), 5, 1, engine, order=order)
    (barrier,) = named(other, "core_barrier")
    after = np.flatnonzero(other.queue == other.queue[barrier])
    after = after[after > barrier]
    assert len(after) == 5
    assert (other.begin[after] >= other.end[barrier]).all()


def test_other_engines_continue_during_a_barrier():
    _, other = timed(meet, (40, 3), 5)
    (barrier,) = named(other, "core_barrier")
    vector = np.flatnonzero(other.queue == VECTOR)
    assert (other.end[vector] < other.end[barrier] - 1000).all()
    assert (other.queue == GPSIMD).sum() == 6


@pytest.mark.parametrize("order", ORDERS)
def test_readers_of_exchanged_data_wait_for_the_other_core(order):
    @nki.jit
    def exchange(x, before):
        rank = nl.program_id(0)
        shared = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
        tile = loaded(x)
        work(tile, before[rank])
        nisa.dma_copy(shared[rank], tile)
        nisa.core_barrier(shared, (0, 1))
        nisa.dma_copy(tile, shared[1 - rank])
        return shared

    one, other = timed(exchange, (40, 3), order=order)
    stored = named(one, "dma_copy")[1]
    read = named(other, "dma_copy")[-1]
    assert other.begin[read] > one.end[stored]


@pytest.mark.parametrize("order", ORDERS)
def test_waits_of_alternating_cores_add_up(order):
    """Each core has one slow round, in which the other waits, so both take two slow rounds."""
    one, other = timed(meet, (40, 3), 0, 2, nisa.engine.vector, order=order)
    alone = schedule(one.program, one.machine.shared_by(2))
    slow = 37 * one.busy[named(one, "tensor_copy")[0]]
    for timeline in (one, other):
        assert timeline.total_ns > alone.total_ns + 0.9 * slow
    ends = [t.end[named(t, "core_barrier")] for t in (one, other)]
    np.testing.assert_array_equal(*ends)


@pytest.mark.parametrize("order", ORDERS)
def test_data_arrives_only_after_the_sender_has_it(order):
    @nki.jit
    def send(x, before):
        rank = nl.program_id(0)
        tile, other, third = loaded(x), loaded(x), nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        work(tile, before[rank])
        nisa.sendrecv(tile, other, 1 - rank, 1 - rank, 0)
        nisa.dma_copy(third, x)
        nisa.dma_copy(out, other)
        return out

    one, other = timed(send, (40, 3), order=order)
    (i,), (j,) = named(one, "sendrecv"), named(other, "sendrecv")
    assert one.end[i] == pytest.approx(other.end[j])
    assert other.done[j] < one.begin[i]  # it has sent its own by then
    received = named(other, "dma_copy")[-1]
    assert other.begin[received] >= other.end[j]
    loads = np.flatnonzero(other.queue == LOADS)
    assert other.end[loads[-1]] < other.end[j]  # the other rings continue while one waits
    assert parts(other, steps(other)).other_core > 0.5 * other.total_ns


def test_equal_cores_wait_only_for_a_semaphore():
    one, other = timed(meet, (5, 5))
    alone = schedule(one.program, one.machine.shared_by(2))
    (i,) = named(one, "core_barrier")
    assert np.array_equal(one.begin, other.begin)
    assert np.array_equal(one.begin[:i], alone.begin[:i])
    assert one.end[i] == pytest.approx(alone.end[i] + one.machine.fixed.semaphore_ns)


def test_causes_are_instructions_of_the_same_core():
    one, other = timed(meet, (40, 3), 5, 3)
    for timeline in (one, other):
        count = len(timeline.queue)
        assert timeline.queue.max() < len(QUEUES)
        assert timeline.cause.max() < count
        path = timeline.critical_path.tolist()
        assert path == sorted(path, key=lambda i: timeline.begin[i])
        assert steps(timeline).ns.sum() == pytest.approx(timeline.total_ns)


def test_a_core_does_not_wait_at_a_barrier_that_the_other_record_lacks():
    one, other = timed(meet, (40, 3), record_limit=30)
    assert not named(one, "core_barrier")
    (barrier,) = named(other, "core_barrier")
    assert other.end[barrier] - other.done[barrier] < 1000


# --- any program ----------------------------------------------------------------------------------

ENGINES = (nisa.engine.vector, nisa.engine.gpsimd, nisa.engine.scalar)
COPY = st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 3))


@nki.jit
def rounds_of_copies(x, plans):
    """Each round has copies between tiles by some engine, then a barrier on one of the tiles."""
    tiles = [nl.ndarray((128, 64), d, buffer=nl.sbuf) for d in (nl.bfloat16, nl.float32) * 2]
    for tile in tiles:
        nisa.memset(tile, 0.0)
    for copies in plans[nl.program_id(0)]:
        for unit, dst, src in copies:
            nisa.tensor_copy(tiles[dst], tiles[src], engine=ENGINES[unit])
        nisa.core_barrier(tiles[len(copies) % 4], (0, 1), engine=ENGINES[len(copies) % 2])
    out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tiles[1])
    return out


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("target", ["trn2", "trn3"])
@settings(max_examples=20)
@given(data=st.data())
def test_no_instruction_begins_before_its_dependencies_have_ended(order, target, data):
    rounds = data.draw(st.integers(1, 3))
    each = st.lists(COPY, max_size=12).map(tuple)
    plans = data.draw(st.tuples(*[st.tuples(*[each] * rounds)] * 2))
    timelines = timed(rounds_of_copies, plans, order=order, target=target)
    for timeline in timelines:
        work = prepared(timeline.compiled, machine.load(target)).work
        users = np.repeat(np.arange(len(work.queue)), np.diff(work.first))
        assert (timeline.begin[users] >= timeline.end[work.needs] - 1e-6).all()
        for q in np.unique(timeline.queue):
            own = np.flatnonzero(timeline.queue == q)
            own = own[np.argsort(timeline.begin[own], kind="stable")]
            until = timeline.begin[own] + timeline.busy[own]
            assert (timeline.begin[own[1:]] >= until[:-1] - 1e-6).all()
    one, other = (named(timeline, "core_barrier") for timeline in timelines)
    assert len(one) == len(other) == rounds
    assert (timelines[0].end[one] > timelines[1].begin[other]).all()
    assert (timelines[1].end[other] > timelines[0].begin[one]).all()
