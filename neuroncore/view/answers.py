"""The bottleneck of a core and what-ifs for a page."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from neuroncore.report.estimate import estimate
from neuroncore.report.why import SOME, Answers, WhatIf, why
from neuroncore.time.path import parts, steps
from neuroncore.time.schedule import Timeline

ROOM = 2_400_000  # instructions to schedule again for what-ifs in total: about a second

_known: WeakKeyDictionary[Timeline, Answers | None] = WeakKeyDictionary()


def verdict(timeline: Timeline) -> dict[str, Any]:
    """Return the time of a core, in seconds and in words."""
    found = estimate(timeline)
    return {"text": found.time, "seconds": found.seconds, "low": found.low, "high": found.high}


def answers(kernel: str, timeline: Timeline) -> dict[str, Any]:
    """Return the bottleneck as a sentence, the parts of the critical path, and what-ifs with
    their time in nanoseconds, savings and new bottleneck. For long runs `covers` says what is
    included."""
    found, total = estimate(timeline), timeline.total_ns or 1.0
    on_path = parts(timeline, steps(timeline)).named
    said: dict[str, Any] = {
        "bound": {"what": found.bound.what, "gain": found.bound.gain},
        "sentence": f"bound by {found.bound}",
        "path_share": {name: ns / total for name, ns in on_path.items()},
        "what_if": [],
    }
    if timeline not in _known:
        _known[timeline] = why(kernel, timeline, room=ROOM).answers
    told = _known[timeline]
    if told is not None:
        said["sentence"] = told.sentence
        rows = [*told.resources, *told.together, *told.changes]
        said["what_if"] = [_row(one) for one in sorted(rows, key=lambda one: -one.gain)]
        said["covers"] = "" if told.all else SOME
    return said


def _row(one: WhatIf) -> dict[str, Any]:
    return {"change": str(one), "ns": one.ns, "gain": one.gain, "bound": one.bound}
