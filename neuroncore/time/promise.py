"""Which changes promise most, for runs that are too long to try all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge

from neuroncore.time import lines
from neuroncore.time.changes import RESOURCES, Change, as_it_is
from neuroncore.time.lines import Line
from neuroncore.time.path import parts, steps
from neuroncore.time.schedule import Timeline
from neuroncore.time.verdict import tried

Promised = tuple[float, Change]


def promising(timeline: Timeline, costliest: Sequence[Line]) -> Iterator[Change]:
    """Changes of resources and of lines on the critical path, each made when it is asked for. Those
    come first that change most of that path; what `verdict.tried` has is left out."""
    base = as_it_is(timeline)
    both = merge(
        _of_resources(timeline, base), _of_lines(base, costliest), key=lambda each: -each[0]
    )
    return (change for _, change in both)


def _of_resources(timeline: Timeline, base: Change) -> Iterator[Promised]:
    found = parts(timeline, steps(timeline))
    known = {effect.change.what for effect in tried(timeline)}
    for resource in sorted(RESOURCES, key=lambda one: -one.saves(found)):
        if resource.name not in known:
            yield resource.saves(found), resource.change(base)


def _of_lines(base: Change, costliest: Sequence[Line]) -> Iterator[Promised]:
    for line in costliest:
        for change in lines.changes(base, line):
            yield line.ns, change
