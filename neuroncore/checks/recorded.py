"""Findings from the record of a launch and from its schedule. `Run.findings` has them after the
findings of the launch itself.

* `capacity`: tiles that don't fit.
* `races`: bytes that cores and programs of a grid use unordered, by `happens_before`.
* `aliases`: tensors at addresses that overlap.
* `allocation`: tensors without addresses in a memory where others have addresses.
* `advice`: legal code that is slower than necessary.
* `accumulation`: sums in PSUM that continue after they were read, or that nothing reads.
* `iterations`: parallel loops whose iterations read bytes that other iterations write.
"""

from __future__ import annotations

from collections.abc import Sequence

from neuroncore.base.findings import Finding
from neuroncore.checks import accumulation, advice, aliases, allocation, capacity, iterations, races
from neuroncore.checks.uses import Uses
from neuroncore.machine.world import World
from neuroncore.record.program import Record
from neuroncore.time.schedule import Timeline


def recorded(record: Record, timelines: Sequence[Timeline]) -> list[Finding]:
    """Return the findings of a finished launch. `record` has a program for each core and the
    settings of the launch, `timelines` the schedule of each core; nothing is executed."""
    findings = [one for timeline in timelines for one in capacity.findings(timeline)]
    world = record.setting.world if record.setting else World(cores=len(record.programs))
    used = [*map(Uses, record.programs)]
    findings += races.findings(used, world)
    for uses in used:
        for each in (aliases, allocation, accumulation, iterations):
            findings += each.findings(uses)
    findings += advice.findings(timelines, world)
    return list(dict.fromkeys(findings))
