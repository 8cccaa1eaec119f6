"""The reasons for the time of a measured run: the busy resources, and the causes of waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from neuroncore.base.units import duration, plural
from neuroncore.capture.measured import Capture, MeasuredCore
from neuroncore.capture.path import PathPart, idle, parts, steps
from neuroncore.capture.trace import ENGINES
from neuroncore.machine.harness import PROFILE, HarnessTime
from neuroncore.report.summary import union_ns

SCHEMA = "neuroncore.measured_why/1"
SHOWN = 0.005  # share of the time; smaller parts are not printed
NOTHING = "a cause that the trace does not show"


@dataclass(frozen=True, repr=False)
class CaptureWhy:
    """The reasons for the time of a kernel. All times are in nanoseconds.

    `kernel_ns`: the time of the kernel.
    `total_ns`: the time that the profiler counts.
    `busy`: the share of the kernel's time for which each engine was busy.
    `path`: each statement's share of the path to the event that ends last (`path.PathPart`).
    `waits`: (engine, cause, ns), how long an engine waited for a cause.
    `top`: how many rows of `path` and of `waits` are printed."""

    program: str
    instance: str
    kernel_ns: float
    total_ns: float
    busy: Mapping[str, float]
    path: Sequence[PathPart]
    waits: Sequence[tuple[str, str, float]]
    top: int
    range_ns: tuple[float, float] | None = None  # of an estimate
    unknown: Mapping[str, int] = field(default_factory=dict)  # `unknown_opcodes` of an estimate

    def to_dict(self) -> dict[str, Any]:
        """Return fields for JSON: times in seconds, shares as fractions."""
        whole = self.kernel_ns or 1.0
        return {
            "schema": SCHEMA,
            "measured": self.range_ns is None,
            "kernel": self.program,
            "target": self.instance,
            "kernel_time": self.kernel_ns / 1e9,
            "total_time": self.total_ns / 1e9,
            **self._range(),
            "busy": dict(self.busy),
            "lines": [_row(part, whole) for part in self.path],
            "waits": [
                {"engine": engine, "for": what, "time": ns / 1e9} for engine, what, ns in self.waits
            ],
        }

    def _range(self) -> dict[str, Any]:
        if self.range_ns is None:
            return {}
        low, high = self.range_ns
        unknown = {"unknown_opcodes": dict(self.unknown)} if self.unknown else {}
        return {"kernel_time_p10": low / 1e9, "kernel_time_p90": high / 1e9, **unknown}

    def __repr__(self) -> str:
        """Return the text that a notebook and `print` show."""
        return "\n".join(_text(self))


def why(capture: Capture, top: int = 5) -> CaptureWhy:
    """Return the reasons for the time of the core that ran the kernel."""
    core = capture.busiest
    path = parts(core, steps(core))
    return CaptureWhy(
        program=capture.program,
        instance=capture.instance,
        kernel_ns=core.window_ns,
        total_ns=capture.total_ns,
        busy=busy(core),
        path=path,
        waits=list(idle(core)),
        top=top,
        range_ns=capture.range_ns,
        unknown=unknown_opcodes(capture),
    )


def unknown_opcodes(capture: Capture) -> dict[str, int]:
    """Return the unknown opcodes of an estimated program, each with its number of instructions.

    An estimate lacks the times of these instructions. For a measured run, whose times are known,
    the result is empty."""
    if capture.measured:
        return {}
    core = capture.busiest
    kinds = map(core.kind, core.kernel.tolist())
    return dict(Counter(kind.opcode for kind in kinds if not kind.known))


def unknown_text(unknown: Mapping[str, int]) -> str:
    """Return a sentence about the result of `unknown_opcodes`; "" if that is empty."""
    if not unknown:
        return ""
    opcodes = ", ".join(f"{count:,} {opcode}" for opcode, count in unknown.items())
    return f"the times of instructions with unknown opcodes are not known: {opcodes}"


def busy(core: MeasuredCore) -> dict[str, float]:
    """Return the share of the kernel's window in which each engine executes an instruction.

    The share under "DMA" is the share in which DMA engines move data."""
    begin, end = core.window
    window, rows = (end - begin) or 1.0, core.instructions[core.kernel]
    shares = {}
    for number, engine in enumerate(ENGINES):
        of_engine = rows[rows["engine"] == number]
        shares[engine] = union_ns(of_engine["begin_ns"], of_engine["end_ns"]) / window
    moved = core.elements[(core.elements["begin_ns"] >= begin) & (core.elements["end_ns"] <= end)]
    shares["DMA"] = union_ns(moved["begin_ns"], moved["end_ns"]) / window
    return shares


def time_text(kernel_ns: float, total_ns: float, range_ns: tuple[float, float] | None) -> str:
    """Return a text with the kernel's time.

    If `range_ns` is None, the time is measured, and the text also states the time that the profiler
    adds before and after the kernel. Otherwise the time is estimated, and the text states its
    range."""
    if range_ns is not None:
        low, high = map(duration, range_ns)
        return (
            f"estimate {duration(kernel_ns)} (80% range {low} to {high}) of the program's own "
            "instructions"
        )
    around = total_ns - kernel_ns
    if around <= 0:
        return f"measured {duration(kernel_ns)}"
    return f"measured {HarnessTime(PROFILE, kernel_ns, around)}"


def _largest(times: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(times.items(), key=lambda item: -item[1])


def _row(part: PathPart, whole: float) -> dict[str, Any]:
    return {
        "place": part.place,
        "text": part.text,
        "instructions": list(part.opcodes),
        "count": part.count,
        "on_critical_path": part.steps,
        "share": part.ns / whole,
        "parts": {name: ns / whole for name, ns in part.with_what.items()},
    }


def _text(reasons: CaptureWhy) -> Iterator[str]:
    stated = time_text(reasons.kernel_ns, reasons.total_ns, reasons.range_ns)
    yield f"{reasons.program} on {reasons.instance}   {stated}"
    if not reasons.path:
        yield "no instruction of a kernel was traced"
        return
    yield "busy       " + "   ".join(f"{name} {share:.0%}" for name, share in reasons.busy.items())
    if reasons.unknown:
        yield unknown_text(reasons.unknown)
    yield from ("", "critical path by statement")
    whole = reasons.kernel_ns
    for part in reasons.path[: reasons.top]:
        shares = ((name, ns / whole) for name, ns in _largest(part.with_what))
        parts = ", ".join(f"{name} {share:.0%}" for name, share in shares if share > SHOWN)
        names = "/".join(part.opcodes)
        row = f"  {part.ns / whole:5.0%}  {part.place:<18} {names:<24} {parts}"
        yield row.rstrip()
    rest = reasons.path[reasons.top :]
    if rest:
        others = plural(len(rest), "other statement")
        yield f"  {sum(part.ns for part in rest) / whole:5.0%}  {others}"
    yield from ("", "waited for semaphores")
    for engine, what, ns in reasons.waits[: reasons.top]:
        yield f"  {duration(ns):>9}  {engine} for {what or NOTHING}"
    if not reasons.waits:
        yield "  nothing"
