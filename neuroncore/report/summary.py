"""The figures of a run, by the names that the vendor's profiler gives them.

Counts and bytes are exact; times are estimates, in seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuroncore.formats import PACK
from neuroncore.instruction import Call
from neuroncore.operand import HBM, View
from neuroncore.schedule import LOADS, QUEUES, Timeline

BUSY_ENOUGH = 0.75  # a resource at work for so much of the time is what bounds a kernel
ENGINE_FIELDS = ("tensor", "vector", "scalar", "gpsimd", "sync")


@dataclass(frozen=True)
class Bound:
    """What keeps a kernel from being faster: a resource, and its share of the time."""

    what: str
    share: float

    def __str__(self) -> str:
        if self.what == "nothing":
            return "nothing: no instruction was issued"
        if self.what == "latency":
            return f"latency ({self.share:.0%} of the critical path waits for results)"
        return f"{self.what} ({self.share:.0%} busy)"


def bound(timeline: Timeline) -> Bound:
    """The busiest resource if it is busy enough, else what the critical path mostly consists of."""
    if not len(timeline.queue):
        return Bound("nothing", 0.0)
    what, share = max(timeline.busy_share.items(), key=lambda item: item[1])
    if share >= BUSY_ENOUGH:
        return Bound(what, share)
    what, part = max(timeline.path_share.items(), key=lambda item: item[1])
    resource = "DMA" if what.startswith("DMA") else what
    return Bound(resource, part if what == "latency" else timeline.busy_share[resource])


def overcommitted(timeline: Timeline) -> Iterator[str]:
    """A warning for each memory that doesn't hold the tiles that are alive at one time."""
    machine = timeline.machine
    for name, peak, size, also in (
        ("sbuf", timeline.peak_sbuf, machine.sbuf.partition_bytes, "GCA035"),
        ("psum", timeline.peak_psum, machine.psum.partition_bytes, "NLA001"),
    ):
        if peak > size:
            yield (
                f"warning[CAPACITY] the tiles that are alive at one point need {peak} bytes of "
                f"{name} per partition; {machine.name} has {size}: the device's compiler would "
                f"spill or refuse them ({also})"
            )


def moved_bytes(timeline: Timeline) -> dict[str, int]:
    """Bytes that instructions read from and wrote to each memory."""
    moved: Counter[str] = Counter()
    for call, count in _calls(timeline):
        for names, verb in ((call.reads, "read"), (call.writes, "write")):
            for name in names:
                view = call.view(name)
                moved[f"{_memory(view)}_{verb}_bytes"] += view.nbytes * count
    fields = [f"{m}_{verb}_bytes" for m in ("hbm", "sbuf", "psum") for verb in ("read", "write")]
    return {field: moved[field] for field in fields}


def _calls(timeline: Timeline, chosen: Any = slice(None)) -> list[tuple[Call, int]]:
    """Every distinct call and how often it was made, by all instructions or the chosen ones."""
    calls = timeline.program.calls
    counts = np.bincount(timeline.columns.call[chosen], minlength=len(calls))
    return list(zip(calls, counts.tolist(), strict=True))


def _memory(view: View) -> str:
    return "hbm" if view.region in HBM else view.region.value


def flops(timeline: Timeline) -> dict[str, int]:
    """Multiplications and additions of the Tensor engine, those of transposes apart."""
    counted = {"hardware_flops": 0, "transpose_flops": 0}
    for call, count in _calls(timeline):
        if call.name in ("nc_matmul", "nc_matmul_mx"):
            s, columns = call.view("stationary"), call.view("dst").free_size
            kind = "transpose_flops" if call.arguments.get("is_transpose") else "hardware_flops"
            elements = s.size * (PACK if s.dtype.element else 1)
            counted[kind] += 2 * elements * columns * count
        elif call.name == "nc_transpose" and call.engine.name == "tensor":
            data = call.view("data")
            counted["transpose_flops"] += 2 * data.size * data.partitions * count
    return counted


def summary(timeline: Timeline) -> dict[str, Any]:
    """All figures by field name."""
    total_s = timeline.total_ns / 1e9
    bytes_ = moved_bytes(timeline)
    fields: dict[str, Any] = {
        "is_simulation": True,
        "target": timeline.machine.name,
        "total_time": total_s,
        "bound_by": bound(timeline).what,
        **_engines(timeline),
        **_dma(timeline),
        **bytes_,
        **flops(timeline),
        "sbuf_peak_bytes_per_partition": timeline.peak_sbuf,
        "psum_peak_bytes_per_partition": timeline.peak_psum,
        "instruction_count": len(timeline.queue),
    }
    fields["opcodes"] = dict(sorted(_opcodes(timeline).items()))
    return fields


def _engines(timeline: Timeline) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for q, name in enumerate(ENGINE_FIELDS):
        own = timeline.queue == q
        share = timeline.busy_share[QUEUES[q]]
        fields[f"{name}_engine_instruction_count"] = int(own.sum())
        fields[f"{name}_engine_active_time"] = float(timeline.busy[own].sum()) / 1e9
        fields[f"{name}_engine_active_time_percent"] = share * 100
    return fields


def _dma(timeline: Timeline) -> dict[str, Any]:
    transfers = _calls(timeline, timeline.queue >= LOADS)
    count = sum(n for _, n in transfers)
    total = sum(call.view("dst").nbytes * n for call, n in transfers if n)
    return {
        "dma_transfer_count": count,
        "dma_transfer_total_bytes": total,
        "dma_transfer_average_bytes": total / count if count else 0.0,
        "dma_active_time_percent": timeline.busy_share["DMA"] * 100,
    }


def _opcodes(timeline: Timeline) -> Counter[str]:
    opcodes: Counter[str] = Counter()
    for call, count in _calls(timeline):
        opcodes[call.instruction.opcode] += count
    return opcodes
