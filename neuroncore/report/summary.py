"""The figures of a run, with the names and units of the vendor's profiler.

Counts, bytes and flops are exact; times are estimates, in seconds. Percentages are fractions, as in
published profiles: 0.45 is 45 %. The counters of instructions, bytes and flops are defined so that
they reproduce published counters of kernels on trn1 and trn2 (docs/counters.md). `as_text` has the
most important figures as text. A call represents all instructions with the same function and equal
arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.enums import engine
from neuroncore.base.units import plural, size
from neuroncore.clause.instruction import Call
from neuroncore.clause.operand import HBM
from neuroncore.core.system import cores_together
from neuroncore.machine import Machine
from neuroncore.memory.geometry import View
from neuroncore.numerics.formats import PACK, float32
from neuroncore.report.clock import clock_phase
from neuroncore.report.estimate import Estimate, estimate
from neuroncore.time.compiled import ISSUED, Compiled
from neuroncore.time.loops.work import RELOADED, REREAD, SAVED, Moves
from neuroncore.time.policy import POLICIES, effects, launch_fields, requests
from neuroncore.time.queues import LOADS, QUEUES, SCALAR, TENSOR, is_transfer
from neuroncore.time.schedule import Timeline
from neuroncore.time.syncs import collectives

if TYPE_CHECKING:
    from neuroncore.report.compare import Comparison

BYTES = tuple(f"{m}_{verb}_bytes" for m in ("hbm", "sbuf", "psum") for verb in ("read", "write"))
FLOPS = tuple(f"{adjusted}{kind}_flops" for adjusted in ("", "adjusted_")
              for kind in ("hardware", "transpose"))  # fmt: skip
SPILLS = ("spill_save_bytes", "spill_reload_bytes")


@dataclass(frozen=True)
class Product:
    """The work of a call in the array of the Tensor engine.

    `count`: the number of pairs of LDWEIGHTS and MATMUL instructions
    `flops`: the flops of each pair
    `weights_bytes`, `moving_bytes`: the bytes per partition that each pair reads
    `at_once`: how many pairs of numbers a cell multiplies at a time
    `transposes`: whether it is a transpose"""

    count: int
    flops: int
    at_once: int
    transposes: bool
    weights_bytes: int
    moving_bytes: int


@dataclass
class Counters:
    """Counts of a run.

    `bytes` and `flops`: by the profiler's names; bytes include spills.
    `opcodes`: the number of instructions by queue and opcode.
    `transfers` and `transfer_bytes`: the number of DMA transfers of the program, and their bytes.
    `at_once`: the most pairs of numbers that a cell of the Tensor engine multiplies at a time."""

    bytes: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(BYTES + SPILLS, 0)))
    flops: Counter[str] = field(
        default_factory=lambda: Counter(dict.fromkeys(("model_flops", *FLOPS), 0))
    )
    opcodes: Counter[tuple[int, str]] = field(default_factory=Counter)
    transfers: int = 0
    transfer_bytes: int = 0
    at_once: int = 1

    def of_queue(self, queue: int) -> int:
        """Return the number of instructions of a queue."""
        return sum(count for (q, _), count in self.opcodes.items() if q == queue)


def counted(timeline: Timeline) -> Counters:
    """Return the counters of one core.

    For the older API the counters describe the compiled program: repeated loads are omitted, tiles
    that do not fit into SBUF are spilled, and identity matrices of transposes are loaded. If the
    cores of a rank carry out a collective together, only the first core counts its bytes."""
    counters, machine = Counters(), timeline.machine
    other = timeline.world.core(timeline.core) > 0
    program, call, queue = timeline.program, timeline.columns.call, timeline.queue
    form, rewrites = timeline.compiled, timeline.compiled.policy.rewrites
    call, queue = call[form.fate == ISSUED], queue[form.fate == ISSUED]
    _spill(counters.bytes, form.moves)
    if rewrites:
        _read_in_psum(counters.bytes, form)
    counts = np.bincount(call.astype(np.int64) * len(QUEUES) + queue)
    pairs = counts.nonzero()[0]
    matrices: dict[str, int] = {}
    for pair, count in zip(pairs.tolist(), counts[pairs].tolist(), strict=True):
        index, q = divmod(pair, len(QUEUES))
        issued_call = program.calls[index]
        if other and issued_call.participation.once:
            counters.opcodes[q, issued_call.instruction.opcode] += count
            continue
        _count(counters, issued_call, q, count, machine)
        if issued_call.instruction.traits.transposes and q == TENSOR:
            data = issued_call.view("data").dtype
            matrices[data.name] = machine.limits.partitions**2 * data.itemsize
    if rewrites:
        _merge(counters, timeline)
        counters.bytes["hbm_read_bytes"] += sum(matrices.values())
        counters.bytes["sbuf_write_bytes"] += sum(matrices.values())
    return counters


def _merge(counters: Counters, timeline: Timeline) -> None:
    """Correct the counts of opcodes and transfers: a group of merged instructions counts once."""
    form = timeline.compiled
    merged = np.flatnonzero((form.heads >= 0) & (form.fate == ISSUED))
    pairs = zip(timeline.columns.call[merged].tolist(), form.queue[merged].tolist(), strict=True)
    for (index, queue), count in Counter(pairs).items():
        call = timeline.program.calls[index]
        counters.opcodes[queue, call.instruction.opcode] -= count
        if is_transfer(call, queue):
            counters.transfers -= count


def _spill(counts: Counter[str], moves: Moves) -> None:
    if not len(moves.kind):
        return
    saved, reloaded, reread = map(moves.bytes_of, (SAVED, RELOADED, REREAD))
    # Counter.update adds
    counts.update(spill_save_bytes=saved, sbuf_read_bytes=saved, hbm_write_bytes=saved)
    counts.update(spill_reload_bytes=reloaded)
    counts.update(hbm_read_bytes=reloaded + reread, sbuf_write_bytes=reloaded + reread)


def _read_in_psum(counts: Counter[str], form: Compiled) -> None:
    """Count some reads in PSUM instead of SBUF.

    The kernel reads a copy in SBUF, but the compiled program reads the original in PSUM."""
    columns, places = form.program.columns(), np.flatnonzero(form.read_in_psum)
    if not len(places):
        return
    reader = form.accesses.user[places]
    kinds, times = np.unique(
        np.column_stack((columns.call[reader], places - columns.start[reader])),
        axis=0,
        return_counts=True,
    )
    for (index, place), count in zip(kinds.tolist(), times.tolist(), strict=True):
        call = form.program.calls[index]
        if call.reads[place] in _streams(call):
            size = _in_a_partition(call.view(call.reads[place])) * count
            counts["sbuf_read_bytes"] -= size
            counts["psum_read_bytes"] += size


def _count(counters: Counters, call: Call, queue: int, times: int, machine: Machine) -> None:
    """Add to `counters` the counts of a call that is issued `times` times on a queue."""
    work = product(call, machine)
    for memory, nbytes in accesses(call, work):
        counters.bytes[memory] += nbytes * times
    if work is None:
        transposed = call.instruction.traits.transposes  # on an engine that does not multiply
        counters.opcodes[queue, "TRANSPOSE" if transposed else call.instruction.opcode] += times
    else:
        counters.opcodes[queue, "LDWEIGHTS"] += work.count * times
        counters.opcodes[queue, "MATMUL"] += work.count * times
        wide = any(call.view(name).dtype is float32 for name in call.reads)
        passes = round(1 / machine.engines["tensor"].rate["float32"]) if wide else 1
        for kind in ("hardware", "transpose")[: 1 + work.transposes]:
            counters.flops[f"{kind}_flops"] += work.flops * work.count * times
            counters.flops[f"adjusted_{kind}_flops"] += work.flops * passes * times
        counters.flops["model_flops"] += work.flops * times * (not work.transposes)
        counters.at_once = max(counters.at_once, work.at_once)
    if is_transfer(call, queue):
        counters.transfers += times
        counters.transfer_bytes += call.written_bytes * times


def accesses(call: Call, work: Product | None) -> Iterator[tuple[str, int]]:
    """Yield the byte counters that a call with the product `work` changes, with the bytes.

    For a DMA transfer, all bytes count; for an engine, only the bytes of one partition. Operands of
    a tensor_tensor do not count, and neither do inputs with one scalar per partition."""
    if work is not None:
        yield "sbuf_read_bytes", (work.weights_bytes + work.moving_bytes) * work.count
        yield "psum_write_bytes", _in_a_partition(call.view("dst")) * work.count
        return
    traits = call.instruction.traits
    if not (traits.bytes_counted and traits.computes):
        return
    moves = call.engine is engine.dma
    for names, verb in ((_streams(call), "read"), (call.writes, "write")):
        for view in map(call.view, names):
            memory = "hbm" if view.region in HBM else view.region.value
            yield f"{memory}_{verb}_bytes", view.nbytes if moves else _in_a_partition(view)


def _streams(call: Call) -> list[str]:
    """Return the names of the operands whose reads are counted (`accesses`)."""
    if not call.instruction.traits.bytes_counted:
        return []
    return [name for name in call.reads if name not in call.instruction.columns]


def product(call: Call, machine: Machine) -> Product | None:
    """Return the work of a call in the array of the Tensor engine, or None without such work.

    float32 weights take several pairs of instructions, for upper and lower bits, unless they are
    zeros and ones. A transpose takes one pair if the engine has a mode for it."""
    traits = call.instruction.traits
    if call.engine is not engine.tensor or not (traits.multiplies or traits.transposes):
        return None
    weights = call.view(traits.weights)
    transposes = call.transposes
    if traits.streams is None:
        moving = weights.partitions * weights.dtype.itemsize
    else:
        moving = _in_a_partition(call.view(traits.streams))
    once = call.arguments.get(traits.onezero) or (transposes and machine.has("native_transpose"))
    elements, dst = weights.size * (PACK if weights.dtype.element else 1), call.view("dst")
    return Product(
        1 if once or weights.dtype is not float32 else machine.fixed.float32_passes,
        2 * elements * dst.free_size,
        1 if transposes else elements // (weights.partitions * dst.partitions),
        transposes,
        _in_a_partition(weights),
        moving,
    )


def _in_a_partition(view: View) -> int:
    return view.free_size * view.dtype.itemsize


Array = npt.NDArray[Any]

ENGINE_FIELDS = ("tensor", "vector", "scalar", "gpsimd", "sync")


def is_overcommitted(timeline: Timeline) -> bool:
    """Return whether the tiles in use at one time are larger than SBUF or PSUM."""
    machine = timeline.machine
    beyond_sbuf = timeline.peak_sbuf > machine.sbuf.partition_bytes
    return beyond_sbuf or timeline.peak_psum > machine.psum.partition_bytes


def figures(timeline: Timeline) -> dict[str, Any]:
    """Return all figures with a single value, by field name.

    Figures that only a device or its compiler knows, such as throttling and DMA packets, are
    missing, and so is `bound_by`.
    """
    return _figures(timeline, counted(timeline))


def summary(timeline: Timeline) -> dict[str, Any]:
    """Return all figures, and the count of each opcode."""
    counters = counted(timeline)
    opcodes: Counter[str] = Counter()
    for (_, opcode), count in counters.opcodes.items():
        opcodes[opcode] += count
    return {**_figures(timeline, counters), "opcodes": dict(sorted(opcodes.items()))}


def bound_by(timeline: Timeline) -> dict[str, str]:
    """Return the bottleneck as a field. It takes longer to find than all other figures."""
    return {"bound_by": estimate(timeline).bound.what}


def _figures(timeline: Timeline, counters: Counters) -> dict[str, Any]:
    engines, estimated = timeline.queue < LOADS, estimate(timeline)
    working = union_ns(timeline.begin[engines], timeline.end[engines])
    return {
        "is_simulation": True,
        "target": timeline.machine.name,
        "total_time": timeline.total_ns / 1e9,
        **_range(estimated),
        "total_active_time": working / 1e9,
        "total_active_time_percent": working / (timeline.total_ns or 1.0),
        "neuroncore_cycle_count": round(timeline.total_ns * _clock_ghz(timeline)),
        **assumptions(timeline),
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


def assumptions(timeline: Timeline) -> dict[str, str]:
    """Return what an estimate assumes about the launch, as fields (`policy.launch_fields`)."""
    writer = timeline.compiled.policy.writer(timeline.machine)
    return launch_fields(timeline.program, timeline.order, writer)


def _range(estimated: Estimate) -> dict[str, Any]:
    if estimated.low is None or estimated.high is None:
        return {}
    unknown = {} if estimated.is_known else {"total_time_range_known": False}
    return {"total_time_p10": estimated.low, "total_time_p90": estimated.high, **unknown}


def _clock_ghz(timeline: Timeline) -> float:
    """Return the clock of the Scalar engine in GHz. Cycles are counted in this clock: in published
    profiles neuroncore_cycle_count / total_time is 1.4 GHz on trn1 and 1.2 GHz on trn2."""
    return timeline.machine.engines["scalar"].clock_ghz


def union_ns(begin: Array, end: Array) -> float:
    """Return the nanoseconds in which at least one interval (begin[n] to end[n]) is in progress."""
    if not len(begin):
        return 0.0
    order = begin.argsort(kind="stable")
    begin, reached = begin[order], np.maximum.accumulate(end[order])
    gaps = np.maximum(begin[1:] - reached[:-1], 0.0)
    return float(reached[-1] - begin[0] - gaps.sum())


def _engines(timeline: Timeline, counters: Counters) -> dict[str, Any]:
    """Return the counts and active times of engines.

    An engine is active until the result of its instruction is available, as in published profiles
    of attention and of isolated copies. Intervals may overlap. Loads of activation tables are not
    included: active times in profiles of attention are too short for them."""
    fields: dict[str, Any] = {}
    durations = timeline.end - timeline.begin
    working = timeline.begin + _table_loads(timeline)
    for q, name in enumerate(ENGINE_FIELDS):
        spent = active = 0.0
        if timeline.counts[q]:
            on_queue = timeline.queue == q
            spent = float(durations[on_queue].sum())
            active = union_ns(working[on_queue], timeline.end[on_queue])
        fields[f"{name}_engine_instruction_count"] = counters.of_queue(q)
        fields[f"{name}_engine_instruction_time"] = spent / 1e9
        fields[f"{name}_engine_active_time"] = active / 1e9
        fields[f"{name}_engine_active_time_percent"] = active / (timeline.total_ns or 1.0)
    fields["matmul_instruction_count"] = counters.opcodes[TENSOR, "MATMUL"]
    fields["activate_instruction_count"] = counters.opcodes[SCALAR, "ACTIVATE"]
    return fields


def _table_loads(timeline: Timeline) -> Array:
    """Return how long each instruction first loads an activation table, in nanoseconds."""
    form = timeline.compiled
    more = timeline.busy - form.table.busy.take(form.row)
    loads: Array = np.where(timeline.queue == SCALAR, np.maximum(more, 0.0), 0.0)
    return loads


def _dma(timeline: Timeline, counters: Counters) -> dict[str, Any]:
    """Return the DMA figures. A transfer is one DMA instruction, however many packets it has.

    Source: the handout of Stanford's CS149 (76,800 for element-wise addition of 25,600
    elements)."""
    moves = timeline.moves
    count, total = counters.transfers, counters.transfer_bytes
    moving = union_ns((timeline.done - timeline.transfer_ns)[moves], timeline.done[moves])
    return {
        "dma_transfer_count": count,
        "dma_transfer_total_bytes": total,
        "dma_transfer_average_bytes": total / count if count else 0.0,
        "dma_transfer_time": float((timeline.end - timeline.begin)[moves].sum()) / 1e9,
        "dma_active_time": moving / 1e9,
        "dma_active_time_percent": moving / (timeline.total_ns or 1.0),
        "dma_active_cycles": round(moving * _clock_ghz(timeline)),
    }


def _collectives(timeline: Timeline) -> dict[str, Any]:
    """Return the figures of collectives. Their times include waits for other ranks."""
    rows = [i for i, _ in collectives(timeline.compiled)]
    begin, end = timeline.done[rows], timeline.end[rows]
    active = union_ns(begin, end)
    return {
        "cc_op_count": len(rows),
        "cc_op_time": float((end - begin).sum()) / 1e9,
        "cc_op_active_time": active / 1e9,
        "cc_op_active_time_percent": active / (timeline.total_ns or 1.0),
    }


def _moved(timeline: Timeline, counters: Counters) -> dict[str, int]:
    """Return the counters of bytes.

    The spills of compilers other than the older API's are unknown. For their programs, the counters
    of spills are left out if tiles do not fit into the memory."""
    unknown = timeline.order != "compiled" and is_overcommitted(timeline)
    return {
        name: count for name, count in counters.bytes.items() if not (unknown and name in SPILLS)
    }


def utilization(timeline: Timeline, counters: Counters) -> dict[str, float]:
    """Return the utilization of the array's peak, and of the bandwidth of the core's HBM stack.
    Transposes do not count as model flops.

    Published hfu figures of trn2 count the flops of all instructions of a float32 product, relative
    to the peak of both cores of a logical core. mfu is relative to one core, so it may be more than
    `hfu_estimated_percent`."""
    machine, moved = timeline.machine, counters.bytes
    bandwidth = machine.hbm.stack_gigabytes_per_s
    hbm = moved["hbm_read_bytes"] + moved["hbm_write_bytes"]
    model = share_of_peak(timeline, counters, "model_flops")
    cores = cores_together(machine)
    peak = _peak(machine, counters)
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
    """Return the flops of a counter as a fraction of the peak of one core's array in the same time.
    `flops` is the name of the counter."""
    return counters.flops[flops] / (_peak(timeline.machine, counters) * timeline.total_ns or 1.0)


def _peak(machine: Machine, counters: Counters) -> float:
    """Return the array's peak in flops per nanosecond, for the run's fastest kind of product. A
    cell does `at_once` multiplications and as many additions in each cycle."""
    return 2 * counters.at_once * machine.pe_cells * machine.engines["tensor"].clock_ghz


def _left_out(timeline: Timeline) -> dict[str, int]:
    """Return a field with the number of issued instructions that the record lacks; {} if none."""
    left_out = timeline.program.left_out
    return {"instructions_left_out": left_out} if left_out else {}


def compared(comparisons: Iterable[Comparison]) -> Iterator[str]:
    for number, c in enumerate(comparisons):
        where = ", ".join(map(str, c.worst))
        yield (
            f"result {number}: max abs error {c.max_abs:.3g}   relative L2 error {c.rel_l2:.3g}   "
            f"worst at ({where}): got {c.got:.9g}, expected {c.want:.9g}"
        )


def as_text(timeline: Timeline, answers: bool = True) -> Iterator[str]:
    """Yield lines of text: the estimate, the bottleneck if `answers` is True, and other figures."""
    machine, estimated = timeline.machine, estimate(timeline)
    yield f"estimate   {estimated if answers else estimated.time}"
    if timeline.program.coverage:
        yield f"covers     {timeline.program.coverage}"
    yield f"order      {POLICIES[timeline.order].description}"
    yield from (f"{name:<11}{said}" for name, said in requests(timeline.program, timeline.order))
    if (phase := clock_phase(timeline)) is not None:
        yield f"clock      {phase}"
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
    # relative to one peak, and so not the vendor's hfu
    model, all_flops = (
        share_of_peak(timeline, counters, flops) for flops in ("model_flops", "hardware_flops")
    )
    extra = f", {all_flops:.1%} with transposes and second passes" if all_flops > model else ""
    flops = f"{model:.1%} of peak flops (MFU){extra}"
    yield f"used       {flops}   {bandwidth:.1%} of HBM bandwidth (MBU)"
