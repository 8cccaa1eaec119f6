"""Would the device's order give the same bits? The record, executed again in other legal orders.

Within a core nothing is open: instructions that share bytes, an engine or its registers keep their
order on the device, and others can't tell. Cores of a launch are open, and programs of a grid on
cores of their own: between two meetings each goes on as fast as it can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.clause.world import World
from neuroncore.diagnostics.races import Launch, Race, launch_of, races
from neuroncore.errors import UsageError
from neuroncore.findings import Finding
from neuroncore.record.saved import Record
from neuroncore.replay.cursor import Replay

Array = npt.NDArray[Any]
MOST_RACES = 100_000  # that are followed
STAYS = 0.9  # how likely a core goes on when others could


@dataclass(frozen=True)
class Orders:
    """What came of other orders: how many were replayed; of `open` pairs of accesses that no
    meeting orders, how many came the other way round in one of them at least; and what differed."""

    tried: int
    open: int
    reversed: int
    finding: Finding | None

    def __str__(self) -> str:
        if not self.open:
            return "no order is open: nothing that cores share is used without a meeting"
        outcome = "the bits differ" if self.finding else "the bits are the same"
        return (
            f"{self.tried} other order{'s' * (self.tried != 1)} of the cores replayed, in which "
            f"{self.reversed} of {self.open} pairs of accesses that no meeting orders came the "
            f"other way round: {outcome}"
        )


def compare_orders(record: Record, count: int) -> Orders:
    """Replay a record in up to `count` other orders, until one gives other bits.

    Raises UsageError for records of several ranks, and what `Replay` does.
    """
    world = record.setting.world if record.setting else World(cores=len(record.programs))
    if world.ranks > 1:
        raise UsageError("orders are compared for one rank: Run.ranks has a Run of each")
    launch = launch_of(record.programs, world, 0)
    found = list(islice(races(launch), MOST_RACES))
    if not found:
        return Orders(0, 0, 0, None)
    expected, own = _replayed(record, _In([0] * len(record.programs)))
    usual = _later(found, own, launch)
    reversed_once = np.zeros(len(found), np.bool_)
    for number in range(count):
        results, order = _replayed(record, _turns(number, len(record.programs)))
        flipped = _later(found, order, launch) != usual
        reversed_once |= flipped
        differing = _differing(expected, results)
        if differing:
            told = _told(differing, found, flipped, own, launch)
            return Orders(number + 1, len(found), int(reversed_once.sum()), told)
    return Orders(count, len(found), int(reversed_once.sum()), None)


# --- orders ---------------------------------------------------------------------------------------


class _In:
    """Cores in the order of their ranks here, each as far as it can go."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self.ranks = ranks

    def __call__(self, able: Sequence[int]) -> int | None:
        return min(able, key=lambda core: (self.ranks[core], core), default=None)


class _AtRandom:
    """A core goes on for a while, and then one of those that can."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def __call__(self, able: Sequence[int]) -> int | None:
        if not able or self.rng.random() < STAYS:
            return able[0] if able else None
        return able[int(self.rng.integers(len(able)))]


def _turns(number: int, cores: int) -> _In | _AtRandom:
    """The last core first, and then at random."""
    return _AtRandom(number) if number else _In([-core for core in range(cores)])


def _replayed(record: Record, turns: _In | _AtRandom) -> tuple[list[Array], Array]:
    """The results, and of each core at which step each of its instructions was."""
    replay = Replay(record, snapshots=0, turns=turns)
    results = replay.results()
    arrays = [*_arrays(results), *replay.changed().values()]
    return [np.array(one) for one in arrays], replay.order


def _arrays(results: Any) -> list[Array]:
    if isinstance(results, dict):
        return _arrays(list(results.values()))
    if isinstance(results, list | tuple):
        return [array for one in results for array in _arrays(one)]
    return [results] if isinstance(results, np.ndarray) else []


# --- what differs ---------------------------------------------------------------------------------


def _steps(order: Array, launch: Launch, race: Race) -> tuple[int, int]:
    """The steps at which the accesses of a race were."""
    found = [
        int(np.flatnonzero(order == launch.threads[one.thread].core)[one.row])
        for one in (race.first, race.second)
    ]
    return found[0], found[1]


def _later(found: Sequence[Race], order: Array, launch: Launch) -> Array:
    """Whether the second access of each race came after the first."""
    at = {core: np.flatnonzero(order == core) for core in range(len(launch.uses))}
    rows = [
        [at[launch.threads[one.thread].core][one.row] for one in (race.first, race.second)]
        for race in found
    ]
    first, second = np.array(rows, np.int64).T
    later: Array = second > first
    return later


def _differing(expected: Sequence[Array], results: Sequence[Array]) -> str:
    """Where results differ, bit by bit, in words; empty if nowhere."""
    for number, (one, other) in enumerate(zip(expected, results, strict=True)):
        bits = f"u{one.dtype.itemsize}"
        apart = np.ascontiguousarray(one).view(bits) != np.ascontiguousarray(other).view(bits)
        if apart.any():
            return f"{int(apart.sum())} of {one.size} elements of result {number} differ"
    return ""


def _told(
    differing: str, found: Sequence[Race], flipped: Array, order: Array, launch: Launch
) -> Finding:
    """The finding, at the first two instructions whose order matters."""
    reversed_ones = [race for race, turned in zip(found, flipped, strict=True) if turned]
    if not reversed_ones:
        return Finding("ORDER_MATTERS", f"in another order of the cores {differing}", None)
    first = min(reversed_ones, key=lambda race: max(_steps(order, launch, race)))
    one, other = (
        f"instruction {a.row} of {launch.who(a)} ({launch.line(a).short})" for a in first[:2]
    )
    message = f"in another order of the cores {differing}; the first whose order matters are {one}"
    return Finding("ORDER_MATTERS", f"{message} and {other}", launch.line(first.second))
