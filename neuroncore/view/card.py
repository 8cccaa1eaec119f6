"""Two reports: the bottleneck and the what-ifs of a core as fields of a page; and a launch in a few
lines of HTML, for notebooks.

A what-if is an estimate of the kernel after one change. The change is for example an edit of the
kernel, or the removal of a limit of the machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from neuroncore.base import display
from neuroncore.base.findings import Finding
from neuroncore.base.units import plural
from neuroncore.report import arrays as tables
from neuroncore.report.estimate import estimate
from neuroncore.report.why import SOME, Advice, Answers, WhatIf, why
from neuroncore.time.path import parts, steps
from neuroncore.time.schedule import Timeline

SUGGESTIONS = 3  # on the first screen
ROOM = 400_000  # instructions that are scheduled again for what-ifs, in total: about 0.3 s

_known: WeakKeyDictionary[Timeline, Answers | None] = WeakKeyDictionary()


def verdict(timeline: Timeline) -> dict[str, Any]:
    """Return the time of a core, in seconds and in words."""
    estimated = estimate(timeline)
    return {
        "text": estimated.time,
        "seconds": estimated.seconds,
        "low": estimated.low,
        "high": estimated.high,
    }


def answers(kernel: str, timeline: Timeline) -> dict[str, Any]:
    """Return fields of a page about a core.

    `bound`, `sentence`: the bottleneck, and a sentence about it
    `path_share`: the fraction of the time that each kind of work or wait takes on the critical path
    `suggestions`: the edits that save most
    `what_if`: all what-ifs (edits, changes of ranks or collectives, and limits), each with the time
        in nanoseconds, the saved fraction, and the new bottleneck
    `covers`: "" if all what-ifs were computed; for a long run, a text that says which what-ifs were
        computed"""
    estimated, total = estimate(timeline), timeline.total_ns or 1.0
    on_path = parts(timeline, steps(timeline)).named
    fields: dict[str, Any] = {
        "bound": {"what": estimated.bound.what, "gain": estimated.bound.gain},
        "sentence": f"bound by {estimated.bound}",
        "path_share": {name: ns / total for name, ns in on_path.items()},
        "what_if": [],
        "suggestions": [],
    }
    if timeline not in _known:
        _known[timeline] = why(kernel, timeline, room=ROOM).answers
    computed = _known[timeline]
    if computed is not None:
        fields["sentence"] = computed.sentence
        fields["what_if"] = [*map(_row, (*computed.edits, *computed.world, *computed.limits))]
        fields["suggestions"] = [
            _row(edit) | {"space": edit.space} for edit in _suggestions(computed)
        ]
        fields["covers"] = "" if computed.all else SOME
    return fields


def _suggestions(computed: Answers) -> list[Advice]:
    """Return the best edit of each line, the best first, at most SUGGESTIONS."""
    first: dict[str, Advice] = {}
    for edit in computed.edits:
        first.setdefault(edit.what, edit)
    return list(first.values())[:SUGGESTIONS]


def _row(what_if: WhatIf) -> dict[str, Any]:
    return {"change": str(what_if), "ns": what_if.ns, "gain": what_if.gain, "bound": what_if.bound}


LINES = 5


def card(kernel: str, timelines: Sequence[Timeline], findings: Sequence[Finding]) -> str:
    """Return the HTML of a launch, with text and tables only, which every notebook viewer keeps.
    The HTML shows the estimate of the slowest core, the bottleneck, the busy times of engines, the
    lines on the critical path, and the number of findings."""
    slowest = max(timelines, key=lambda timeline: timeline.total_ns)
    head = f"{kernel} on {slowest.machine.name}: {estimate(slowest).time}"
    bound = answers(kernel, slowest)["sentence"]
    count_line = (
        display.line(f"{plural(len(findings), 'finding')}: see .findings") if findings else ""
    )
    return display.block(
        head,
        display.line(bound),
        display.table(_busy(slowest)),
        display.table(_lines(slowest)),
        count_line,
    )


def _busy(timeline: Timeline) -> Iterator[tuple[str, str, str]]:
    for name, share in timeline.busy_share.items():
        if share >= 0.005:
            yield name, display.bar(share), f"{share:.0%} busy"


def _lines(timeline: Timeline) -> Iterator[tuple[str, str, str]]:
    for row in tables.lines([timeline])[:LINES]:
        share = row["critical_ns"] / (timeline.total_ns or 1.0)
        if share >= 0.005:
            yield Path(row["place"]).name, display.bar(share), f"{share:.0%} of the critical path"
