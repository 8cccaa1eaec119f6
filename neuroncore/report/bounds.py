"""The bottleneck of a run in a sentence: the resource, the source line, and advice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.structs import dataclass
from neuroncore.base.units import duration, plural, size
from neuroncore.time.lines import Line
from neuroncore.time.path import Parts
from neuroncore.time.queues import QUEUES
from neuroncore.time.schedule import Timeline
from neuroncore.time.verdict import ALONE, Bound

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class BoundText:
    """How to report a resource: the part of a line that belongs to it, and the sentence."""

    share: Callable[[Parts], float]
    sentence: Callable[[Timeline, str], str]


def sentence(timeline: Timeline, limit: Bound, lines: Sequence[Line]) -> str:
    """Return the sentence, without a period. `lines` are the lines on the critical path."""
    if limit.what == "nothing":
        return f"bound by {limit}"
    told = TOLD[limit.what] if limit.what in TOLD else _of_engine(limit.what)
    where = max(lines, key=lambda line: told.share(line.parts), default=None)
    said = told.sentence(timeline, where.name if where is not None else "")
    if limit.gain < ALONE:
        return f"bound by no single resource; first by {said}"
    return f"bound by {said}"


def _of_engine(name: str) -> BoundText:
    queue = QUEUES.index(name)

    def said(timeline: Timeline, where: str) -> str:
        count = int((timeline.queue == queue).sum())
        busy = timeline.busy_share[name]
        return (
            f"the {name} engine: busy {busy:.0%} of the time with {plural(count, 'instruction')}, "
            f"most on the critical path at {where}; give it less work, or move some to another "
            "engine"
        )

    return BoundText(lambda parts: parts.work.get(name, 0.0), said)


def _bandwidth(timeline: Timeline, where: str) -> str:
    moved, spent = _moved(timeline), timeline.total_ns
    return (
        f"DMA bandwidth: {size(moved)} at {moved / spent:.0f} GB/s, mostly at {where}; move fewer "
        "bytes: use narrower types, load reused data once"
    )


def _rows(timeline: Timeline, where: str) -> str:
    count = int(timeline.moves.sum())
    return (
        f"DMA rows: {plural(count, 'transfer')} of {size(_moved(timeline) / count)} on average, "
        f"mostly at {where}; move longer contiguous rows of HBM"
    )


def _issue(timeline: Timeline, where: str) -> str:
    own = timeline.moves
    each = duration(float(timeline.busy[own].mean()))
    return (
        f"DMA issue: {plural(int(own.sum()), 'transfer')}, one per {each}, mostly at {where}; "
        "use fewer, larger transfers"
    )


def _transfer_latency(timeline: Timeline, where: str) -> str:
    dma = timeline.machine.dma
    each = duration(dma.issue_ns + dma.load_latency_ns)
    return (
        f"DMA latency (about {each} per transfer, whatever its size), mostly at {where}; start "
        "loads earlier, or overlap them with compute"
    )


def _latency(_: Timeline, where: str) -> str:
    return (
        f"latency: instructions wait for the previous result, mostly at {where}; put independent "
        "work between them"
    )


def _overhead(timeline: Timeline, where: str) -> str:
    count = plural(int((~timeline.moves).sum()), "instruction")
    return f"the fixed cost of {count}, mostly at {where}; use fewer, larger ones"


def _warm_up(_: Timeline, where: str) -> str:
    return f"the warm-up of the Tensor engine, mostly at {where}; issue products without gaps"


def _tables(_: Timeline, where: str) -> str:
    return (
        f"loads of activation tables, one per change of function, mostly at {where}; group calls "
        "of the same function"
    )


def _space(_: Timeline, where: str) -> str:
    return (
        f"buffer reuse: tiles wait until the previous contents of their buffer are read, mostly at "
        f"{where}; double-buffer them"
    )


def _moved(timeline: Timeline) -> int:
    calls, times = np.unique(timeline.columns.call[timeline.moves], return_counts=True)
    each = (timeline.program.calls[call].written_bytes for call in calls.tolist())
    return sum(one * many for one, many in zip(each, times.tolist(), strict=True))


def _work(parts: Parts) -> float:
    return sum(parts.work.values())


TOLD = {
    "DMA bandwidth": BoundText(lambda parts: parts.moves, _bandwidth),
    "DMA rows": BoundText(lambda parts: parts.moves, _rows),
    "DMA issue": BoundText(lambda parts: parts.issue, _issue),
    "DMA latency": BoundText(lambda parts: parts.transfer_latency, _transfer_latency),
    "latency": BoundText(lambda parts: parts.latency, _latency),
    "overhead": BoundText(_work, _overhead),
    "warm-up": BoundText(lambda parts: parts.work.get("Tensor", 0.0), _warm_up),
    "activation tables": BoundText(lambda parts: parts.work.get("Scalar", 0.0), _tables),
    "space": BoundText(lambda parts: parts.latency + parts.transfer_latency, _space),
}
