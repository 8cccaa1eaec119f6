"""The compiled program by source line."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from neuroncore.base.units import size
from neuroncore.time.compiled import ACCUMULATED, BYPASSED, FORWARDED, ISSUED, REPEATED, Compiled
from neuroncore.time.queues import QUEUES

ADDED = "spill_save", "spill_reload", "load again"  # by kind (`neuroncore.time.loops.work`)
LEFT_OUT = {
    REPEATED: "already available",
    BYPASSED: "read from PSUM",
    ACCUMULATED: "accumulated",
    FORWARDED: "source read instead",
}


def listing(compiled: Compiled) -> Iterator[str]:
    """Yield a row for each source line and each kind of instruction on it, in order of first use.

    A row shows the number of instructions on each queue, and how many remain if some are merged. It
    ends with the number that the compiler omits, and the reason.

    Then yield a row for each transfer that the compiler adds for tiles that do not fit: the tile,
    its size, and the source line before which it runs."""
    columns = compiled.program.columns()
    line, call = columns.line, columns.call
    pairs, first, pair_of = np.unique(
        np.column_stack((line, call)), axis=0, return_index=True, return_inverse=True
    )
    names = [compiled.program.calls[c].name for c in pairs[:, 1].tolist()]
    kinds: dict[tuple[int, str], list[int]] = {}
    for k in np.argsort(first).tolist():
        kinds.setdefault((int(pairs[k, 0]), names[k]), []).append(k)
    for (number, name), pair_numbers in kinds.items():
        members = np.flatnonzero(np.isin(pair_of.reshape(-1), pair_numbers))
        place = compiled.program.place(number).short
        yield f"{place:24} {name:22} {', '.join(_words(compiled, members))}"
    yield from _added(compiled)


def _added(compiled: Compiled) -> Iterator[str]:
    """Yield a row for each kind of transfer that the compiler adds for a tile before a source line.

    Then yield a row with the bytes of each kind."""
    program, moves = compiled.program, compiled.moves
    boxes = program.boxes()
    if not len(moves.kind):
        return
    _, box = np.unique(boxes.pieces.of_box, return_index=True)  # one box of each piece
    tile = boxes.areas.kind[boxes.areas.of_box[box[moves.piece]]]
    columns_of_moves = np.column_stack(
        (program.columns().line[moves.before], moves.kind, tile, moves.nbytes)
    )
    kinds, first, count = np.unique(columns_of_moves, axis=0, return_index=True, return_counts=True)
    for k in np.argsort(first).tolist():
        line, kind, tile_kind, nbytes = kinds[k].tolist()
        area = boxes.areas.kinds[tile_kind]
        made_at = f" of {program.place(area.line).short}" if area.line >= 0 else ""
        yield (
            f"{program.place(line).short:24} {ADDED[kind]:22} {count[k]:,} of {size(nbytes)} "
            f"by DMA: {area.name or 'a tile'}{made_at}"
        )
    saved, reloaded, reread = (size(moves.bytes_of(k)) for k in range(len(ADDED)))
    yield f"spilled {saved}, reloaded {reloaded}, loaded again {reread}"


def _words(compiled: Compiled, members: npt.NDArray[np.intp]) -> Iterator[str]:
    fate = compiled.fate[members]
    issued = members[fate == ISSUED]
    counts = np.bincount(compiled.queue[issued], minlength=len(QUEUES)).tolist()
    heads = np.bincount(
        compiled.queue[issued[compiled.heads[issued] < 0]], minlength=len(QUEUES)
    ).tolist()
    for name, count, merged in zip(QUEUES, counts, heads, strict=True):
        if count:
            yield f"{count:,} on {name}" + (f", merged into {merged:,}" if merged < count else "")
    for rule, why in LEFT_OUT.items():
        if count := np.count_nonzero(fate == rule):
            yield f"{count:,} omitted: {why}"
