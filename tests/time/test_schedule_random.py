"""Random small programs are timed again by a slow scheduler (`slow_scheduler`), in each of the
orders that a compiler may give them. It gets the bytes of one row for all rows that no access
distinguishes."""

from dataclasses import replace
from itertools import pairwise

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import TARGETS, Device
from hypothesis import example, given, settings
from hypothesis import strategies as st
from slow_scheduler import OPEN, QUEUES, SHAPE, Step, slow_schedule, within

from neuroncore.base import jit
from neuroncore.time import path
from neuroncore.time.compiled import REPEATED
from neuroncore.time.policy import EXPECTED_CYCLES, POLICIES
from neuroncore.time.schedule import schedule

COPIERS = ("vector", "scalar", "gpsimd")
ENGINES = {name: nisa.engine[name] for name in (*COPIERS, "unknown")}
ALIKE = {0: 8, 8: 24, 32: 32, 64: 32, 96: 32}  # rows that each access has all of or none: how many


class Recorder:
    """Issues instructions on a device and records the elements of tensors that each one
    accesses."""

    def __init__(self, target):
        self.device = Device(target)
        self.steps = []
        self.tiles = {
            name: self.device.zeros(SHAPE, buffer=name.rstrip("01"))
            for name in ("sbuf0", "sbuf1", "psum0", "hbm0", "hbm1")
        }
        self.elements = np.arange(SHAPE[0] * SHAPE[1]).reshape(SHAPE)
        self.first = np.isin(np.arange(SHAPE[0]), [*ALIKE])

    def part(self, name, where):
        elements = self.elements[where][self.first[where[0]]]
        return self.tiles[name][where], frozenset((name, e) for e in elements.flat)

    def note(self, queues, operands, writes, left_open=False):
        self.steps.append(Step(queues, operands, writes, left_open=left_open))

    def copy(self, queue, dst, src):
        (dst, writes), (src, reads) = self.part(*dst), self.part(*src)
        self.device.issue("tensor_copy", dst, src, engine=ENGINES[queue])
        is_open = queue == "unknown"
        self.note(OPEN if is_open else (queue,), [reads], writes, is_open)

    def fill(self, queue, dst):
        dst, writes = self.part(*dst)
        self.device.issue("memset", dst, 0.0, engine=ENGINES[queue])
        self.note((queue,), [], writes)

    def add(self, dst, one, other):
        (dst, writes), (a, first), (b, second) = (self.part(*x) for x in (dst, one, other))
        self.device.issue("tensor_tensor", dst, a, b, nl.add, engine=ENGINES["vector"])
        self.note(("vector",), [first, second], writes)

    def add_and_copy(self, copied, dst, one, other):
        self.add(dst, one, other)
        self.copy("unknown", copied, dst)

    def add_copy_and_read(self, copied, dst, one, other):
        self.add_and_copy(copied, dst, one, other)
        self.activate(nl.exp, ("psum0", dst[1]), copied)

    def activate(self, op, dst, src):
        (dst, writes), (src, reads) = self.part(*dst), self.part(*src)
        self.device.issue("activation", dst, op, src)
        self.note(("scalar",), [reads], writes)

    def transfer(self, dst, src):
        queue = "stores" if dst[0].startswith("hbm") else "loads"
        (dst, writes), (src, reads) = self.part(*dst), self.part(*src)
        self.device.issue("dma_copy", dst, src)
        self.note((queue,), [reads], writes)

    def matmul(self, dst, stationary, moving):
        (dst, writes), (s, weights) = self.part(*dst), self.part(*stationary)
        x, stream = self.part(*moving)
        self.device.issue("nc_matmul", dst, s, x, accumulate=False)
        self.note(("tensor",), [weights, stream], writes)


# --- programs -------------------------------------------------------------------------------------

ROWS = [slice(0, 32), slice(32, 64), slice(0, 64), slice(64, 128), slice(0, 128)]
SPANS = [slice(0, 8), slice(8, 16), slice(4, 12), slice(0, 16, 2), slice(1, 16, 2)]
SBUF, HBM = ("sbuf0", "sbuf1"), ("hbm0", "hbm1")


@st.composite
def instructions(draw):
    """Draw (method, arguments): operands of the same shape, at any place that their engine
    reaches."""
    kinds = ["copy", "fill", "add", "add_and_copy", "activate", "load", "store", "matmul", "matmul"]
    kinds += ["add_copy_and_read"]
    kind = draw(st.sampled_from(kinds))
    pick = draw(st.integers(0, 3))
    rows = [slice(32 * pick, 32 * pick + 32), *ROWS][draw(st.integers(0, 5))]

    def operand(names):
        return draw(st.sampled_from(names)), (rows, draw(st.sampled_from(SPANS)))

    if kind == "copy":
        queue = draw(st.sampled_from([*COPIERS, "unknown", "unknown"]))
        names = SBUF if queue == "gpsimd" else (*SBUF, "psum0")
        return "copy", (queue, operand(names), operand(names))
    if kind == "fill":
        return "fill", (draw(st.sampled_from(["vector", "gpsimd"])), operand(SBUF))
    if kind == "add":
        return "add", (operand(SBUF), operand(SBUF[:1]), operand(SBUF))
    if kind in ("add_and_copy", "add_copy_and_read"):
        return kind, tuple(operand(names) for names in (SBUF, SBUF, SBUF[:1], SBUF))
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

PIECES = [(slice(r, r + 32), slice(c, c + 1)) for r in range(0, 128, 32) for c in range(8)]
OPERAND, HALF, PSUM = (ROWS[-1], SPANS[0]), (ROWS[-1], SPANS[2]), ("psum0", (SPANS[0], SPANS[0]))
MANY_WRITERS = [  # of the operands of each product
    *(("fill", ("vector", ("sbuf0", piece))) for piece in PIECES),
    *(("matmul", (PSUM, ("sbuf0", OPERAND), (name, OPERAND))) for name in SBUF * 15),
]
ENDS = ("sbuf0", "hbm0"), ("hbm1", "sbuf1")
MANY_TRANSFERS = [("transfer", ((a, p), (b, p))) for a, b in ENDS for p in PIECES]

OTHER = ROWS[-1], SPANS[1]
COPY = ("add_copy_and_read", (("sbuf1", OPERAND), ("sbuf0", OPERAND), *[("sbuf0", OTHER)] * 2))
READ_AT_SOURCE = [  # instead of copies: in SBUF, then in PSUM
    *[COPY, ("activate", (nl.exp, ("psum0", OPERAND), ("sbuf0", OPERAND)))],
    ("copy", ("unknown", ("sbuf1", OPERAND), ("psum0", OPERAND))),
    ("activate", (nl.gelu, ("sbuf0", OTHER), ("sbuf1", OPERAND))),
]
READ_IN_PART = [COPY, ("activate", (nl.exp, ("sbuf0", OTHER), ("sbuf1", HALF)))]
continued = st.builds(list.__add__, st.sampled_from([[], READ_AT_SOURCE, READ_IN_PART]), programs)


# --- tests ----------------------------------------------------------------------------------------


def record(target, program, window_ns=3000.0, order="in-order"):
    """Return the steps of a program, the record, and a machine with other clock windows."""
    recorder = Recorder(target)
    for method, arguments in program:
        if target == "trn1" and method == "copy" and arguments[0] == "scalar":
            arguments = ("vector", *arguments[1:])  # v2 copies with activation()
        getattr(recorder, method)(*arguments)
    recorded, it = recorder.device.core.program, recorder.device.core.machine
    if it.fixed.clock_window_ns:
        rows = window_ns * it.engines["tensor"].clock_ghz * 3 / 8
        it = replace(it, fixed=replace(it.fixed, clock_window_ns=window_ns, clock_rows=rows))
    for step, index in zip(recorder.steps, recorded.columns().call, strict=True):
        call = recorded.calls[index]
        step.call = index
        if order == "compiled" and step.left_open and within(step.reads, "psum0"):
            step.queues = ("scalar", "vector")[: 1 + (target != "trn1")]
        units = [ENGINES[q] for q in step.queues] if step.left_open else [call.engine]
        used = POLICIES[order].on(it)
        costs = [call.instruction.cost(replace(call, engine=unit), used) for unit in units]
        step.costs = dict(zip(step.queues, costs, strict=True))
        step.expected_ns = {queue: cost.busy_ns for queue, cost in step.costs.items()}
        if len(units) > 1 and all(name != "psum0" for name, _ in step.reads | step.writes):
            elements = max(view.free_size for view in call.views())
            step.expected_ns = {
                queue: (elements + EXPECTED_CYCLES[queue]) / it.engines[queue].clock_ghz
                for queue in step.queues
            }
    return recorder.steps, recorded, it


@pytest.mark.parametrize("order", POLICIES)
@settings(max_examples=30)
@given(
    target=st.sampled_from(TARGETS),
    program=continued,
    window_ns=st.sampled_from([0.0, 60.0, 300.0, 3000.0]),
    half_ns=st.sampled_from([100.0, 2000.0, 250000.0]),
)
@example(target="trn2", program=MANY_WRITERS, window_ns=300.0, half_ns=100.0)
@example(target="trn2", program=MANY_TRANSFERS, window_ns=300.0, half_ns=100.0)
def test_the_schedule_equals_that_of_a_slow_scheduler(order, target, program, window_ns, half_ns):
    steps, recorded, it = record(target, program, window_ns, order)
    it = replace(it, fixed=replace(it.fixed, half_filled_ns=half_ns))
    timeline = schedule(recorded, it, order)
    form = timeline.compiled
    again = np.where(form.fate == REPEATED, form.instead, -1).tolist()
    queues, begin, end = slow_schedule(steps, it, order, again)
    assert [QUEUES[q] for q in timeline.queue] == queues
    assert timeline.begin == pytest.approx(begin)
    assert timeline.end == pytest.approx(end)


def nothing_begins_before_its_writers_are_done(steps, timeline, it):
    for i, step in enumerate(steps):
        for j in range(i):
            together = timeline.queue[i] == timeline.queue[j]
            if steps[j].writes & (step.reads | step.writes):
                chained = together and steps[j].queue == "tensor"
                there = timeline.begin[j] if chained else timeline.end[j]
                there += it.fixed.semaphore_ns * (not together)
                assert timeline.begin[i] >= there - 1e-6


def an_engine_executes_one_instruction_at_a_time(_, timeline, it):
    for queue in range(len(QUEUES)):
        own = np.flatnonzero(timeline.queue == queue)
        own = own[np.lexsort((timeline.busy[own], timeline.begin[own]))]
        for one, following in pairwise(own):
            done = timeline.begin[one] + timeline.busy[one]
            assert timeline.begin[following] >= done - 1e-6


def no_order_is_faster_than_an_engine_or_slower_than_sequential_execution(_, timeline, it):
    most = max(timeline.busy[timeline.queue == q].sum() for q in range(len(QUEUES)))
    longest = timeline.end - timeline.begin + it.fixed.semaphore_ns
    assert most - 1e-6 <= timeline.total_ns <= longest.sum() + 1e-6


def shares_and_the_critical_path_add_up(_, timeline, it):
    assert all(0 <= share <= 1 + 1e-9 for share in timeline.busy_share.values())
    assert path.steps(timeline).ns.sum() == pytest.approx(timeline.total_ns)
    critical = timeline.critical_path
    assert len(set(critical)) == len(critical)
    assert timeline.end[critical[-1]] == timeline.end.max()
    assert timeline.begin[critical[0]] == timeline.begin.min()
    assert np.all(np.diff(timeline.begin[critical]) >= 0)
    assert np.all(timeline.begin + timeline.busy <= timeline.done + 1e-6)
    assert np.all(timeline.done <= timeline.end)


def in_order_a_queue_keeps_the_order_of_the_program(steps, timeline, it):
    """Data that is still being read is not overwritten either."""
    for i, step in enumerate(steps):
        for j in range(i):
            together = timeline.queue[i] == timeline.queue[j]
            if together:
                assert timeline.begin[i] >= timeline.begin[j] + timeline.busy[j] - 1e-6
            if steps[j].reads & step.writes and not (together and step.queue == "tensor"):
                assert timeline.begin[i] >= timeline.end[j] - 1e-6


ALWAYS = (
    nothing_begins_before_its_writers_are_done,
    an_engine_executes_one_instruction_at_a_time,
    no_order_is_faster_than_an_engine_or_slower_than_sequential_execution,
    shares_and_the_critical_path_add_up,
)


@pytest.mark.parametrize("order", POLICIES)
@settings(max_examples=25)
@given(program=programs, target=st.sampled_from(TARGETS))
def test_properties_of_every_schedule(order, program, target):
    steps, recorded, it = record(target, program)
    timeline = schedule(recorded, it, order)
    for claim in ALWAYS:
        claim(steps, timeline, it)
    if order == "in-order":
        in_order_a_queue_keeps_the_order_of_the_program(steps, timeline, it)


@pytest.mark.parametrize("order", POLICIES)
@settings(max_examples=20)
@given(program=programs, target=st.sampled_from(TARGETS))
def test_loops_that_run_as_plain_python_have_the_same_bits(order, program, target):
    _, recorded, it = record(target, program)
    found = []
    for warm in (0, 1 << 60):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(jit, "WARM", warm)
            found.append(schedule(recorded, it, order))
    compiled, plain = found
    for name in ("queue", "begin", "busy", "done", "end", "cause", "transfer_ns", "engines_used"):
        assert getattr(compiled, name).tolist() == getattr(plain, name).tolist()
    assert (compiled.peak_sbuf, compiled.peak_psum) == (plain.peak_sbuf, plain.peak_psum)
