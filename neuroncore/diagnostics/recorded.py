"""What the record of a launch, and its schedule, tell: `Run.findings` has it behind what the launch
itself told."""

from __future__ import annotations

from collections.abc import Sequence

from neuroncore.findings import Finding
from neuroncore.record.saved import Record
from neuroncore.report.summary import overcommitted
from neuroncore.schedule import Timeline


def recorded(record: Record, timelines: Sequence[Timeline]) -> list[Finding]:
    """Findings of a finished launch. `record` has a program for each core and what they ran in,
    `timelines` the schedule of each; nothing is executed."""
    capacity = [found for timeline in timelines for found in overcommitted(timeline)]
    return list(dict.fromkeys(capacity))
