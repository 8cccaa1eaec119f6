"""The figures of a run, by the names that the vendor's profiler gives them and in its units.

Counts, bytes and flops are exact; times are estimates, in seconds. What is called a percentage is
a part of one, as in published profiles: 0.45 is 45 %.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.core.meeting import cores_together
from neuroncore.machine import Machine
from neuroncore.report.counters import SPILLS, Counters, counted
from neuroncore.report.estimate import Estimate, estimate
from neuroncore.time.meetings import collectives
from neuroncore.time.queues import LOADS, SCALAR, TENSOR
from neuroncore.time.schedule import Timeline

Array = npt.NDArray[Any]

ENGINE_FIELDS = ("tensor", "vector", "scalar", "gpsimd", "sync")


def is_overcommitted(timeline: Timeline) -> bool:
    """Whether some memory doesn't hold the tiles that are alive at one time."""
    machine = timeline.machine
    beyond_sbuf = timeline.peak_sbuf > machine.sbuf.partition_bytes
    return beyond_sbuf or timeline.peak_psum > machine.psum.partition_bytes


def figures(timeline: Timeline) -> dict[str, Any]:
    """All figures that are one number or word each, by field name.

    Not there is what only a device or its compiler knows, such as throttling and DMA packets, nor
    what `bound_by` says.
    """
    return _figures(timeline, counted(timeline))


def summary(timeline: Timeline) -> dict[str, Any]:
    """All figures, and how often each opcode was issued."""
    counters = counted(timeline)
    opcodes: Counter[str] = Counter()
    for (_, opcode), count in counters.opcodes.items():
        opcodes[opcode] += count
    return {**_figures(timeline, counters), "opcodes": dict(sorted(opcodes.items()))}


def bound_by(timeline: Timeline) -> dict[str, str]:
    """What bounds it, which takes longer to find than all figures: a sweep needn't ask."""
    return {"bound_by": estimate(timeline).bound.what}


def _figures(timeline: Timeline, counters: Counters) -> dict[str, Any]:
    engines, estimated = timeline.queue < LOADS, estimate(timeline)
    working = _length_of_union(timeline.begin[engines], timeline.end[engines])
    return {
        "is_simulation": True,
        "target": timeline.machine.name,
        "total_time": timeline.total_ns / 1e9,
        **_range(estimated),
        "total_active_time": working / 1e9,
        "total_active_time_percent": working / (timeline.total_ns or 1.0),
        "neuroncore_cycle_count": round(timeline.total_ns * _clock_ghz(timeline)),
        "order": timeline.order,
        **_engines(timeline, counters),
        **_dma(timeline, counters),
        **_collectives(timeline),
        **_moved(timeline, counters),
        **counters.flops,
        **utilization(timeline, counters),
        "sbuf_peak_bytes_per_partition": timeline.peak_sbuf,
        "psum_peak_bytes_per_partition": timeline.peak_psum,
        "instruction_count": len(timeline.queue),
        **_left_out(timeline),
    }


def _range(estimated: Estimate) -> dict[str, float]:
    if estimated.low is None or estimated.high is None:
        return {}
    return {"total_time_p10": estimated.low, "total_time_p90": estimated.high}


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


def _engines(timeline: Timeline, counters: Counters) -> dict[str, Any]:
    """An engine is active from the begin of an instruction until its result is there, as in
    published profiles of attention and of copies that are far apart; their own times overlap.
    Loads of activation tables are not in it: the exponentials and copies of attention with one load
    leave no time for that."""
    fields: dict[str, Any] = {}
    taken = timeline.end - timeline.begin
    working = timeline.begin + _table_loads(timeline)
    for q, name in enumerate(ENGINE_FIELDS):
        own = timeline.queue == q
        fields[f"{name}_engine_instruction_count"] = counters.of_queue(q)
        fields[f"{name}_engine_instruction_time"] = float(taken[own].sum()) / 1e9
        active = _length_of_union(working[own], timeline.end[own])
        fields[f"{name}_engine_active_time"] = active / 1e9
        fields[f"{name}_engine_active_time_percent"] = active / (timeline.total_ns or 1.0)
    fields["matmul_instruction_count"] = counters.opcodes[TENSOR, "MATMUL"]
    fields["activate_instruction_count"] = counters.opcodes[SCALAR, "ACTIVATE"]
    return fields


def _table_loads(timeline: Timeline) -> Array:
    """How long each instruction loads the table of its function before it begins with its data."""
    form = timeline.compiled
    more = timeline.busy - form.table.busy.take(form.row)
    loads: Array = np.where(timeline.queue == SCALAR, np.maximum(more, 0.0), 0.0)
    return loads


def _dma(timeline: Timeline, counters: Counters) -> dict[str, Any]:
    """A transfer is one DMA instruction, as in the handout of Stanford's CS149 (76,800 for a
    vector of 25,600 that is added element by element), whatever packets it is cut into."""
    own = timeline.moves
    count, total = counters.transfers, counters.transfer_bytes
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


def _collectives(timeline: Timeline) -> dict[str, Any]:
    """What the core does together with other ranks, from when it is there to the end: waiting for
    the others is part of it."""
    own = [i for i, _ in collectives(timeline.compiled)]
    begin, end = timeline.done[own], timeline.end[own]
    active = _length_of_union(begin, end)
    return {
        "cc_op_count": len(own),
        "cc_op_time": float((end - begin).sum()) / 1e9,
        "cc_op_active_time": active / 1e9,
        "cc_op_active_time_percent": active / (timeline.total_ns or 1.0),
    }


def _moved(timeline: Timeline, counters: Counters) -> dict[str, int]:
    """Bytes that were moved. Today's API spills nothing: tiles that don't fit are the kernel's to
    do something about, and what its compiler would make of them is not known."""
    unknown = timeline.order != "compiled" and is_overcommitted(timeline)
    return {
        name: count for name, count in counters.bytes.items() if not (unknown and name in SPILLS)
    }


def utilization(timeline: Timeline, counters: Counters) -> dict[str, float]:
    """The roofline: of the array's peak and of the bandwidth of the core's HBM stack. Transposes
    are no work of the model's.

    Published hfu figures of trn2, which count both instructions of a float32 product, are of the
    peak of the two cores of a logical core, and so the field may be less than mfu's.
    """
    machine, moved = timeline.machine, counters.bytes
    bandwidth = machine.hbm.stack_gigabytes_per_s
    hbm = moved["hbm_read_bytes"] + moved["hbm_write_bytes"]
    model = share_of_peak(timeline, counters, "model_flops")
    cores = cores_together(machine)
    peak = _peak(machine)
    fields = {
        "mfu_estimated_percent": model,
        "mfu_inst_estimated_percent": model,
        "hfu_estimated_percent": share_of_peak(timeline, counters, "hardware_flops") / cores,
        "mbu_estimated_percent": hbm / (bandwidth * timeline.total_ns or 1.0),
        "peak_flops_bandwidth_ratio": peak / bandwidth,
    }
    if hbm:
        intensity = counters.flops["model_flops"] / hbm
        fields["mm_arithmetic_intensity"] = intensity
        fields["mfu_max_achievable_estimated_percent"] = min(1.0, intensity * bandwidth / peak)
    return fields


def share_of_peak(timeline: Timeline, counters: Counters, flops: str) -> float:
    """Flops of one name, of those that the array of one core could have done in the time."""
    return counters.flops[flops] / (_peak(timeline.machine) * timeline.total_ns or 1.0)


def _peak(machine: Machine) -> float:
    """Flops per nanosecond: one multiplication and addition per cell and cycle."""
    return 2 * machine.pe_cells * machine.engines["tensor"].clock_ghz


def _left_out(timeline: Timeline) -> dict[str, int]:
    """Instructions that no figure counts, for the record had ended."""
    left_out = timeline.program.left_out
    return {"instructions_left_out": left_out} if left_out else {}
