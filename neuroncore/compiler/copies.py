"""Copies that the older API's compiler leaves out, and those that it makes in one go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.clause.instruction import Call
from neuroncore.clause.legality import stays_legal
from neuroncore.clause.operand import PSUM, SBUF
from neuroncore.enums import engine
from neuroncore.memory.geometry import View
from neuroncore.native.dependencies import Accesses, Flow
from neuroncore.record.program import Program

Array = npt.NDArray[Any]


def merged(program: Program, bank_bytes: int) -> Array:
    """The first of the copies out of PSUM that one instruction makes, for each of the others; -1
    for all else.

    They are the same call of the same line, each right behind a transpose, write next to each
    other, and read no more than one bank together: so profiles of attention on trn2 have it, whose
    four transposes of 128 columns share a bank (trainium-kernel-fusion).
    """
    columns, found = program.columns(), np.full(len(program), -1, np.int32)
    read = (call.view(call.reads[0]) if _empties_psum(call) else None for call in program.calls)
    size = np.array([v.free_size * v.dtype.itemsize if v else 0 for v in read], np.int64)
    transposes = _flags(lambda call: call.transposes, program.calls)
    own = 1 + np.flatnonzero((size > 0)[columns.call[1:]] & transposes[columns.call[:-1]])
    if not len(own):
        return found
    own = own[np.lexsort((own, columns.line[own], columns.call[own]))]
    boxes = program.box_table()[columns.operands[columns.start[own + 1] - 1], :5]
    rows, begin, end = boxes[:, :3], boxes[:, 3], boxes[:, 4]
    same = np.diff(columns.call[own], prepend=-1) == 0
    same &= np.diff(columns.line[own], prepend=-1) == 0
    same[1:] &= (rows[1:] == rows[:-1]).all(axis=1) & (begin[1:] == end[:-1])
    order = np.arange(len(own))
    place = order - np.maximum.accumulate(np.where(same, 0, order))
    place %= np.maximum(bank_bytes // size[columns.call[own]], 1)
    found[own[place > 0]] = own[(order - place)[place > 0]]
    return found


def bypassed(program: Program, accesses: Accesses, flow: Flow) -> tuple[Array, Array]:
    """The product whose result the readers of each copy take from PSUM instead, -1 if they don't,
    and the operands of all with that.

    Such copies are between equal formats, of just what one instruction wrote; their readers all
    read exactly what was copied, and may read it in PSUM, where it stays until then, in no more
    time than in SBUF: so do reductions and exponentials in profiles of attention on trn2
    (trainium-kernel-fusion).
    """
    calls, call = program.calls, program.columns().call
    start, operands = accesses.start, accesses.operands
    source, plain = np.full(len(call), -1, np.int32), _flags(_is_plain, calls)[call]
    copies = np.flatnonzero(plain)
    if not len(copies):
        return source, operands
    makers, last_operand = flow.reaching[start[copies]], start[1:] - 1
    exact = (makers >= 0) & (operands[last_operand[makers]] == operands[start[copies]])
    plain[copies], copies, makers = exact, copies[exact], makers[exact]
    uses = np.flatnonzero(accesses.is_read & (flow.reaching >= 0) & plain[flow.reaching])
    copy, reader = flow.reaching[uses], accesses.user[uses]
    fits = operands[uses] == operands[last_operand[copy]]
    fits &= np.bincount(reader, minlength=len(call))[reader] == 1  # no pair of operands in PSUM
    fits &= _agreed(_may_read, calls, call[reader], call[copy], uses - start[reader])
    last, refused = np.full(len(call), -1), np.zeros(len(call), np.bool_)
    np.maximum.at(last, copy, reader)
    refused[copy[~fits]] = True
    left_out = (last[copies] >= 0) & ~refused[copies] & (flow.killer[makers] > last[copies])
    source[copies[left_out]] = makers[left_out]
    uses, copy, operands = uses[source[copy] >= 0], copy[source[copy] >= 0], operands.copy()
    operands[uses] = operands[start[copy]]
    return source, operands


def propagated(program: Program, accesses: Accesses, flow: Flow, before: Array) -> Array:
    """For each copy that the instruction which made its source writes in its place that one; -1
    for all else. It made it for the copy alone, nothing that came between uses what the copy
    overwrites, and it is not overwritten in part.

    Published attention is as fast with such a copy, of float32 to bfloat16, as without (autocomp's
    fifth search, its steps 3 and 2). before[i] is the instruction that has done the same as i or
    -1.
    """
    calls, call = program.calls, program.columns().call
    start, found = accesses.start, np.full(len(call), -1, np.int32)
    copies = np.flatnonzero(_flags(_leaves_no_trace, calls)[call])
    copies = copies[flow.reaching[start[copies]] >= 0]
    if not len(copies):
        return found
    makers = flow.reaching[start[copies]]
    shared = np.zeros(len(call), np.bool_)
    shared[before[before >= 0]] = shared[before >= 0] = True
    bounds = np.column_stack((flow.first[copies], flow.first[copies + 1])).ravel()
    latest = np.maximum.reduceat(np.append(flow.needs, -1), bounds)[::2]
    fits = (latest == makers) & ~shared[makers] & _stays_whole(call, accesses, flow.killer, makers)
    fits &= _writes_alike(calls, call, accesses, makers, copies)
    copies, makers = copies[fits], makers[fits]
    alone = _readers(program, accesses, flow, copies) == 1
    found[copies[alone]] = makers[alone]
    return found


def _stays_whole(call: Array, accesses: Accesses, killer: Array, makers: Array) -> Array:
    """Whether what each made is there until the same instruction, of the next iteration, makes it
    again."""
    killed = killer[makers] < len(call)
    following = np.where(killed, killer[makers], makers)
    own, next_own = (accesses.operands[accesses.start[i + 1] - 1] for i in (makers, following))
    found: Array = ~killed | ((own == next_own) & (call[makers] == call[following]))
    return found


def _writes_alike(
    calls: list[Call], call: Array, accesses: Accesses, makers: Array, copies: Array
) -> Array:
    """Whether each maker wrote exactly what is copied, and may write what the copy does."""
    start, operands, reads = accesses[:3]
    found = np.zeros(len(makers), np.bool_)
    for k in range(1, 1 + max(len(one.writes) for one in calls)):
        wrote = start[makers + 1] - k
        exact = operands[wrote] == operands[start[copies]]
        exact &= wrote >= start[makers] + reads[makers]
        found[exact] = _agreed(_may_write, calls, call[makers[exact]], call[copies[exact]], k)
    return found


def _readers(program: Program, accesses: Accesses, flow: Flow, copies: Array) -> Array:
    """How many operands are read of what the maker of each copy wrote to the tensor of its
    source."""
    areas, asked = program.box_table()[:, 0], accesses.start[copies]
    made = np.zeros(len(program) + 1, np.bool_)  # the last one for what nobody wrote, -1
    made[flow.reaching[asked]] = True
    users = np.flatnonzero(made[flow.reaching] & accesses.is_read)
    most = areas.max(initial=0) + 1
    used, own = (flow.reaching[k] * most + areas[accesses.operands[k]] for k in (users, asked))
    each, count = np.unique(used, return_counts=True)
    found: Array = count[np.searchsorted(each, own)]
    return found


def _flags(rule: Callable[[Call], bool], calls: list[Call]) -> Array:
    return np.array([rule(call) for call in calls], np.bool_)


def _agreed(
    rule: Callable[[Call, Call, int], bool],
    calls: list[Call],
    one: Array,
    copy: Array,
    operand: Array | int,
) -> Array:
    """What a rule says of calls, copies and numbers of operands, asked once of those alike."""
    each = np.column_stack(np.broadcast_arrays(one, copy, operand))
    kinds, kind = np.unique(each, axis=0, return_inverse=True)
    said = [rule(calls[call], calls[other], int(k)) for call, other, k in kinds]
    found: Array = np.array(said, np.bool_)[kind.reshape(-1)]
    return found


def _empties_psum(call: Call) -> bool:
    """Whether it copies from PSUM, and the kernel names no engine for that."""
    if not call.instruction.traits.copies_out or call.dynamic or len(call.reads) != 1:
        return False
    return call["engine"] is engine.unknown and call.view(call.reads[0]).region is PSUM


def _is_plain(call: Call) -> bool:
    """Whether it copies from PSUM to SBUF, on no engine of the kernel's choosing, and no format
    changes."""
    if not _empties_psum(call):
        return False
    src, dst = call.view(call.reads[0]), call.view(call.writes[0])
    return dst.region is SBUF and src.dtype is dst.dtype


def _leaves_no_trace(call: Call) -> bool:
    """Whether it copies its only operand so that whoever made that may write the copy."""
    direct = call.instruction.older_compiler.into_source
    return direct is not None and not call.dynamic and len(call.reads) == 1 and direct(call)


def _may_read(reader: Call, copy: Call, place: int) -> bool:
    """Whether a call may read, as that operand, what a copy reads, and takes no longer then."""
    if reader.dynamic or place >= len(reader.reads):
        return False
    name, src = reader.reads[place], copy.view(copy.reads[0])
    made = _instead(reader, name, src) if reader.view(name).shape == src.shape else None
    if made is None:
        return False
    from_psum, from_sbuf = (c.cost(c.machine).busy_ns for c in (made, reader))
    return bool(from_psum <= from_sbuf)


def _may_write(maker: Call, copy: Call, k: int) -> bool:
    """Whether a call's last operand but k - 1 may be that of a copy instead."""
    name = maker.writes[-k]
    made, operands = maker.view(name), maker.instruction.operands
    partial = any(p.operand.partial for p in operands if p.operand and p.name == name)
    if maker.engine is engine.dma or maker.dynamic or partial:
        return False
    if made.region is not SBUF or made.dtype is not copy.view(copy.reads[0]).dtype:
        return False
    return _instead(maker, name, copy.view(copy.writes[0])) is not None


def _instead(call: Call, name: str, view: View) -> Call | None:
    """The call with another view as one of its operands; None if that can't be."""
    made = replace(call, arguments={**call.arguments, name: view})
    return made if stays_legal(made) else None
