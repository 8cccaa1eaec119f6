"""Replays of a record in other orders that the device may choose: orders of the cores, and of the
iterations of a parallel loop.

Instructions are given by their numbers in the core's program. A storage is the memory of one
tensor. A step is one instruction in a replay of all cores. A race is a pair of accesses to the same
bytes whose order is undefined (`checks.races`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.errors import KernelError
from neuroncore.base.findings import Finding
from neuroncore.base.source import Place
from neuroncore.base.units import plural
from neuroncore.checks.races import INDEXED, LaunchAccesses, Race, launch_of, races
from neuroncore.checks.uses import Uses, conflicts
from neuroncore.machine.world import World
from neuroncore.record.program import Program, Record
from neuroncore.replay.cursor import Replay

Array = npt.NDArray[Any]
Rows = list[int]
OTHER_CORES, REGISTERS = -1, -2  # resources that iterations share, other than storages


@dataclass(frozen=True)
class _Loop:
    """One run of a parallel loop: for each iteration, its instructions and its inner loops in
    program order."""

    number: int
    iterations: list[list[int | _Loop]] = field(default_factory=list)


Items = list[int | _Loop]


@dataclass(frozen=True, eq=False)
class Permutations:
    """A program, and its other possible orders: iterations of parallel loops may run in any
    order."""

    program: Program

    def rows(self, seed: int) -> Array:
        """Return the program's instructions with the iterations of each loop reversed (seed 0) or
        in random order.

        If iterations share resources, only the parts before the first such use are reordered. The
        second parts run afterwards, in program order. If the loop also uses tensors at addresses
        that the kernel chose, it keeps its order."""
        rng = np.random.default_rng(seed) if seed else None
        return np.array(self._ordered(self._items, rng), np.int64)

    def moved(self, rows: Array) -> Array:
        """Return which iterations have another position in their loop in the order `rows`. Loops
        with one iteration are left out."""
        at, flags = _positions(rows), [np.empty(0, np.bool_)]
        for loop in _loops(self._items):
            firsts = [row for items in loop.iterations for row in islice(_rows(items), 1)]
            if len(firsts) > 1:
                flags.append(np.argsort(at[firsts]) != np.arange(len(firsts)))
        return np.concatenate(flags)

    def swapped(self, rows: Array) -> tuple[int, int] | None:
        """Return two instructions in different iterations that use the same bytes, and whose order
        is reversed in `rows`. At least one of them writes. If there are several such pairs, return
        the pair whose second instruction comes first in the program. Return None if there is no
        such pair."""
        at = _positions(rows)
        pairs = [(first, second) for first, second in self._conflicts if at[first] > at[second]]
        return min(pairs, key=lambda pair: (pair[1], pair[0]), default=None)

    # --- loops -----------------------------------------------------------------------------------

    @cached_property
    def _items(self) -> Items:
        """The instructions and outermost parallel loops of the program. If it has registers, there
        are no loops, because registers decide which instructions exist."""
        marks = self.program.data.marks().tolist()
        top: Items = []
        around, last = [top], 0
        for row, number, _ in () if self.program.data.registers else marks:
            around[-1].extend(range(last, row))
            last = row
            if number >= 0:
                around.append(_begun(around[-1], number))
            else:
                around.pop()
        around[-1].extend(range(last, len(self.program)))
        return top

    def _ordered(self, items: Items, rng: np.random.Generator | None) -> Rows:
        parts = (self._of_loop(item, rng) if isinstance(item, _Loop) else [item] for item in items)
        return [*chain.from_iterable(parts)]

    def _of_loop(self, loop: _Loop, rng: np.random.Generator | None) -> Rows:
        rows_by_iteration = [self._ordered(items, rng) for items in loop.iterations]
        shared = self._shared(rows_by_iteration)
        ends = [self._until(rows, shared) for rows in rows_by_iteration]
        heads = [rows[:end] for rows, end in zip(rows_by_iteration, ends, strict=True)]
        tails = [rows[end:] for rows, end in zip(rows_by_iteration, ends, strict=True)]
        if any(tails) and not self._placed.isdisjoint(chain.from_iterable(rows_by_iteration)):
            # iterations may use the same bytes alternately
            return [*chain.from_iterable(rows_by_iteration)]
        count = len(rows_by_iteration)
        order = range(count)[::-1] if rng is None else rng.permutation(count).tolist()
        return [*chain.from_iterable(heads[k] for k in order), *chain.from_iterable(tails)]

    # --- resources that iterations share ---------------------------------------------------------

    def _shared(self, rows_by_iteration: Sequence[Rows]) -> set[int]:
        """Return the resources (`_sharing`) that several iterations use."""
        counts: Counter[int] = Counter()
        for rows in rows_by_iteration:
            counts.update({resource for row in rows for resource in self._sharing.get(row, ())})
        return {resource for resource, count in counts.items() if count > 1}

    def _until(self, rows: Rows, shared: set[int]) -> int:
        """Return how many instructions of an iteration precede its first use of a shared
        resource."""
        uses = (k for k, row in enumerate(rows) if shared & self._sharing.get(row, set()))
        return next(uses, len(rows))

    @cached_property
    def _sharing(self) -> dict[int, set[int]]:
        """The resources of each instruction that iterations may share, as integers:

        * the numbers of storages that are declared as shared;
        * OTHER_CORES, for instructions that wait for other cores;
        * REGISTERS, the accumulator registers, if the program adds to their contents."""
        used: dict[int, set[int]] = {}
        storage = self._storage
        for k in np.flatnonzero(np.isin(storage, list(self.program.data.carried))).tolist():
            used.setdefault(int(self._uses.user[k]), set()).add(int(storage[k]))
        calls, of_row = self.program.calls, self.program.columns().call
        adds = any(call.adds_to_registers for call in calls)
        for number, call in enumerate(calls):
            more = {OTHER_CORES} if call.instruction.meets is not None else set()
            more |= {REGISTERS} if adds and call.instruction.traits.accumulates else set()
            for row in np.flatnonzero(of_row == number).tolist() if more else ():
                used.setdefault(row, set()).update(more)
        return used

    @cached_property
    def _placed(self) -> frozenset[int]:
        """The instructions that use tensors at addresses that the kernel specifies."""
        numbers = np.unique(self._storage).tolist()
        placed = [number for number in numbers if self.program.area(number).placed]
        return frozenset(self._uses.user[np.isin(self._storage, placed)].tolist())

    @cached_property
    def _conflicts(self) -> list[tuple[int, int]]:
        return [*conflicts(self._uses)]

    @cached_property
    def _uses(self) -> Uses:
        return Uses(self.program)

    @cached_property
    def _storage(self) -> Array:
        """The number of the storage of each operand."""
        storages: Array = self.program.windows().storage[self._uses.window]
        return storages


def _begun(around: Items, number: int) -> Items:
    """Begin an iteration of loop `number` at the end of `around`, and return the empty list for its
    instructions. It continues the last item if that is the same loop."""
    loop = around[-1] if around else None
    if not (isinstance(loop, _Loop) and loop.number == number):
        loop = _Loop(number)
        around.append(loop)
    loop.iterations.append([])
    return loop.iterations[-1]


def _loops(items: Items) -> Iterator[_Loop]:
    for item in items:
        if isinstance(item, _Loop):
            yield item
            for inner in item.iterations:
                yield from _loops(inner)


def _rows(items: Items) -> Iterator[int]:
    for item in items:
        if isinstance(item, _Loop):
            yield from chain.from_iterable(map(_rows, item.iterations))
        else:
            yield item


def _positions(rows: Array) -> Array:
    """Return an array with the position of each instruction in `rows`."""
    at = np.empty(len(rows), np.int64)
    at[rows] = np.arange(len(rows))
    return at


MOST_RACES = 100_000  # the most races that are examined
STAYS = 0.9  # the probability that a core continues when others could run


@dataclass(frozen=True)
class Iterations:
    """The result of running iterations in other orders.

    `tried`: the number of replays
    `among`, `moved`: the iterations in parallel loops, and those that had another position
    `finding`: a difference of the results
    `untried`: a sentence with the reason if there was no replay"""

    tried: int = 0
    moved: int = 0
    among: int = 0
    finding: Finding | None = None
    untried: str = ""

    def __str__(self) -> str:
        if self.untried:
            return self.untried
        return (
            f"{_outcome(self.finding, self.tried)} of iterations, in which {self.moved} of "
            f"{self.among} iterations of parallel loops changed places (additions to one sum kept "
            "their order)"
        )


@dataclass(frozen=True)
class Orders:
    """The result of running the cores in other orders.

    `tried`: the number of replays
    `open`, `reversed`: the number of races, and of those whose accesses were reversed
    `finding`: a difference of the results
    `indexed`: whether cores access shared data through an index (`SharedBoxes.indexed`)"""

    tried: int
    open: int
    reversed: int
    finding: Finding | None
    iterations: Iterations = Iterations()
    indexed: bool = False

    def __str__(self) -> str:
        parts = [str(self.iterations)] if self.iterations.among else []
        if self.open:
            pairs = f"{self.reversed} of {self.open} pairs of accesses without a defined order"
            outcome = _outcome(None if self.iterations.finding else self.finding, self.tried)
            parts.insert(0, f"{outcome} of the cores, in which {pairs} were reversed")
        if self.indexed:
            parts.append(INDEXED if parts else f"{INDEXED}; nothing else can be reordered")
        return "; ".join(parts) or (
            "nothing can be reordered: all data that cores share is synchronized, and no loop is "
            "parallel"
        )


def _outcome(finding: Finding | None, tried: int) -> str:
    """Return the outcome of `tried` replays. They stop at the first difference."""
    how = "differ" if finding else "are the same"
    last = "the last of " if finding and tried > 1 else ""
    return f"the bits {how} in {last}{plural(tried, 'other order')}"


def compare_orders(record: Record, count: int) -> Orders:
    """Replay a record in other orders, until the bits of a result differ. Raises the errors of
    `Replay`.

    First the cores run in up to `count` other orders. Results are compared with a replay in which
    the first core that can run always continues. Then the iterations of parallel loops run in up to
    `count` other orders. Results are compared with the recorded order."""
    world = record.setting.world if record.setting else World(cores=len(record.programs))
    orders = _of_cores(record, world, count)
    if orders.finding:
        return orders
    iterations = _of_iterations(record, count)
    return replace(orders, iterations=iterations, finding=iterations.finding)


def _of_cores(record: Record, world: World, count: int) -> Orders:
    launch = launch_of([*map(Uses, record.programs)], world)
    pairs, indexed = list(islice(races(launch), MOST_RACES)), launch.shared.indexed
    if not pairs:
        return Orders(0, 0, 0, None, indexed=indexed)
    expected, usual_order = _replayed(record, _ByPriority([0] * len(record.programs)))
    usual = _later(pairs, usual_order, launch)
    reversed_once = np.zeros(len(pairs), np.bool_)
    for number in range(count):
        results, order = _replayed(record, _turns(number, len(record.programs)))
        flipped = _later(pairs, order, launch) != usual
        reversed_once |= flipped
        differing = _differing(expected, results)
        if differing:
            finding = _cores_finding(differing, pairs, flipped, usual_order, launch)
            reversed_pairs = int(reversed_once.sum())
            return Orders(number + 1, len(pairs), reversed_pairs, finding, indexed=indexed)
    return Orders(count, len(pairs), int(reversed_once.sum()), None, indexed=indexed)


def _of_iterations(record: Record, count: int) -> Iterations:
    programs = [Permutations(program) for program in record.programs]
    moved = _moved(programs, [np.arange(len(program)) for program in record.programs])
    if not len(moved) or not count:
        return Iterations()
    replay = Replay(record, snapshots=0)
    expected = _outcomes(replay)
    if any(core.rounding is not None or core.generators for core in replay.cores):
        why = "orders of iterations are not compared, because the kernel uses random numbers"
        return Iterations(among=len(moved), untried=why)
    for seed in range(count):
        rows = [permutations.rows(seed) for permutations in programs]
        moved |= _moved(programs, rows)
        if not moved.any():
            why = "no iterations can change places: all share data from their first instruction"
            return Iterations(among=len(moved), untried=why)
        differing = _permuted(record, programs, rows, expected)
        if differing:
            finding = _iterations_finding(differing, programs, rows)
            return Iterations(seed + 1, int(moved.sum()), len(moved), finding)
    return Iterations(count, int(moved.sum()), len(moved))


def _moved(programs: Sequence[Permutations], rows: Sequence[Array]) -> Array:
    """Return the flags of `Permutations.moved` for all programs, in one array."""
    return np.concatenate(
        [permutations.moved(order) for permutations, order in zip(programs, rows, strict=True)]
    )


def _permuted(
    record: Record,
    programs: Sequence[Permutations],
    rows: Sequence[Array],
    expected: Sequence[Array],
) -> str:
    """Run each program in the order `rows`. Describe the first result that differs from `expected`,
    or return ""."""
    permuted = [
        permutations.program.permuted(order)
        for permutations, order in zip(programs, rows, strict=True)
    ]
    try:
        results = _outcomes(Replay(replace(record, programs=permuted), snapshots=0))
    except KernelError as error:
        return f"the kernel is refused: {error.code}"
    return _differing(expected, results)


def _iterations_finding(
    differing: str, programs: Sequence[Permutations], rows: Sequence[Array]
) -> Finding:
    """Return the finding for iterations whose order matters. Its place is the second of two
    instructions that use the same bytes in reversed order (`Permutations.swapped`). If there are no
    such instructions, the finding is a note without a place."""
    pairs = (
        (permutations.program, permutations.swapped(order))
        for permutations, order in zip(programs, rows, strict=True)
    )
    places = next((_places(program, pair) for program, pair in pairs if pair is not None), {})
    both = " and ".join(f"instruction {row} ({at.short})" for row, at in places.items())
    return Finding(
        "ORDER_MATTERS",
        f"if the iterations run in another order, {differing}"
        + (f"; the first two instructions whose order matters are {both}" if both else ""),
        [*places.values()][-1] if places else None,
        severity=None if places else "note",
        because="iterations of an affine_range may run in any order and at the same time",
        hint="use nl.sequential_range",
        source="SDK 2.26, nki.language.affine_range",
    )


def _places(program: Program, rows: Sequence[int]) -> dict[int, Place]:
    line = program.columns().line
    return {row: program.place(int(line[row])) for row in rows}


# --- orders ---------------------------------------------------------------------------------------


class _ByPriority:
    """A schedule that runs, of the cores that can run, the one with the lowest of `priorities`; of
    several such cores, the one with the lowest number."""

    def __init__(self, priorities: Sequence[int]) -> None:
        self.priorities = priorities

    def __call__(self, able: Sequence[int]) -> int | None:
        return min(able, key=lambda core: (self.priorities[core], core), default=None)


class _AtRandom:
    """A schedule at random. With probability STAYS, it runs the first of the cores that can run:
    the core of the last step if possible. Otherwise it runs a random one of these cores."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def __call__(self, able: Sequence[int]) -> int | None:
        if not able or self.rng.random() < STAYS:
            return able[0] if able else None
        return able[int(self.rng.integers(len(able)))]


def _turns(number: int, cores: int) -> _ByPriority | _AtRandom:
    """Return the schedule of replay `number`: the highest core first in replay 0, otherwise at
    random."""
    return _AtRandom(number) if number else _ByPriority([-core for core in range(cores)])


def _replayed(record: Record, turns: _ByPriority | _AtRandom) -> tuple[list[Array], Array]:
    """Return the results of a replay, and the core that ran at each step."""
    replay = Replay(record, snapshots=0, turns=turns)
    return _outcomes(replay), replay.order


def _outcomes(replay: Replay) -> list[Array]:
    """Run a replay to its end. Return copies of its results, and then of the inputs that it
    changed."""
    results = replay.results()
    return [np.array(array) for array in (*_arrays(results), *replay.changed().values())]


def _arrays(results: Any) -> list[Array]:
    if isinstance(results, dict):
        return _arrays(list(results.values()))
    if isinstance(results, list | tuple):
        return [array for result in results for array in _arrays(result)]
    return [results] if isinstance(results, np.ndarray) else []


# --- differences ----------------------------------------------------------------------------------


def _steps(order: Array, launch: LaunchAccesses, race: Race) -> tuple[int, int]:
    """Return the steps of the two accesses of a race. `order` has the core of each step."""
    steps = [
        int(np.flatnonzero(order == launch.threads[access.thread].core)[access.row])
        for access in (race.first, race.second)
    ]
    return steps[0], steps[1]


def _later(suspects: Sequence[Race], order: Array, launch: LaunchAccesses) -> Array:
    """Return whether each race's second access came after its first. `order`: the core of each
    step."""
    at = {core: np.flatnonzero(order == core) for core in range(len(launch.uses))}
    rows = [
        [at[launch.threads[access.thread].core][access.row] for access in (race.first, race.second)]
        for race in suspects
    ]
    first, second = np.array(rows, np.int64).T
    later: Array = second > first
    return later


def _differing(expected: Sequence[Array], results: Sequence[Array]) -> str:
    """Describe the first result whose bits differ from the `expected` result. Return "" if there is
    none."""
    for number, (wanted, got) in enumerate(zip(expected, results, strict=True)):
        bits = f"u{wanted.dtype.itemsize}"
        apart = np.ascontiguousarray(wanted).view(bits) != np.ascontiguousarray(got).view(bits)
        if apart.any():
            return f"{int(apart.sum()):,} of {wanted.size:,} elements of result {number} differ"
    return ""


def _cores_finding(
    differing: str, suspects: Sequence[Race], flipped: Array, order: Array, launch: LaunchAccesses
) -> Finding:
    """Return the finding for cores whose order matters. Its place is the second access of the first
    reversed race. If no race is reversed, it has no place.

    `flipped`: flags the reversed races
    `order`: the core of each step"""
    reversed_races = [
        race for race, is_reversed in zip(suspects, flipped, strict=True) if is_reversed
    ]
    if not reversed_races:
        return Finding("ORDER_MATTERS", f"if the cores run in another order, {differing}", None)
    first = min(reversed_races, key=lambda race: max(_steps(order, launch, race)))
    first_text, second_text = (
        f"instruction {a.row} of {launch.who(a)} ({launch.line(a).short})" for a in first[:2]
    )
    message = (
        f"if the cores run in another order, {differing}; the first two instructions whose order "
        f"matters are {first_text} and {second_text}"
    )
    return Finding("ORDER_MATTERS", message, launch.line(first.second))
