"""Random small programs, timed again by a scheduler that is slow, short and obvious.

It knows the bytes of every access one by one, and all instructions that an instruction depends on
rather than the last of each queue. What an instruction costs by itself is taken from its clause.
"""

from dataclasses import dataclass

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import TARGETS, Device
from hypothesis import given, settings
from hypothesis import strategies as st

ENGINES = {name: nisa.engine[name] for name in ("vector", "scalar", "gpsimd")}
QUEUES = ("tensor", "vector", "scalar", "gpsimd", "sync", "loads", "stores")
SHAPE = (128, 16)


@dataclass
class Step:
    """One instruction: its queue, the bytes it reads and writes, and what it costs."""

    queue: str
    reads: set
    writes: set
    stationary: frozenset | None = None
    cost: object = None


class Recorder:
    """Issues instructions on a device and notes which elements of which tensor each one touches."""

    def __init__(self, target):
        self.device = Device(target)
        self.steps = []
        self.tiles = {
            name: self.device.zeros(SHAPE, buffer=name.rstrip("01"))
            for name in ("sbuf0", "sbuf1", "psum0", "hbm0", "hbm1")
        }
        self.elements = np.arange(SHAPE[0] * SHAPE[1]).reshape(SHAPE)

    def part(self, name, where):
        return self.tiles[name][where], {(name, e) for e in self.elements[where].flat}

    def note(self, queue, reads, writes, stationary=None):
        self.steps.append(Step(queue, reads, writes, stationary))

    def copy(self, queue, dst, src):
        (dst, writes), (src, reads) = self.part(*dst), self.part(*src)
        self.device.issue("tensor_copy", dst, src, engine=ENGINES[queue])
        self.note(queue, reads, writes)

    def activate(self, op, dst, src):
        (dst, writes), (src, reads) = self.part(*dst), self.part(*src)
        self.device.issue("activation", dst, op, src)
        self.note("scalar", reads, writes)

    def transfer(self, dst, src):
        queue = "stores" if dst[0].startswith("hbm") else "loads"
        (dst, writes), (src, reads) = self.part(*dst), self.part(*src)
        self.device.issue("dma_copy", dst, src)
        self.note(queue, reads, writes)

    def matmul(self, dst, stationary, moving):
        (dst, writes), (s, weights) = self.part(*dst), self.part(*stationary)
        x, stream = self.part(*moving)
        self.device.issue("nc_matmul", dst, s, x, accumulate=False)
        self.note("tensor", weights | stream, writes, frozenset(weights))


# --- programs -------------------------------------------------------------------------------------

ROWS = [slice(0, 32), slice(32, 64), slice(0, 64), slice(64, 128), slice(0, 128)]
SPANS = [slice(0, 8), slice(8, 16), slice(4, 12), slice(0, 16, 2), slice(1, 16, 2)]
SBUF, HBM = ("sbuf0", "sbuf1"), ("hbm0", "hbm1")


@st.composite
def instructions(draw):
    """(method, arguments): operands of the same shape, anywhere that their engine reaches."""
    kind = draw(st.sampled_from(["copy", "activate", "load", "store", "matmul"]))
    pick = draw(st.integers(0, 3))
    rows = [slice(32 * pick, 32 * pick + 32), *ROWS][draw(st.integers(0, 5))]

    def operand(names):
        return draw(st.sampled_from(names)), (rows, draw(st.sampled_from(SPANS)))

    if kind == "copy":
        queue = draw(st.sampled_from(sorted(ENGINES)))
        names = SBUF if queue == "gpsimd" else (*SBUF, "psum0")
        return "copy", (queue, operand(names), operand(names))
    if kind == "activate":
        op = draw(st.sampled_from([nl.exp, nl.gelu, nl.copy]))
        return "activate", (op, operand(SBUF), operand((*SBUF, "psum0")))
    if kind == "load":
        return "transfer", (operand(SBUF), operand((*SBUF, *HBM)))
    if kind == "store":
        return "transfer", (operand(HBM), operand((*SBUF, *HBM)))
    weights = ("sbuf0", (rows, draw(st.sampled_from([slice(0, 8), slice(8, 16)]))))
    return "matmul", (("psum0", (slice(0, 8), slice(0, 8))), weights, operand(("sbuf1",)))


programs = st.lists(instructions(), min_size=1, max_size=24)


# --- the slow scheduler ---------------------------------------------------------------------------


def conflicts(first, second):
    """Whether the second must not begin before the first is done."""
    if first.queue == second.queue == "tensor":
        return False  # sums of the Tensor engine meet in PSUM, in order
    touched = second.reads | second.writes
    return bool(first.writes & touched or first.reads & second.writes)


def occupancy(steps, it):
    """How long each keeps its queue, given what the array and the tables hold at that point."""
    weights, table = None, None
    for i, step in enumerate(steps):
        busy = step.cost.busy_ns
        if step.stationary is not None:
            written = max(
                (j for j, s in enumerate(steps[:i]) if s.writes & step.stationary), default=-1
            )
            load = 0 if weights == (step.stationary, written) else step.cost.weights_ns
            busy = max(busy, load) if it.fixed.weights_hidden else busy + load
            weights = step.stationary, written
        if step.cost.table not in (None, table):
            table = step.cost.table
            busy += it.fixed.activation_table_ns
        yield busy


def slow_schedule(steps, it):
    busy = list(occupancy(steps, it))
    begin, end = {}, {}
    free, complete, engines = dict.fromkeys(QUEUES, 0.0), dict.fromkeys(QUEUES, 0.0), {}
    waiting = {q: [i for i, s in enumerate(steps) if s.queue == q] for q in QUEUES}
    while any(waiting.values()):
        ready = {}
        for queue, line in waiting.items():
            before = (
                [j for j in range(line[0]) if conflicts(steps[j], steps[line[0]])] if line else []
            )
            if line and all(j in end for j in before):
                sync = [it.fixed.semaphore_ns * (steps[j].queue != queue) for j in before]
                there = [end[j] + s for j, s in zip(before, sync, strict=True)]
                ready[queue] = max([free[queue], *there])
        queue = min(ready, key=ready.get)  # the first of QUEUES if several
        i = waiting[queue].pop(0)
        begin[i] = ready[queue]
        finish = free[queue] = begin[i] + busy[i]
        transfer = steps[i].cost.transfer
        if transfer is not None:
            for e in range(transfer.first, transfer.last + 1):
                engines[e] = max(engines.get(e, 0.0), finish) + transfer.ns
            moved = max(engines[e] for e in range(transfer.first, transfer.last + 1))
            finish = complete[queue] = max(moved, complete[queue])
        end[i] = finish + steps[i].cost.latency_ns
    return [begin[i] for i in range(len(steps))], [end[i] for i in range(len(steps))]


def record(target, program):
    recorder = Recorder(target)
    for method, arguments in program:
        if target == "trn1" and method == "copy" and arguments[0] == "scalar":
            arguments = ("vector", *arguments[1:])  # v2 copies with activation()
        getattr(recorder, method)(*arguments)
    timeline = recorder.device.timeline()
    for step, index in zip(recorder.steps, timeline.columns.call, strict=True):
        call = timeline.program.calls[index]
        step.cost = call.instruction.cost(call, timeline.machine)
    return recorder.steps, timeline


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=60)
@given(program=programs)
def test_the_schedule_is_that_of_a_slow_and_obvious_one(target, program):
    steps, timeline = record(target, program)
    begin, end = slow_schedule(steps, timeline.machine)
    assert timeline.begin == pytest.approx(begin)
    assert timeline.end == pytest.approx(end)


@settings(max_examples=60)
@given(program=programs, target=st.sampled_from(TARGETS))
def test_no_instruction_begins_before_what_it_needs(target, program):
    steps, timeline = record(target, program)
    begin, end, queue = timeline.begin, timeline.end, timeline.queue
    semaphore, slack = timeline.machine.fixed.semaphore_ns, 1e-6
    for i, step in enumerate(steps):
        for j in range(i):
            if queue[i] == queue[j]:
                assert begin[i] >= begin[j] + timeline.busy[j] - slack
            if conflicts(steps[j], step):
                assert begin[i] >= end[j] + semaphore * (queue[i] != queue[j]) - slack


@settings(max_examples=60)
@given(program=programs, target=st.sampled_from(TARGETS))
def test_shares_and_the_critical_path_add_up(target, program):
    _, timeline = record(target, program)
    assert all(0 <= share <= 1 + 1e-9 for share in timeline.busy_share.values())
    assert sum(timeline.path_share.values()) == pytest.approx(1)
    path = timeline.critical_path
    assert path == sorted(path)
    assert timeline.end[path[-1]] == timeline.end.max()
    assert timeline.begin[path[0]] == timeline.begin.min()
    assert np.all(np.diff(timeline.begin[path]) >= 0)
    assert np.all(timeline.begin + timeline.busy <= timeline.done + 1e-6)
    assert np.all(timeline.done <= timeline.end)
