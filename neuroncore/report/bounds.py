"""What bounds a run, in a sentence: what there is too much of, where, and what helps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.structs import dataclass
from neuroncore.base.units import duration, size
from neuroncore.time.lines import Line
from neuroncore.time.path import Parts
from neuroncore.time.queues import QUEUES
from neuroncore.time.schedule import Timeline
from neuroncore.time.verdict import ALONE, Bound

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Told:
    """How one resource is told of: which part of a line shows it, and the sentence."""

    share: Callable[[Parts], float]
    sentence: Callable[[Timeline, str], str]


def sentence(timeline: Timeline, limit: Bound, lines: Sequence[Line]) -> str:
    """Without a full stop. `lines` are those on the critical path."""
    if limit.what == "nothing":
        return f"bound by {limit}"
    told = TOLD[limit.what] if limit.what in TOLD else _of_engine(limit.what)
    where = max(lines, key=lambda line: told.share(line.parts), default=None)
    said = told.sentence(timeline, where.name if where is not None else "")
    if limit.gain < ALONE:
        return f"bound by no one resource: first of all {said}"
    return f"bound by {said}"


def _of_engine(name: str) -> Told:
    queue = QUEUES.index(name)

    def said(timeline: Timeline, where: str) -> str:
        count = int((timeline.queue == queue).sum())
        busy = timeline.busy_share[name]
        return (
            f"the {name} engine: busy {busy:.0%} of the time with {_instructions(count)}, most on "
            f"the critical path at {where}; less work for it helps, or its share on others"
        )

    return Told(lambda parts: parts.work.get(name, 0.0), said)


def _bandwidth(timeline: Timeline, where: str) -> str:
    moved, spent = _moved(timeline), timeline.total_ns
    return (
        f"the bytes that DMA moves: {size(moved)}, {moved / spent:.0f} GB/s, {where}; fewer bytes "
        "help: narrower formats, and what is loaded once"
    )


def _rows(timeline: Timeline, where: str) -> str:
    count = int(timeline.moves.sum())
    return (
        f"the rows that DMA moves: {count:,} transfers of {size(_moved(timeline) / count)} on "
        f"average, {where}; longer rows of neighbours in HBM help"
    )


def _issue(timeline: Timeline, where: str) -> str:
    own = timeline.moves
    each = duration(float(timeline.busy[own].mean()))
    return (
        f"the issue of DMA transfers: {int(own.sum()):,}, one per {each}, {where}; fewer and "
        "larger ones help"
    )


def _transfer_latency(_: Timeline, where: str) -> str:
    return (
        f"the latency of DMA, which takes long from start to finish however little it moves: "
        f"{where}; loads and stores beside other work help"
    )


def _latency(_: Timeline, where: str) -> str:
    return (
        f"latency: instructions that wait for the result of the one before, {where}; work that "
        "doesn't, in between, helps"
    )


def _overhead(timeline: Timeline, where: str) -> str:
    count = int((~timeline.moves).sum())
    return (
        f"what {_instructions(count)} take beside their work, {where}; fewer and larger ones help"
    )


def _warm_up(_: Timeline, where: str) -> str:
    return f"the Tensor engine's slow clock before it is warm, {where}; products without gaps help"


def _tables(_: Timeline, where: str) -> str:
    return (
        f"loads of the Scalar engine's tables, one for each change of function, {where}; the same "
        "function in a row helps"
    )


def _space(_: Timeline, where: str) -> str:
    return (
        f"space: tiles that wait until those before them have been read, {where}; a second tile "
        "to go on with helps"
    )


def _instructions(count: int) -> str:
    return f"{count:,} instruction{'s' * (count != 1)}"


def _moved(timeline: Timeline) -> int:
    calls, times = np.unique(timeline.columns.call[timeline.moves], return_counts=True)
    each = (timeline.program.calls[call].written_bytes for call in calls.tolist())
    return sum(one * many for one, many in zip(each, times.tolist(), strict=True))


def _work(parts: Parts) -> float:
    return sum(parts.work.values())


TOLD = {
    "DMA bandwidth": Told(lambda parts: parts.moves, _bandwidth),
    "DMA rows": Told(lambda parts: parts.moves, _rows),
    "DMA issue": Told(lambda parts: parts.issue, _issue),
    "DMA latency": Told(lambda parts: parts.transfer_latency, _transfer_latency),
    "latency": Told(lambda parts: parts.latency, _latency),
    "overhead": Told(_work, _overhead),
    "warm-up": Told(lambda parts: parts.work.get("Tensor", 0.0), _warm_up),
    "activation tables": Told(lambda parts: parts.work.get("Scalar", 0.0), _tables),
    "space": Told(lambda parts: parts.latency + parts.transfer_latency, _space),
}
