"""Compare our costs of single instructions with profiler traces: python bench/instructions.py CSV

The CSV has a row for each combination of engine, opcode and operands. `dur_median_ns` is the time
from the begin of an instruction to its result; the prediction is busy + latency, from the machine
file. `issue_same_min_ns` is the time to the next instruction of the same kind; the prediction is
busy. Some rows have a reason why the model can't predict them; these are not counted. The exit code
is 0 if the median error is at most 5 % and each counted row has an error of at most 15 %.
"""

from __future__ import annotations

import csv
import re
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import neuroncore

neuroncore.activate()

import nki.isa as nisa
import nki.language as nl

from neuroncore import machine
from neuroncore.clause.cost import Cost
from neuroncore.clause.instruction import Call
from neuroncore.core.core import Core, on
from neuroncore.machine import Machine

MEDIAN, MOST = 0.05, 0.15
FORMATS = {"fp32": nl.float32, "bfloat16": nl.bfloat16}
BUFFERS = {"SBUF": nl.sbuf, "PSUM": nl.psum}
Row = dict[str, str]


class Prediction(NamedTuple):
    """The predicted times of an instruction in nanoseconds: until its result (`duration`), and
    until the next instruction begins (`interval`). `why` is the reason why the prediction may be
    wrong, or ""."""

    duration: float | None = None
    interval: float | None = None
    why: str = ""


def issued(target: Machine, issue: Callable[[], Any]) -> tuple[Call, Cost]:
    """Return the last call that `issue` issues on the machine, and its cost."""
    core = Core(target)
    with on(core):
        issue()
    assert core.program is not None
    call = core.program.calls[-1]
    return call, call.instruction.cost(call, target)


def tile(text: str, shape: tuple[int, ...] | None = None) -> Any:
    """Return a tile of zeros that a text of the CSV describes: format:memory:elements per
    partition:stride."""
    form, memory, size = text.split(":")[:3]
    return nl.zeros(shape or (128, int(size)), FORMATS[form], buffer=BUFFERS[memory])


def operands(row: Row) -> tuple[str, str]:
    """Return the descriptions of the source and of the destination. The destination of the Tensor
    engine has no description: ""."""
    src = re.search(r"src:(\S+)", row["operands"])
    dst = re.search(r"dst:(\S+)", row["operands"])
    return src[1] if src else "", dst[1] if dst else ""


# --- the four engines -----------------------------------------------------------------------------


def elementwise(row: Row, target: Machine) -> Prediction:
    """Return the prediction for an instruction of the Vector or the Scalar engine."""
    src, dst = operands(row)
    engine = nisa.engine[row["engine"].lower()]
    groups = int(dst.split(":")[2])

    def issue() -> None:
        result = tile(dst)
        match row["opcode"]:
            case "ACTIVATE":
                nisa.activation(result, nl.exp, tile(src))
            case "COPY" | "CAST":
                nisa.tensor_copy(result, tile(src), engine=engine)
            case "RECIPROCAL":
                nisa.reciprocal(result, tile(src))
            case "TENSOR_SCALAR":
                column = nl.zeros((128, 1), nl.float32)
                nisa.tensor_scalar(result, tile(src), nl.multiply, column, engine=engine)
            case "TENSOR_REDUCE":
                operator = nl.add if row["op"] == "ADD" else nl.maximum
                data = tile(src, (128, groups, int(src.split(":")[2]) // groups))
                nisa.tensor_reduce(result, operator, data, 2)

    _, cost = issued(target, issue)
    return Prediction(cost.busy_ns + cost.latency_ns, cost.busy_ns)


def product(row: Row, target: Machine, transposes: bool) -> tuple[Call, Cost]:
    """Return the matmul or the transpose to which an instruction of the Tensor engine belongs, and
    its cost."""
    src = operands(row)[0]
    form, wide = src.split(":")[0], int(src.split(":")[2])

    def issue() -> None:
        weights = nl.zeros((128, 128), FORMATS[form])
        if transposes:
            into = nl.ndarray((128, 128), FORMATS[form], buffer=nl.psum)
            nisa.nc_transpose(into, weights, engine=nisa.engine.tensor)
        else:
            into = nl.ndarray((128, wide), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(into, weights, tile(src))

    return issued(target, issue)


def share(row: Row, target: Machine) -> float:
    """Return the rate of the Tensor engine's clock as a fraction of its full rate. The profiler
    records the rate only after its first change, so a row without a rate was measured at the lower
    rate."""
    return 1.0 if row["pe_clock_frac"] == "1.0" else target.fixed.cold_clock_share


def matmul(row: Row, target: Machine) -> Prediction:
    """Return the prediction for one pass of a product. A float32 product has two passes."""
    _, cost = product(row, target, transposes=False)
    passes = target.fixed.float32_passes if "fp32" in row["operands"] else 1
    busy = cost.busy_ns / passes / share(row, target)
    return Prediction(busy + cost.latency_ns, busy)


def load_weights(row: Row, target: Machine) -> Prediction:
    transposes = row["transpose_mode"] == "ENABLED"
    _, cost = product(row, target, transposes)
    fixed = target.fixed.weights_latency_ns
    filling = (cost.weights_latency_ns - fixed) / share(row, target)
    why = ""
    if "fp32" in row["operands"] and not transposes:
        why = "51 ns longer than for a transpose; not modeled, because products aren't slower"
    period = cost.busy_ns / share(row, target) if transposes else None
    return Prediction(filling + fixed, period, why)


def register_load(row: Row, target: Machine) -> Prediction:
    why = (
        ""
        if row["engine"] == "Sync"
        else "kernels load registers on Sync; this engine waits for memory"
    )
    return Prediction(target.fixed.register_load_ns, why=why)


def descriptors(row: Row, target: Machine) -> Prediction:
    """Return the prediction for a DMA transfer. Hardware occupies the queue while it writes the
    descriptors. GpSimd writes descriptors itself, between one transfer and the next."""
    if row["engine"] != "GpSimd":
        return Prediction(target.dma.hardware_issue_ns)
    blocks, rows = map(int, re.findall(r"src_pat \[[^\]]*\]\[(\d+),(\d+)\]", row["operands"])[0])
    if rows == 1:
        return Prediction(why="one block: it is not known what writes its descriptors")
    software = target.dma.software_descriptor_ns * blocks * rows
    return Prediction(interval=target.dma.software_start_ns + software)


def predicted(row: Row, target: Machine) -> Prediction:
    match row["opcode"]:
        case "MATMUL":
            return matmul(row, target)
        case "LDWEIGHTS":
            return load_weights(row, target)
        case "ACT_TABLE_LOAD":
            return Prediction(target.fixed.activation_table_ns)
        case "TENSOR_LOAD":
            return register_load(row, target)
        case "DMA_DIRECT2D":
            return descriptors(row, target)
    if row["operands"]:
        return elementwise(row, target)
    return Prediction(why="an instruction of the sequencer, which kernels don't issue")


def interval(row: Row) -> float | None:
    """Return the measured time from one instruction to the next, or None if the next one waited. If
    the next instruction did not wait, it began before the result of the first one was available."""
    if row["opcode"] in ("LDWEIGHTS", "DMA_DIRECT2D"):
        return float(row["issue_any_median_ns"])
    if not row["issue_same_min_ns"]:
        return None
    found = float(row["issue_same_min_ns"])
    return found if found < float(row["dur_median_ns"]) else None


# --- the report -----------------------------------------------------------------------------------


def compared(row: Row, ours: Prediction) -> Iterator[tuple[str, float, float]]:
    """Yield (name of a time, predicted, measured) for each time that is both predicted and
    measured."""
    measured = {"duration": float(row["dur_median_ns"]), "interval": interval(row)}
    for name, ns in (("duration", ours.duration), ("interval", ours.interval)):
        found = measured[name]
        if ns is not None and found is not None:
            yield name, ns, found


def described(row: Row) -> str:
    words = (row["engine"], row["opcode"], row["op"], row["operands"], row["transpose_mode"])
    clock = f"clock {row['pe_clock_frac']}" if row["pe_clock_frac"] else ""
    return " ".join(word for word in (*words, clock) if word)


def main(path: str, name: str = "trn2") -> int:
    target = machine.load(name)
    errors = []
    left_out = 0
    print(f"{'':8} {'predicted':>9} {'measured':>9} {'ratio':>6}")
    with open(path, newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["generation"] == name]
    for row in rows:
        ours = predicted(row, target)
        lines = list(compared(row, ours))
        for which, ns, found in lines:
            off = abs(ns / found - 1)
            if ours.why:
                left_out += 1
            else:
                errors.append(off)
            mark = ours.why or ("OFF" if off > MOST else "")
            print(f"{which} {ns:9.1f} {found:9.1f} {ns / found:6.2f}  {described(row)}  {mark}")
        if not lines:
            print(f"{'':34}  {described(row)}  {ours.why or 'it waited for another instruction'}")
    median, wrong = statistics.median(errors), sum(off > MOST for off in errors)
    print(
        f"{len(rows)} rows; {len(errors)} figures: median error {median:.1%}, "
        f"greatest {max(errors):.1%}, {wrong} beyond {MOST:.0%}; {left_out} more not counted"
    )
    return int(wrong > 0 or median > MEDIAN)


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
