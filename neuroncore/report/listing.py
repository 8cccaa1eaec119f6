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


def listing(form: Compiled) -> Iterator[str]:
    """Yield a row for each source line and each kind of instruction on it, in the order of first
    use. The row has the number of instructions on each queue. If the compiler merges some, it also
    has the number that remains. It ends with the number of omitted instructions and the reason.

    Then yield the transfers that the compiler adds for tiles that do not fit: the source line
    before which each one runs, the tile, and the size.
    """
    columns = form.program.columns()
    line, call = columns.line, columns.call
    pairs, first, of = np.unique(
        np.column_stack((line, call)), axis=0, return_index=True, return_inverse=True
    )
    names = [form.program.calls[c].name for c in pairs[:, 1].tolist()]
    kinds: dict[tuple[int, str], list[int]] = {}
    for k in np.argsort(first).tolist():
        kinds.setdefault((int(pairs[k, 0]), names[k]), []).append(k)
    for (number, name), own in kinds.items():
        members = np.flatnonzero(np.isin(of.reshape(-1), own))
        place = form.program.place(number).short
        yield f"{place:24} {name:22} {', '.join(_said(form, members))}"
    yield from _added(form)


def _added(form: Compiled) -> Iterator[str]:
    """Yield a row for the spills, reloads and repeated loads of each tile before each line."""
    moves, boxes = form.moves, form.program.boxes()
    if not len(moves.kind):
        return
    _, box = np.unique(boxes.pieces.of_box, return_index=True)  # one box of each piece
    tile = boxes.areas.kind[boxes.areas.of_box[box[moves.piece]]]
    each = np.column_stack(
        (form.program.columns().line[moves.before], moves.kind, tile, moves.nbytes)
    )
    kinds, first, count = np.unique(each, axis=0, return_index=True, return_counts=True)
    for k in np.argsort(first).tolist():
        line, kind, of, nbytes = kinds[k].tolist()
        area = boxes.areas.kinds[of]
        made = f" of {form.program.place(area.line).short}" if area.line >= 0 else ""
        yield (
            f"{form.program.place(line).short:24} {ADDED[kind]:22} {count[k]:,} of {size(nbytes)} "
            f"by DMA: {area.name or 'a tile'}{made}"
        )
    saved, reloaded, reread = (size(moves.bytes_of(k)) for k in range(len(ADDED)))
    yield f"spilled {saved}, reloaded {reloaded}, loaded again {reread}"


def _said(form: Compiled, members: npt.NDArray[np.intp]) -> Iterator[str]:
    fate = form.fate[members]
    left = members[fate == ISSUED]
    counts = np.bincount(form.queue[left], minlength=len(QUEUES)).tolist()
    heads = np.bincount(form.queue[left[form.heads[left] < 0]], minlength=len(QUEUES)).tolist()
    for name, count, made in zip(QUEUES, counts, heads, strict=True):
        if count:
            yield f"{count:,} on {name}" + (f", merged into {made:,}" if made < count else "")
    for rule, why in LEFT_OUT.items():
        if count := np.count_nonzero(fate == rule):
            yield f"{count:,} omitted: {why}"
