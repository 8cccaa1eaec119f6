"""An instance is data: `isa/instances/<name>.toml`, every number with its source and its grade."""

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
from neuroncore.machine.topology import KINDS, Topology

OWN = ("name", "aliases", "chip", "description", "sources", "host", "topology", "collectives")
OPTIONAL = ("links", "hops")


@dataclass(frozen=True)
class Host:
    """The servers, and the bandwidth of each network interface in Gb/s, over all servers."""

    servers: int
    vcpus: int
    memory_gib: int
    efa_interfaces: int
    efa_gigabits_per_s: float


@dataclass(frozen=True)
class LinkGroup:
    """Links of one kind: the number of links of a chip along these axes, and the GB/s of each in
    one direction."""

    name: str
    axes: tuple[str, ...]
    per_chip: int
    gigabytes_per_s: float

    @property
    def each_way(self) -> float:
        """Return the GB/s out of a chip over all links of the group; the bandwidth into it is
        equal."""
        return self.per_chip * self.gigabytes_per_s


@dataclass(frozen=True)
class AlgorithmNumbers:
    """One algorithm: the largest size that uses it, the time of a step, and the time per byte.
    Bytes are those of the whole collective: the output of a gather, the input of a scatter."""

    most_bytes: int
    step_us: float
    gather_gigabytes_per_s: float
    scatter_gigabytes_per_s: float


@dataclass(frozen=True)
class CollectiveTable:
    """Numbers that were fitted to a published table, and what the table covers (all ranks at that
    LNC, and sizes). `launch_us` is paid once; `algorithms` are sorted by size."""

    lnc: int
    least_bytes: int
    most_bytes: int
    launch_us: float
    algorithms: Mapping[str, AlgorithmNumbers]


class CorePlace(NamedTuple):
    """Where a rank is: the server, the chip and the logical core in it."""

    server: int
    chip: int
    core: int


@dataclass(frozen=True)
class Instance:
    """Chips that are joined: an instance, or an UltraServer of several.

    `collectives` is the table for the time of collectives. If no table is published for the
    instance, it is that of the instance `scaled_from`; otherwise `scaled_from` is empty.
    """

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
        """Return the bandwidth in GB/s out of one chip over all its links; the bandwidth into it is
        equal."""
        return sum(group.each_way for group in self.links)

    def ranks(self, lnc: int) -> int:
        """Return how many logical cores of `lnc` physical ones there are. Raises UsageError if
        none."""
        return self.chips * self.chip.logical_cores(lnc)

    def place(self, rank: int, lnc: int) -> CorePlace:
        """Return where a rank is: consecutive ranks fill a chip, consecutive chips a server.

        That numbering is our assumption, with which nccom-test and nki-library agree. Raises
        UsageError if there is no such rank.
        """
        ranks = self.ranks(lnc)
        if not 0 <= rank < ranks:
            raise UsageError(f"{self.name} has no rank {rank}: they are 0 to {ranks - 1}")
        chip, core = divmod(rank, self.chip.logical_cores(lnc))
        return CorePlace(chip // self.chips_per_server, chip, core)

    def distance(self, rank: int, other: int, lnc: int) -> int:
        """Links, or switches, between the chips of two ranks."""
        return self.topology.distance(self.place(rank, lnc).chip, self.place(other, lnc).chip)


def _folder() -> Path:
    return isa() / "instances"


@cache
def names() -> tuple[str, ...]:
    """The instances there are, by generation and size."""
    found = [entry.name.removesuffix(".toml") for entry in _folder().iterdir()]

    def order(name: str) -> tuple[str, int, int, str]:
        one = load(name)
        return one.chip.name, one.chips, one.host.vcpus, name

    return tuple(sorted(found, key=order))


@cache
def aliases() -> dict[str, str]:
    """Return the other names of instances, and the instance that each one means.

    Raises DefinitionError if a name means two instances.
    """
    found: dict[str, str] = {}
    for name in names():
        for alias in load(name).aliases:
            if alias in found or alias in names():
                other = found.get(alias, alias)
                raise DefinitionError(
                    f"isa/instances/{name}.toml: aliases has {alias!r}, which means {other}"
                )
            found[alias] = name
    return found


def known(name: str) -> bool:
    """Return whether an instance has this name."""
    return name in names() or name in aliases()


def find(name: str) -> Instance:
    """The instance of that name or alias. Raises UsageError if there is none."""
    if not known(name):
        there = ", ".join([*names(), *aliases()])
        raise UsageError(f"no instance is called {name!r}; there are {there}")
    return load(aliases().get(name, name))


@cache
def holding(machine: str, lnc: int, ranks: int) -> Instance | None:
    """Return the smallest instance of a machine's first product that has at least this number of
    ranks; None if there is none."""
    product = load_machine(machine).products[0].lower()
    enough = [
        one
        for one in map(load, names())
        if one.chip.name == product
        and lnc in one.chip.logical_core_sizes
        and one.ranks(lnc) >= ranks
    ]
    return min(enough, key=lambda one: (one.chips, one.name), default=None)


@cache
def of_machine(machine: str) -> Instance:
    """The largest instance with chips of such cores. Raises UsageError if there is none."""
    found = [one for one in map(load, names()) if one.chip.machine == machine]
    if not found:
        raise UsageError(f"no instance has chips of {machine}: isa/instances/ lists the instances")
    return max(found, key=lambda one: (one.chips, one.name))


@cache
def load(name: str) -> Instance:
    """The instance whose file has that name. Raises DefinitionError if its file is wrong."""
    where = f"isa/instances/{name}.toml"
    found = parse((_folder() / f"{name}.toml").read_text("utf-8"), where)
    if found.name != name:
        raise DefinitionError(f"{where}: name is {found.name!r}; it must be that of the file")
    return found


def parse(text: str, where: str) -> Instance:
    """Read an instance from the text of its file; `where` names the file in errors."""
    return _InstanceReader(tomllib.loads(text), where).instance()


class _InstanceReader(FactReader):
    def instance(self) -> Instance:
        present = [name for name in OPTIONAL if name in self.raw]
        self.exactly(self.raw, (*OWN, *present), "")
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
        own = self.numbers("topology", table)
        if own["kind"] not in KINDS:
            raise DefinitionError(f"{self.where}: topology.kind must be one of {', '.join(KINDS)}")
        hops = self.numbers("hops", self.raw.get("hops", {}))
        lists = {name: tuple(own[name]) for name in ("axes", "shape", "straight")}
        profiles = {name: tuple(switches) for name, switches in hops.items()}
        return Topology(kind=own["kind"], hops=profiles, **lists)

    def links(self) -> list[LinkGroup]:
        found = []
        for name, table in self.raw.get("links", {}).items():
            self.exactly(table, ("axes", "per_chip", "gigabytes_per_s"), f"links.{name}")
            numbers = self.numbers(f"links.{name}", table)
            axes = tuple(numbers.pop("axes"))
            found.append(LinkGroup(name, axes, **numbers))
        return found

    def collectives(self) -> CollectiveTable:
        table = self.raw["collectives"]
        if "scaled_from" in table:
            self.exactly(table, ("scaled_from",), "collectives")
            return load(self.numbers("collectives", table)["scaled_from"]).collectives
        own = [field.name for field in fields(CollectiveTable)]
        self.exactly(table, own, "collectives")
        algorithms = {
            name: self.section(AlgorithmNumbers, f"collectives.algorithms.{name}", numbers)
            for name, numbers in table["algorithms"].items()
        }
        rest = {name: entry for name, entry in table.items() if name != "algorithms"}
        return CollectiveTable(algorithms=algorithms, **self.numbers("collectives", rest))
