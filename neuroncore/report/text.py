"""The report as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from neuroncore.base.units import plural, size
from neuroncore.report.counters import Counters, counted
from neuroncore.report.estimate import estimate
from neuroncore.report.summary import share_of_peak, utilization
from neuroncore.time.policy import POLICIES, effects
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
