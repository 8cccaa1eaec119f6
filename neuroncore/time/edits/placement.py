"""Four kinds of edits of a kernel: instructions move to another engine, operands become bfloat16,
products accumulate in PSUM, or every second barrier is removed."""

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
    """Yield the edits that move all instructions of a line, or every second one, to another
    engine."""
    names = "/".join(sorted({call.name for call in line.calls}))
    for unit in alternatives.engines(line.calls):
        if unit not in COMPUTE:
            continue
        title = unit.name.capitalize() if unit is not engine.gpsimd else "GpSimd"
        for action, step in (
            (f"run {names} on {title}", 1),
            (f"every second {names} on {title}", 2),
        ):
            make = partial(_moved, place=line.place, unit=unit, step=step)
            moved = edit(base, line.place, action, make)
            if moved is not None:
                yield moved


def _moved(program: Program, place: Place, unit: engine, step: int) -> Edited | None:
    """Return the program with every `step`-th instruction of each call of a line on engine `unit`.
    Return None if no call can run there."""
    instead = []
    for call, rows in rows_by_call(program, place):
        variant = alternatives.on(unit, call)
        if variant is not None and len(rows) >= step:
            instead.append((rows[step - 1 :: step], variant))
    return Edited(with_calls(program, instead), AS_IT_IS) if instead else None


# --- formats --------------------------------------------------------------------------------------


def narrower_operands(base: Change, line: Line) -> Edit | None:
    """Return the edit that makes the operands of a line's products bfloat16, and the tiles from
    which they are copied. Return None for a line without products."""
    if not any(call.instruction.traits.multiplies for call in line.calls):
        return None
    make = partial(_with_narrow_operands, place=line.place)
    return edit(base, line.place, "use bfloat16 operands and inputs", make)


def _with_narrow_operands(program: Program, place: Place) -> Edited | None:
    """Return the program with 16-bit operands of a line's products. The tiles from which they are
    copied or transposed get 16 bits too."""
    columns, user, reads = program.columns(), program.users(), program.is_read()
    storage = program.operand_storages()
    here = program.at(place)
    passes = np.array([_passes(call) for call in program.calls])[columns.call]
    narrow = np.unique(storage[reads & here[user]])
    while True:
        sources = np.isin(user, user[~reads & np.isin(storage, narrow) & passes[user]])
        grown = np.union1d(narrow, storage[reads & sources])
        if len(grown) == len(narrow):
            break
        narrow = grown
    instead = _rewritten(program, np.isin(storage, narrow))
    return Edited(with_calls(program, instead), AS_IT_IS) if instead else None


def _passes(call: Call) -> bool:
    """Return whether a call only moves its input."""
    traits = call.instruction.traits
    return not call.dynamic and (traits.copies or traits.copies_out or call.transposes)


def _rewritten(program: Program, narrow: Array) -> list[tuple[Array, Call]]:
    """Return pairs (indices of instructions, their new call with 16-bit operands). Return an empty
    list if the machine refuses a call.

    `narrow`: flags the operands that have 16 bits"""
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
        variant = alternatives.with_formats(old, marks)
        if variant is None:
            return []
        if variant is not old:
            instead.append((chosen[which.reshape(-1) == number], variant))
    return instead


# --- sums -----------------------------------------------------------------------------------------


def summed_in_psum(base: Change, line: Line) -> Edit | None:
    """Return the edit that lets the products of a line accumulate in PSUM. Return None for a line
    that does not add products to a tile."""
    if not any(map(_adds_product, line.calls)):
        return None
    make = partial(_accumulated, place=line.place)
    action = "accumulate the products in PSUM instead of adding each one to a tile"
    return edit(base, line.place, action, make)


def _adds_product(call: Call) -> bool:
    """Return whether the call adds two tiles, at least one of them in PSUM."""
    sums = call.instruction.older_compiler.sums
    if sums is None or call.dynamic or len(call.reads) != 2 or not sums(call):
        return False
    return any(call.view(name).region is PSUM for name in call.reads)


def _accumulated(program: Program, place: Place) -> Edited | None:
    """Return the program with products that accumulate in PSUM, or None if nothing changes.

    If several additions to a tile follow each other, only the last takes time: it represents the
    copy out of PSUM."""
    accesses, free = accesses_of(program), np.zeros(len(program), np.bool_)
    psum_bytes = 0
    for call, rows in rows_by_call(program, place):
        if not _adds_product(call):
            continue
        sums = accesses.operands[accesses.start[rows + 1] - 1]
        in_place = (accesses.operands[accesses.start[rows]] == sums) | (
            accesses.operands[accesses.start[rows] + 1] == sums
        )
        for box in np.unique(sums[in_place]).tolist():
            additions = rows[in_place & (sums == box)]
            near = accesses.near[accesses.near_start[box] : accesses.near_start[box + 1]]
            users = np.unique(accesses.user[np.isin(accesses.operands, near)])
            place_in = np.searchsorted(users, additions)
            again = np.append(np.diff(place_in) == 1, False)  # the next user is also an addition
            free[additions[again]] = True
        tile_view = call.view(call.writes[0])
        psum_bytes = max(psum_bytes, tile_view.free_size * 4)
    if not free.any():
        return None
    return Edited(program, Variation(times=np.where(free, 0.0, 1.0), loose=free), psum=psum_bytes)


# --- barriers -------------------------------------------------------------------------------------


def fewer_barriers(base: Change, line: Line) -> Edit | None:
    """Return the edit that removes every second barrier of a line. Return None for a line without
    barriers."""
    if not any(map(_is_barrier, line.calls)):
        return None
    return edit(
        base, line.place, "half as many barriers", partial(_without_barriers, place=line.place)
    )


def _is_barrier(call: Call) -> bool:
    return call.instruction.meets is not None and not call.instruction.traits.computes


def _without_barriers(program: Program, place: Place) -> Edited | None:
    """Return the program in which every second barrier of a line takes no time and waits for
    nothing. Return None if the line repeats no barrier."""
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
