"""Copies out of PSUM: those that nobody needs, and those that are made in one go.

Both are seen in profiles of attention on trn2 (trainium-kernel-fusion): reductions and exponentials
read PSUM although the kernel has copied it for them, and four transposes of 128 columns, which
share a bank, are copied by one instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.clause.instruction import Call
from neuroncore.clause.operand import PSUM, SBUF
from neuroncore.compiler.copy_propagation import takes
from neuroncore.enums import engine
from neuroncore.record.program import Columns, Program

if TYPE_CHECKING:  # numba is imported when it is needed
    from neuroncore.native.dependencies import Accesses, Flow

Array = npt.NDArray[Any]


class Bypass(NamedTuple):
    """source[i] is the product whose result the readers of copy i take from PSUM instead, -1 if
    they don't; operands are the program's with that, and `users` the places where they differ."""

    source: Array
    operands: Array
    users: Array


def bypass(calls: Sequence[Call], columns: Columns, accesses: Accesses, flow: Flow) -> Bypass:
    """Leave out copies between equal formats, of just what one instruction wrote, whose readers all
    read exactly what was copied, and may read it in PSUM, where it stays until then, in no more time
    than in SBUF."""
    count, start = len(columns.call), columns.start
    last_operand = start[1:] - 1
    source, nobody = np.full(count, -1, np.int32), np.zeros(0, np.intp)
    plain = np.array([_is_plain(call) for call in calls], np.bool_)[columns.call]
    copies = np.flatnonzero(plain)
    makers = flow.reaching[start[copies]]
    plain[copies] = exact = (makers >= 0) & (
        columns.operands[last_operand[makers]] == columns.operands[start[copies]]
    )
    copies, makers = copies[exact], makers[exact]
    if not len(copies):
        return Bypass(source, columns.operands, nobody)
    reader = np.repeat(np.arange(count), np.diff(start))
    place = np.arange(len(reader)) - start[reader]
    reads = (place < accesses.reads[reader]) & (flow.reaching >= 0)
    users = np.flatnonzero(reads & np.append(plain, False)[flow.reaching])
    copy, reader = flow.reaching[users], reader[users]
    fits = columns.operands[users] == columns.operands[last_operand[copy]]
    fits &= np.bincount(reader, minlength=count)[reader] == 1  # no pair of operands in PSUM
    fits &= _may_read(calls, columns.call[reader], place[users], columns.call[copy])
    last, refused = np.full(count, -1), np.zeros(count, np.bool_)
    np.maximum.at(last, copy, reader)
    refused[copy[~fits]] = True
    left_out = (last[copies] >= 0) & ~refused[copies] & (flow.killer[makers] > last[copies])
    source[copies[left_out]] = makers[left_out]
    users = users[source[copy] >= 0]
    operands = columns.operands.copy()
    operands[users] = columns.operands[start[flow.reaching[users]]]
    return Bypass(source, operands, users)


def _is_plain(call: Call) -> bool:
    """Whether it copies from PSUM to SBUF, on no engine of the kernel's choosing, and no format
    changes."""
    if not _empties_psum(call):
        return False
    src, dst = call.view(call.reads[0]), call.view(call.writes[0])
    return dst.region is SBUF and src.dtype is dst.dtype


def _empties_psum(call: Call) -> bool:
    """Whether it copies from PSUM, and the kernel names no engine for that."""
    if not call.instruction.traits.copies_out or call.dynamic or len(call.reads) != 1:
        return False
    return call["engine"] is engine.unknown and call.view(call.reads[0]).region is PSUM


def _may_read(calls: Sequence[Call], readers: Array, places: Array, copies: Array) -> Array:
    """Whether calls may read, as operand number `places`, what those of the copies read."""
    kinds, kind = np.unique(np.column_stack((readers, places, copies)), axis=0, return_inverse=True)
    legal = [_is_legal(calls[reader], place, calls[copy]) for reader, place, copy in kinds]
    found: Array = np.array(legal, np.bool_)[kind.reshape(-1)]
    return found


def _is_legal(reader: Call, place: int, copy: Call) -> bool:
    if reader.dynamic or place >= len(reader.reads):
        return False
    name, src = reader.reads[place], copy.view(copy.reads[0])
    if reader.view(name).shape != src.shape or not takes(reader, name, src):
        return False
    instead = replace(reader, arguments={**reader.arguments, name: src})
    from_psum, from_sbuf = (c.instruction.cost(c, c.machine).busy_ns for c in (instead, reader))
    return bool(from_psum <= from_sbuf)


def merged(program: Program, columns: Columns, bank_bytes: int) -> Array:
    """The first of the copies that one instruction makes, for each of the others; -1 for all else.

    They are the same call of the same line, each right behind a transpose, write next to each
    other, and read no more than one bank together.
    """
    found = np.full(len(program), -1, np.int32)
    read = (call.view(call.reads[0]) if _empties_psum(call) else None for call in program.calls)
    size = np.array([v.free_size * v.dtype.itemsize if v else 0 for v in read], np.int64)
    transposes = np.array([call.transposes for call in program.calls], np.bool_)
    own = 1 + np.flatnonzero(size[columns.call[1:]] * transposes[columns.call[:-1]])
    if not len(own):
        return found
    own = own[np.lexsort((own, columns.line[own], columns.call[own]))]
    same = np.diff(columns.call[own], prepend=-1) == 0
    same &= np.diff(columns.line[own], prepend=-1) == 0
    rows, begin, end = np.split(_box(program, columns, own), (3, 4), axis=1)
    same[1:] &= (rows[1:] == rows[:-1]).all(axis=1) & (begin[1:, 0] == end[:-1, 0])
    order = np.arange(len(own))
    place = order - np.maximum.accumulate(np.where(same, 0, order))
    place %= np.maximum(bank_bytes // size[columns.call[own]], 1)
    found[own[place > 0]] = own[(order - place)[place > 0]]
    return found


def _box(program: Program, columns: Columns, copies: Array) -> Array:
    """Where each copy writes: area, row, end of the rows, byte, end of the bytes."""
    box: Array = program.box_table()[columns.operands[columns.start[copies + 1] - 1], :5]
    return box
