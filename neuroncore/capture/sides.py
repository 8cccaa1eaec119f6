"""A device's compiled program compared with neuroncore's.

The comparison counts the instructions of each program at each line, by engine."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from neuroncore.capture.joining import WEIGHTS, JoinedWork, joined, of_graph, ours
from neuroncore.capture.neff import Neff
from neuroncore.time.timeline import Timeline

SAME, MISSING, ADDED, ELSEWHERE, BOTH = (
    *("same", "missing", "added", "on another engine"),
    "another number",
)
NOWHERE = "(no line)"


@dataclass(frozen=True)
class SideRow:
    """The instructions of one kind at one line.

    `theirs`: their number on each engine in the device's program.
    `ours`: their number on each engine in neuroncore's program.
    `verdict`: describes the device's program. "missing" means that it has no instructions of this
        kind at this line."""

    place: str
    kind: str
    theirs: Mapping[str, int]
    ours: Mapping[str, int]

    @property
    def verdict(self) -> str:
        if self.theirs == self.ours:
            return SAME
        counts = sum(self.theirs.values()), sum(self.ours.values())
        if not counts[0]:
            return MISSING
        if not counts[1]:
            return ADDED
        return ELSEWHERE if counts[0] == counts[1] else BOTH

    def to_dict(self) -> dict[str, Any]:
        return {
            "place": self.place,
            "kind": self.kind,
            "theirs": dict(self.theirs),
            "ours": dict(self.ours),
            "verdict": self.verdict,
        }


def side_rows(program: Neff, timeline: Timeline) -> list[SideRow]:
    """Return the rows for the core that runs the kernel: the core with the most instructions."""
    each = [[work for _, work in of_graph(graph)] for graph in program.graphs]
    our_work = ours(timeline)
    return rows(joined(max(each, key=len), our_work), our_work)


def rows(theirs: Sequence[JoinedWork], our_work: Sequence[JoinedWork]) -> list[SideRow]:
    """Return the rows in the order of lines.

    `theirs`: the work of the device's program.
    `our_work`: the work of neuroncore's program."""
    counts: dict[tuple[str, str], tuple[Counter[str], Counter[str]]] = defaultdict(
        lambda: (Counter(), Counter())
    )
    for side, works in enumerate((our_work, theirs)):
        for work in works:
            if work.kind not in ("", WEIGHTS):
                counts[work.place or NOWHERE, work.kind][side][work.engine] += 1
    unsorted = [SideRow(*key, theirs=both[1], ours=both[0]) for key, both in counts.items()]
    return sorted(unsorted, key=lambda row: _line(row.place))


def _line(place: str) -> tuple[bool, str, int]:
    file, _, line = place.rpartition(":")
    return place == NOWHERE, file, int(line) if line.isdecimal() else 0


def text(table: Sequence[SideRow]) -> Iterator[str]:
    yield f"{'line':<26}{'':<12}{'compiled program':<26}{'neuroncore':<26}"
    for row in table:
        sides = "".join(f"{_said(side):<26}" for side in (row.theirs, row.ours))
        yield f"{row.place:<26}{row.kind:<12}{sides}{row.verdict}"
    total = Counter(row.verdict for row in table)
    yield ", ".join(f"{count} {verdict}" for verdict, count in total.most_common())


def _said(counts: Mapping[str, int]) -> str:
    texts = (f"{count:,} {engine}" for engine, count in sorted(counts.items()))
    return ", ".join(texts) or "-"
