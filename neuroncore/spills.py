"""What the older API's compiler makes of loads, and of tiles that don't fit into SBUF.

It loads bytes once that a kernel loads repeatedly, as long as the tile can stay; and what a kernel
transposes repeatedly, it transposes once, whether the result can stay or not. A tile that has to
make room for another is saved to HBM and reloaded when it is needed. Counters of published
profiles show all this; which tile makes room they don't say. Here it is the one that has not been
used for the longest time, in the order of the program, and tiles are gone after their last use.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from neuroncore.enums import MemoryRegion
from neuroncore.instruction import Call
from neuroncore.program import Box, Program

SBUF, PSUM = MemoryRegion.sbuf, MemoryRegion.psum


@dataclass(frozen=True)
class Traffic:
    """`kept[i]` says that instruction i is not left out for repeating another; bytes of tiles that
    are saved to HBM and reloaded, and of loaded ones that are read again where they came from."""

    kept: npt.NDArray[np.bool_]
    reread_bytes: int
    spill_save_bytes: int
    spill_reload_bytes: int


@dataclass
class Piece:
    """A part of a storage that no access shares with the rest: what can be moved alone."""

    on_chip: bool
    movable: bool  # in SBUF, where the compiler put it
    row: int
    row_end: int
    byte: int
    byte_end: int

    @property
    def width(self) -> int:
        return self.byte_end - self.byte

    @property
    def nbytes(self) -> int:
        return self.width * (self.row_end - self.row)


@dataclass(frozen=True)
class Step:
    """An instruction, its operands as boxes of the program, and the pieces that it uses; `fresh`
    are those that it writes all of, whatever was in them."""

    row: int
    line: int
    call: Call
    boxes: Sequence[int]
    reads: Sequence[int]
    writes: Sequence[int]
    fresh: Sequence[int]


def traffic(program: Program, capacity: int) -> Traffic:
    """Replay a program in an SBUF that has `capacity` bytes per partition for its tiles."""
    boxes = program.boxes
    pieces, piece_of = _pieces(program, boxes)
    steps = list(_steps(program, boxes, pieces, piece_of))
    same_as, loads = _repetitions(boxes, steps, pieces, piece_of)
    first = _replay(steps, pieces, same_as, loads, capacity)
    lines = {steps[loads[p]].line for p in first.dropped}
    for piece, load in loads.items():
        if steps[load].line in lines:
            same_as[piece] = piece
    final = _replay(steps, pieces, same_as, loads, capacity)
    kept = np.ones(len(steps), np.bool_)
    kept[[step.row for step in steps if _is_left_out(step, same_as)]] = False
    reread = sum(pieces[p].nbytes for p in final.dropped)
    return Traffic(kept, reread, final.saved, final.reloaded)


def _pieces(program: Program, boxes: Sequence[Box]) -> tuple[list[Piece], list[int]]:
    """The pieces, and in which each of the program's boxes is; a tensor in HBM is one."""
    pieces: list[Piece] = []
    piece_of = [-1] * len(boxes)
    last = -1
    for index, box in sorted(enumerate(boxes), key=lambda item: (item[1].area, item[1].byte)):
        area = program.areas[box.area]
        on_chip = area.region in (SBUF, PSUM)
        if last != box.area or (on_chip and box.byte >= pieces[-1].byte_end):
            movable = area.region is SBUF and not area.placed
            pieces.append(Piece(on_chip, movable, *box[1:5]))
        piece, last = pieces[-1], box.area
        piece.row, piece.row_end = min(piece.row, box.row), max(piece.row_end, box.row_end)
        piece.byte_end = max(piece.byte_end, box.byte_end)
        piece_of[index] = len(pieces) - 1
    return pieces, piece_of


def _steps(
    program: Program, table: Sequence[Box], pieces: Sequence[Piece], piece_of: Sequence[int]
) -> Iterator[Step]:
    columns = program.columns()
    start, operands = columns.start.tolist(), columns.operands.tolist()
    rows = zip(columns.call.tolist(), columns.line.tolist(), strict=True)
    whole = [
        box.dense and box[1:5] == (p.row, p.row_end, p.byte, p.byte_end)
        for box, p in zip(table, map(pieces.__getitem__, piece_of), strict=True)
    ]
    for row, (index, line) in enumerate(rows):
        call = program.calls[index]
        boxes = operands[start[row] : start[row + 1]]
        inputs = len(call.reads) + len(call.indices)
        used = [piece_of[box] for box in boxes]
        reads, writes = used[:inputs], used[inputs:]
        fresh = [piece_of[box] for box in boxes[inputs:] if whole[box]]
        yield Step(row, line, call, boxes, reads, writes, [p for p in fresh if p not in reads])


# --- repetitions ----------------------------------------------------------------------------------


def _repetitions(
    boxes: Sequence[Box], steps: Sequence[Step], pieces: Sequence[Piece], piece_of: Sequence[int]
) -> tuple[list[int], dict[int, int]]:
    """For each piece the first one with the same content, itself if there is none; and the
    instruction that loads a piece, of those that are loaded whole and never written again."""
    writers: dict[int, list[Step]] = defaultdict(list)
    read_at: dict[int, int] = {}
    for step in steps:
        for piece in step.reads:
            read_at.setdefault(piece, step.row)
        for piece in dict.fromkeys(step.writes):
            writers[piece].append(step)
    same_as = list(range(len(pieces)))
    loads: dict[int, int] = {}
    known: dict[object, int] = {}

    def where(box: int) -> object:
        """A box within its piece, or in HBM."""
        piece, (_, row, row_end, byte, byte_end, _) = pieces[piece_of[box]], boxes[box]
        if not piece.on_chip:
            return box
        return row - piece.row, row_end - piece.row, byte - piece.byte, byte_end - piece.byte

    def made_by(step: Step) -> object:
        inputs = tuple(same_as[p] for p in step.reads)
        return id(step.call), inputs, tuple(map(where, step.boxes))

    for last in steps:
        for piece in last.writes:
            own = writers[piece]
            before_use = own[-1] is last and last.row < read_at.get(piece, len(steps))
            if not pieces[piece].on_chip or not before_use or any(len(s.writes) > 1 for s in own):
                continue
            sources = {p for step in own for p in step.reads}
            load = bool(sources) and not any(pieces[p].on_chip or p in writers for p in sources)
            if load and len(own) == 1:
                loads[piece] = last.row
            elif not load and not all(_turns(step.call) for step in own):
                continue
            first = known.setdefault(tuple(map(made_by, own)), piece)
            if load or any(same_as[p] != p for p in sources):
                same_as[piece] = first
    return same_as, loads


def _turns(call: Call) -> bool:
    """A transpose by the Tensor engine, or a copy of its result."""
    return call.name in ("nc_transpose", "tensor_copy") or bool(call.arguments.get("is_transpose"))


def _is_left_out(step: Step, same_as: Sequence[int]) -> bool:
    return bool(step.writes) and all(same_as[p] != p for p in step.writes)


# --- room -----------------------------------------------------------------------------------------


@dataclass
class _Room:
    """What a replay found: bytes, and the pieces that would have had to stay to be there still."""

    saved: int = 0
    reloaded: int = 0
    dropped: list[int] = field(default_factory=list)


def _replay(
    steps: Sequence[Step],
    pieces: Sequence[Piece],
    same_as: Sequence[int],
    loads: Container[int],
    capacity: int,
) -> _Room:
    """Go through the program; `idle` are tiles that only stay so that a load can be left out."""
    found = _Room()
    resident: dict[int, None] = {}  # the one that has not been used for the longest time first
    idle: dict[int, None] = {}
    clean: set[int] = set()  # HBM has what is in them
    used = 0
    seen: set[int] = set()
    for step, touched in _uses(steps, pieces, same_as):
        for piece, (alias, _) in touched.items():
            if piece not in resident:
                used += pieces[piece].width
                if piece in seen and piece in loads:
                    found.dropped.append(alias)
                elif piece in seen:
                    found.reloaded += pieces[piece].nbytes
            seen.add(piece)
            resident.pop(piece, None)
            idle.pop(piece, None)
            resident[piece] = None
        while used > capacity:
            candidates = idle or (p for p in resident if p not in touched)
            victim = next(iter(candidates), None)
            if victim is None:
                break
            del resident[victim]
            idle.pop(victim, None)
            used -= pieces[victim].width
            if victim not in loads and victim not in clean:
                found.saved += pieces[victim].nbytes
                clean.add(victim)
        clean.difference_update(same_as[p] for p in step.writes)
        for piece, (alias, following) in touched.items():
            if following is None and piece in resident:
                del resident[piece]
                used -= pieces[piece].width
                seen.discard(piece)
                clean.discard(piece)
            elif following != alias and piece in loads:
                idle[piece] = None
    return found


def _uses(
    steps: Sequence[Step], pieces: Sequence[Piece], same_as: Sequence[int]
) -> Iterable[tuple[Step, dict[int, tuple[int, int | None]]]]:
    """Each instruction that is not left out, with the tiles that it uses: as which piece, and as
    which one they are used next, None if never before they are written."""
    following: dict[int, int] = {}
    found = []
    for step in reversed(steps):
        if _is_left_out(step, same_as):
            continue
        own = {same_as[p]: p for p in (*step.reads, *step.writes) if pieces[same_as[p]].movable}
        found.append((step, {root: (p, following.get(root)) for root, p in own.items()}))
        following.update(own)
        for p in step.fresh:
            following.pop(same_as[p], None)
    return reversed(found)
