"""The numbers of ranks that the runtime accepts: `isa/runtime.toml`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from neuroncore.machine import FactReader


@dataclass(frozen=True)
class WorldLimits:
    """Limits on a world, the ranks that run a kernel together.

    `ranks`, `multiple`: the number of ranks must be one of `ranks`, or a multiple of `multiple`
    `replica_groups`: the most groups that contain a rank
    `channels_of_servers`: the number of channels (rings of links) of a group with ranks on all
        chips of its servers
    `channels`: the number of channels of any other group
    `kangaring_ranks`: the most ranks of KangaRing, an algorithm of collectives"""

    ranks: Sequence[int]
    multiple: int
    replica_groups: int
    kangaring_ranks: int
    channels_of_servers: int
    channels: int

    def allow(self, ranks: int) -> bool:
        """Return whether a world may have this many ranks."""
        return ranks in self.ranks or (ranks > 0 and ranks % self.multiple == 0)


@cache
def world_limits() -> WorldLimits:
    """Return the limits. Raises DefinitionError if the file is wrong."""
    reader = FactReader.of("runtime.toml")
    reader.exactly(reader.raw, ("sources", "worlds"), "")
    return reader.section(WorldLimits, "worlds", reader.raw["worlds"])
