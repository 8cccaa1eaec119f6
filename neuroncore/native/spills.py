"""Loops of what the older API's compiler leaves out and spills: `neuroncore.schedule.spills`.

A program comes as arrays: the operands of instruction i are start[i]:start[i + 1], of which the
first reads[i] are read; piece[k] is the piece that operand k is in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.native import MIX
from neuroncore.native.jit import compiled, inlined

Array = npt.NDArray[Any]
BEFORE, AFTER = 0, 1


@compiled
def pieces(boxes: Array, in_order: Array, on_chip: Array) -> Any:
    """The piece that each box is in; of each piece its first box, and its ends in rows and bytes.

    A box is [area, row, row_end, byte, byte_end, ...]; `in_order` sorts boxes by area and first
    byte. A piece ends before a box that begins behind all that are in it.
    """
    of_box, first = np.zeros(boxes.shape[0], np.int64), np.zeros(boxes.shape[0], np.int64)
    extents = np.zeros((boxes.shape[0], 4), np.int64)
    last = -1
    for b in in_order:
        row, row_end, byte, byte_end = boxes[b, 1:5]
        same_area = last >= 0 and boxes[b, 0] == boxes[first[last], 0]
        if not same_area or (on_chip[b] and byte >= extents[last, 3]):
            last += 1
            first[last], extents[last] = b, boxes[b, 1:5]
        of_box[b], extent = last, extents[last]
        extent[0], extent[1] = min(extent[0], row), max(extent[1], row_end)
        extent[3] = max(extent[3], byte_end)
    return of_box, first[: last + 1].copy(), extents[: last + 1].copy()


# --- repetitions ----------------------------------------------------------------------------------


@compiled
def repetitions(
    start: Array, reads: Array, piece: Array, operands: Array, call: Array, turns: Array,
    place: Array, on_chip: Array,
) -> Any:  # fmt: skip
    """For each piece the first one with the same content, itself if there is none; and the
    instruction that loads it, -1 if it isn't loaded whole or is written again.

    turns[c] tells whether call c is a transpose or a copy of one, place[b] is where box b is within
    its piece, a row of integers.
    """
    count = on_chip.shape[0]
    same_as, load = np.arange(count), np.full(count, -1)
    writers, final, alone, turned, first_read = _history(start, reads, piece, turns[call], count)
    key = np.ones(count, np.uint64)  # of how its content is made
    inputs = np.zeros(count, np.int64)
    external, repeated = np.ones(count, np.bool_), np.zeros(count, np.bool_)
    known = np.full(2 * count + 1, -1)  # pieces, by key
    for i in range(call.shape[0]):
        first_write = start[i] + reads[i]
        if first_write == start[i + 1]:
            continue
        own = piece[first_write]
        if not alone[own] or not on_chip[own] or final[own] >= first_read[own]:
            continue
        key[own] = _mixed(key[own], call[i])
        for k in range(start[i], first_write):
            source = piece[k]
            key[own] = _mixed(key[own], same_as[source])
            external[own] &= not on_chip[source] and writers[source] == 0
            repeated[own] |= same_as[source] != source
        inputs[own] += reads[i]
        for k in range(start[i], start[i + 1]):
            for number in place[operands[k]]:
                key[own] = _mixed(key[own], number)
        if i < final[own]:
            continue
        is_load = inputs[own] > 0 and external[own]
        if is_load and writers[own] == 1:
            load[own] = i
        if is_load or turned[own]:
            slot = np.int64(key[own] % np.uint64(known.shape[0]))
            while known[slot] >= 0 and key[known[slot]] != key[own]:
                slot = (slot + 1) % known.shape[0]
            if known[slot] < 0:
                known[slot] = own
            if is_load or repeated[own]:
                same_as[own] = known[slot]
    return same_as, load


@compiled
def _history(start: Array, reads: Array, piece: Array, turns: Array, count: int) -> Any:
    """Of each piece: how many instructions write it, the last of them, whether none of them writes
    anything besides, whether all turn; and the first instruction that reads it."""
    writers, final = np.zeros(count, np.int64), np.full(count, -1)
    alone, turned = np.ones(count, np.bool_), np.ones(count, np.bool_)
    first_read = np.full(count, reads.shape[0])
    for i in range(reads.shape[0]):
        first_write = start[i] + reads[i]
        for k in range(start[i], first_write):
            first_read[piece[k]] = min(first_read[piece[k]], i)
        for k in range(first_write, start[i + 1]):
            writers[piece[k]] += 1
            final[piece[k]] = i
            alone[piece[k]] &= start[i + 1] - first_write == 1
            turned[piece[k]] &= turns[i]
    return writers, final, alone, turned, first_read


@inlined
def _mixed(key: Any, value: Any) -> Any:
    spread = (key ^ np.uint64(value)) * MIX
    return spread ^ (spread >> np.uint64(32))


@compiled
def kept(start: Array, reads: Array, piece: Array, same_as: Array) -> Array:
    """Whether each instruction writes nothing or a piece that is no repetition."""
    found = np.zeros(reads.shape[0], np.bool_)
    for i in range(found.shape[0]):
        first_write = start[i] + reads[i]
        found[i] = first_write == start[i + 1]
        for k in range(first_write, start[i + 1]):
            found[i] |= same_as[piece[k]] == piece[k]
    return found


# --- room -----------------------------------------------------------------------------------------


@compiled
def replay(
    start: Array, reads: Array, piece: Array, whole: Array, same_as: Array, loaded: Array,
    movable: Array, width: Array, nbytes: Array, capacity: int,
) -> Any:  # fmt: skip
    """Go through the program with at most `capacity` bytes of `width` at a time; the bytes that are
    saved and reloaded, and how often each piece would have had to stay to be there still.

    whole[k] tells whether operand k is all of its piece. A list of pieces is a ring through an
    entry for its ends, the one that has not been used for the longest time first; `idle` are those
    that only stay so that a load can be left out.
    """
    ends = same_as.shape[0]
    runs = kept(start, reads, piece, same_as)
    used_as, used_next_as = _uses(start, reads, piece, whole, same_as, movable, runs)
    resident, idle = _no_pieces(ends), _no_pieces(ends)
    seen, clean = np.zeros(ends, np.bool_), np.zeros(ends, np.bool_)  # clean: HBM has it too
    last_use = np.full(ends, -1)
    dropped = np.zeros(ends, np.int64)
    used, saved, reloaded = 0, 0, 0
    for i in range(runs.shape[0]):
        if not runs[i]:
            continue
        for k in range(start[i], start[i + 1]):
            if used_as[k] < 0:
                continue
            tile = same_as[piece[k]]
            if resident[AFTER, tile] < 0:
                used += width[tile]
                if seen[tile] and loaded[tile]:
                    dropped[used_as[k]] += 1
                elif seen[tile]:
                    reloaded += nbytes[tile]
            seen[tile], last_use[tile] = True, i
            _take_out(idle, tile)
            _take_out(resident, tile)
            _put_last(resident, tile)
        while used > capacity:
            victim = idle[AFTER, ends]
            if victim == ends:
                victim = resident[AFTER, ends]
            if victim == ends or last_use[victim] == i:
                break
            _take_out(idle, victim)
            _take_out(resident, victim)
            used -= width[victim]
            if not loaded[victim] and not clean[victim]:
                saved += nbytes[victim]
                clean[victim] = True
        for k in range(start[i] + reads[i], start[i + 1]):
            clean[same_as[piece[k]]] = False
        for k in range(start[i], start[i + 1]):
            if used_as[k] < 0:
                continue
            tile = same_as[piece[k]]
            if used_next_as[k] < 0:
                _take_out(resident, tile)
                used -= width[tile]
                seen[tile] = clean[tile] = False
            elif used_next_as[k] != used_as[k] and loaded[tile]:
                _put_last(idle, tile)
    return saved, reloaded, dropped


@compiled
def _uses(
    start: Array, reads: Array, piece: Array, whole: Array, same_as: Array, movable: Array,
    runs: Array,
) -> Any:  # fmt: skip
    """Of the first operand in each tile that an instruction uses: as which piece it uses the tile,
    and as which piece it is used next, -1 if never before all of it is written. Other operands have
    -1 for both."""
    used_as, used_next_as = np.full(piece.shape[0], -1), np.full(piece.shape[0], -1)
    following = np.full(same_as.shape[0], -1)
    first = np.full(same_as.shape[0], piece.shape[0])  # the operand
    for i in range(runs.shape[0] - 1, -1, -1):
        if not runs[i]:
            continue
        for k in range(start[i], start[i + 1]):
            tile = same_as[piece[k]]
            if not movable[tile]:
                continue
            if first[tile] >= start[i + 1]:
                first[tile] = k
                used_next_as[k] = following[tile]
            used_as[first[tile]] = following[tile] = piece[k]
        first_write = start[i] + reads[i]
        for k in range(first_write, start[i + 1]):
            if whole[k] and piece[k] not in piece[start[i] : first_write]:
                following[same_as[piece[k]]] = -1
    return used_as, used_next_as


@inlined
def _no_pieces(ends: int) -> Array:
    """links[BEFORE, p] and links[AFTER, p] are the neighbours of p, -1 if it is not in the list."""
    links = np.full((2, ends + 1), -1)
    links[:, ends] = ends
    return links


@inlined
def _take_out(links: Array, tile: Any) -> None:
    if links[AFTER, tile] >= 0:
        before, after = links[BEFORE, tile], links[AFTER, tile]
        links[AFTER, before], links[BEFORE, after] = after, before
        links[AFTER, tile] = -1


@inlined
def _put_last(links: Array, tile: Any) -> None:
    ends = links.shape[1] - 1
    last = links[BEFORE, ends]
    links[AFTER, last] = links[BEFORE, ends] = tile
    links[BEFORE, tile], links[AFTER, tile] = last, ends
