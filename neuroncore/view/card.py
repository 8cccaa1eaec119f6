"""A run in a few lines of HTML: what a notebook shows of it, and keeps when it is exported."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from neuroncore.base.findings import Finding
from neuroncore.report import arrays as tables
from neuroncore.report.estimate import estimate
from neuroncore.time.schedule import Timeline
from neuroncore.view.answers import answers

BLOCKS = 24  # of a bar that means all of the time
LINES = 5


def card(kernel: str, timelines: Sequence[Timeline], findings: Sequence[Finding]) -> str:
    """Of a launch: the estimate of its slowest core, what bounds that, how busy its engines are,
    the source lines on its critical path, and how much was found. Text and tables alone, so that
    they are left of it wherever notebooks are shown."""
    slowest = max(timelines, key=lambda timeline: timeline.total_ns)
    head = f"{kernel} on {slowest.machine.name}: {estimate(slowest).time}"
    bound = answers(kernel, slowest)["sentence"]
    found = f"<div>{len(findings)} findings: .findings</div>" if findings else ""
    return (
        f"<div><b>{html.escape(head)}</b></div><div>{html.escape(bound)}</div>"
        f"{_table(_busy(slowest))}{_table(_lines(slowest))}{found}"
    )


def _busy(timeline: Timeline) -> Iterator[tuple[str, str, str]]:
    for name, share in timeline.busy_share.items():
        if share >= 0.005:
            yield name, _bar(share), f"{share:.0%} busy"


def _lines(timeline: Timeline) -> Iterator[tuple[str, str, str]]:
    for row in tables.lines([timeline])[:LINES]:
        share = row["critical_ns"] / (timeline.total_ns or 1.0)
        if share >= 0.005:
            yield Path(row["place"]).name, _bar(share), f"{share:.0%} of the critical path"


def _bar(share: float) -> str:
    return "█" * max(1, round(BLOCKS * min(share, 1.0)))


def _table(rows: Iterable[tuple[str, str, str]]) -> str:
    cells = ("".join(f"<td align='left'>{html.escape(cell)}</td>" for cell in row) for row in rows)
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"
