"""Loops for `neuroncore.time.residency`. They find the instructions that the older API's compiler
leaves out, and the tiles that it spills."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.jit import borrowing, compiled, inlined
from neuroncore.record.loops import MIX

Array = npt.NDArray[Any]
BEFORE, AFTER = 0, 1


class Accesses(NamedTuple):
    """The pieces that instructions read and write. A piece is a part of a storage
    (`record.boxes.Pieces`), and a storage is the memory of one tensor.

    `start`: instruction i has the operands start[i]:start[i + 1]
    `reads`: the first reads[i] operands of instruction i are read
    `piece`: operand k is in piece[k]
    `whole`: whole[k] is True if operand k is the whole piece"""

    start: Array
    reads: Array
    piece: Array
    whole: Array


class Contents(NamedTuple):
    """The data that shows whether two pieces have the same content.

    `call`: instruction i makes call[i]
    `operands`: operand k accesses the box boxes[operands[k]]
    `extents`: the position of a box in piece p is relative to extents[p]"""

    call: Array
    operands: Array
    boxes: Array
    extents: Array


class Tiles(NamedTuple):
    """For each piece: whether one load fills it, whether it may be moved, its bytes per partition,
    and its bytes in total."""

    loaded: Array
    movable: Array
    width: Array
    nbytes: Array


@compiled
def repetitions(accesses: Accesses, contents: Contents, on_chip: Array) -> Any:
    """Return three arrays with an entry for each piece:

    1. the first piece with the same bytes of HBM, made in the same way (perhaps itself);
    2. the last instruction that makes the piece; -1 if it has other inputs or changes later;
    3. whether a single load makes the piece."""
    start, reads, piece, _ = accesses
    call, operands, boxes, extents = contents
    count = on_chip.shape[0]
    same_as, maker = np.arange(count), np.full(count, -1)
    writers, final, alone, first_read = _history(start, reads, piece, count)
    key = np.ones(count, np.uint64)  # a hash of the instructions and bytes that make its content
    inputs = np.zeros(count, np.int64)
    external = np.ones(count, np.bool_)
    known = np.full(2 * count + 1, -1)  # pieces, by key
    for i in range(call.shape[0]):
        first_write = start[i] + reads[i]
        if first_write == start[i + 1]:
            continue
        target = piece[first_write]
        if not alone[target] or not on_chip[target] or final[target] >= first_read[target]:
            continue
        for k in range(start[i], first_write):
            external[target] &= not on_chip[piece[k]] and writers[piece[k]] == 0
        if not external[target]:
            continue
        key[target] = _mixed(key[target], call[i])
        for k in range(start[i], first_write):
            key[target] = _mixed(key[target], piece[k])
        inputs[target] += reads[i]
        for k in range(start[i], start[i + 1]):
            if not on_chip[piece[k]]:
                key[target] = _mixed(key[target], operands[k])
                continue
            for n in range(4):  # relative to the first row and byte of the piece
                start_of_piece = extents[piece[k], n // 2 * 2]
                key[target] = _mixed(key[target], boxes[operands[k], 1 + n] - start_of_piece)
        if i < final[target] or inputs[target] == 0:
            continue
        maker[target] = i
        slot = np.int64(key[target] % np.uint64(known.shape[0]))
        while known[slot] >= 0 and key[known[slot]] != key[target]:
            slot = (slot + 1) % known.shape[0]
        if known[slot] < 0:
            known[slot] = target
        same_as[target] = known[slot]
    return same_as, maker, (maker >= 0) & (writers == 1)


@inlined
def _history(start: Array, reads: Array, piece: Array, count: int) -> Any:
    """Return four arrays with an entry for each piece:

    1. the number of instructions that write the piece,
    2. the last of these instructions,
    3. whether these instructions write no other piece,
    4. the first instruction that reads the piece."""
    writers, final = np.zeros(count, np.int64), np.full(count, -1)
    alone = np.ones(count, np.bool_)
    first_read = np.full(count, reads.shape[0])
    for i in range(reads.shape[0]):
        first_write = start[i] + reads[i]
        for k in range(start[i], first_write):
            first_read[piece[k]] = min(first_read[piece[k]], i)
        for k in range(first_write, start[i + 1]):
            writers[piece[k]] += 1
            final[piece[k]] = i
            alone[piece[k]] &= start[i + 1] - first_write == 1
    return writers, final, alone, first_read


@inlined
def _mixed(key: Any, value: Any) -> Any:
    product = (key ^ np.uint64(value)) * MIX
    return product ^ (product >> np.uint64(32))


@compiled
def repeated(accesses: Accesses, same_as: Array) -> Array:
    """Return, for each instruction whose results exist already, the last writer of the first of
    these results; -1 for all other instructions.

    `same_as`: same_as[p] is the first piece with the content of piece p, or p itself"""
    start, reads, piece, _ = accesses
    originals, writer = np.full(reads.shape[0], -1, np.int32), np.full(same_as.shape[0], -1)
    for i in range(originals.shape[0]):
        for k in range(start[i] + reads[i], start[i + 1]):
            writer[piece[k]] = i
    for i in range(originals.shape[0]):
        for k in range(start[i] + reads[i], start[i + 1]):
            if same_as[piece[k]] == piece[k]:
                originals[i] = -1
                break
            if k == start[i] + reads[i]:
                originals[i] = writer[same_as[piece[k]]]
    return originals


class Residents(NamedTuple):
    """The tiles that are in SBUF.

    `links`: a ring of tiles, the least recently used first: links[BEFORE, p] and links[AFTER, p]
        are the neighbors of tile p; -1 if p is not in the ring. One more entry joins the ends.
    `idle`: a second ring, of tiles that stay only so that a load can be left out
    `seen`: whether each tile has been in SBUF
    `clean`: whether HBM contains the data of each tile too
    `last_use`: the last instruction that used each tile"""

    links: Array
    idle: Array
    seen: Array
    clean: Array
    last_use: Array


class Moves(NamedTuple):
    """The transfers that the compiler adds.

    `rows`: one row per transfer: [kind of the transfer, instruction that it precedes, piece]
    `counts`: counts[MADE] is the number of rows, and counts[USED] the bytes per partition in use"""

    rows: Array
    counts: Array


MADE, USED = range(2)
SAVED, RELOADED, REREAD = range(3)


def replay(accesses: Accesses, same_as: Array, tiles: Tiles, capacity: int) -> Array:
    """Execute the program in an SBUF with `capacity` bytes per partition. Return the necessary
    transfers, as rows of `Moves.rows`. A piece that a load fills may be dropped and loaded
    again."""
    count = len(same_as)
    residents = Residents(
        links=_no_tiles(count),
        idle=_no_tiles(count),
        seen=np.zeros(count, np.bool_),
        clean=np.zeros(count, np.bool_),
        last_use=np.full(count, -1),
    )
    runs = repeated(accesses, same_as) < 0
    uses = _uses(accesses, same_as, tiles.movable, runs)
    most = 2 * np.count_nonzero(uses[0] >= 0)  # a tile can only be removed after it was brought
    moves = Moves(np.empty((most, 3), np.int64), np.zeros(2, np.int64))
    _replay(accesses, same_as, tiles, capacity, runs, uses, residents, moves)
    return moves.rows[: moves.counts[MADE]].copy()


@compiled
def _replay(
    accesses: Accesses, same_as: Array, tiles: Tiles, capacity: int, runs: Array, uses: Any,
    residents: Residents, moves: Moves,
) -> None:  # fmt: skip
    start, reads, piece, _ = accesses
    used_as, used_next_as = uses
    links, idle, seen, clean, _ = residents
    loaded, width, counts = tiles.loaded, tiles.width, moves.counts
    for i in range(runs.shape[0]):
        if not runs[i]:
            continue
        for k in range(start[i], start[i + 1]):
            if used_as[k] >= 0:
                _bring(same_as[piece[k]], used_as[k], i, tiles, residents, moves)
        while counts[USED] > capacity and _spilled(i, tiles, residents, moves):
            pass
        for k in range(start[i] + reads[i], start[i + 1]):
            clean[same_as[piece[k]]] = False
        for k in range(start[i], start[i + 1]):
            if used_as[k] < 0:
                continue
            tile = same_as[piece[k]]
            if used_next_as[k] < 0:
                _take_out(links, tile)
                counts[USED] -= width[tile]
                seen[tile] = clean[tile] = False
            elif used_next_as[k] != used_as[k] and loaded[tile]:
                _put_last(idle, tile)


@borrowing
def _bring(
    tile: Any, used_as: Any, i: int, tiles: Tiles, residents: Residents, moves: Moves
) -> None:
    """Bring a tile to SBUF for instruction i, which accesses the piece `used_as`. Pieces of the
    same bytes share one tile."""
    if residents.links[AFTER, tile] < 0:
        moves.counts[USED] += tiles.width[tile]
        if residents.seen[tile] and tiles.loaded[tile]:
            _move(REREAD, i, used_as, moves)
        elif residents.seen[tile]:
            _move(RELOADED, i, tile, moves)
    residents.seen[tile], residents.last_use[tile] = True, i
    _take_out(residents.idle, tile)
    _take_out(residents.links, tile)
    _put_last(residents.links, tile)


@borrowing
def _spilled(i: int, tiles: Tiles, residents: Residents, moves: Moves) -> bool:
    """Remove one tile from SBUF, and return whether there was one that instruction i does not use.

    It is the first idle tile, or else the least recently used. Its data are saved unless HBM
    contains them."""
    ends = residents.seen.shape[0]
    victim = residents.idle[AFTER, ends]
    if victim == ends:
        victim = residents.links[AFTER, ends]
    if victim == ends or residents.last_use[victim] == i:
        return False
    _take_out(residents.idle, victim)
    _take_out(residents.links, victim)
    moves.counts[USED] -= tiles.width[victim]
    if not tiles.loaded[victim] and not residents.clean[victim]:
        _move(SAVED, i, victim, moves)
        residents.clean[victim] = True
    return True


@borrowing
def _move(kind: int, i: int, piece: Any, moves: Moves) -> None:
    row = moves.counts[MADE]
    moves.rows[row, 0], moves.rows[row, 1], moves.rows[row, 2] = kind, i, piece
    moves.counts[MADE] += 1


@compiled
def _uses(accesses: Accesses, same_as: Array, movable: Array, runs: Array) -> Any:
    """Return two arrays with an entry for each operand; -1 unless it is its instruction's first use
    of a tile.

    1. The piece that the instruction accesses in the tile.
    2. The piece that the next user accesses; -1 if there is none, or if the whole tile is written
       before."""
    start, reads, piece, whole = accesses
    used_as, used_next_as = np.full(piece.shape[0], -1), np.full(piece.shape[0], -1)
    following = np.full(same_as.shape[0], -1)
    first = np.full(same_as.shape[0], piece.shape[0])  # the first operand in each tile
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


def _no_tiles(ends: int) -> Array:
    links = np.full((2, ends + 1), -1)
    links[:, ends] = ends
    return links


@borrowing
def _take_out(links: Array, tile: Any) -> None:
    if links[AFTER, tile] >= 0:
        before, after = links[BEFORE, tile], links[AFTER, tile]
        links[AFTER, before], links[BEFORE, after] = after, before
        links[AFTER, tile] = -1


@borrowing
def _put_last(links: Array, tile: Any) -> None:
    ends = links.shape[1] - 1
    last = links[BEFORE, ends]
    links[AFTER, last] = links[BEFORE, ends] = tile
    links[BEFORE, tile], links[AFTER, tile] = last, ends
