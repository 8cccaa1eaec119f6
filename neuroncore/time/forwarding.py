"""Copies within SBUF that the older API's compiler leaves out. Their readers read the source
instead.

The source and the destination of such a copy have the same format, are on the same partitions, and
are contiguous bytes. All other copies are kept. Compiled programs of published convolutions show
this (deepashreeKedia/cs149stanfordasst4 on trn2, Ericcsr/asst4-trainium and
sahiljain01/asst4-trainium on trn1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.clause.instruction import Call
from neuroncore.clause.operand import SBUF
from neuroncore.record.boxes import Box
from neuroncore.record.program import Program
from neuroncore.time.copies import at_index, is_open
from neuroncore.time.loops.dependencies import Accesses, Flow
from neuroncore.time.loops.partial_reads import partial_reads

Array = npt.NDArray[Any]
DENSE = Box._fields.index("dense")
BEGINS, ENDS, ROWS = [1, 3], [2, 4], [1, 2]  # columns of a table of boxes


def forwarded(program: Program, accesses: Accesses, flow: Flow) -> tuple[Array, Array]:
    """Return two arrays about the copies that are left out.

    1. For each such copy, the instruction that made its source; -1 for all other instructions.
    2. The operands of all instructions, with the source instead of the copy.

    One instruction made the source of such a copy. The readers read exactly the copied bytes,
    before the copy or the source is overwritten."""
    call, start, operands = program.columns().call, accesses.start, accesses.operands
    makers = np.full(len(call), -1, np.int32)
    copies = np.flatnonzero(np.array([_is_plain(c) for c in program.calls], np.bool_)[call])
    if not len(copies):
        return makers, operands
    makers[copies] = flow.reaching[start[copies]]
    copies = copies[makers[copies] >= 0]
    src, dst, results = start[copies], start[copies] + 1, start[makers[copies] + 1] - 1
    left_out = np.zeros(len(call), np.bool_)
    boxes = program.box_table()
    left_out[copies] = _alike(*(boxes[operands[of]] for of in (src, dst, results)))
    left_out &= ~partial_reads(accesses, boxes, left_out, at_index(program))
    uses = np.flatnonzero(accesses.is_read & (flow.reaching >= 0) & left_out[flow.reaching])
    copy, reader = flow.reaching[uses], accesses.user[uses]
    last = np.full(len(call), -1)
    np.maximum.at(last, copy, reader)
    inner = left_out[reader]  # a copy of a copy
    while (last[copy[inner]] < last[reader[inner]]).any():
        np.maximum.at(last, copy[inner], last[reader[inner]])
    left_out &= (last >= 0) & (flow.killer[makers] > last)
    uses, copy, operands = uses[left_out[copy]], copy[left_out[copy]], operands.copy()
    while (operands[uses] != operands[start[copy]]).any():
        operands[uses] = operands[start[copy]]
    return np.where(left_out, makers, np.int32(-1)), operands


def _alike(src: Array, dst: Array, result: Array) -> Array:
    """Return a flag for each copy: whether its readers may read its source.

    The source and the destination must be contiguous bytes on the same partitions. The instruction
    that made the source must have written all of the source.

    `src`, `dst`: the rows of `Boxes.table` for the source and the destination of each copy
    `result`: the row of `Boxes.table` for the result of the instruction that made the source"""
    dense: Array = (src[:, DENSE] & dst[:, DENSE] & result[:, DENSE]) > 0
    same = (src[:, ROWS] == dst[:, ROWS]).all(axis=1) & (src[:, 0] == result[:, 0])
    within = (result[:, BEGINS] <= src[:, BEGINS]) & (result[:, ENDS] >= src[:, ENDS])
    flags: Array = dense & same & within.all(axis=1)
    return flags


def _is_plain(call: Call) -> bool:
    """Return whether the call copies within SBUF without a change of format, on an engine that the
    kernel does not name."""
    if not is_open(call):
        return False
    src, dst = call.view(call.reads[0]), call.view(call.writes[0])
    return src.region is dst.region is SBUF and src.dtype is dst.dtype
