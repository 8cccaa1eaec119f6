"""A world: the ranks that run a kernel together. All ranks have the same number of cores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from neuroncore.base.errors import UsageError
from neuroncore.base.units import plural

# the most cores of a launch. The largest instance has 1,152 cores
MOST_CORES = 4096


@dataclass(frozen=True)
class World:
    """The `ranks` that run one kernel.

    Each rank has separate HBM and `cores` physical cores (1 or 2, the LNC). The cores of all ranks
    are numbered together: rank r has the numbers from r * cores on. `instance` is the name of the
    instance, if one was requested."""

    ranks: int = 1
    cores: int = 1
    instance: str | None = None

    @property
    def size(self) -> int:
        """The number of cores of all ranks."""
        return self.ranks * self.cores

    def rank(self, number: int) -> int:
        """Return the rank of a core."""
        return number // self.cores

    def core(self, number: int) -> int:
        """Return the number of core `number` within its rank."""
        return number % self.cores

    def cores_of(self, rank: int) -> range:
        """Return the numbers of a rank's cores."""
        return range(rank * self.cores, (rank + 1) * self.cores)

    def named(self, number: int) -> str:
        """Return the name of a core for messages."""
        if self.ranks == 1:
            return f"core {number}"
        return f"rank {self.rank(number)}" + (
            f" (core {self.core(number)})" if self.cores > 1 else ""
        )

    def all_named(self, numbers: Iterable[int]) -> str:
        """Return the names of several cores for messages. If all cores of a rank are included, the
        rank is named instead."""
        cores = sorted(numbers)
        whole = sorted({self.rank(n) for n in cores})
        if self.ranks > 1 and len(cores) == len(whole) * self.cores:
            return ("rank " if len(whole) == 1 else "ranks ") + listed(whole)
        return ", ".join(map(self.named, cores))

    def several(self, numbers: Iterable[int]) -> bool:
        """Return whether the cores belong to several ranks, or in a world of one rank whether they
        are several cores."""
        return len({n if self.ranks == 1 else self.rank(n) for n in numbers}) > 1


ALONE = World()


def check_size(ranks: int, cores: int = 1) -> None:
    """Raise UsageError if `ranks` ranks of `cores` cores have more than MOST_CORES cores."""
    if ranks * cores > MOST_CORES:
        raise UsageError(
            f"{plural(ranks, 'rank')} of {plural(cores, 'core')} are too many: neuroncore runs at "
            f"most {plural(MOST_CORES, 'core')}, each in a separate thread"
        )


def listed(numbers: Iterable[int]) -> str:
    """Return numbers in ascending order as text, with ranges for runs of three or more: "0 to 5,
    7"."""
    runs = groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    ends = [[number for _, number in run] for _, run in runs]
    return ", ".join(
        f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in ends
    )
