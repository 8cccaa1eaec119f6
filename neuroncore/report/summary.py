"""The figures of a run, by the names that the vendor's profiler gives them and in its units.

Counts, bytes and flops are exact; times are estimates, in seconds. What is called a percentage is
a part of one, as in published profiles: 0.45 is 45 %.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.formats import PACK
from neuroncore.instruction import Call
from neuroncore.operand import HBM, View
from neuroncore.schedule import LOADS, QUEUES, SCALAR, TENSOR, Timeline

Array = npt.NDArray[Any]

BUSY_ENOUGH = 0.75  # a resource at work for so much of the time is what bounds a kernel
FLOPS = ("hardware", "transpose")
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
    """Multiplications and additions of the Tensor engine, all and those of transposes.

    The adjusted figures count work in float32 as often as the array passes over it, as published
    profiles do.
    """
    counted: Counter[str] = Counter()
    for call, count in _calls(timeline, timeline.queue == TENSOR):
        if call.name in ("nc_matmul", "nc_matmul_mx"):
            s = call.view("stationary")
            elements = s.size * (PACK if s.dtype.element else 1)
            work = 2 * elements * call.view("dst").free_size * count
            transposing = bool(call.arguments.get("is_transpose"))
        elif call.name == "nc_transpose":
            data = call.view("data")
            work, transposing = 2 * data.size * data.partitions * count, True
        else:
            continue
        slow = any(call.view(name).dtype == "float32" for name in call.reads)
        passes = 1 / timeline.machine.engines["tensor"].rate["float32"] if slow else 1
        for kind in FLOPS[: 1 + transposing]:
            counted[f"{kind}_flops"] += work
            counted[f"adjusted_{kind}_flops"] += int(work * passes)
    fields = [f"{adjusted}{kind}_flops" for adjusted in ("", "adjusted_") for kind in FLOPS]
    return {field: counted[field] for field in fields}


def figures(timeline: Timeline) -> dict[str, Any]:
    """All figures that are one number or word each, by field name.

    Not there is what only a device or its compiler knows, such as throttling, DMA packets and
    the flops of a model.
    """
    engines = timeline.queue < LOADS
    working = _length_of_union(timeline.begin[engines], (timeline.begin + timeline.busy)[engines])
    return {
        "is_simulation": True,
        "target": timeline.machine.name,
        "total_time": timeline.total_ns / 1e9,
        "total_active_time": working / 1e9,
        "total_active_time_percent": working / (timeline.total_ns or 1.0),
        "neuroncore_cycle_count": round(timeline.total_ns * _clock_ghz(timeline)),
        "bound_by": bound(timeline).what,
        **_engines(timeline),
        **_dma(timeline),
        **moved_bytes(timeline),
        **_spilled(timeline),
        **flops(timeline),
        **_utilization(timeline),
        "sbuf_peak_bytes_per_partition": timeline.peak_sbuf,
        "psum_peak_bytes_per_partition": timeline.peak_psum,
        "instruction_count": len(timeline.queue),
        **_left_out(timeline),
    }


def summary(timeline: Timeline) -> dict[str, Any]:
    """All figures, and how often each opcode was issued."""
    return {**figures(timeline), "opcodes": dict(sorted(_opcodes(timeline).items()))}


def _clock_ghz(timeline: Timeline) -> float:
    """neuroncore_cycle_count over total_time is the Scalar engine's clock in published profiles:
    1.4 GHz on trn1, 1.2 GHz on trn2."""
    return timeline.machine.engines["scalar"].clock_ghz


def _length_of_union(begin: Array, end: Array) -> float:
    """How long at least one of the intervals lasts."""
    if not len(begin):
        return 0.0
    order = np.argsort(begin, kind="stable")
    begin, reached = begin[order], np.maximum.accumulate(end[order])
    gaps = np.maximum(begin[1:] - reached[:-1], 0.0)
    return float(reached[-1] - begin[0] - gaps.sum())


def _engines(timeline: Timeline) -> dict[str, Any]:
    """An engine is active while instructions keep it; their own times, until the result is there,
    overlap."""
    fields: dict[str, Any] = {}
    taken = timeline.end - timeline.begin
    for q, name in enumerate(ENGINE_FIELDS):
        own = timeline.queue == q
        fields[f"{name}_engine_instruction_count"] = int(own.sum())
        fields[f"{name}_engine_instruction_time"] = float(taken[own].sum()) / 1e9
        fields[f"{name}_engine_active_time"] = float(timeline.busy[own].sum()) / 1e9
        fields[f"{name}_engine_active_time_percent"] = timeline.busy_share[QUEUES[q]]
    opcodes = [call.instruction.opcode for call in timeline.program.calls]
    for field, opcode, q in (("matmul", "MATMUL", TENSOR), ("activate", "ACTIVATE", SCALAR)):
        chosen = np.array([o == opcode for o in opcodes], np.bool_)[timeline.columns.call]
        fields[f"{field}_instruction_count"] = int((chosen & (timeline.queue == q)).sum())
    return fields


def _dma(timeline: Timeline) -> dict[str, Any]:
    """A transfer is one DMA instruction, as in the handout of Stanford's CS149 (76,800 for a
    vector of 25,600 that is added element by element), whatever packets it is cut into."""
    own = timeline.queue >= LOADS
    transfers = _calls(timeline, own)
    count = sum(n for _, n in transfers)
    total = sum(call.view("dst").nbytes * n for call, n in transfers if n)
    moving = _length_of_union((timeline.done - timeline.transfer_ns)[own], timeline.done[own])
    return {
        "dma_transfer_count": count,
        "dma_transfer_total_bytes": total,
        "dma_transfer_average_bytes": total / count if count else 0.0,
        "dma_transfer_time": float((timeline.end - timeline.begin)[own].sum()) / 1e9,
        "dma_active_time": moving / 1e9,
        "dma_active_time_percent": moving / (timeline.total_ns or 1.0),
        "dma_active_cycles": round(moving * _clock_ghz(timeline)),
    }


def _spilled(timeline: Timeline) -> dict[str, int]:
    """Nothing is spilled here. The device's compiler would have to if the tiles don't fit, and
    how much is not known."""
    spills = any(True for _ in overcommitted(timeline))
    return {} if spills else {"spill_save_bytes": 0, "spill_reload_bytes": 0}


def _utilization(timeline: Timeline) -> dict[str, float]:
    """The roofline: of the array's peak, one multiplication and addition per cell and cycle, and
    of the bandwidth of the core's HBM stack. Transposes are no work of the model's."""
    machine, moved, done = timeline.machine, moved_bytes(timeline), flops(timeline)
    peak = 2 * machine.pe_cells * machine.engines["tensor"].clock_ghz  # per nanosecond
    bandwidth = machine.hbm.stack_gigabytes_per_s
    most = peak * timeline.total_ns or 1.0
    hbm = moved["hbm_read_bytes"] + moved["hbm_write_bytes"]
    useful = done["hardware_flops"] - done["transpose_flops"]
    model = (done["adjusted_hardware_flops"] - done["adjusted_transpose_flops"]) / most
    fields = {
        "mfu_estimated_percent": model,
        "mfu_inst_estimated_percent": model,
        "hfu_estimated_percent": done["adjusted_hardware_flops"] / most,
        "mbu_estimated_percent": hbm / (bandwidth * timeline.total_ns or 1.0),
        "peak_flops_bandwidth_ratio": peak / bandwidth,
    }
    if hbm:
        intensity = useful / hbm
        fields["mm_arithmetic_intensity"] = intensity
        fields["mfu_max_achievable_estimated_percent"] = min(1.0, intensity * bandwidth / peak)
    return fields


def _left_out(timeline: Timeline) -> dict[str, int]:
    """Instructions that no figure counts, for the record had ended."""
    left_out = timeline.program.left_out
    return {"instructions_left_out": left_out} if left_out else {}


def _opcodes(timeline: Timeline) -> Counter[str]:
    opcodes: Counter[str] = Counter()
    for call, count in _calls(timeline):
        opcodes[call.instruction.opcode] += count
    return opcodes
