"""Data dependencies between instructions, for `neuroncore.time.prepare`. A box is a rectangle of
bytes in a memory (`record.boxes`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.jit import borrowing, compiled
from neuroncore.record.loops import mixed, next_slot, no_slots, slot_of

Array = npt.NDArray[Any]
READERS = 32  # an instruction has at most this many readers of an overwritten box in `Flow.needs`


class Accesses(NamedTuple):
    """The boxes that instructions read and write.

    `operands`, `start`: instruction i has the operands operands[start[i]:start[i + 1]], which are
        boxes
    `reads`: the first reads[i] operands of instruction i are read, and the others are written
    `near`, `near_start`: box b shares bytes with the boxes near[near_start[b]:near_start[b + 1]]"""

    start: Array
    operands: Array
    reads: Array
    near: Array
    near_start: Array

    @property
    def user(self) -> Array:
        """The instruction of each operand."""
        return np.repeat(np.arange(len(self.reads)), np.diff(self.start))

    @property
    def is_read(self) -> Array:
        """Return, for each operand, whether it is read."""
        first_write = (self.start[:-1] + self.reads)[self.user]
        read: Array = np.arange(len(self.operands)) < first_write
        return read


class Flow(NamedTuple):
    """The dependencies between instructions.

    `needs`, `first`: instruction i waits for needs[first[i]:first[i + 1]]. These are the last
    writers of all bytes that instruction i reads or overwrites. For each box that instruction i
    overwrites, they are also up to READERS of its last readers.
    `overwriting`, `previous`: instruction overwriting[n] also waits for previous[n, q], the last
        instruction of queue q that reads bytes that are overwritten; -1 for none
    `reload`: reload[i] is True if the PE array holds another tile than the stationary tile of
        instruction i when instruction i begins
    `reaching`: reaching[k] is the last writer of operand k (the reaching definition). The array is
        empty if the caller asked for no reaching definitions.
    `killer`: killer[i] is the first instruction that overwrites a part of the result of i. The
        array is empty like `reaching`."""

    first: Array
    needs: Array
    overwriting: Array
    previous: Array
    reload: Array
    reaching: Array
    killer: Array


class Users(NamedTuple):
    """The users of each box so far.

    `latest`: latest[b] is the last operand that reads box b. All readers since the last write form
        a chain that begins with it.
    `earlier`: earlier[k] is the operand before operand k in the chain
    `reading`: reading[k] is the instruction of operand k
    `noted`: noted[p] is the last instruction that is known to wait for instruction p
    `loaded`: the box in the PE array, and its writer
    `made`: made[0] is the length of `Flow.overwriting` so far

    There is also the last writer of each box, and its last reader on each queue."""

    writer: Array
    reader: Array
    latest: Array
    earlier: Array
    reading: Array
    noted: Array
    loaded: Array
    made: Array


def dependencies(
    queue: Array, queues: int, accesses: Accesses, weights: Array, defines: bool
) -> Flow:
    """Return the dependencies of instructions on `queues` queues.

    `queue`: the queue of each instruction
    `weights`: weights[i] is the index of the operand of instruction i that is a stationary tile; -1
        for none
    `defines`: whether to find the reaching definitions too"""
    count, boxes, operands = len(queue), len(accesses.near_start) - 1, len(accesses.operands)
    flow = Flow(
        first=np.zeros(count + 1, np.int32),
        needs=np.empty(4 * count + 64, np.int32),
        overwriting=np.empty(count, np.int32),
        previous=np.empty((count, queues), np.int32),
        reload=np.zeros(count, np.bool_),
        reaching=np.zeros(operands if defines else 0, np.int32),
        killer=np.full(count if defines else 0, count, np.int32),
    )
    users = Users(
        writer=np.full(boxes, -1, np.int32),
        reader=np.full((boxes, queues), -1, np.int32),
        latest=np.full(boxes, -1, np.int32),
        earlier=np.empty(operands, np.int32),
        reading=np.empty(operands, np.int32),
        noted=np.full(count, -1, np.int32),
        loaded=np.full(2, -1, np.int32),
        made=np.zeros(1, np.int64),
    )
    done, room = 0, len(flow.needs)
    while done < count:
        done = _dependencies.over(count)(done, queue, accesses, weights, users, flow)
        if done < count:
            flow = flow._replace(needs=np.concatenate((flow.needs, np.empty_like(flow.needs))))
    needs, made = flow.needs[: flow.first[-1]], int(users.made[0])
    return flow._replace(
        needs=needs.copy() if len(flow.needs) > room else needs,
        overwriting=flow.overwriting[:made],
        previous=flow.previous[:made],
    )


@compiled
def _dependencies(
    done: int, queue: Array, accesses: Accesses, weights: Array, users: Users, flow: Flow
) -> int:
    """Find the dependencies from instruction `done` on. Return how many instructions are done: not
    all if `needs` is full."""
    start, operands, reads = accesses.start, accesses.operands, accesses.reads
    near, near_start, noted = accesses.near, accesses.near_start, users.noted
    first, needs = flow.first, flow.needs
    for i in range(done, queue.shape[0]):
        end, stationary, its_writer = first[i], -1, -1
        for k in range(start[i], start[i + 1]):
            box, definition = operands[k], -1
            for n in range(near_start[box], near_start[box + 1]):
                if end + READERS >= needs.shape[0]:
                    for again in range(first[i], end):
                        noted[needs[again]] = -1
                    return i
                b = near[n]
                w = users.writer[b]
                if w >= 0:
                    definition = max(definition, w)
                    end = _waiting(i, w, noted, needs, end)
                if k >= start[i] + reads[i]:
                    _overwritten(i, b, w, users, flow)
                    end = _waiting_for_readers(i, b, users, needs, end)
            if flow.reaching.shape[0]:
                flow.reaching[k] = definition
            if k - start[i] == weights[i]:
                stationary, its_writer = box, definition
        if stationary >= 0:
            flow.reload[i] = stationary != users.loaded[0] or its_writer != users.loaded[1]
            users.loaded[0], users.loaded[1] = stationary, its_writer
        _use(i, queue[i], accesses, users)
        first[i + 1] = end
    return len(queue)


@borrowing
def _waiting(i: int, producer: Any, noted: Array, needs: Array, end: int) -> int:
    """Let instruction i wait for `producer`: set needs[end], unless i waits already. Return the new
    end."""
    if noted[producer] != i:
        noted[producer], needs[end] = i, producer
        end += 1
    return end


@borrowing
def _waiting_for_readers(i: int, b: Any, users: Users, needs: Array, end: int) -> int:
    operand = users.latest[b]
    for _ in range(READERS):
        if operand < 0:
            break
        end = _waiting(i, users.reading[operand], users.noted, needs, end)
        operand = users.earlier[operand]
    return end


@borrowing
def _overwritten(i: int, b: Any, writer: Any, users: Users, flow: Flow) -> None:
    """Record that instruction i overwrites box b, whose last writer is `writer` (-1 for none)."""
    if writer >= 0 and flow.killer.shape[0]:
        flow.killer[writer] = min(flow.killer[writer], i)
    for q in range(flow.previous.shape[1]):
        if users.reader[b, q] >= 0:
            n = users.made[0] - 1
            if n < 0 or flow.overwriting[n] != i:
                n += 1
                flow.overwriting[n], users.made[0] = i, n + 1
                for each in range(flow.previous.shape[1]):
                    flow.previous[n, each] = -1
            flow.previous[n, q] = max(flow.previous[n, q], users.reader[b, q])


@borrowing
def _use(i: int, q: Any, accesses: Accesses, users: Users) -> None:
    """Record the boxes that instruction i reads and writes on queue q. All waits of the instruction
    must be known."""
    start, first_write = accesses.start, accesses.start[i] + accesses.reads[i]
    for k in range(start[i], start[i + 1]):
        box = accesses.operands[k]
        if k >= first_write:
            users.writer[box], users.latest[box] = i, -1
        else:
            users.reader[box, q] = i
            users.earlier[k], users.reading[k] = users.latest[box], i
            users.latest[box] = k


def recomputed(call: Array, accesses: Accesses, compared: Array, flow: Flow) -> Array:
    """Return, for each instruction, the last earlier one with the same call and data, if its result
    still exists; -1 for none.

    `compared`: compared[c] is the number of operands of call c that must be the same; 0 if the call
        is always executed again"""
    before = np.full(len(call), -1, np.int32)
    slots = no_slots(len(call))
    _recomputed.over(len(call))(call, accesses, compared, flow, slots, before)
    return before


@compiled
def _recomputed(
    call: Array, accesses: Accesses, compared: Array, flow: Flow, slots: Array, before: Array
) -> None:
    """Find the earlier instructions with the hash table `slots`: the last instruction for each
    result."""
    start, operands, reaching = accesses.start, accesses.operands, flow.reaching
    for i in range(call.shape[0]):
        count = compared[call[i]]
        if count == 0:
            continue
        key = mixed(0, call[i])
        for k in range(start[i], start[i] + count):
            key = mixed(mixed(key, operands[k]), reaching[k])
        slot = slot_of(key, slots.shape[0])
        while slots[slot] >= 0:
            candidate, k = slots[slot], 0
            if call[candidate] == call[i]:
                here, there = start[i], start[candidate]
                while (
                    k < count
                    and operands[here + k] == operands[there + k]
                    and reaching[here + k] == reaching[there + k]
                ):
                    k += 1
                if k == count:
                    break
            slot = next_slot(slot, slots.shape[0])
        candidate, slots[slot] = slots[slot], i
        if candidate >= 0 and flow.killer[candidate] >= i:
            before[i] = candidate


class Overwritten(NamedTuple):
    """The users of boxes and operands.

    For each box: its last writer, and its last reader since any of its bytes was written. For each
    operand k: the reader before it (`earlier`), and its instruction (`reading`)."""

    writer: Array
    latest: Array
    earlier: Array
    reading: Array


def first_uses(accesses: Accesses, moving: Array) -> Array:
    """Return, for each `moving` instruction, the first one that reads or overwrites its result.

    If its inputs are overwritten before, or if it is not `moving`, return its own position."""
    count, boxes = len(accesses.reads), len(accesses.near_start) - 1
    state = Overwritten(
        writer=np.full(boxes, -1, np.int32),
        latest=np.full(boxes, -1, np.int32),
        earlier=np.empty(len(accesses.operands), np.int32),
        reading=np.empty(len(accesses.operands), np.int32),
    )
    used = np.arange(count, dtype=np.int32)
    _first_uses.over(count)(accesses, moving, state, used)
    return used


@compiled
def _first_uses(accesses: Accesses, moving: Array, state: Overwritten, used: Array) -> None:
    start, operands, near = accesses.start, accesses.operands, accesses.near
    writer, latest, earlier, reading = state.writer, state.latest, state.earlier, state.reading
    for i in range(used.shape[0]):
        first_write = start[i] + accesses.reads[i]
        for k in range(start[i], start[i + 1]):
            box = operands[k]
            for n in range(accesses.near_start[box], accesses.near_start[box + 1]):
                w = writer[near[n]]
                if w >= 0 and used[w] == w and moving[w]:
                    used[w] = i
                if k >= first_write:
                    e = latest[near[n]]
                    latest[near[n]] = -1
                    while e >= 0:
                        used[reading[e]], moving[reading[e]] = reading[e], False
                        e = earlier[e]
        for k in range(start[i], start[i + 1]):
            if k >= first_write:
                writer[operands[k]] = i if moving[i] else -1
            elif moving[i]:
                earlier[k], reading[k], latest[operands[k]] = latest[operands[k]], i, k


@compiled
def reads_of(
    accesses: Accesses, boxes: Array, reader: Array, writer: Array, depends: Array
) -> None:
    """Set depends[k] if instruction reader[k] reads bytes that instruction writer[k] writes."""
    start, operands, reads = accesses.start, accesses.operands, accesses.reads
    for k in range(reader.shape[0]):
        i, j = reader[k], writer[k]
        for read in range(start[i], start[i] + reads[i]):
            for written in range(start[j] + reads[j], start[j + 1]):
                if not depends[k] and share_bytes(
                    operands[read], operands[written], accesses, boxes
                ):
                    depends[k] = True


@borrowing
def share_bytes(a: Any, b: Any, accesses: Accesses, boxes: Array) -> bool:
    """Return whether two boxes share bytes. `boxes` is `Boxes.table` of the record.

    If neither is dense, search the shorter of their lists of near boxes, which may have
    thousands."""
    near, start = accesses.near, accesses.near_start
    if a == b:
        return True
    if boxes[a, 5] or boxes[b, 5]:
        same_area = boxes[a, 0] == boxes[b, 0]
        rows = boxes[a, 1] < boxes[b, 2] and boxes[b, 1] < boxes[a, 2]
        columns = boxes[a, 3] < boxes[b, 4] and boxes[b, 3] < boxes[a, 4]
        return bool(same_area and rows and columns)
    if start[a + 1] - start[a] > start[b + 1] - start[b]:
        a, b = b, a
    n, end = start[a], start[a + 1]
    while n < end and near[n] != b:
        n += 1
    return bool(n < end)
