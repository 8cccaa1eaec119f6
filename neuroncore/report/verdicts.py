"""The bottleneck of a run as a sentence.

If no resource is the bottleneck, the bottleneck is a serial chain: instructions that each wait for
the previous instruction. A world is all ranks of a launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from neuroncore.base.units import duration, plural, size
from neuroncore.time.edits.buffers import SpaceWait
from neuroncore.time.lines import Line
from neuroncore.time.path import PathParts
from neuroncore.time.queues import QUEUES
from neuroncore.time.schedule import Timeline
from neuroncore.time.verdict import CHAIN, COLLECTIVES, SATURATED, Bound
from neuroncore.time.worlds import Arrivals, collective_work, imbalance

CHAIN_LINES, CHAIN_SHARE = 6, 0.04  # most lines that are named, and the least share of each


@dataclass(frozen=True)
class BoundText:
    """How to report that a run is bound by a resource.

    `share`: a function of the time of one source line on the critical path, divided into parts. It
        returns the nanoseconds that the resource takes.
    `sentence`: a function of the timeline and of the name of the line with the largest share. It
        returns the sentence."""

    share: Callable[[PathParts], float]
    sentence: Callable[[Timeline, str], str]


def sentence(timeline: Timeline, limit: Bound, lines: Sequence[Line], space: str = "") -> str:
    """Return the sentence about the bottleneck of one core, without a period.

    `lines`: the lines on the critical path.
    `space`: the text of `waiting_for_space` if waits for buffers are most of the critical path, or
        ""."""
    if limit.what == "nothing":
        return f"bound by {limit}"
    if limit.what in (CHAIN, COLLECTIVES):
        chain = f"each instruction waits for the previous one, {_chain(timeline, lines)}"
        waits = f" that waits for space: {space}; " if space else ": "
        return f"bound by a serial chain{waits}{chain}"
    bound_text = BOUND_TEXTS[limit.what] if limit.what in BOUND_TEXTS else _of_engine(limit.what)
    where = max(lines, key=lambda line: bound_text.share(line.parts), default=None)
    words = bound_text.sentence(timeline, where.name if where is not None else "")
    return f"bound by {words}"


def chain_of(timeline: Timeline, lines: Sequence[Line]) -> list[Line]:
    """Return the lines that take most of the critical path, in the order of the path.

    They are at most CHAIN_LINES lines with at least CHAIN_SHARE of the time each, or else the
    longest line. `lines` must be sorted by time, the longest first."""
    least = CHAIN_SHARE * timeline.total_ns
    longest = [line for line in lines if line.ns >= least][:CHAIN_LINES] or [*lines[:1]]
    return sorted(longest, key=lambda line: line.first)


def _chain(timeline: Timeline, lines: Sequence[Line]) -> str:
    """Return the text about a serial chain: its lines, its time by kind, and the busiest engine."""
    names = shortened([line.name for line in chain_of(timeline, lines)])
    shares: dict[str, float] = {}
    for line in lines:
        for name, ns in line.parts.named.items():
            shares[name] = shares.get(name, 0.0) + ns / timeline.total_ns
    largest = sorted(shares.items(), key=lambda part: -part[1])[:3]
    how = ", ".join(f"{name} {share:.0%}" for name, share in largest)
    busiest = max(timeline.busy_share.items(), key=lambda item: item[1])
    return (
        f"{names}; time on this chain: {how}; no engine or queue is busy for {SATURATED:.0%} of "
        f"the time: the busiest, {busiest[0]}, is busy for {busiest[1]:.0%}"
    )


def shortened(names: Sequence[str]) -> str:
    """Return the names of lines (FILE:LINE) joined by arrows.

    The file is left out if the previous line is in the same file."""
    parts, before = [], None
    for name in names:
        file, colon, line = name.rpartition(":")
        parts.append(line if colon and file == before else name)
        before = file if colon else None
    return " -> ".join(parts)


def waiting_for_space(waits: Sequence[SpaceWait]) -> str:
    """Return a text about the first wait: which line waits, how often, and for which buffer.

    Return an empty string if there are no waits."""
    if not waits:
        return ""
    first = waits[0]
    buffer, place = first.buffer, first.place
    memory = buffer.region.value.upper()
    if not first.reused:
        return (
            f"{memory} is full: {place.short} waits {plural(first.times, 'time')} until other "
            "tiles are read"
        )
    name = f"`{buffer.name}`" if buffer.name else "its tile"
    times = plural(first.times, "time")
    return f"{place.short} waits {times} until the contents of {name} ({memory}) are read"


# --- worlds ---------------------------------------------------------------------------------------


def world_sentence(timelines: Sequence[Timeline], limit: Bound) -> str:
    """Return the sentence for a world that is bound by a rank, by imbalance, or by collectives."""
    arrivals = Arrivals(timelines)
    waited = duration(sum(arrivals.late.values()))
    unequal = imbalance(timelines)
    where = ""
    if unequal is not None:
        more = duration(unequal.more_ns)
        where = (
            f"; {unequal.place.short} takes {more} longer on the last rank than on the median rank"
        )
    if limit.what == "imbalance":
        return (
            f"bound by imbalance: {limit.how}; in total, the last rank arrives {waited} later than "
            f"the median rank{where}"
        )
    if limit.what.startswith("rank "):
        return f"bound by {limit.what}, which arrives {waited} later than the median rank{where}"
    number = timelines[0].world.cores_of(arrivals.latest)[0]
    work = collective_work(timelines[number])
    if not work:
        return f"bound by the {limit.what}, {limit.how}"
    first = work[0]
    each = duration(first.ns / first.count)
    fixed = 1 - first.bytes_ns / first.ns if first.ns else 1.0
    description = (
        f"{plural(first.count, first.name)} of {size(first.size_bytes)} at {first.place.short}"
    )
    if limit.what == "collective bandwidth":
        return (
            f"bound by the links between ranks: {description}, {each} each; {limit.how} are "
            "collectives; move fewer bytes, or overlap collectives with compute"
        )
    return (
        f"bound by the start of collectives: {description}, {each} each, of which {fixed:.0%} does "
        f"not depend on bytes; {limit.how} are collectives; use fewer, larger collectives"
    )


# --- resources ------------------------------------------------------------------------------------


def _always(text: str) -> Callable[[Timeline, str], str]:
    """Return a function for `BoundText.sentence` that inserts only the name of the line into
    `text`."""
    return lambda _, where: text.format(where)


def _of_engine(name: str) -> BoundText:
    queue = QUEUES.index(name)

    def engine_sentence(timeline: Timeline, where: str) -> str:
        count = int((timeline.queue == queue).sum())
        busy = timeline.busy_share[name]
        return (
            f"the {name} engine: it is busy {busy:.0%} of the time with "
            f"{plural(count, 'instruction')}, mostly at {where}; give it less work, or move some "
            "work to another engine"
        )

    return BoundText(lambda parts: parts.work.get(name, 0.0), engine_sentence)


def _bandwidth(timeline: Timeline, where: str) -> str:
    moved, total_ns = _moved(timeline), timeline.total_ns
    return (
        f"DMA bandwidth: {size(moved)} at {moved / total_ns:.0f} GB/s, mostly at {where}; move "
        "fewer bytes: use narrower types, load reused data once"
    )


def _rows(timeline: Timeline, where: str) -> str:
    count = int(timeline.moves.sum())
    return (
        f"DMA rows (each contiguous row of a transfer has a fixed cost): "
        f"{plural(count, 'transfer')} of {size(_moved(timeline) / count)} on average, mostly at "
        f"{where}; move longer contiguous rows of HBM"
    )


def _issue(timeline: Timeline, where: str) -> str:
    is_transfer = timeline.moves
    each = duration(float(timeline.busy[is_transfer].mean()))
    return (
        f"DMA issue (writing the descriptors of a transfer takes {each}): "
        f"{plural(int(is_transfer.sum()), 'transfer')}, mostly at {where}; use fewer, larger "
        "transfers"
    )


def _transfer_latency(timeline: Timeline, where: str) -> str:
    dma = timeline.machine.dma
    each = duration(dma.issue_ns + dma.load_latency_ns)
    return (
        f"DMA latency (about {each} per transfer, whatever its size), mostly at {where}; start "
        "loads earlier, or overlap them with compute"
    )


def _overhead(timeline: Timeline, where: str) -> str:
    count = plural(int((~timeline.moves).sum()), "instruction")
    return f"the fixed cost of {count}, mostly at {where}; use fewer, larger ones"


def _moved(timeline: Timeline) -> int:
    calls, times = np.unique(timeline.columns.call[timeline.moves], return_counts=True)
    sizes = (timeline.program.calls[call].written_bytes for call in calls.tolist())
    return sum(nbytes * count for nbytes, count in zip(sizes, times.tolist(), strict=True))


def _work(parts: PathParts) -> float:
    return sum(parts.work.values())


LATENCY = (
    "latency: instructions wait for the previous result, mostly at {}; put independent work "
    "between them"
)
WARM_UP = "the warm-up of the Tensor engine, mostly at {}; issue products without gaps"
TABLES = (
    "loads of activation tables, one per change of function, mostly at {}; group calls of the same "
    "function"
)
SPACE = (
    "buffer reuse: tiles wait until the previous contents of their buffer are read, mostly at {}; "
    "double-buffer them"
)
BOUND_TEXTS = {
    "DMA bandwidth": BoundText(lambda parts: parts.moves, _bandwidth),
    "DMA rows": BoundText(lambda parts: parts.moves, _rows),
    "DMA issue": BoundText(lambda parts: parts.issue, _issue),
    "DMA latency": BoundText(lambda parts: parts.transfer_latency, _transfer_latency),
    "latency": BoundText(lambda parts: parts.latency, _always(LATENCY)),
    "overhead": BoundText(_work, _overhead),
    "warm-up": BoundText(lambda parts: parts.work.get("Tensor", 0.0), _always(WARM_UP)),
    "activation tables": BoundText(lambda parts: parts.work.get("Scalar", 0.0), _always(TABLES)),
    "space": BoundText(lambda parts: parts.latency + parts.transfer_latency, _always(SPACE)),
}
