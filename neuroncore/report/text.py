"""The report as text for a terminal, and the compiled program by source line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from neuroncore.base.units import plural, size
from neuroncore.report.estimate import estimate
from neuroncore.report.summary import Counters, counted, share_of_peak, utilization
from neuroncore.time.compiled import ACCUMULATED, BYPASSED, FORWARDED, ISSUED, REPEATED, Compiled
from neuroncore.time.policy import POLICIES, effects
from neuroncore.time.queues import QUEUES
from neuroncore.time.schedule import Timeline

if TYPE_CHECKING:
    from neuroncore.report.compare import Comparison


def compared(comparisons: Iterable[Comparison]) -> Iterator[str]:
    for number, c in enumerate(comparisons):
        where = ", ".join(map(str, c.worst))
        yield (
            f"result {number}   max abs error {c.max_abs:.3g}   relative L2 {c.rel_l2:.3g}   "
            f"worst at ({where}): got {c.got:.9g}, want {c.want:.9g}"
        )


def estimated(timeline: Timeline, answers: bool = True) -> Iterator[str]:
    """Yield the estimate and, with `answers`, the bottleneck; the order of instructions, bytes
    moved and memory used."""
    machine, found = timeline.machine, estimate(timeline)
    yield f"estimate   {found if answers else found.time}"
    if timeline.program.coverage:
        yield f"covers     {timeline.program.coverage}"
    yield f"order      {POLICIES[timeline.order].said}"
    if timeline.program.flags:
        yield f"flags      {'   '.join(effects(timeline.program.flags))}"
    shares = "   ".join(f"{name} {share:.0%}" for name, share in timeline.busy_share.items())
    yield f"busy       {shares}"
    yield from _counters(timeline, counted(timeline))
    yield (
        f"peak       SBUF {size(timeline.peak_sbuf)} of {size(machine.sbuf.partition_bytes)}   "
        f"PSUM {size(timeline.peak_psum)} of {size(machine.psum.partition_bytes)}   per partition"
    )


def _counters(timeline: Timeline, counters: Counters) -> Iterator[str]:
    moved = counters.bytes
    read, written = (size(moved[f"hbm_{verb}_bytes"]) for verb in ("read", "write"))
    parts = [f"HBM {read} read, {written} written"]
    if counters.transfers:
        average = size(counters.transfer_bytes / counters.transfers)
        parts.append(f"DMA {plural(counters.transfers, 'transfer')} of {average} on average")
    saved, reloaded = (moved[f"spill_{verb}_bytes"] for verb in ("save", "reload"))
    if saved or reloaded:
        parts.append(f"spilled {size(saved)}, reloaded {size(reloaded)}")
    yield f"moved      {'   '.join(parts)}"
    bandwidth = utilization(timeline, counters)["mbu_estimated_percent"]
    # relative to one peak, as readers expect; hfu_estimated_percent uses a different peak
    model, all_of_it = (
        share_of_peak(timeline, counters, flops) for flops in ("model_flops", "hardware_flops")
    )
    yield f"used       MFU {model:.1%}   HFU {all_of_it:.1%}   MBU {bandwidth:.1%}"


ADDED = "spill_save", "spill_reload", "load again"  # by kind (`neuroncore.time.loops.spills`)
LEFT_OUT = {
    REPEATED: "already available",
    BYPASSED: "read from PSUM",
    ACCUMULATED: "accumulated",
    FORWARDED: "source read instead",
}


def listing(form: Compiled) -> Iterator[str]:
    """Yield a row for each line and instruction, in the order of first use: the number issued on
    each queue, and the number omitted with the reason. Then yield the transfers that the compiler
    adds for tiles that do not fit: the line that each comes before, its tile and its size."""
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
    """Yield spills, reloads and repeated loads, by the line that each comes before and the tile."""
    moves, boxes = form.moves, form.program.boxes()
    if not len(moves.kind):
        return
    _, box = np.unique(boxes.pieces.of_box, return_index=True)  # one of each piece
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
    yield from (f"{count:,} on {QUEUES[q]}" for q, count in enumerate(counts) if count)
    for rule, why in LEFT_OUT.items():
        if count := np.count_nonzero(fate == rule):
            yield f"{count:,} omitted: {why}"
