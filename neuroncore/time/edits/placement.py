"""Edits that use other engines or formats, sum in PSUM, or have fewer barriers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.enums import engine
from neuroncore.base.source import Place
from neuroncore.clause.instruction import Call
from neuroncore.clause.operand import PSUM
from neuroncore.record.program import Program
from neuroncore.time import alternatives
from neuroncore.time.changes import Change
from neuroncore.time.edits.edit import (
    Edit,
    Edited,
    accesses_of,
    edit,
    rows_by_call,
    with_calls,
)
from neuroncore.time.lines import Line
from neuroncore.time.variation import AS_IT_IS, Variation

Array = npt.NDArray[Any]
COMPUTE = engine.vector, engine.scalar, engine.gpsimd


def elsewhere(base: Change, line: Line) -> Iterator[Edit]:
    """Yield the edits by which the instructions of a line, or every second one of them, run on
    another engine."""
    names = "/".join(sorted({call.name for call in line.calls}))
    for unit in alternatives.engines(line.calls):
        if unit not in COMPUTE:
            continue
        named = unit.name.capitalize() if unit is not engine.gpsimd else "GpSimd"
        for words, step in (
            (f"run {names} on {named}", 1),
            (f"every second {names} on {named}", 2),
        ):
            make = partial(_moved, place=line.place, unit=unit, step=step)
            found = edit(base, line.place, words, make)
            if found is not None:
                yield found


def _moved(program: Program, place: Place, unit: engine, step: int) -> Edited | None:
    instead = []
    for call, rows in rows_by_call(program, place):
        made = alternatives.on(unit, call)
        if made is not None and len(rows) >= step:
            instead.append((rows[step - 1 :: step], made))
    return Edited(with_calls(program, instead), AS_IT_IS) if instead else None


# --- formats --------------------------------------------------------------------------------------


def narrower_operands(base: Change, line: Line) -> Edit | None:
    """Return the edit that gives the operands of a product 16 bits, starting with the kernel's
    inputs; None for lines without products."""
    if not any(call.instruction.traits.multiplies for call in line.calls):
        return None
    make = partial(_narrowed, place=line.place)
    return edit(base, line.place, "bfloat16 operands, from the inputs on", make)


def _narrowed(program: Program, place: Place) -> Edited | None:
    """Return the program in which the operands of a line's products have 16 bits. The tiles from
    which these operands are moved, transposed or copied have 16 bits too."""
    columns, user, reads = program.columns(), program.users(), program.is_read()
    storage = program.operand_storages()
    here = program.at(place)
    passes = np.array([_passes(call) for call in program.calls])[columns.call]
    narrow = np.unique(storage[reads & here[user]])
    while True:
        sources = np.isin(user, user[~reads & np.isin(storage, narrow) & passes[user]])
        found = np.union1d(narrow, storage[reads & sources])
        if len(found) == len(narrow):
            break
        narrow = found
    instead = _rewritten(program, np.isin(storage, narrow))
    return Edited(with_calls(program, instead), AS_IT_IS) if instead else None


def _passes(call: Call) -> bool:
    """Return whether a call only moves its input."""
    traits = call.instruction.traits
    return not call.dynamic and (traits.copies or traits.copies_out or call.transposes)


def _rewritten(program: Program, narrow: Array) -> list[tuple[Array, Call]]:
    """Return pairs of instructions that change and the new call that they make. In the new calls,
    the operands that `narrow` flags have 16 bits. Return an empty list if the machine refuses one
    of the new calls."""
    columns = program.columns()
    width = max(np.diff(columns.start), default=0)
    flags, user = np.zeros((len(program), width), np.bool_), program.users()
    flags[user, np.arange(len(narrow)) - columns.start[user]] = narrow
    chosen = np.flatnonzero(flags.any(axis=1))
    keys = np.column_stack((columns.call[chosen], flags[chosen]))
    kinds, which = np.unique(keys, axis=0, return_inverse=True)
    instead = []
    for number, (call, *marks) in enumerate(kinds.tolist()):
        old = program.calls[call]
        made = alternatives.with_formats(old, marks)
        if made is None:
            return []
        if made is not old:
            instead.append((chosen[which.reshape(-1) == number], made))
    return instead


# --- sums -----------------------------------------------------------------------------------------


def summed_in_psum(base: Change, line: Line) -> Edit | None:
    """Return the edit that lets products accumulate in PSUM, if the line adds each product to a
    tile; None for other lines."""
    if not any(map(_adds_product, line.calls)):
        return None
    make = partial(_accumulated, place=line.place)
    return edit(base, line.place, "accumulate the products in PSUM instead of adding", make)


def _adds_product(call: Call) -> bool:
    sums = call.instruction.older_compiler.sums
    if sums is None or call.dynamic or len(call.reads) != 2 or not sums(call):
        return False
    return any(call.view(name).region is PSUM for name in call.reads)


def _accumulated(program: Program, place: Place) -> Edited | None:
    """Return the program in which additions of products to a tile take no time, because the
    products accumulate in PSUM. If additions to the same tile follow each other without another use
    of the tile, only the last one takes time: it becomes the copy out of PSUM."""
    accesses, free = accesses_of(program), np.zeros(len(program), np.bool_)
    taken = 0
    for call, rows in rows_by_call(program, place):
        if not _adds_product(call):
            continue
        total = accesses.operands[accesses.start[rows + 1] - 1]
        in_place = (accesses.operands[accesses.start[rows]] == total) | (
            accesses.operands[accesses.start[rows] + 1] == total
        )
        for box in np.unique(total[in_place]).tolist():
            own = rows[in_place & (total == box)]
            near = accesses.near[accesses.near_start[box] : accesses.near_start[box + 1]]
            users = np.unique(accesses.user[np.isin(accesses.operands, near)])
            place_in = np.searchsorted(users, own)
            again = np.append(np.diff(place_in) == 1, False)  # the next user is also an addition
            free[own[again]] = True
        held = call.view(call.writes[0])
        taken = max(taken, held.free_size * 4)
    if not free.any():
        return None
    return Edited(program, Variation(times=np.where(free, 0.0, 1.0), loose=free), psum=taken)


# --- barriers -------------------------------------------------------------------------------------


def fewer_barriers(base: Change, line: Line) -> Edit | None:
    """Return the edit that removes every second barrier of a line; None for lines without
    barriers."""
    if not any(map(_is_barrier, line.calls)):
        return None
    return edit(base, line.place, "half as many barriers", partial(_unmet, place=line.place))


def _is_barrier(call: Call) -> bool:
    return call.instruction.meets is not None and not call.instruction.traits.computes


def _unmet(program: Program, place: Place) -> Edited | None:
    instead, gone = [], np.zeros(len(program), np.bool_)
    for call, rows in rows_by_call(program, place):
        if _is_barrier(call) and len(rows) > 1:
            alone = replace(call, instruction=replace(call.instruction, meets=None))
            instead.append((rows[1::2], alone))
            gone[rows[1::2]] = True
    if not instead:
        return None
    variation = Variation(times=np.where(gone, 0.0, 1.0), loose=gone)
    return Edited(with_calls(program, instead), variation)
