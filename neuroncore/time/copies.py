"""Copies and additions that the older API's compiler leaves out, and copies that it merges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.enums import engine
from neuroncore.clause.instruction import Call
from neuroncore.clause.legality import stays_legal
from neuroncore.clause.operand import PSUM, SBUF
from neuroncore.record.boxes import Box
from neuroncore.record.program import Program
from neuroncore.time.loops.dependencies import Accesses, Flow
from neuroncore.time.loops.partial_reads import partial_reads
from neuroncore.time.vectorized import FLOAT_BYTES

Array = npt.NDArray[Any]
BEGIN = Box._fields.index("byte")


def merged(program: Program, bank_bytes: int) -> Array:
    """Return, for each copy out of PSUM, the first of the copies with which it is merged; -1 for
    this first copy, and for all other instructions.

    Copies are merged if they make the same call at the same line, directly after transposes, and
    write adjacent bytes. Together they read at most one bank. Profiles of attention on trn2 show
    this (trainium-kernel-fusion, a repository): four transposes of 128 columns share a bank and a
    copy. Eight transposes with 16-bit elements exceed 512 columns, and each has its own copy."""
    columns, heads = program.columns(), np.full(len(program), -1, np.int32)
    sources = (call.view(call.reads[0]) if _empties_psum(call) else None for call in program.calls)
    sizes = [(v.free_size, v.free_size * v.dtype.itemsize) if v else (0, 0) for v in sources]
    elements, size = np.array(sizes, np.int64).reshape(-1, 2).T
    transposes = _flags(lambda call: call.transposes, program.calls)
    copies = 1 + np.flatnonzero((size > 0)[columns.call[1:]] & transposes[columns.call[:-1]])
    if not len(copies):
        return heads
    copies = copies[np.lexsort((copies, columns.line[copies], columns.call[copies]))]
    boxes = program.box_table()[columns.operands[columns.start[copies + 1] - 1], :5]
    rows, begin, end = boxes[:, :3], boxes[:, 3], boxes[:, 4]
    same = np.diff(columns.call[copies], prepend=-1) == 0
    same &= np.diff(columns.line[copies], prepend=-1) == 0
    same[1:] &= (rows[1:] == rows[:-1]).all(axis=1) & (begin[1:] == end[:-1])
    order = np.arange(len(copies))
    place = order - np.maximum.accumulate(np.where(same, 0, order))
    place %= np.maximum(bank_bytes // size[columns.call[copies]], 1)
    first = order - place
    length = np.bincount(first, elements[columns.call[copies]], len(copies))[first]
    merges = (place > 0) & (length <= bank_bytes // FLOAT_BYTES)
    heads[copies[merges]] = copies[first[merges]]
    return heads


def bypassed(program: Program, accesses: Accesses, flow: Flow) -> tuple[Array, Array]:
    """Return two arrays about copies out of PSUM that the compiler leaves out, because their
    readers can read PSUM directly.

    1. For each such copy, the instruction that wrote its source; -1 for all other instructions.
    2. The operands of all instructions, where readers of such a copy read its source instead.

    A copy is left out if it copies exactly what one instruction wrote, without a change of format.
    All of its readers must read exactly what was copied. They must be able to read PSUM without
    taking more time, and before PSUM is overwritten. Profiles of attention on trn2
    (trainium-kernel-fusion) show that reductions and exponentials read PSUM in this way. In these
    profiles, copies to later parts of a tile stay. So the copy must begin where its destination
    tile begins."""
    calls, call = program.calls, program.columns().call
    start, operands = accesses.start, accesses.operands
    source, plain = np.full(len(call), -1, np.int32), _flags(_is_plain, calls)[call]
    copies = np.flatnonzero(plain)
    if not len(copies):
        return source, operands
    makers, last_operand = flow.reaching[start[copies]], start[1:] - 1
    exact = (makers >= 0) & (operands[last_operand[makers]] == operands[start[copies]])
    boxes = program.box_table()
    exact &= boxes[operands[last_operand[copies]], BEGIN] == 0
    plain[copies] = exact
    exact &= ~partial_reads(accesses, boxes, plain, at_index(program))[copies]
    plain[copies], copies, makers = exact, copies[exact], makers[exact]
    uses = np.flatnonzero(accesses.is_read & (flow.reaching >= 0) & plain[flow.reaching])
    copy, reader = flow.reaching[uses], accesses.user[uses]
    # two operands can't both be in PSUM
    fits = np.bincount(reader, minlength=len(call))[reader] == 1
    keys = np.column_stack((call[reader], call[copy], uses - start[reader]))
    kinds, kind = np.unique(keys, axis=0, return_inverse=True)
    may_read = (
        _may_read(calls[reader_call], calls[copy_call], place)
        for reader_call, copy_call, place in kinds.tolist()
    )
    fits &= np.array([*may_read], np.bool_)[kind.reshape(-1)]
    last, refused = np.full(len(call), -1), np.zeros(len(call), np.bool_)
    np.maximum.at(last, copy, reader)
    refused[copy[~fits]] = True
    left_out = (last[copies] >= 0) & ~refused[copies] & (flow.killer[makers] > last[copies])
    source[copies[left_out]] = makers[left_out]
    uses, copy, operands = uses[source[copy] >= 0], copy[source[copy] >= 0], operands.copy()
    operands[uses] = operands[start[copy]]
    return source, operands


def accumulated(program: Program, accesses: Accesses, flow: Flow) -> Array:
    """Return, for each instruction that an accumulation in PSUM makes unnecessary, the accumulating
    product; -1 for all other instructions.

    A product accumulates if only an addition to a cleared tile in PSUM reads it. The compiler
    leaves out the addition, the clearing, and copies that exist only because an addition cannot
    read PSUM twice. Compiled programs of published convolutions have no such additions
    (sahiljain01/asst4-trainium). Neither have programs that add results of nl.matmul
    (Ericcsr/asst4-trainium, waahm7/asst4-trainium)."""
    source, call = np.full(len(accesses.reads), -1, np.int32), program.columns().call
    adds = np.flatnonzero(_flags(adds_in_psum, program.calls)[call])
    if not len(adds):
        return source
    start, operands, reaching = accesses.start, accesses.operands, flow.reaching
    products = _flags(lambda c: c.instruction.traits.multiplies and not c.transposes, program.calls)
    copies, clears = _flags(_is_plain, program.calls), _clears(program)
    read = np.flatnonzero(accesses.is_read & (reaching >= 0))
    uses = np.bincount(reaching[read], minlength=len(call))
    every = np.ones(len(call), np.bool_)
    partly = partial_reads(accesses, program.box_table(), every, at_index(program))

    def maker(k: int) -> tuple[int, list[int]]:
        """Return the instruction that computed operand k, and the copies of its result up to
        operand k.

        Each of these instructions must write exactly what the next one reads, and nothing else may
        read it. Otherwise return -1 and an empty list."""
        writer = int(reaching[k])
        if writer < 0 or uses[writer] != 1 or partly[writer]:
            return -1, []
        if not copies[call[writer]]:
            return writer, []
        origin, others = maker(int(start[writer]))
        return origin, [writer, *others]

    for add in adds.tolist():
        sides = [maker(k) for k in range(start[add], start[add] + 2)]
        multiplies = [i >= 0 and bool(products[call[i]]) for i, _ in sides]
        if sum(multiplies) != 1:
            continue
        (product, _), (before, _) = sides if multiplies[0] else sides[::-1]
        in_place = before >= 0 and operands[start[before + 1] - 1] == operands[start[add + 1] - 1]
        if in_place and (clears[before] or source[before] >= 0):
            source[[add, *sides[0][1], *sides[1][1]]] = product
            source[before] = product if clears[before] else source[before]
    return source


def any_left_out(calls: Sequence[Call]) -> bool:
    """Return whether the compiler may leave out one of these calls."""
    return any(is_open(call) or adds_in_psum(call) for call in calls)


def adds_in_psum(call: Call) -> bool:
    """Return whether the call adds two tiles and writes the sum to PSUM."""
    sums = call.instruction.older_compiler.sums
    if sums is None or call.dynamic or len(call.reads) != 2 or not sums(call):
        return False
    return call.view(call.writes[0]).region is PSUM


def _clears(program: Program) -> Array:
    """Return, for each instruction, whether it fills a tile with zeros."""
    columns = program.columns()
    # the last entry is for the index -1, which instructions without values have
    zero = np.array([*(key[:1] == (0,) for key in program.data.values), False])
    fills = _flags(lambda call: call.instruction.older_compiler.fills, program.calls)
    clears: Array = fills[columns.call] & zero[columns.values]
    return clears


def _flags(rule: Callable[[Call], bool], calls: list[Call]) -> Array:
    return np.array([rule(call) for call in calls], np.bool_)


def at_index(program: Program) -> Array:
    """Return a flag for each instruction: whether it writes to addresses that depend on an index at
    run time. Its boxes then contain all addresses to which it may write."""
    calls = _flags(lambda c: not set(c.dynamic).isdisjoint(c.writes), program.calls)
    flags: Array = calls[program.columns().call]
    return flags


def is_open(call: Call) -> bool:
    """Return whether the call copies a tile on an engine that the kernel does not name."""
    if not call.instruction.traits.copies_out or call.dynamic or len(call.reads) != 1:
        return False
    return call["engine"] is engine.unknown


def _empties_psum(call: Call) -> bool:
    """Return whether the call copies from PSUM on an engine that the kernel does not name."""
    return is_open(call) and call.view(call.reads[0]).region is PSUM


def _is_plain(call: Call) -> bool:
    """Return whether the call copies from PSUM to SBUF without a change of format, on an engine
    that the kernel does not name."""
    if not _empties_psum(call):
        return False
    src, dst = call.view(call.reads[0]), call.view(call.writes[0])
    return dst.region is SBUF and src.dtype is dst.dtype


def _may_read(reader: Call, copy: Call, place: int) -> bool:
    """Return whether `reader` can read the source of `copy` in PSUM as its operand `place`, without
    taking longer than with the result of `copy`."""
    if reader.dynamic or place >= len(reader.reads):
        return False
    name, src = reader.reads[place], copy.view(copy.reads[0])
    changed = replace(reader, arguments={**reader.arguments, name: src})
    if reader.view(name).shape != src.shape or not stays_legal(changed):
        return False
    from_psum, from_sbuf = (c.cost(c.machine).busy_ns for c in (changed, reader))
    return bool(from_psum <= from_sbuf)
