"""The figures of a measured run, with the names and units of the vendor's profiler.

Units are seconds, bytes, and percentages as fractions. Counts and times of engines include all
instructions that the profiler shows: the kernel's instructions on all cores of a program, and the
runtime's instructions before and after it. Bytes and flops are the kernel's alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.capture.encoding import DecodedInstruction, DecodedOperand
from neuroncore.capture.measured import Capture, MeasuredCore
from neuroncore.capture.moves import HBM, SBUF, UNKNOWN
from neuroncore.capture.trace import ENGINES
from neuroncore.machine import Machine
from neuroncore.report.summary import union_ns

Array = npt.NDArray[Any]

BYTES = tuple(f"{m}_{verb}_bytes" for m in ("hbm", "sbuf", "psum") for verb in ("read", "write"))
PRODUCTS = 2  # flops of a cell for each column: a multiplication and an addition


def summary(capture: Capture, machine: Machine | None = None) -> dict[str, Any]:
    """Return all figures. Without a machine, figures that need its peaks are left out."""
    total = capture.total_ns or 1.0
    flops, moved = _flops(capture), _bytes(capture)
    core = capture.busiest
    figures: dict[str, Any] = {
        "is_simulation": not capture.measured,
        "instance_type": capture.instance,
        "total_time": capture.total_ns / 1e9,
        "kernel_time": core.window_ns / 1e9,
        **_engines(capture, total),
        **_dma(capture, total),
        **moved,
        **flops,
        **_clock(core),
        "opcodes": dict(sorted(_opcodes(core).items())),
    }
    return figures | (
        _of_peak(machine, len(capture.cores), total, flops, moved) if machine is not None else {}
    )


def _shown(capture: Capture) -> Iterator[tuple[MeasuredCore, Array]]:
    """Yield each core with the instructions that the profiler shows.

    These instructions begin and end while the profiler counts."""
    for core in capture.cores:
        rows = core.instructions
        yield core, rows[(rows["begin_ns"] >= 0) & (rows["end_ns"] <= capture.total_ns)]


def _engines(capture: Capture, total: float) -> dict[str, Any]:
    """Return the counts and times of engines. Instructions of the runtime that wait for something
    are counted but not timed."""
    figures: dict[str, Any] = {}
    shown = list(_shown(capture))
    every = []
    for number, engine in enumerate(ENGINES):
        of_engine = [(core, rows[rows["engine"] == number]) for core, rows in shown]
        timed = np.concatenate([rows[_works(core, rows)] for core, rows in of_engine])
        name = f"{engine.lower()}_engine"
        active = union_ns(timed["begin_ns"], timed["end_ns"])
        every.append(timed)
        figures[f"{name}_instruction_count"] = sum(len(rows) for _, rows in of_engine)
        busy_ns = float((timed["end_ns"] - timed["begin_ns"]).sum())
        figures[f"{name}_instruction_time"] = busy_ns / 1e9
        figures[f"{name}_active_time"] = active / 1e9
        figures[f"{name}_active_time_percent"] = active / total
    all_engines = np.concatenate(every)
    active = union_ns(all_engines["begin_ns"], all_engines["end_ns"])
    figures |= {"total_active_time": active / 1e9, "total_active_time_percent": active / total}
    return figures


def _works(core: MeasuredCore, rows: Array) -> Array:
    """Return, for each instruction in `rows`, whether its time counts.

    Only waiting instructions of the runtime do not count."""
    idle = np.array([bool(kind.waits) for kind in core.kinds], np.bool_)
    works: Array = rows["own"] | ~idle[rows["kind"]]
    return works


def _dma(capture: Capture, total: float) -> dict[str, Any]:
    """Return the DMA figures.

    Elements are what the profiler calls packets. Queues are grouped by `kind_of_queue`."""
    shown = [(core, core.elements[core.elements["begin_ns"] >= 0]) for core in capture.cores]
    elements = np.concatenate([rows for _, rows in shown])
    active = union_ns(elements["begin_ns"], elements["end_ns"])
    moves = np.concatenate([core.moves for core in capture.cores])
    count, size = len(moves), int(moves["bytes"].sum())
    figures = {
        "dma_active_time": active / 1e9,
        "dma_active_time_percent": active / total,
        "dma_packet_time": float((elements["end_ns"] - elements["begin_ns"]).sum()) / 1e9,
        "dma_transfer_count": count,
        "dma_transfer_total_bytes": size,
        "dma_transfer_average_bytes": size / count if count else 0.0,
    }
    packets, sizes = Counter[str](), Counter[str]()
    for core, rows in shown:
        for number in np.unique(rows["queue"]).tolist():
            kind, of_queue = kind_of_queue(core, number), rows[rows["queue"] == number]
            packets[kind] += len(of_queue)
            sizes[kind] += int(of_queue["bytes"].sum())
    for kind in ("static", "software_dynamic", "hardware_dynamic"):
        figures[f"{kind}_dma_packet_count"] = packets[kind]
        figures[f"{kind}_dma_size"] = sizes[kind]
    return figures


def kind_of_queue(core: MeasuredCore, number: int) -> str:
    """Return when and by what the descriptors of a queue are written.

    The result is "static" for descriptors that were written before the program ran. Otherwise it is
    "hardware_dynamic" or "software_dynamic"."""
    name = core.queues[number] if number >= 0 else ""
    if "Dynamic" not in name:
        return "static"
    return "hardware_dynamic" if name.endswith("HW") else "software_dynamic"


def _opcodes(core: MeasuredCore) -> Counter[str]:
    """Return how often the kernel ran each opcode."""
    totals = Counter[str]()
    for kind, count in _counted([core]):
        totals[kind.opcode] += count
    return totals


def _counted(cores: Sequence[MeasuredCore]) -> Iterator[tuple[DecodedInstruction, int]]:
    """Yield the kernel's distinct instructions on each core, each with how often it ran."""
    for core in cores:
        numbers, counts = np.unique(core.instructions["kind"][core.kernel], return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            yield core.kinds[number], count


def _flops(capture: Capture) -> dict[str, int]:
    totals = {"hardware_flops": 0, "transpose_flops": 0, "matmul_instruction_count": 0}
    for kind, count in _counted(capture.cores):
        if kind.role == "product":
            cells = kind.settings["rows"] * kind.settings["columns"]
            flops = PRODUCTS * cells * kind.operand("src").free * count
            totals["hardware_flops"] += flops
            totals["matmul_instruction_count"] += count
            if kind.settings["transpose"] == "ENABLED":
                totals["transpose_flops"] += flops
    return totals


def _bytes(capture: Capture) -> dict[str, int]:
    """Return the byte counters.

    For operands of engines, only the bytes in one partition are counted. For transfers, all bytes
    are counted. Counters of HBM and SBUF are left out if the source of a transfer is unknown."""
    totals = Counter(dict.fromkeys(BYTES, 0))
    for kind, count in _counted(capture.cores):
        for operand in kind.operands:
            memory = "psum" if operand.in_psum else "sbuf"
            verb = "read" if operand.reads else "write"
            totals[f"{memory}_{verb}_bytes"] += _bytes_of(operand, kind) * count
    moves = np.concatenate([core.moves for core in capture.cores])
    for number, memory in ((HBM, "hbm"), (SBUF, "sbuf")):
        reads, writes = moves["source"] == number, moves["target"] == number
        totals[f"{memory}_read_bytes"] += int(moves["read_bytes"][reads].sum())
        totals[f"{memory}_write_bytes"] += int(moves["bytes"][writes].sum())
    known = bool((moves["source"] != UNKNOWN).all())
    return {name: totals[name] for name in BYTES if known or name.startswith("psum")}


def _bytes_of(operand: DecodedOperand, kind: DecodedInstruction) -> int:
    """Return the bytes of an operand per partition.

    The profiler assumes that a product writes the format that it reads."""
    if kind.role == "product" and not operand.reads:
        read = kind.operand("src")
        return operand.free * read.free_bytes // read.free
    return operand.free_bytes


def _clock(core: MeasuredCore) -> dict[str, float]:
    """Return {"full_clock_time": seconds}; {} if the clock was not recorded.

    This is how long the Tensor engine had its full clock rate while the kernel ran."""
    begin, end = core.window
    clock = core.clock
    if not len(clock):
        return {}
    until = np.append(clock["ns"][1:], end)
    low, high = np.clip(clock["ns"], begin, end), np.clip(until, begin, end)
    full = clock["eighths"] >= 8
    return {"full_clock_time": float((high - low)[full].sum()) / 1e9}


def _of_peak(
    machine: Machine, cores: int, total: float, flops: dict[str, int], moved: dict[str, int]
) -> dict[str, float]:
    """Return the figures that are relative to a peak of the machine.

    `cores`: the number of cores whose peaks are added up.
    `total`: the time in nanoseconds."""
    peak = PRODUCTS * cores * machine.pe_cells * machine.engines["tensor"].clock_ghz
    model = flops["hardware_flops"] - flops["transpose_flops"]
    figures = {"mfu_inst_estimated_percent": model / (peak * total)}
    if "hbm_read_bytes" in moved:
        hbm = moved["hbm_read_bytes"] + moved["hbm_write_bytes"]
        figures["mbu_estimated_percent"] = hbm / (machine.hbm.stack_gigabytes_per_s * total)
    return figures
