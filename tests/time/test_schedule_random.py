r"""Random small programs are timed again by a slow, short and simple scheduler, in each of the
orders that a compiler may give them.

It knows the bytes of every access one by one, of one row for all rows that no access distinguishes.
The cost of a single instruction comes from its clause."""

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from math import floor

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import TARGETS, Device
from hypothesis import example, given, settings
from hypothesis import strategies as st

from neuroncore.base import jit
from neuroncore.time import path
from neuroncore.time.compiled import REPEATED
from neuroncore.time.policy import POLICIES
from neuroncore.time.schedule import schedule

COPIERS = ("vector", "scalar", "gpsimd")
OPEN = ("vector", "scalar")  # engines of instructions for which the kernel names none
ENGINES = {name: nisa.engine[name] for name in (*COPIERS, "unknown")}
QUEUES = ("tensor", "vector", "scalar", "gpsimd", "sync", "loads", "stores")
SHAPE = (128, 16)
ALIKE = {0: 8, 8: 24, 32: 32, 64: 32, 96: 32}  # rows that each access has all of or none: how many


@dataclass
class Step:
    """One instruction: its queue, or the queues that may have it, the bytes of each operand that it
    reads and those that it writes, and its cost on each queue."""

    queues: tuple
    operands: list
    writes: set
    call: int = -1
    costs: dict | None = None
    left_open: bool = False  # whether the kernel names the engine

    @property
    def queue(self):
        return self.queues[0]

    @property
    def reads(self):
        return set().union(*self.operands)

    @property
    def cost(self):
        return self.costs[self.queue]


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
    if kind == "add_and_copy":
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
OPERAND, PSUM = (ROWS[-1], SPANS[0]), ("psum0", (SPANS[0], SPANS[0]))
MANY_WRITERS = [  # of the operands of each product
    *(("fill", ("vector", ("sbuf0", piece))) for piece in PIECES),
    *(("matmul", (PSUM, ("sbuf0", OPERAND), (name, OPERAND))) for name in SBUF * 15),
]
ENDS = ("sbuf0", "hbm0"), ("hbm1", "sbuf1")
MANY_TRANSFERS = [("transfer", ((a, p), (b, p))) for a, b in ENDS for p in PIECES]


# --- the slow scheduler ---------------------------------------------------------------------------


def writer_of(steps, i, touched):
    """Return the last instruction before i that writes any of these bytes, or -1."""
    return max((j for j in range(i) if steps[j].writes & touched), default=-1)


def waits_for(steps, i):
    """Return the instructions that i must wait for: those that write bytes that it reads or
    overwrites, and those that read bytes that it overwrites."""
    step, before = steps[i], range(i)
    writers = {j for j in before if steps[j].writes & (step.reads | step.writes)}
    return writers | {j for j in before if steps[j].reads & step.writes}


def dealt(steps, policy, semaphore_ns):
    """Assign each instruction to the queue on which it ends first, if instructions begin in program
    order and transfers move their bytes one after the other."""
    free, end, moved, result = dict.fromkeys(QUEUES, 0.0), [], 0.0, []
    for i, step in enumerate(steps):
        ready = max((end[j] for j in waits_for(steps, i)), default=0.0)
        ends = {q: max(ready, free[q]) + step.costs[q].busy_ns for q in step.queues}
        queue = min(step.queues if policy.rewrites else step.queues[:1], key=ends.__getitem__)
        cost, free[queue] = step.costs[queue], ends[queue]
        done = ends[queue]
        if cost.transfer is not None:
            done = moved = max(moved, done) + cost.transfer.ns
        end.append(done + cost.latency_ns + semaphore_ns)
        result.append(replace(step, queues=(queue,)))
    return result


def within(elements, *names):
    return {name for name, _ in elements} <= set(names)


def read_in_psum(steps):
    """Return the steps with reads of PSUM instead of reads of copies of it, and for each step
    whether it is such a copy, which no instruction then reads."""
    left_out, users = [False] * len(steps), {}
    readers = [(k, n, read) for k, step in enumerate(steps) for n, read in enumerate(step.operands)]
    written = {(k, n): writer_of(steps, k, read) for k, n, read in readers}
    plain = {
        i
        for i, step in enumerate(steps)
        if step.left_open and within(step.reads, "psum0") and within(step.writes, "sbuf0", "sbuf1")
        if written[i, 0] >= 0 and steps[written[i, 0]].writes == step.reads
    }
    for i in plain:
        users[i] = [(k, n) for k, n, _ in readers if written[k, n] == i]
    for i, own in users.items():
        maker, last = written[i, 0], max((k for k, _ in own), default=-1)
        over = (k for k in range(maker + 1, len(steps)) if steps[k].writes & steps[maker].writes)
        alone = all(sum(k == other for u in users.values() for other, _ in u) == 1 for k, _ in own)
        exact = all(steps[k].operands[n] == steps[i].writes for k, n in own)
        reached = all(steps[k].queue in OPEN for k, _ in own)
        left_out[i] = bool(own) and alone and exact and reached and next(over, len(steps)) > last
    result = [replace(step, operands=list(step.operands)) for step in steps]
    for i in np.flatnonzero(left_out):
        for k, n in users[i]:
            result[k].operands[n] = steps[i].operands[0]
    return result, left_out


def line_up(steps, queue, policy):
    """Return a queue's instructions in the order in which they reach it."""
    own = [i for i, s in enumerate(steps) if s.queue == queue]
    if queue != "loads" or not policy.by_first_use:
        return own

    def first_use(i):
        step, later = steps[i], range(i + 1, len(steps))
        in_hbm = all(name.startswith("hbm") for name, _ in step.reads)
        if not in_hbm or any(steps[j].writes & step.reads for j in later):
            return i
        return next((j for j in later if (steps[j].reads | steps[j].writes) & step.writes), i)

    return sorted(own, key=first_use)


def occupancy(steps, it):
    """Return the time for which each instruction occupies its queue, given the state of the array
    and the tables at that point of the program, and the part of it that loads a table, which needs
    no data."""
    weights, table = None, None
    for i, step in enumerate(steps):
        busy = step.cost.busy_ns
        if step.queue == "tensor":
            held = step.operands[0], writer_of(steps, i, step.operands[0])
            load = 0 if weights == held else step.cost.weights_ns
            busy = max(busy, load) if it.fixed.weights_hidden else busy + load
            weights = held
        early = it.fixed.activation_table_ns if step.cost.table not in (None, table) else 0.0
        table = step.cost.table or table
        yield busy + early, early


class Array:
    """The PE array: half as fast in a window unless enough rows moved in the previous one."""

    def __init__(self, fixed):
        self.fixed, self.origin, self.moved = fixed, None, defaultdict(float)
        self.filled = -np.inf

    def takes(self, begin, busy, cost):
        length = self.fixed.clock_window_ns
        if self.origin is None:
            self.origin = begin - self.fixed.clock_phase * length
        if not cost.fills_half:
            self.filled = begin
        recent = begin - self.filled <= self.fixed.half_filled_ns
        keeps = cost.rows / 2 if recent else 0
        now, left, window = begin, busy, floor((begin - self.origin) / length)
        while left > 0:
            quick = self.moved[window - 1] >= self.fixed.clock_rows
            pace = 1.0 if quick else self.fixed.cold_clock_share
            done = min(left, (self.origin + (window + 1) * length - now) * pace)
            rows = cost.rows if not cost.fills_half else keeps if quick else 0
            self.moved[window] += rows * done / busy
            now, left, window = now + done / pace, left - done, window + 1
        return now - begin


def in_window(line, steps, window, reach):
    """Return the instructions of a queue that may begin next."""
    counted = 0
    for i in line[:reach]:
        counted += bool(steps[i].operands)
        if not steps[i].operands or counted <= window:
            yield i


def wait_for_stores(steps, left_out, begin, busy, end, wait_ns):
    """Delay the last store: at the end, its engine waits for each store that nothing waited for."""
    waited = set().union(np.flatnonzero(left_out), *(waits_for(steps, i) for i in begin))
    final = [i for i, s in enumerate(steps) if s.queue == "stores" and i not in waited]
    clock = max((begin[i] + busy[i] for i in final), default=0.0)
    for i in sorted(final, key=begin.__getitem__):
        clock = max(clock + wait_ns, end[i])
    end |= {i: clock for i in final if begin[i] == max(begin[j] for j in final)}


def next_one(steps, waiting, free, end, policy, sync_ns):
    """Return (begin, instruction) of the one that can begin first; on a tie, the first of QUEUES
    and of the program."""
    ready = []
    for queue, line in waiting.items():
        wide = queue in ("loads", "stores")
        window, reach = (policy.transfers,) * 2 if wide else (policy.window, policy.reach)
        for i in in_window(line, steps, window, reach):
            before = waits_for(steps, i)
            if all(j in end for j in before):
                there = [
                    end[j] + (sync_ns if steps[j].queue != queue else 0.0)
                    for j in before
                    if not steps[j].queue == queue == "tensor"  # sums in PSUM are in order
                ]
                ready.append((max([free[queue], *there]), i))
    return min(ready, key=lambda item: item[0])


def slow_schedule(steps, it, order, again):
    """Return (queue, begin, end) of each instruction; i is omitted if it repeats an again[i]."""
    policy = POLICIES[order]
    steps, in_psum = dealt(steps, policy, it.fixed.semaphore_ns), [False] * len(steps)
    if policy.rewrites:
        steps, in_psum = read_in_psum(steps)
    busy, early = np.array([*occupancy(steps, it)]).reshape(-1, 2).T.tolist()
    array = Array(it.fixed)
    begin, end = {}, {}
    free, complete, engines = dict.fromkeys(QUEUES, 0.0), dict.fromkeys(QUEUES, 0.0), {}
    rivals, sharing = {"vector": "gpsimd", "gpsimd": "vector"}, {}
    left_out = [a >= 0 or b for a, b in zip(again, in_psum, strict=True)]
    for i in np.flatnonzero(left_out):
        busy[i] = early[i] = 0.0
    waiting = {q: line_up(steps, q, policy) for q in QUEUES}
    flying = [0.0] * policy.stores_in_flight  # the ends of stores
    while any(waiting.values()):
        time, i = next_one(steps, waiting, free, end, policy, it.fixed.semaphore_ns)
        step = steps[i]
        waiting[step.queue].remove(i)
        begin[i] = time
        busy[i] -= min(early[i], time - free[step.queue])
        if step.queue == "tensor" and it.fixed.clock_window_ns and busy[i]:
            busy[i] = array.takes(time, busy[i], step.cost)
        if step.cost.shares_sbuf and not left_out[i]:
            j = sharing.get(rivals[step.queue])
            both = 0.0 if j is None else max(0.0, min(busy[i], begin[j] + busy[j] - time))
            if both:
                free[rivals[step.queue]] += both
                end[j] += both
                busy[i], busy[j] = busy[i] + both, busy[j] + both
            sharing[step.queue] = i
        finish = free[step.queue] = time + busy[i]
        transfer = step.cost.transfer
        if not left_out[i] and transfer is not None:
            lanes = range(transfer.first, transfer.last + 1)
            for e in lanes:
                engines[e] = max(engines.get(e, 0.0), finish) + transfer.ns
            ahead = complete[step.queue] if policy.transfers == 1 else 0.0
            finish = complete[step.queue] = max(ahead, *(engines[e] for e in lanes))
            if step.queue == "stores" and policy.stores_in_flight:
                flying.append(finish + step.cost.latency_ns)
                free["stores"] = max(free["stores"], flying[-policy.stores_in_flight])
        end[i] = finish + step.cost.latency_ns * (not left_out[i])
    if policy.rewrites:
        wait_for_stores(steps, left_out, begin, busy, end, it.dma.store_wait_ns)
    count = range(len(steps))
    return [s.queue for s in steps], [begin[i] for i in count], [end[i] for i in count]


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
    return recorder.steps, recorded, it


@pytest.mark.parametrize("order", POLICIES)
@settings(max_examples=30)
@given(
    target=st.sampled_from(TARGETS),
    program=programs,
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
