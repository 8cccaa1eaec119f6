"""The difference between two runs, at least one of which is measured.

The difference lists the opcodes and source lines whose times differ, separately for each engine.
The other run may be an estimate."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from neuroncore.base.units import duration, plural, size
from neuroncore.capture.encoding import role
from neuroncore.capture.measured import Capture
from neuroncore.capture.path import place_of
from neuroncore.capture.why import busy
from neuroncore.report.summary import counted
from neuroncore.time.compiled import ISSUED
from neuroncore.time.queues import LOADS, QUEUES
from neuroncore.time.timeline import Timeline

SCHEMA = "neuroncore.measured_diff/1"
SHOWN = 12  # rows of each table
LEAST = 0.002  # share of the time; rows that differ by less are not printed
TRIGGERS = "starts of transfers"  # their opcodes differ between compiled programs and traces
WEIGHTS, PRODUCT = "LDWEIGHTS", "MATMUL"


@dataclass(frozen=True)
class CaptureKind:
    """The instructions of one kind: their number, and the total nanoseconds on their engine."""

    count: int
    ns: float


@dataclass(frozen=True, eq=False)
class CaptureSide:
    """One of two runs that are compared.

    `ns`: the kernel's time in nanoseconds.
    `busy`: the share of this time for which each engine is busy.
    `kinds`: the instructions by (engine, opcode).
    `lines`: nanoseconds by (engine, line). A line is "file:line" or a statement of the compiler.
    `transfers` and `transfer_bytes`: totals of the DMA transfers.
    `how`: a text that states whether the times are measured or estimated."""

    kernel: str
    target: str
    how: str
    ns: float
    busy: Mapping[str, float]
    kinds: Mapping[tuple[str, str], CaptureKind]
    lines: Mapping[tuple[str, str], float]
    transfers: int
    transfer_bytes: int

    @classmethod
    def of_capture(cls, capture: Capture) -> Self:
        """Return the side for a capture, from the core that ran the kernel."""
        core = capture.busiest
        times: dict[tuple[str, str], list[float]] = defaultdict(list)
        lines: dict[tuple[str, str], float] = defaultdict(float)
        for row in core.kernel.tolist():
            ns = float(core.busy_ns[row])
            kind = core.kind(row)
            if kind.role == "weights":  # hidden behind products
                continue
            what = TRIGGERS if kind.role == "transfer" else kind.opcode
            times[core.engine(row), what].append(ns)
            place = place_of(core, row)
            if place:
                lines[core.engine(row), place] += ns
        kinds = {key: CaptureKind(len(each), sum(each)) for key, each in times.items()}
        return cls(
            kernel=capture.program,
            target=capture.instance,
            how="measured" if capture.measured else "estimate of the program's instructions",
            ns=core.window_ns,
            busy=busy(core),
            kinds=kinds,
            lines=lines,
            transfers=len(core.moves),
            transfer_bytes=int(core.moves["bytes"].sum()),
        )


def estimated(kernel: str, timeline: Timeline) -> CaptureSide:
    """Return the side for neuroncore's estimate of a kernel.

    The side contains the instructions of neuroncore's compiled program, and their times."""
    counts = counted(timeline)
    taken, lines = _times(timeline)
    numbers = Counter[tuple[str, str]]()
    for (queue, opcode), count in counts.opcodes.items():
        if queue < LOADS and opcode != WEIGHTS:
            numbers[QUEUES[queue], _shown(opcode)] += count
    kinds = {key: CaptureKind(numbers[key], taken.get(key, 0.0)) for key in (*numbers, *taken)}
    return CaptureSide(
        kernel=kernel,
        target=timeline.machine.name,
        how="estimate",
        ns=timeline.total_ns,
        busy=timeline.busy_share,
        kinds=kinds,
        lines=lines,
        transfers=counts.transfers,
        transfer_bytes=counts.transfer_bytes,
    )


def _times(timeline: Timeline) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]]:
    """Return how long issued instructions occupy their engines, in nanoseconds.

    The first dict is by (engine, opcode), the second one by (engine, line)."""
    program, columns = timeline.program, timeline.columns
    opcodes: dict[tuple[str, str], float] = defaultdict(float)
    lines: dict[tuple[str, str], float] = defaultdict(float)
    issued = np.flatnonzero((timeline.compiled.fate == ISSUED) & (timeline.queue < LOADS))
    taken = timeline.busy[issued]
    rows = zip(
        timeline.queue[issued].tolist(),
        columns.call[issued].tolist(),
        columns.line[issued].tolist(),
        taken.tolist(),
        strict=True,
    )
    for queue, call, line, ns in rows:
        instruction = program.calls[call].instruction
        opcode = PRODUCT if instruction.traits.multiplies else instruction.opcode
        opcodes[QUEUES[queue], _shown(opcode)] += ns
        lines[QUEUES[queue], program.place(line).short] += ns
    return opcodes, lines


def _shown(opcode: str) -> str:
    """Return the name of instructions with this opcode in a comparison."""
    return TRIGGERS if role(opcode) == "transfer" else opcode


@dataclass(frozen=True)
class DifferenceRow:
    """A row of a table: instructions of one engine, with the same opcode or line, in two runs.

    `what`: the opcode or the line.
    `old` and `new`: the totals of the two runs. A total is None if its run has no such
        instructions.

    In a row for a line the count is 0, because instructions of lines are not counted."""

    engine: str
    what: str
    old: CaptureKind | None
    new: CaptureKind | None

    @property
    def change_ns(self) -> float:
        return (self.new.ns if self.new else 0.0) - (self.old.ns if self.old else 0.0)

    def to_dict(self) -> dict[str, Any]:
        sides = {"old": self.old, "new": self.new}
        each = {
            name: None if kind is None else {"count": kind.count, "time": kind.ns / 1e9}
            for name, kind in sides.items()
        }
        return {"engine": self.engine, "what": self.what, **each}


@dataclass(frozen=True, repr=False)
class CaptureDifference:
    """The difference of two runs, at least one of which is measured.

    `opcodes` and `lines` list the rows that differ, the largest difference in time first."""

    old: CaptureSide
    new: CaptureSide
    opcodes: Sequence[DifferenceRow]
    lines: Sequence[DifferenceRow]

    def to_dict(self) -> dict[str, Any]:
        """Return fields for JSON: times in seconds, shares as fractions."""
        sides = self.old, self.new
        return {
            "schema": SCHEMA,
            "kernels": [side.kernel for side in sides],
            "targets": [side.target for side in sides],
            "how": [side.how for side in sides],
            "kernel_time": [side.ns / 1e9 for side in sides],
            "busy": [dict(side.busy) for side in sides],
            "transfers": [side.transfers for side in sides],
            "transfer_bytes": [side.transfer_bytes for side in sides],
            "opcodes": [row.to_dict() for row in self.opcodes],
            "lines": [row.to_dict() for row in self.lines],
        }

    def __repr__(self) -> str:
        """Return the text that a notebook and `print` show."""
        return "\n".join(_text(self))


def compared(old: CaptureSide, new: CaptureSide) -> CaptureDifference:
    return CaptureDifference(old, new, _rows(old.kinds, new.kinds), _lines(old, new))


def _rows(
    old: Mapping[tuple[str, str], CaptureKind], new: Mapping[tuple[str, str], CaptureKind]
) -> list[DifferenceRow]:
    pairs = [DifferenceRow(*key, old.get(key), new.get(key)) for key in dict.fromkeys((*old, *new))]
    return sorted((row for row in pairs if row.old != row.new), key=lambda r: -abs(r.change_ns))


def _lines(old: CaptureSide, new: CaptureSide) -> list[DifferenceRow]:
    """Return the lines whose times differ, the largest difference first.

    Return an empty list if the two sides have no line in common. In this case, one side probably
    lists lines of the source and the other side statements of a compiler, which can't be
    compared."""
    if not {place for _, place in old.lines} & {place for _, place in new.lines}:
        return []
    each = ({key: CaptureKind(0, ns) for key, ns in side.lines.items()} for side in (old, new))
    return _rows(*each)


# --- output ---------------------------------------------------------------------------------------


def _text(difference: CaptureDifference) -> Iterator[str]:
    old, new = difference.old, difference.new
    yield f"{old.kernel} ({old.how} on {old.target}) -> {new.kernel} ({new.how} on {new.target})"
    change = f"{new.ns / old.ns - 1:+.1%}" if old.ns else ""
    yield f"kernel     {duration(old.ns)} -> {duration(new.ns)}   {change}"
    transfers = (
        f"{plural(side.transfers, 'transfer')} ({size(side.transfer_bytes)} in total)"
        for side in (old, new)
    )
    yield f"DMA        {' -> '.join(transfers)}"
    yield ""
    yield f"{'busy':<12}{'old':>10}{'new':>10}"
    for engine in dict.fromkeys((*old.busy, *new.busy)):
        times = (side.busy.get(engine, 0.0) * side.ns for side in (old, new))
        yield f"  {engine:<10}" + "".join(f"{duration(ns):>10}" for ns in times)
    least = LEAST * max(old.ns, new.ns)
    yield from _table("engine and opcode", difference.opcodes, least)
    yield from _table("engine and line", difference.lines, least)


def _table(title: str, rows: Sequence[DifferenceRow], least: float) -> Iterator[str]:
    """Yield the lines of a table of the rows that differ by more than `least` nanoseconds."""
    shown = [row for row in rows if abs(row.change_ns) > least][:SHOWN]
    if shown:
        yield ""
        yield f"{title + ', the most different first':<44}{'old':>20}{'new':>20}"
    for row in shown:
        cells = "".join(f"{_cell(kind):>20}" for kind in (row.old, row.new))
        yield f"  {row.engine:<8} {row.what:<33}{cells}"


def _cell(kind: CaptureKind | None) -> str:
    if kind is None:
        return "-"
    count = f"{kind.count:,} in " if kind.count else ""
    return f"{count}{duration(kind.ns)}"
