"""A slow, short and simple scheduler: it times the instructions of a program in an order that a
compiler may give them. It knows the bytes of every access one by one.

The cost of a single instruction comes from its clause."""

from collections import defaultdict
from dataclasses import dataclass, replace
from math import floor

import numpy as np

from neuroncore.time.policy import POLICIES

OPEN = ("vector", "scalar")  # engines of instructions for which the kernel names none
QUEUES = ("tensor", "vector", "scalar", "gpsimd", "sync", "loads", "stores")
SHAPE = (128, 16)  # of each tensor; its elements are numbered row by row


@dataclass
class Step:
    """One instruction: its queue, or the queues that may have it, the bytes of each operand that it
    reads and those that it writes, its cost on each queue, and for how long the compiler expects it
    to occupy each queue."""

    queues: tuple
    operands: list
    writes: set
    call: int = -1
    costs: dict | None = None
    expected_ns: dict | None = None
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


def writer_of(steps, i, touched):
    """Return the last instruction before i that writes any of these bytes, or -1."""
    return max((j for j in range(i) if steps[j].writes & touched), default=-1)


def waits_for(steps, i):
    """Return the instructions that i must wait for: those that write bytes that it reads or
    overwrites, and those that read bytes that it overwrites."""
    step, before = steps[i], range(i)
    writers = {j for j in before if steps[j].writes & (step.reads | step.writes)}
    return writers | {j for j in before if steps[j].reads & step.writes}


def dealt(steps, policy, semaphore_ns, left_out):
    """Return the queue of each instruction: the one on which the compiler expects it to end first,
    if instructions begin in program order and transfers move their bytes one after the other.
    Instructions that are left out take no time."""
    free, end, moved, result = dict.fromkeys(QUEUES, 0.0), [], 0.0, []
    for i, step in enumerate(steps):
        ready = max((end[j] for j in waits_for(steps, i)), default=0.0)
        ends = {q: max(ready, free[q]) + step.expected_ns[q] for q in step.queues}
        queue = min(step.queues if policy.rewrites else step.queues[:1], key=ends.__getitem__)
        result.append(queue)
        if left_out[i]:
            end.append(ready)
            continue
        cost, free[queue] = step.costs[queue], ends[queue]
        done = ends[queue]
        if cost.transfer is not None:
            done = moved = max(moved, done) + cost.transfer.ns
        end.append(done + cost.latency_ns + semaphore_ns)
    return result


def within(elements, *names):
    return {name for name, _ in elements} <= set(names)


def rows_of(elements):
    return {e // SHAPE[1] for _, e in elements}


def contiguous(elements):
    columns = {e % SHAPE[1] for _, e in elements}
    return max(columns) - min(columns) < len(columns)


def overwritten_first(steps, i):
    """Return the first instruction that overwrites a part of the result of i."""
    later = range(i + 1, len(steps))
    return next((k for k in later if steps[k].writes & steps[i].writes), len(steps))


def writers(steps):
    """Return the last writer of each operand; the keys are pairs (k, n) for operand n of k."""
    readers = [(k, n, read) for k, step in enumerate(steps) for n, read in enumerate(step.operands)]
    return {(k, n): writer_of(steps, k, read) for k, n, read in readers}


def with_sources(steps, left_out, written):
    """Return the steps with reads of the sources of copies that are left out."""
    result = [replace(step, operands=list(step.operands)) for step in steps]
    for (k, n), i in written.items():
        if i >= 0 and left_out[i]:
            result[k].operands[n] = result[i].operands[0]
    return result


def is_read_in_part(steps, i):
    """Return whether an instruction reads the result of i together with other data, or without a
    part of it. A part counts as overwritten only by a contiguous write to all rows."""
    kept, whole = steps[i].writes, True
    for step in steps[i + 1 :]:
        if any(read & kept and not (whole and read == kept) for read in step.operands):
            return True
        if step.writes & kept:
            whole = False
            if contiguous(step.writes) and rows_of(step.writes) >= rows_of(kept):
                kept = kept - step.writes
    return False


def read_at_source(steps):
    """Return the steps with reads of the sources of copies within SBUF, and for each step whether
    it is such a copy, which no instruction then reads."""
    left_out, last, written = [False] * len(steps), {}, writers(steps)
    for i in reversed(range(len(steps))):
        src, dst, maker = steps[i].reads, steps[i].writes, written.get((i, 0), -1)
        if not (steps[i].left_open and within(src | dst, "sbuf0", "sbuf1") and maker >= 0):
            continue
        result = steps[maker].writes
        if not (contiguous(src) and contiguous(dst) and contiguous(result) and result >= src):
            continue
        if rows_of(src) == rows_of(dst) == rows_of(result) and not is_read_in_part(steps, i):
            own = [k for (k, _), writer in written.items() if writer == i]
            last[i] = max((max(k, last.get(k, -1)) for k in own), default=-1)
            left_out[i] = 0 <= last[i] < overwritten_first(steps, maker)
    return with_sources(steps, left_out, written), left_out


def read_in_psum(steps):
    """Return the steps with reads of PSUM instead of reads of copies of it, and for each step
    whether it is such a copy, which no instruction then reads."""
    left_out, users, written = [False] * len(steps), {}, writers(steps)
    plain = {
        i
        for i, step in enumerate(steps)
        if step.left_open and within(step.reads, "psum0") and within(step.writes, "sbuf0", "sbuf1")
        if written[i, 0] >= 0 and steps[written[i, 0]].writes == step.reads
    }
    for i in plain:
        users[i] = [operand for operand, writer in written.items() if writer == i]
    for i, own in users.items():
        maker, last = written[i, 0], max((k for k, _ in own), default=-1)
        alone = all(sum(k == other for u in users.values() for other, _ in u) == 1 for k, _ in own)
        exact = all(steps[k].operands[n] == steps[i].writes for k, n in own)
        reached = all(steps[k].queue in OPEN for k, _ in own)
        in_time = last < overwritten_first(steps, maker)
        whole = exact and not is_read_in_part(steps, i)
        left_out[i] = bool(own) and alone and whole and reached and in_time
    return with_sources(steps, left_out, written), left_out


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


def occupancy(steps, it, issued):
    """Return the time for which each instruction occupies its queue, given the state of the array
    and the tables at that point of the program, and the part of it that loads a table, which needs
    no data. Only the instructions `issued` occupy their queues."""
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
        yield (busy + early, early) if i in issued else (0.0, 0.0)


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
    sources, in_sbuf = read_at_source(steps) if policy.rewrites else (steps, [False] * len(steps))
    queues = dealt(steps, policy, it.fixed.semaphore_ns, in_sbuf)
    steps = [replace(s, queues=(queue,)) for s, queue in zip(sources, queues, strict=True)]
    in_place = policy.rewrites and it.has("psum_read_in_place")
    steps, in_psum = read_in_psum(steps) if in_place else (steps, in_sbuf)
    left_out = [a >= 0 or b or c for a, b, c in zip(again, in_psum, in_sbuf, strict=True)]
    issued = [i for i, out in enumerate(left_out) if not out]
    busy, early = np.array([*occupancy(steps, it, issued)]).reshape(-1, 2).T.tolist()
    array = Array(it.fixed)
    begin, end = {}, {}
    free, complete, engines = dict.fromkeys(QUEUES, 0.0), dict.fromkeys(QUEUES, 0.0), {}
    rivals, sharing = {"vector": "gpsimd", "gpsimd": "vector"}, {}
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
