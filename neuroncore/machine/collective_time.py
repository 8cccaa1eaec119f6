"""The time of a collective: launch + steps x latency + bytes / bandwidth.

The numbers come from one published table (`CollectiveTable`), of one instance. The times of other
instances are scaled from it, by the bytes that a chip receives and by the bandwidth of its links.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log2, prod
from typing import NamedTuple

from neuroncore.machine import instance as instances
from neuroncore.machine.instance import AlgorithmNumbers, Instance
from neuroncore.machine.runtime import world_limits

SCALED = "scaled, not measured"

# The stages of each pattern of communication. A reduce is a scatter and then a gather
# (aws-neuron-sdk neuron-runtime/explore/intranode-collective-comm.rst).
STAGES = {
    "gather": ("gather",),
    "scatter": ("scatter",),
    "reduce": ("scatter", "gather"),
    "exchange": ("exchange",),
    "shift": ("shift",),
}


class CollectiveTime(NamedTuple):
    """An estimate for a collective. `size_bytes` is the size of the whole collective: the output of
    a gather, the input of a scatter, the tensor of a reduce. For an exchange and a shift it is the
    tensor of one rank."""

    pattern: str
    algorithm: str
    ranks: int
    size_bytes: int
    steps: int
    ns: float
    basis: str  # the name of the published table, or SCALED

    @property
    def algorithm_bandwidth(self) -> float:
        """The size of the collective divided by its time, in GB/s (decimal)."""
        return self.size_bytes / self.ns

    @property
    def bus_bandwidth(self) -> float:
        """The bandwidth of the links in GB/s, as nccom-test and NCCL's tests define it.

        It is the algorithm bandwidth times (n - 1) / n for each stage of the pattern (`STAGES`),
        for n ranks. So bandwidths for different n can be compared. For a shift, it is the algorithm
        bandwidth."""
        if self.pattern == "shift":
            return self.algorithm_bandwidth
        shares = len(STAGES[self.pattern]) * (self.ranks - 1) / self.ranks
        return self.algorithm_bandwidth * shares


class _Part(NamedTuple):
    """The communication inside a chip, or between the chips of a `_Level`: the algorithm, the
    number of steps, and the time in ns."""

    algorithm: str
    steps: int
    ns: float


@dataclass(frozen=True)
class _Level:
    """Chips that are connected by links of one kind: their number, and the bandwidth into each chip
    in GB/s."""

    chips: int
    gigabytes_per_s: float


@dataclass(frozen=True)
class _Group:
    """The properties of a collective's ranks that determine its time."""

    instance: Instance
    lnc: int
    ranks: int
    per_chip: int  # the largest number of ranks on one chip
    whole_chips: bool
    # from the innermost level outward; empty if all ranks are on one chip
    levels: tuple[_Level, ...]


def collective_time(
    instance: Instance, lnc: int, pattern: str, size_bytes: int, ranks: Sequence[int]
) -> CollectiveTime:
    """Return the time of one collective, from the arrival of the last rank. It is assumed that
    nothing else uses the links. Raises UsageError if the instance has no such logical cores or
    ranks."""
    group = _group(instance, lnc, ranks)
    parts = [part for stage in STAGES[pattern] for part in _stage(group, stage, size_bytes)]
    return CollectiveTime(
        pattern=pattern,
        algorithm=" + ".join(dict.fromkeys(part.algorithm for part in parts)),
        ranks=len(ranks),
        size_bytes=size_bytes,
        steps=sum(part.steps for part in parts),
        ns=1e3 * instance.collectives.launch_us + sum(part.ns for part in parts),
        basis=_basis(group, pattern, size_bytes),
    )


@lru_cache(1 << 10)
def known_time(
    instance: str, lnc: int, pattern: str, size_bytes: int, ranks: tuple[int, ...]
) -> CollectiveTime:
    """Return `collective_time` for the instance with this name. The result is cached, because all
    ranks of a group need it."""
    return collective_time(instances.load(instance), lnc, pattern, size_bytes, ranks)


def _basis(group: _Group, pattern: str, size_bytes: int) -> str:
    instance, table = group.instance, group.instance.collectives
    covered = (
        not instance.scaled_from
        and group.lnc == table.lnc
        and group.ranks == instance.ranks(table.lnc)
        and pattern in ("gather", "scatter", "reduce")
        and table.least_bytes <= size_bytes <= table.most_bytes
    )
    return f"fitted to {instance.name}, {group.ranks} ranks" if covered else SCALED


def _group(instance: Instance, lnc: int, ranks: Sequence[int]) -> _Group:
    chips = [instance.place(rank, lnc).chip for rank in ranks]
    counts = [chips.count(chip) for chip in dict.fromkeys(chips)]
    return _Group(
        instance=instance,
        lnc=lnc,
        ranks=len(ranks),
        per_chip=max(counts),
        whole_chips=min(counts) == instance.chip.logical_cores(lnc),
        levels=tuple(_levels(instance, sorted(set(chips)))),
    )


def _levels(instance: Instance, chips: Sequence[int]) -> Iterator[_Level]:
    """Yield the kinds of links that a group uses, as one level each. If the chips do not fill a
    grid of the instance's axes, yield a single level.

    A group uses the links along the axes on which its chips differ. Along an axis of a torus, both
    links of a chip are assumed to lead to chips of the group."""
    at = [instance.topology.coordinates(chip) for chip in chips]
    axes = enumerate(instance.topology.axes)
    spread = {axis: len({coordinates[place] for coordinates in at}) for place, axis in axes}
    if prod(spread.values()) != len(chips):
        yield _Level(len(chips), instance.links_each_way)
        return
    for links in instance.links:
        used = [axis for axis in links.axes if spread[axis] > 1]
        if used:
            rate = links.each_way * len(used) / len(links.axes)
            yield _Level(prod(spread[axis] for axis in used), rate)


def _stage(group: _Group, stage: str, size_bytes: int) -> Iterator[_Part]:
    if stage == "shift":
        yield _shift(group, size_bytes)
    elif not group.levels:
        yield _inside_a_chip(group, "mesh", size_bytes * (group.ranks - 1) / group.ranks)
    elif stage == "exchange":
        yield _exchange(group, size_bytes)
    else:
        yield from _hierarchy(group, stage, size_bytes)


def _hierarchy(group: _Group, stage: str, size_bytes: int) -> Iterator[_Part]:
    """Yield one _Part for each level of a hierarchical algorithm.

    On the innermost level the chips exchange all the data. On each outer level, chips with the same
    position on the inner levels exchange their share in a ring. The step time and bandwidths of
    this ring are those of KangaRing (assumed)."""
    inner, *outer = group.levels
    ranks = group.per_chip * inner.chips
    name = _algorithm(group, inner, ranks, size_bytes / ranks)
    yield _part(group, name, _steps(name, ranks, inner.chips), stage, inner, size_bytes)
    within = inner.chips
    for level in outer:
        yield _part(group, "ring", level.chips - 1, stage, level, size_bytes / within)
        within *= level.chips


def _algorithm(group: _Group, level: _Level, ranks: int, bytes_per_rank: float) -> str:
    """Return the name of the algorithm with the smallest size limit that allows `bytes_per_rank`.

    A size in the table is assumed to be the data of all ranks together, as one table for 16 ranks
    shows. RDH (recursive halving and doubling) needs a power of two of chips; otherwise KangaRing
    replaces it. KangaRing needs whole chips and an even number of ranks, up to a limit; otherwise a
    ring replaces it."""
    table = group.instance.collectives
    of_table = _reference(group.instance).ranks(table.lnc)
    sufficient = [
        name
        for name, numbers in table.algorithms.items()
        if bytes_per_rank <= numbers.most_bytes / of_table
    ]
    name = sufficient[0] if sufficient else list(table.algorithms)[-1]
    if name == "rdh" and log2(level.chips) % 1:
        name = "kangaring"
    fits = group.whole_chips and ranks <= world_limits().kangaring_ranks and ranks % 2 == 0
    return "ring" if name == "kangaring" and not fits else name


def _steps(algorithm: str, ranks: int, chips: int) -> int:
    """Return the number of steps of a gather or a scatter (documented). An all_reduce is a scatter
    and then a gather."""
    match algorithm:
        case "mesh":
            return 2
        case "rdh":
            return int(log2(chips)) + 1
        case "kangaring":
            return ranks // 2 - 1
        case _:
            return ranks - 1


def _part(
    group: _Group, algorithm: str, steps: int, stage: str, level: _Level, size_bytes: float
) -> _Part:
    """Return the part of a gather or scatter of `size_bytes` among the chips of a level."""
    taken = size_bytes * (level.chips - 1) / level.chips
    numbers = _numbers(group.instance, algorithm)
    rate = level.gigabytes_per_s * _share_of_links(group.instance, numbers, stage)
    return _Part(algorithm, steps, 1e3 * steps * numbers.step_us + taken / rate)


def _exchange(group: _Group, size_bytes: int) -> _Part:
    """Return the part in which every rank sends a piece to every other rank over the mesh. The
    slowest links determine its time."""
    chips = prod(level.chips for level in group.levels)
    taken = group.per_chip * size_bytes * (chips - 1) / chips
    numbers = _numbers(group.instance, "mesh")
    slowest = min(level.gigabytes_per_s for level in group.levels)
    rate = slowest * _share_of_links(group.instance, numbers, "gather")
    return _Part("mesh", 2, 1e3 * 2 * numbers.step_us + taken / rate)


def _shift(group: _Group, size_bytes: int) -> _Part:
    """Return the part in which every rank sends its tensor to the next rank. If the next rank is on
    another chip, one link is used."""
    if not group.levels:
        return _inside_a_chip(group, "ring", size_bytes)
    numbers = _numbers(group.instance, "ring")
    slowest = min(links.gigabytes_per_s for links in group.instance.links)
    rate = slowest * _share_of_links(group.instance, numbers, "gather")
    return _Part("ring", 1, 1e3 * numbers.step_us + size_bytes / rate)


def _inside_a_chip(group: _Group, algorithm: str, size_bytes: float) -> _Part:
    """Return the part of ranks on one chip: one step, in which each rank reads and writes at half
    of the bandwidth of its HBM bank (assumed: no bandwidth within a chip is published)."""
    chip = group.instance.chip
    rate = chip.hbm_gigabytes_per_s / max(chip.hbm_banks, group.per_chip) / 2
    return _Part(algorithm, 1, 1e3 * _numbers(group.instance, "mesh").step_us + size_bytes / rate)


def _reference(instance: Instance) -> Instance:
    """Return the instance for which the table was published."""
    return instances.load(instance.scaled_from or instance.name)


def _numbers(instance: Instance, algorithm: str) -> AlgorithmNumbers:
    """Return the numbers of an algorithm. A ring has those of KangaRing, which also passes data
    from rank to rank (assumed)."""
    known = instance.collectives.algorithms
    return known[algorithm] if algorithm in known else known["kangaring"]


def _share_of_links(instance: Instance, numbers: AlgorithmNumbers, stage: str) -> float:
    """Return the fraction of a chip's incoming bandwidth that an algorithm uses, computed for the
    instance of the published table."""
    reference = _reference(instance)
    whole = (
        numbers.scatter_gigabytes_per_s if stage == "scatter" else numbers.gather_gigabytes_per_s
    )
    return whole * (reference.chips - 1) / reference.chips / reference.links_each_way
