"""What bounds a core and what would help, as far as a page has it."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from neuroncore.report.estimate import estimate
from neuroncore.report.why import SOME, Answers, WhatIf, why
from neuroncore.time.path import parts, steps
from neuroncore.time.schedule import Timeline

ROOM = 2_400_000  # instructions to schedule again for what-ifs, each as often as it is: a second

_known: WeakKeyDictionary[Timeline, Answers | None] = WeakKeyDictionary()


def verdict(timeline: Timeline) -> dict[str, Any]:
    """How long a core takes, in seconds and in words."""
    found = estimate(timeline)
    return {"text": found.time, "seconds": found.seconds, "low": found.low, "high": found.high}


def answers(kernel: str, timeline: Timeline) -> dict[str, Any]:
    """The bound in a sentence, what the critical path consists of, and what if something were
    different: nanoseconds, the part of the time that is saved, and what bounds it then. Of long
    runs `covers` says which of that is there."""
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
