"""The accesses of instructions as columns: boxes of bytes, and their tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.enums import MemoryRegion
from neuroncore.record.boxes import Box
from neuroncore.record.program import Program
from neuroncore.time.schedule import Timeline
from neuroncore.view.columns import Packed, differences, packed
from neuroncore.view.placement import addresses
from neuroncore.view.times import PageTimes

Array = npt.NDArray[Any]


class AccessTable:
    """The boxes and tensors of the operands of the instructions `shown`, numbered in order of
    appearance."""

    def __init__(self, timeline: Timeline, shown: range) -> None:
        program, columns = timeline.program, timeline.columns
        table, areas = program.box_table(), program.boxes().areas
        start = columns.start[shown.start : shown.stop + 1]
        self.boxes, self.operand = _in_order(columns.operands[start[0] : start[-1]], len(table))
        self.table = table[self.boxes]
        self.areas, self.area = _in_order(areas.of_box[self.boxes], len(areas.kind))
        self.kind = areas.kind[self.areas]
        self.user = np.repeat(np.array(shown, np.int64), np.diff(start))

    def columns(self, program: Program) -> dict[str, Packed]:
        """Return the boxes of each instruction's operands; the fields of a Box, where `pattern` is
        the number of its pattern plus one, or 0 if dense; and the kinds of the areas.

        A box is stored as its distance from the next new one. An area is stored as twice this
        distance, or as one more than twice its number if that is less.
        """
        table = dict(zip(Box._fields, self.table.T, strict=True))
        back = _back(self.area)
        return {
            "operand": packed(_back(self.operand)),
            "box_area": packed(np.where(back <= self.area, 2 * back, 2 * self.area + 1)),
            "box_row": differences(table["row"]),
            "box_rows": packed(table["row_end"] - table["row"]),
            "box_byte": differences(table["byte"]),
            "box_bytes": packed(table["byte_end"] - table["byte"]),
            "box_pattern": packed(program.boxes().pattern[self.boxes] + 1),
            "area_kind": packed(self.kind),
        }


def _in_order(values: Array, count: int) -> tuple[Array, Array]:
    """Return the distinct numbers below `count` in order of appearance, and the position of each
    value among them."""
    first = np.full(count, len(values), np.int64)
    first[values[::-1]] = np.arange(len(values))[::-1]  # the last assignment to an index remains
    order = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(values))]
    place = np.empty(count, np.int64)
    place[order] = np.arange(len(order))
    return order, place[values]


def _back(numbers: Array) -> Array:
    """Return the distance of each number from the next new one; new numbers count up."""
    known = np.maximum.accumulate(np.concatenate([[-1], numbers]))[:-1]
    back: Array = known + 1 - numbers
    return back


def places(timeline: Timeline, accesses: AccessTable, times: PageTimes) -> Array:
    """Return a possible on-chip address, in bytes of a partition, of each unplaced tensor."""
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
        own = np.flatnonzero(free[accesses.kind])
        at[own] = addresses(first[own], last[own], size[own], within)
    return at
