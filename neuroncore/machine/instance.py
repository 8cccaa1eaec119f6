"""Instances as data: `isa/instances/<name>.toml`.

Every number has a source, and a grade: documented, measured or assumed."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import NamedTuple

from neuroncore.base.errors import DefinitionError, UsageError
from neuroncore.machine import Fact, FactReader, isa
from neuroncore.machine import chip as chips
from neuroncore.machine import load as load_machine
from neuroncore.machine.chip import Chip
from neuroncore.machine.facts import by_alias
from neuroncore.machine.topology import KINDS, Topology

KEYS = ("name", "aliases", "chip", "description", "sources", "host", "topology", "collectives")
OPTIONAL = ("links", "hops")


@dataclass(frozen=True)
class Host:
    """The servers of an instance.

    Fields are the number of servers; the vCPUs, the memory and the EFA (network) interfaces of all
    servers together; and the bandwidth of one EFA interface in Gb/s."""

    servers: int
    vcpus: int
    memory_gib: int
    efa_interfaces: int
    efa_gigabits_per_s: float


@dataclass(frozen=True)
class LinkGroup:
    """Links of one kind: the number per chip along these axes, and the bandwidth of each in one
    direction in GB/s."""

    name: str
    axes: tuple[str, ...]
    per_chip: int
    gigabytes_per_s: float

    @property
    def each_way(self) -> float:
        """The bandwidth out of a chip over all links of the group, in GB/s. The bandwidth into the
        chip is equal."""
        return self.per_chip * self.gigabytes_per_s


@dataclass(frozen=True)
class AlgorithmNumbers:
    """One algorithm: the largest size for which it is used, the time of a step, and its bandwidths.
    A size is the output of a gather or the input of a scatter."""

    most_bytes: int
    step_us: float
    gather_gigabytes_per_s: float
    scatter_gigabytes_per_s: float


@dataclass(frozen=True)
class CollectiveTable:
    """Numbers that were fitted to a published table of the times of collectives.

    All ranks of the instance take part, with `lnc` physical cores per logical core. Sizes are from
    `least_bytes` to `most_bytes`. A collective takes `launch_us` once. `algorithms` are sorted by
    size."""

    lnc: int
    least_bytes: int
    most_bytes: int
    launch_us: float
    algorithms: Mapping[str, AlgorithmNumbers]


class CorePlace(NamedTuple):
    """The position of a rank: server, chip, and logical core on the chip."""

    server: int
    chip: int
    core: int


@dataclass(frozen=True)
class Instance:
    """Chips that are connected: an instance, or an UltraServer of several instances.

    `collectives` is the table for the time of collectives. If no table is published for this
    instance, it is the table of the instance `scaled_from`; otherwise `scaled_from` is empty."""

    name: str
    aliases: tuple[str, ...]
    description: str
    chip: Chip
    host: Host
    topology: Topology
    links: tuple[LinkGroup, ...]
    collectives: CollectiveTable
    scaled_from: str
    facts: Mapping[str, Fact]
    sources: Mapping[str, str]

    @property
    def chips(self) -> int:
        return self.topology.chips

    @property
    def cores(self) -> int:
        """The number of physical cores."""
        return self.chips * self.chip.cores

    @property
    def chips_per_server(self) -> int:
        return self.chips // self.host.servers

    @property
    def hbm_bytes(self) -> int:
        return self.chips * self.chip.hbm_banks * self.chip.hbm_bank_bytes

    @property
    def links_each_way(self) -> float:
        """The bandwidth out of one chip over all its links, in GB/s. The bandwidth into the chip is
        equal."""
        return sum(group.each_way for group in self.links)

    def ranks(self, lnc: int) -> int:
        """Return the number of logical cores of `lnc` physical cores. Raises UsageError for a size
        that is not supported."""
        return self.chips * self.chip.logical_cores(lnc)

    def place(self, rank: int, lnc: int) -> CorePlace:
        """Return the position of a rank. Consecutive ranks fill a chip, and consecutive chips a
        server.

        This numbering is an assumption; nccom-test and nki-library agree with it. Raises UsageError
        if there is no such rank."""
        ranks = self.ranks(lnc)
        if not 0 <= rank < ranks:
            raise UsageError(f"{self.name} has no rank {rank}: its ranks are 0 to {ranks - 1}")
        chip, core = divmod(rank, self.chip.logical_cores(lnc))
        return CorePlace(chip // self.chips_per_server, chip, core)

    def distance(self, rank: int, other: int, lnc: int) -> int:
        """Return the number of links, or switches, between the chips of two ranks."""
        return self.topology.distance(self.place(rank, lnc).chip, self.place(other, lnc).chip)


def _folder() -> Path:
    return isa() / "instances"


@cache
def names() -> tuple[str, ...]:
    """Return the names of all instances, sorted by generation and size."""
    unsorted = [entry.name.removesuffix(".toml") for entry in _folder().iterdir()]

    def order(name: str) -> tuple[str, int, int, str]:
        instance = load(name)
        return instance.chip.name, instance.chips, instance.host.vcpus, name

    return tuple(sorted(unsorted, key=order))


@cache
def aliases() -> dict[str, str]:
    """Return the name of the instance for each alternative name. Raises DefinitionError if an
    alternative name means two instances."""
    return by_alias("instances", {name: load(name).aliases for name in names()})


def known(name: str) -> bool:
    """Return whether an instance has this name."""
    return name in names() or name in aliases()


def find(name: str) -> Instance:
    """Return the instance with this name or alias. Raises UsageError if there is none."""
    if not known(name):
        there = ", ".join([*names(), *aliases()])
        raise UsageError(f"no instance is called {name!r}; there are {there}")
    return load(aliases().get(name, name))


@cache
def holding(machine: str, lnc: int, ranks: int) -> Instance | None:
    """Return the smallest instance with at least `ranks` logical cores of `lnc` physical cores, or
    None. Its chip must be the first of the machine's `products`."""
    product = load_machine(machine).products[0].lower()
    candidates = [
        instance
        for instance in map(load, names())
        if instance.chip.name == product
        and lnc in instance.chip.logical_core_sizes
        and instance.ranks(lnc) >= ranks
    ]
    return min(candidates, key=lambda instance: (instance.chips, instance.name), default=None)


@cache
def of_machine(machine: str) -> Instance:
    """Return the largest instance whose chips have this machine's cores. Raises UsageError if there
    is none."""
    candidates = [instance for instance in map(load, names()) if instance.chip.machine == machine]
    if not candidates:
        raise UsageError(f"no instance has chips of {machine}: isa/instances/ lists the instances")
    return max(candidates, key=lambda instance: (instance.chips, instance.name))


@cache
def load(name: str) -> Instance:
    """Return the instance whose file has this name. Raises DefinitionError if the file is wrong."""
    where = f"isa/instances/{name}.toml"
    instance = parse((_folder() / f"{name}.toml").read_text("utf-8"), where)
    if instance.name != name:
        raise DefinitionError(
            f"{where}: name is {instance.name!r}, but the file has the name {name!r}"
        )
    return instance


def parse(text: str, where: str) -> Instance:
    """Read an instance from the text of its file; `where` names the file in errors."""
    return _InstanceReader(tomllib.loads(text), where).instance()


class _InstanceReader(FactReader):
    def instance(self) -> Instance:
        present = [name for name in OPTIONAL if name in self.raw]
        self.exactly(self.raw, (*KEYS, *present), "")
        return Instance(
            name=self.raw["name"],
            aliases=tuple(self.raw["aliases"]),
            description=self.raw["description"],
            chip=chips.load(self.raw["chip"]),
            host=self.section(Host, "host", self.raw["host"]),
            topology=self.topology(),
            links=tuple(self.links()),
            collectives=self.collectives(),
            scaled_from=self.raw["collectives"].get("scaled_from", {}).get("value", ""),
            facts=self.facts,
            sources=self.raw["sources"],
        )

    def topology(self) -> Topology:
        table = self.raw["topology"]
        self.exactly(table, ("kind", "axes", "shape", "straight"), "topology")
        numbers = self.numbers("topology", table)
        if numbers["kind"] not in KINDS:
            raise DefinitionError(f"{self.where}: topology.kind must be one of {', '.join(KINDS)}")
        hops = self.numbers("hops", self.raw.get("hops", {}))
        lists = {name: tuple(numbers[name]) for name in ("axes", "shape", "straight")}
        profiles = {name: tuple(switches) for name, switches in hops.items()}
        return Topology(kind=numbers["kind"], hops=profiles, **lists)

    def links(self) -> list[LinkGroup]:
        groups = []
        for name, table in self.raw.get("links", {}).items():
            self.exactly(table, ("axes", "per_chip", "gigabytes_per_s"), f"links.{name}")
            numbers = self.numbers(f"links.{name}", table)
            axes = tuple(numbers.pop("axes"))
            groups.append(LinkGroup(name, axes, **numbers))
        return groups

    def collectives(self) -> CollectiveTable:
        table = self.raw["collectives"]
        if "scaled_from" in table:
            self.exactly(table, ("scaled_from",), "collectives")
            return load(self.numbers("collectives", table)["scaled_from"]).collectives
        names = [field.name for field in fields(CollectiveTable)]
        self.exactly(table, names, "collectives")
        algorithms = {
            name: self.section(AlgorithmNumbers, f"collectives.algorithms.{name}", numbers)
            for name, numbers in table["algorithms"].items()
        }
        rest = {name: entry for name, entry in table.items() if name != "algorithms"}
        return CollectiveTable(algorithms=algorithms, **self.numbers("collectives", rest))
