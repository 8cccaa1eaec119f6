"""Columns of integers as compressed text, decoded by `web/columns.js`: the times of instructions,
their accesses, and possible addresses of tiles without an address.

A box is the bytes that an operand accesses: a range of partitions, and a range of bytes in each. An
area is the tensor that contains the box, or a whole memory if the kernel chose addresses. A call
represents all instructions with the same function and equal arguments; their boxes may differ.

A tile without an address gets the lowest address that is free while the tile is in use. The
device's compiler chooses different addresses, which are not published. The amount of memory in use
does not depend on the addresses."""

from __future__ import annotations

import base64
import zlib
from bisect import bisect_left, insort
from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.enums import MemoryRegion
from neuroncore.record.boxes import Box
from neuroncore.record.program import Program
from neuroncore.record.saved import narrowest
from neuroncore.time.loops.work import OWN_QUEUE
from neuroncore.time.schedule import Timeline
from neuroncore.time.timeline import before_in_queue
from neuroncore.view.loops import ranks

Array = npt.NDArray[Any]
LEVEL = 6  # level of compression
Packed = dict[str, Any]


SHORT = 1 << 18  # most integers of a column for which both ways of compression are tried


def packed(values: Array) -> Packed:
    """Return a column of integers as fields of the document.

    `type`: the numpy type of the integers
    `data`: their bytes, compressed with zlib, in base64
    `planes`: the number of bytes per integer; only in columns whose bytes are in another order

    A short column has this order if it takes less text: the first bytes of all integers, then the
    second bytes, and so on. Signed integers are first changed by `signed`."""
    column = narrowest(values)
    plain = {"type": column.dtype.str[1:], "data": text(column.tobytes())}
    if len(column) > SHORT or column.dtype.itemsize not in (2, 4):
        return plain
    order = narrowest(signed(values.astype(np.int64)) if column.dtype.kind == "i" else values)
    width = order.dtype.itemsize
    planes = text(np.ascontiguousarray(order.view(np.uint8).reshape(-1, width).T).tobytes())
    return (
        plain if len(planes) >= len(plain["data"]) else {**plain, "data": planes, "planes": width}
    )


def differences(values: Array) -> Packed:
    """Return a packed column of the differences between successive integers. Its field `sums` makes
    the page add up the differences."""
    return {**packed(np.diff(values.astype(np.int64), prepend=0)), "sums": True}


def text(content: bytes) -> str:
    """Return bytes compressed with zlib, in base64."""
    return base64.b64encode(zlib.compress(content, LEVEL)).decode("ascii")


def signed(values: Array) -> Array:
    """Return integers without signs that take few bits for small values: 0, -1, 1, -2, 2 become 0,
    1, 2, 3, 4."""
    return np.where(values < 0, -2 * values - 1, 2 * values)


END = 1 << 62


def addresses(begin: Array, end: Array, size: Array, bank: int = 0) -> Array:
    """Return the address of each tile within its partitions. Tile n has size[n] bytes per partition
    and is in use from begin[n] to end[n].

    If `bank` is not 0, a tile of at most `bank` bytes does not cross the border of a bank."""
    chosen = [0] * len(begin)
    gaps: list[tuple[int, int]] = [(0, END)]  # begin and end of free bytes, sorted
    taken: list[tuple[float, int, int]] = []  # end of use, first and last byte
    order = np.lexsort((-size, begin))
    rows = zip(
        order.tolist(),
        begin[order].tolist(),
        end[order].tolist(),
        size[order].tolist(),
        strict=True,
    )
    for tile, born, dead, width in rows:
        while taken and taken[0][0] <= born:
            _, first, last = heappop(taken)
            _free(gaps, first, last)
        chosen[tile] = at = _take(gaps, width, bank)
        heappush(taken, (dead, at, at + width))
    return np.array(chosen, np.int64)


def _take(gaps: list[tuple[int, int]], width: int, bank: int) -> int:
    """Remove `width` bytes from the free ranges `gaps`, at the lowest possible address, and return
    this address. `bank` is explained at `addresses`."""
    for i, (first, last) in enumerate(gaps):
        at = first
        if bank and first % bank + width > bank >= width:
            at = -(-first // bank) * bank
        if at + width <= last:
            gaps[i : i + 1] = [g for g in ((first, at), (at + width, last)) if g[0] < g[1]]
            return at
    raise AssertionError("the last gap has no end")


def _free(gaps: list[tuple[int, int]], first: int, last: int) -> None:
    """Add the bytes from `first` to `last` (exclusive) to the free ranges `gaps`, and merge
    adjacent ranges."""
    i = bisect_left(gaps, (first, last))
    if i < len(gaps) and gaps[i][0] == last:
        last = gaps.pop(i)[1]
    if i and gaps[i - 1][1] == first:
        first = gaps.pop(i - 1)[0]
    insort(gaps, (first, last))


CRITICAL, IN_TURN, TRANSFER, ELSEWHERE = 1, 2, 4, 8  # flags of an instruction


class PageTimes:
    """The times of the instructions of a timeline, in ticks of `tick_ns` nanoseconds."""

    def __init__(self, timeline: Timeline, tick_ns: float) -> None:
        self.timeline = timeline
        first = timeline.done - timeline.transfer_ns  # when DMA engines begin to move bytes
        self.begin, self.until, self.end, self.move, self.moved = (
            # differences below a thousandth are rounding errors of sums in a different order
            np.rint(np.round(when / tick_ns, 3)).astype(np.int64)
            for when in (
                timeline.begin, timeline.begin + timeline.busy, timeline.end, first, timeline.done
            )
        )  # fmt: skip

    def columns(self, shown: range) -> dict[str, Packed]:
        """Return columns of the instructions `shown`. Times are in ticks.

        `begin`: relative to the end of the wait (`_since`)
        `busy`: the time in the queue
        `move`: the time from the begin until DMA engines move bytes
        `moving`: the time for which DMA engines move bytes
        `rest`: the time from the end of the move, or without a move from the end of `busy`, until
            the result is available
        `cause`: the distance in rows back to the instruction that this one waited for, changed by
            `signed`; 0 if that instruction is not on the page"""
        timeline, part = self.timeline, slice(shown.start, shown.stop)
        begin, until, end = self.begin[part], self.until[part], self.end[part]
        in_turn = before_in_queue(timeline.queue, timeline.begin)
        cause = np.where(timeline.cause == OWN_QUEUE, in_turn, timeline.cause)[part]
        there = (cause >= shown.start) & (cause < shown.stop)
        back = np.where(there, signed(np.array(shown) - cause), 0)
        flags = np.where(timeline.cause == OWN_QUEUE, IN_TURN, 0) + np.where(
            timeline.moves, TRANSFER, 0
        )
        flags[timeline.critical_path] += CRITICAL
        moves = timeline.moves[part] & (timeline.engines_used[part] > 0)
        done = np.where(moves, self.moved[part], until)
        waited = np.where(there, cause - shown.start, -1)
        over = np.where(timeline.cause[part] == OWN_QUEUE, until[waited], end[waited])
        since = _since(begin, timeline.queue[part], waited, over)
        by_call = ByCall(timeline.columns.call[part])
        return {
            "call": packed(by_call.call),
            "site": by_call.packed(timeline.columns.line[part]),
            "queue": by_call.packed(timeline.queue[part]),
            "begin": packed(since),
            "busy": by_call.packed(until - begin),
            "rest": by_call.packed(end - done),
            "cause": packed(back),
            "move": by_call.packed(np.where(moves, self.move[part] - begin, 0)),
            "moving": by_call.packed(np.where(moves, (self.moved - self.move)[part], 0)),
            "engine": by_call.packed(np.where(moves, timeline.lane[part, 0], 0)),
            "engines": by_call.packed(np.where(moves, timeline.engines_used[part], 0)),
            "flags": packed(flags[part] + np.where((cause >= 0) & ~there, ELSEWHERE, 0)),
        }


class ByCall:
    """Packs a column as differences between instructions with the same call, because most are 0.
    call[n] is the call of instruction n."""

    def __init__(self, call: Array) -> None:
        self.call, self.order = call, np.argsort(call, kind="stable")
        self.first = np.diff(call[self.order], prepend=-1) != 0

    def packed(self, values: Array) -> Packed:
        """Return a packed column of the differences between values, changed by `signed`. Each value
        is compared with the value of the previous instruction with the same call."""
        ordered, since = values[self.order].astype(np.int64), np.empty(len(values), np.int64)
        since[self.order] = np.where(self.first, ordered, np.diff(ordered, prepend=0))
        return {**packed(signed(since)), "by_call": True}


def _since(begin: Array, queue: Array, cause: Array, over: Array) -> Array:
    """Return the begin of each instruction relative to the end of its wait, changed by `signed`. If
    instruction n waited for an earlier instruction, cause[n], its wait ended at over[n]. Otherwise
    the begin is relative to the begin of the queue's previous instruction in program order."""
    since = np.empty_like(begin)
    for q in np.unique(queue).tolist():
        of_queue = np.flatnonzero(queue == q)
        since[of_queue] = np.diff(begin[of_queue], prepend=0)
    known = np.flatnonzero((cause >= 0) & (cause < np.arange(len(begin))))
    since[known] = begin[known] - over[known]
    return signed(since)


def of_measured(raw: Mapping[str, Array]) -> dict[str, Packed]:
    """Return the columns of a page for the rows of a device's trace.

    `raw`: for each row, its times in ticks, the row that it waited for (-1 for none), and the boxes
        of its operands. raw["boxes"] lists the boxes: [area, first partition, number of partitions,
        first byte, number of bytes]."""
    begin, queue, cause = raw["begin"], raw["queue"], raw["cause"]
    rows = np.arange(len(begin))
    area, row, rows_of, byte, size = raw["boxes"].T
    by_call, turn = ByCall(raw["call"]), raw["flags"] & IN_TURN > 0
    over = np.where(turn, raw["kept"][cause], raw["end"][cause])
    nothing = by_call.packed(np.zeros(len(begin), np.int64))
    return {
        "call": packed(by_call.call),
        "flags": packed(raw["flags"]),
        "site": by_call.packed(raw["site"]),
        "queue": by_call.packed(queue),
        "begin": packed(_since(begin, queue, cause, over)),
        "busy": by_call.packed(raw["kept"] - begin),
        "rest": by_call.packed(raw["end"] - raw["kept"]),
        "cause": packed(np.where(cause >= 0, signed(rows - cause), 0)),
        **dict.fromkeys(("move", "moving", "engine", "engines"), nothing),
        "recent": packed(np.zeros(len(raw["operand"]), np.int64)),
        "operand": packed(_back(raw["operand"])),
        "box_area": packed(2 * area + 1),
        "box_row": differences(row),
        "box_rows": packed(rows_of),
        "box_byte": differences(byte),
        "box_bytes": packed(size),
        "box_pattern": packed(np.zeros(len(area), np.int64)),
        "area_kind": packed(np.arange(2)),
        "area_at": differences(np.zeros(2, np.int64)),
    }


class AccessTable:
    """The boxes and areas of the operands of the instructions `shown`. Boxes and areas are numbered
    in the order in which they first appear."""

    def __init__(self, timeline: Timeline, shown: range) -> None:
        program, columns = timeline.program, timeline.columns
        table, areas = program.box_table(), program.boxes().areas
        start = columns.start[shown.start : shown.stop + 1]
        self.boxes, self.operand = _in_order(columns.operands[start[0] : start[-1]], len(table))
        self.table = table[self.boxes]
        self.areas, self.area = _in_order(areas.of_box[self.boxes], len(areas.kind))
        self.kind = areas.kind[self.areas]
        self.user = np.repeat(np.array(shown, np.int64), np.diff(start))
        self.call, self.place = columns.call[self.user], np.arange(start[0], start[-1])
        self.place -= columns.start[self.user]

    def columns(self, program: Program) -> dict[str, Packed]:
        """Return columns about the operands of the instructions (`recent`, `operand`), about the
        boxes (`box_...`), and about the areas (`area_kind`).

        `recent`: for each operand, the rank of its box among the boxes that the same operand of the
            same call used last (`loops.ranks`)
        `operand`: for each operand with rank 0, the distance of the box's number from the lowest
            number that was not used before (`_back`)
        `box_area`: a code for the area of each box: 2d if d is at most n, else 2n + 1; n is the
            area's number, and d its distance from the lowest number that was not used before
        `box_pattern`: the number of a strided pattern plus one, or 0 if the access touches all
            bytes of the box"""
        width = int(self.place.max(initial=0)) + 1
        rank = ranks(self.call * width + self.place, self.operand, len(program.calls) * width)
        table = dict(zip(Box._fields, self.table.T, strict=True))
        back = _back(self.area)
        return {
            "recent": packed(rank),
            "operand": packed(_back(self.operand[rank == 0])),
            "box_area": packed(np.where(back <= self.area, 2 * back, 2 * self.area + 1)),
            "box_row": differences(table["row"]),
            "box_rows": packed(table["row_end"] - table["row"]),
            "box_byte": differences(table["byte"]),
            "box_bytes": packed(table["byte_end"] - table["byte"]),
            "box_pattern": packed(program.boxes().pattern[self.boxes] + 1),
            "area_kind": packed(self.kind),
        }


def _in_order(values: Array, count: int) -> tuple[Array, Array]:
    """Return the distinct values in the order in which they first appear, and the position of each
    value among them. All values are from 0 to less than `count`."""
    first = np.full(count, len(values), np.int64)
    first[values[::-1]] = np.arange(len(values))[::-1]  # the last assignment to an index remains
    order = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(values))]
    place = np.empty(count, np.int64)
    place[order] = np.arange(len(order))
    return order, place[values]


def _back(numbers: Array) -> Array:
    """Return, for each number, its distance from the lowest number that does not occur before it.
    New numbers appear in the order 0, 1, 2, ..., so their distance is 0."""
    known = np.maximum.accumulate(np.concatenate([[-1], numbers]))[:-1]
    back: Array = known + 1 - numbers
    return back


def places(timeline: Timeline, accesses: AccessTable, times: PageTimes) -> Array:
    """Return the first byte of each area within a partition. For tensors on the chip that have no
    address, this byte is a possible address. For all other areas the result is 0."""
    area, kinds = accesses.area[accesses.operand], timeline.program.kinds
    count = len(accesses.areas)
    first, last = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    np.minimum.at(first, area, times.begin[accesses.user])
    np.maximum.at(last, area, times.end[accesses.user])
    at = np.zeros(count, np.int64)
    size = np.array([kind.row_bytes for kind in kinds], np.int64)[accesses.kind]
    bank = timeline.machine.psum.bank_bytes
    for region, within in ((MemoryRegion.sbuf, 0), (MemoryRegion.psum, bank)):
        free = np.array([k.region is region and not k.placed for k in kinds], np.bool_)
        unplaced = np.flatnonzero(free[accesses.kind])
        at[unplaced] = addresses(first[unplaced], last[unplaced], size[unplaced], within)
    return at
