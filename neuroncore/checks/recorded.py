"""What the record of a launch, and its schedule, tell: `Run.findings` has it behind what the launch
itself told.

* `capacity`: tiles that don't fit.
* `races`: bytes that cores and programs of a grid use in no order, by `happens_before`.
* `aliases`: tensors at addresses that overlap.
* `allocation`: tensors without addresses beside others that have some.
* `advice`: what is legal, and slower than need be.
* `accumulation`: sums in PSUM that go on after they were read, or that nothing reads.
* `iterations`: parallel loops whose iterations read what others have written.
"""

from __future__ import annotations

from collections.abc import Sequence

from neuroncore.base.findings import Finding
from neuroncore.checks import accumulation, advice, aliases, allocation, capacity, iterations, races
from neuroncore.checks.uses import Uses
from neuroncore.machine.world import World
from neuroncore.record.saved import Record
from neuroncore.time.schedule import Timeline


def recorded(record: Record, timelines: Sequence[Timeline]) -> list[Finding]:
    """Findings of a finished launch. `record` has a program for each core and what they ran in,
    `timelines` the schedule of each; nothing is executed."""
    found = [one for timeline in timelines for one in capacity.findings(timeline)]
    world = record.setting.world if record.setting else World(cores=len(record.programs))
    used = [*map(Uses, record.programs)]
    found += races.findings(used, world)
    for uses in used:
        for each in (aliases, allocation, accumulation, iterations):
            found += each.findings(uses)
    found += advice.findings(timelines, world)
    return list(dict.fromkeys(found))
