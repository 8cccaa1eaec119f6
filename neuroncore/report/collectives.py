"""The collectives of a run: when they ran, how long they took, and which ranks waited for which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from neuroncore.base.units import duration, plural, size
from neuroncore.machine.collective_time import CollectiveTime
from neuroncore.machine.world import listed
from neuroncore.time.schedule import Timeline
from neuroncore.time.syncs import collectives, time_of, together

UNKNOWN = "its time is unknown: no instance has this many ranks, and EFA is not modeled"


@dataclass(frozen=True)
class CollectiveOperation:
    """A collective of a group of ranks.

    `arrived_ns`: the time at which each of the `ranks` arrived. The collective starts when the last
        one has arrived.
    `time`: the estimated duration without other traffic; None if no instance has this many
        ranks."""

    name: str
    ranks: tuple[int, ...]
    arrived_ns: tuple[float, ...]
    end_ns: float
    time: CollectiveTime | None

    @property
    def last(self) -> int:
        """Return the rank that arrived last. All other ranks waited for this rank."""
        return self.ranks[self.arrived_ns.index(max(self.arrived_ns))]

    @property
    def waited_ns(self) -> tuple[float, ...]:
        """Return how long each rank waited for the last rank to arrive, in nanoseconds."""
        latest = max(self.arrived_ns)
        return tuple(latest - arrived for arrived in self.arrived_ns)

    def to_dict(self) -> dict[str, Any]:
        """Return fields for JSON: times in seconds, bandwidths in bytes per second.

        A collective has the profiler's name if the profiler has a name for it."""
        fields = {
            "operation": self.name,
            "replica_group": list(self.ranks),
            "arrived": [ns / 1e9 for ns in self.arrived_ns],
            "waited": [ns / 1e9 for ns in self.waited_ns],
            "last_rank": self.last,
            "end": self.end_ns / 1e9,
        }
        if self.time is None:
            return {**fields, "basis": UNKNOWN}
        return {
            **fields,
            "algorithm": self.time.algorithm,
            "size_bytes": self.time.size_bytes,
            "duration": self.time.ns / 1e9,
            "algorithm_bandwidth": self.time.algorithm_bandwidth * 1e9,
            "bus_bandwidth": self.time.bus_bandwidth * 1e9,
            "basis": self.time.basis,
        }


def operations(timelines: Sequence[Timeline]) -> list[CollectiveOperation]:
    """Return the collectives of all ranks, sorted by end.

    A collective in SBUF, which both cores of a rank execute, appears once for each core."""
    world = timelines[0].world
    programs = [timeline.program for timeline in timelines]
    by_core = [dict(collectives(timeline.compiled)) for timeline in timelines]
    results = []
    for sync in together(programs, world):
        if not all(i in by_core[number] for number, i in sync.items()):
            continue
        arrived: dict[int, float] = {}
        for number, i in sync.items():
            rank = world.rank(number)
            arrived[rank] = max(arrived.get(rank, 0.0), float(timelines[number].done[i]))
        number, i = next(iter(sync.items()))
        timeline = timelines[number]
        results.append(
            CollectiveOperation(
                name=timeline.program.calls[timeline.columns.call[i]].name,
                ranks=tuple(arrived),
                arrived_ns=tuple(arrived.values()),
                end_ns=float(timeline.end[i]),
                time=time_of(by_core[number][i], world, number, timeline.machine.name),
            )
        )
    return sorted(results, key=lambda operation: operation.end_ns)


def slowest(
    timelines: Sequence[Timeline], operations: Sequence[CollectiveOperation]
) -> tuple[int, float]:
    """Return the rank for which other ranks waited most in `operations`, and the sum of these
    waits.

    The sum is in nanoseconds. If no rank waited, return the rank that ends last, and 0."""
    world = timelines[0].world
    waited = dict.fromkeys(range(world.ranks), 0.0)
    for operation in operations:
        waited[operation.last] += sum(operation.waited_ns)
    most = max(waited, key=lambda rank: waited[rank])
    if waited[most] > 0:
        return most, waited[most]
    return world.rank(max(range(world.size), key=lambda number: timelines[number].total_ns)), 0.0


def slowest_core(timelines: Sequence[Timeline], operations: Sequence[CollectiveOperation]) -> int:
    """Return the number of the slowest core of the rank that others waited for (`slowest`)."""
    rank, _ = slowest(timelines, operations)
    cores = timelines[0].world.cores_of(rank)
    return max(cores, key=lambda number: timelines[number].total_ns)


def as_text(
    timelines: Sequence[Timeline],
    operations: Sequence[CollectiveOperation],
    most: int | None = None,
) -> Iterator[str]:
    """Yield a line about the rank that `slowest` returns, and a line for each collective.

    The line of a collective names the rank for which the others waited. If there are more than
    `most` collectives, yield the collectives with the longest waits, and then the number of the
    others."""
    rank, waited = slowest(timelines, operations)
    why = f": other ranks waited {duration(waited)} for it in total" if waited > 0 else ""
    total_ns = max(timeline.total_ns for timeline in timelines)
    yield f"{duration(total_ns)}; rank {rank} is the slowest{why}"
    longest = sorted(range(len(operations)), key=lambda n: -max(operations[n].waited_ns))[:most]
    for n in sorted(longest):
        yield _line(operations[n])
    if others := len(operations) - len(longest):
        yield f"and {plural(others, 'collective')} with shorter waits"


def _line(operation: CollectiveOperation) -> str:
    head = f"{operation.name} of {len(operation.ranks)} ranks ({listed(operation.ranks)})"
    ends = f"ends at {duration(operation.end_ns)}, rank {operation.last} arrives last"
    waited = max(operation.waited_ns)
    if waited > 0:
        ends += f" and others wait up to {duration(waited)} for it"
    if operation.time is None:
        return f"{head}: {ends}; {UNKNOWN}"
    time = operation.time
    return (
        f"{head}: {size(time.size_bytes)} by {time.algorithm} in {duration(time.ns)}, "
        f"{time.algorithm_bandwidth:.1f} GB/s (bus {time.bus_bandwidth:.1f}), {time.basis}; {ends}"
    )
