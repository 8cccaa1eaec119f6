"""The Run of one rank of a launch on several ranks."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import NoReturn

from neuroncore.base.errors import UsageError
from neuroncore.base.findings import Finding
from neuroncore.hosts.api import Run
from neuroncore.machine.world import World
from neuroncore.record.program import Record
from neuroncore.report.collectives import CollectiveOperation
from neuroncore.report.why import Why
from neuroncore.time.schedule import Timeline


class RankRun(Run):
    """The Run of one rank. The times, collectives and findings come from the Run of all ranks,
    because in collectives the cores of a rank wait for each other and for other ranks. The record
    of one rank can't be executed alone."""

    def __init__(self, whole: Run, rank: int) -> None:
        """`whole` is the Run of all ranks, and `rank` is the number of the rank."""
        done, cores = whole.finished, whole.world.cores_of(rank)
        part = slice(cores.start, cores.stop)
        record = done.record and Record(done.record.programs[part], done.record.about)
        finished = done._replace(
            programs=done.programs[part],
            results=done.results[rank],
            record=record,
            world=World(1, whole.world.cores, whole.world.instance),
        )
        original = None if (before := whole._original) is None else before[0][rank]
        super().__init__(finished, whole._used[0][rank], original)
        self._whole, self._number, self._cores = whole, rank, part

    @cached_property
    def findings(self) -> list[Finding]:
        """The findings of all ranks."""
        return self._whole.findings

    @cached_property
    def timelines(self) -> list[Timeline]:
        """The schedule of each core of the rank."""
        return self._whole.timelines[self._cores]

    @cached_property
    def collectives(self) -> list[CollectiveOperation]:
        """The collectives in which the rank takes part."""
        return [each for each in self._whole.collectives if self._number in each.ranks]

    def why(self, top: int = 5) -> Why:
        """Return the answers for the Run of all ranks, which describe the slowest core."""
        return self._whole.why(top)

    def save(self, path: str | Path) -> NoReturn:
        """Raise UsageError: only the Run of all ranks can be saved."""
        raise UsageError(
            f"the Run of rank {self._number} can't be saved alone: save the Run of all ranks"
        )
