"""neuroncore machines: the numbers of generations and instances, with their grades and sources; for
an instance also its chips and a drawing of its topology."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence

from neuroncore import machine
from neuroncore.base.errors import UsageError
from neuroncore.base.units import plural
from neuroncore.cli import published
from neuroncore.machine import Fact, Machine, harness
from neuroncore.machine import instance as instances
from neuroncore.machine.collective_time import SCALED
from neuroncore.machine.instance import Instance
from neuroncore.machine.topology import Topology

WIDEST_GROUP = 4  # servers of a rack that are drawn; of more, only the first two and the last


def lines(one: Instance) -> Iterator[str]:
    """Yield the lines about an instance before its facts."""
    names = ", ".join((one.name, *one.aliases))
    yield f"{names}: {one.description}"
    yield ""
    yield f"chips        {one.chips} x {one.chip.description}"
    ranks = ", ".join(f"{one.ranks(size)} at LNC{size}" for size in one.chip.logical_core_sizes)
    yield f"cores        {one.cores}; ranks {ranks}"
    banks = one.chips * one.chip.hbm_banks
    yield f"memory       {one.hbm_bytes / 2**30:,.0f} GiB in {banks} banks"
    yield f"links        {_links(one)}"
    yield f"hosts        {_hosts(one)}"
    yield f"collectives  {_collectives(one)}"
    if one.chips > 1:
        yield f"distance     {_distance(one.topology)}"
        yield ""
        yield from drawing(one.topology)


def _links(one: Instance) -> str:
    if not one.links:
        return "none"
    groups = (
        f"{group.per_chip} of {group.gigabytes_per_s:g} GB/s each way ({', '.join(group.axes)})"
        for group in one.links
    )
    return f"of a chip {'; '.join(groups)}: {one.links_each_way:,.0f} GB/s in each direction"


def _hosts(one: Instance) -> str:
    host = one.host
    network = f"{host.efa_interfaces} x {host.efa_gigabits_per_s:g} Gb/s of EFA"
    return f"{plural(host.servers, 'server')}, {host.vcpus} vCPUs, {host.memory_gib:,} GiB, " + (
        network if host.efa_interfaces else "no EFA"
    )


def _collectives(one: Instance) -> str:
    if one.scaled_from:
        return f"time from {one.scaled_from}, {SCALED}"
    table = one.collectives
    return (
        f"time fitted to a published table of {one.ranks(table.lnc)} ranks at LNC{table.lnc}, "
        f"{table.least_bytes >> 20} to {table.most_bytes >> 20} MiB; otherwise {SCALED}"
    )


def _distance(topology: Topology) -> str:
    profiles = list(topology.hops) or [""]
    found = []
    for profile in profiles:
        apart = topology.distances(profile)
        of = f" ({profile})" if profile else ""
        unit = "switches" if profile else "links"
        found.append(f"at most {max(apart)} {unit}, {sum(apart) / len(apart):.3f} on average{of}")
    return "; ".join(found)


def drawing(topology: Topology) -> Iterator[str]:
    """Yield a drawing of the chips and their connections."""
    if topology.kind == "switched":
        yield from _switched(topology)
    elif len(topology.shape) == 1:
        yield from _row(topology)
    else:
        yield from _grid(topology)


def _row(topology: Topology) -> Iterator[str]:
    chips = " ── ".join(map(str, range(topology.chips)))
    if topology.kind == "chain":
        yield chips
    else:
        yield f"╭─ {chips} ─╮"
        yield f"╰─{'─' * (len(chips) + 2)}─╯"


def _grid(topology: Topology) -> Iterator[str]:
    """Yield a drawing of the last two axes, and sentences about a third."""
    *outer, rows, columns = topology.shape
    width = len(str(rows * columns - 1))
    posts = " " * 3 + "".join(f"{'│':>{width}}    " for _ in range(columns)).rstrip()
    yield posts
    for row in range(rows):
        numbers = (f"{row * columns + column:>{width}}" for column in range(columns))
        yield "── " + " ── ".join(numbers) + " ──"
        yield posts
    closed = " and ".join(f"each {axis}" for axis in topology.axes[-2:])
    yield f"{closed.capitalize()} is a ring."
    if outer:
        step, axis = rows * columns, topology.axes[0]
        yield f"This is {axis} 0; the next {axis} has {step} to {2 * step - 1}, and so on."
        same = _list(range(0, topology.chips, step))
        yield f"Chips at the same position in the {axis}s, such as {same}, form a ring."


def _switched(topology: Topology) -> Iterator[str]:
    racks, servers, chips = topology.shape
    drawn = list(range(servers))
    if servers > WIDEST_GROUP:
        drawn = [0, 1, servers - 1]
    yield "".join(f"switches of rack {rack}".ljust(44) for rack in range(racks)).rstrip()
    for place, server in enumerate(drawn):
        if place and server != drawn[place - 1] + 1:
            yield "".join(" ┆".ljust(44) for _ in range(racks)).rstrip()
        arm = " └─" if server == drawn[-1] else " ├─"
        firsts = (topology.chip_at((rack, server, 0)) for rack in range(racks))
        cells = (
            f"{arm} server {server:2}: chips {first} to {first + chips - 1}" for first in firsts
        )
        yield "".join(cell.ljust(44) for cell in cells).rstrip()
    across = topology.chips // racks
    yield "Switches connect all chips. A direct link connects chips at the same position of the two"
    yield f"racks, such as 0 and {across}."


def _list(numbers: Sequence[int]) -> str:
    *most, last = map(str, numbers)
    return f"{', '.join(most)} and {last}"


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="a machine or an instance (default: all)")
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare every published number with the value that follows from the files",
    )
    parser.set_defaults(command=machines)


def machines(arguments: argparse.Namespace) -> int:
    if arguments.check:
        return published.check()
    name = arguments.name
    if name is None:
        print("\n".join(_side_by_side([machine.load(each) for each in machine.names()])))
    elif instances.known(name):
        print("\n".join(_one_instance(instances.find(name))))
    else:
        print("\n".join(_one_machine(_machine(name))))
    return 0


def _machine(name: str) -> Machine:
    try:
        return machine.load(name)
    except UsageError as error:
        raise UsageError(f"{error}; instances are {', '.join(instances.names())}") from None


def _side_by_side(found: list[Machine]) -> Iterator[str]:
    yield from (f"{one.name}: {one.generation}, {one.description}" for one in found)
    paths = list(dict.fromkeys(path for one in found for path in one.facts))
    width = max(map(len, paths))
    for path in paths:
        cells = [_cell(one.facts.get(path)) for one in found]
        yield f"{path:{width}}  " + "  ".join(f"{c:24}" for c in cells).rstrip()
    yield ""
    yield "d documented, m measured, a assumed; `neuroncore machines NAME` prints the sources"
    yield f"Instances (print one by its name): {', '.join(instances.names())}"


def _cell(fact: Fact | None) -> str:
    return "-" if fact is None else f"{fact.value} ({fact.grade[0]})"


def _one_machine(one: Machine) -> Iterator[str]:
    yield f"{one.name}: {one.generation}, {one.description}"
    added = {f"harness_us.{name}": fact for name, fact in harness.overheads(one.name).items()}
    yield from _facts({**one.facts, **added}, {**one.sources, **harness.sources()})


def _one_instance(one: Instance) -> Iterator[str]:
    yield from lines(one)
    yield ""
    yield from _facts({**one.facts, **one.chip.facts}, {**one.chip.sources, **one.sources})


def _facts(facts: Mapping[str, Fact], sources: Mapping[str, str]) -> Iterator[str]:
    """Print every number with its grade and source, then the list of sources."""
    path_width = max(map(len, facts))
    value_width = max(len(str(fact.value)) for fact in facts.values())
    for path, fact in facts.items():
        yield f"{path:{path_width}}  {fact.value!s:{value_width}}  {fact.grade:10}  {fact.source}"
    yield ""
    key_width = max(map(len, sources))
    yield from (f"{key:{key_width}}  {text}" for key, text in sources.items())
