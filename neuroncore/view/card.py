"""A run in a few lines of HTML, for notebooks, also exported ones."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from neuroncore.base.findings import Finding
from neuroncore.base.units import plural
from neuroncore.report import arrays as tables
from neuroncore.report.estimate import estimate
from neuroncore.time.schedule import Timeline
from neuroncore.view.answers import answers

BLOCKS = 24  # pixels of a bar for 100 %
LINES = 5


def card(kernel: str, timelines: Sequence[Timeline], findings: Sequence[Finding]) -> str:
    """Return the HTML of a launch: the estimate of its slowest core, the bottleneck, the busy
    times of engines, the lines on the critical path, and the number of findings. It has only text
    and tables, which every notebook viewer keeps."""
    slowest = max(timelines, key=lambda timeline: timeline.total_ns)
    head = f"{kernel} on {slowest.machine.name}: {estimate(slowest).time}"
    bound = answers(kernel, slowest)["sentence"]
    found = f"<div>{plural(len(findings), 'finding')}: .findings</div>" if findings else ""
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
