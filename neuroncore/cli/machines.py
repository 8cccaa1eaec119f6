"""neuroncore machines: the numbers of machines and instances.

Each number has its source and its grade: documented, measured or assumed. For an instance, the
output also has its chips and a drawing of its topology. --check compares derived peaks with every
published number."""

from __future__ import annotations

import argparse
import ast
import operator
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import Any

from neuroncore import machine
from neuroncore.base.errors import DefinitionError, UsageError
from neuroncore.base.units import plural
from neuroncore.cli import terminal
from neuroncore.cli.usage import excludes
from neuroncore.machine import Fact, Machine, harness
from neuroncore.machine import instance as instances
from neuroncore.machine.collective_time import SCALED
from neuroncore.machine.instance import Instance
from neuroncore.machine.topology import Topology

SCHEMA = "neuroncore.machines/1"
WIDEST_GROUP = 4  # of a group with more servers, only the first two and the last are drawn


def lines(instance: Instance) -> Iterator[str]:
    """Yield the lines about an instance that precede its facts."""
    names = ", ".join((instance.name, *instance.aliases))
    yield f"{names}: {instance.description}"
    yield ""
    yield f"chips        {instance.chips} x {instance.chip.description}"
    sizes = instance.chip.logical_core_sizes
    ranks = ", ".join(f"{instance.ranks(size)} at LNC{size}" for size in sizes)
    yield f"cores        {instance.cores}; ranks {ranks}"
    banks = instance.chips * instance.chip.hbm_banks
    yield f"memory       {instance.hbm_bytes / 2**30:,.0f} GiB in {banks} banks"
    yield f"links        {_links(instance)}"
    yield f"hosts        {_hosts(instance)}"
    yield f"collectives  {_collectives(instance)}"
    if instance.chips > 1:
        yield f"distance     {_distance(instance.topology)}"
        yield ""
        yield from drawing(instance.topology)


def _links(instance: Instance) -> str:
    if not instance.links:
        return "none"
    groups = (
        f"{group.per_chip} of {group.gigabytes_per_s:g} GB/s each way ({', '.join(group.axes)})"
        for group in instance.links
    )
    return f"of a chip {'; '.join(groups)}: {instance.links_each_way:,.0f} GB/s in each direction"


def _hosts(instance: Instance) -> str:
    host = instance.host
    network = f"{host.efa_interfaces} x {host.efa_gigabits_per_s:g} Gb/s of EFA"
    return f"{plural(host.servers, 'server')}, {host.vcpus} vCPUs, {host.memory_gib:,} GiB, " + (
        network if host.efa_interfaces else "no EFA"
    )


def _collectives(instance: Instance) -> str:
    if instance.scaled_from:
        return f"time from {instance.scaled_from}, {SCALED}"
    table = instance.collectives
    return (
        f"time fitted to a published table of {instance.ranks(table.lnc)} ranks at LNC{table.lnc}, "
        f"{table.least_bytes >> 20} to {table.most_bytes >> 20} MiB; otherwise {SCALED}"
    )


def _distance(topology: Topology) -> str:
    profiles = list(topology.hops) or [""]
    texts = []
    for profile in profiles:
        apart = topology.distances(profile)
        suffix = f" ({profile})" if profile else ""
        unit = "switches" if profile else "links"
        texts.append(
            f"at most {max(apart)} {unit}, {sum(apart) / len(apart):.3f} on average{suffix}"
        )
    return "; ".join(texts)


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
    """Yield a drawing of the last two axes of a grid, and sentences about a third axis."""
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
        yield f"This is {axis} 0; the next {axis} has chips {step} to {2 * step - 1}, and so on."
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
        help="compare every published number with the value that neuroncore computes from files "
        "of machines, chips and instances",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    excludes(parser, "check", "json")
    parser.set_defaults(command=machines)


def machines(arguments: argparse.Namespace) -> int:
    if arguments.check:
        return check()
    name = arguments.name
    if arguments.json:
        terminal.write_json(document(name))
    elif name is None:
        print("\n".join(_side_by_side([machine.load(each) for each in machine.names()])))
    elif instances.known(name):
        print("\n".join(_one_instance(instances.find(name))))
    else:
        print("\n".join(_one_machine(_machine(name))))
    return 0


def document(name: str | None) -> dict[str, Any]:
    """Return the JSON object for a machine or an instance; without a name, for all."""
    machine_names: Sequence[str] = ()
    instance_names: Sequence[str] = ()
    if name is None:
        machine_names, instance_names = machine.names(), instances.names()
    elif instances.known(name):
        instance_names = (name,)
    else:
        machine_names = (_machine(name).name,)
    return {
        "schema": SCHEMA,
        "machines": [_machine_fields(machine.load(key)) for key in machine_names],
        "instances": [_instance_fields(instances.find(key)) for key in instance_names],
    }


def _machine_fields(core: Machine) -> dict[str, Any]:
    facts, sources = _with_harness(core)
    return {
        "name": core.name,
        "generation": core.generation,
        "description": core.description,
        "facts": _fact_fields(facts),
        "sources": dict(sources),
    }


def _instance_fields(instance: Instance) -> dict[str, Any]:
    return {
        "name": instance.name,
        "aliases": list(instance.aliases),
        "description": instance.description,
        "chips": instance.chips,
        "cores": instance.cores,
        "ranks": {str(size): instance.ranks(size) for size in instance.chip.logical_core_sizes},
        "hbm_bytes": instance.hbm_bytes,
        "facts": _fact_fields({**instance.facts, **instance.chip.facts}),
        "sources": {**instance.chip.sources, **instance.sources},
    }


def _fact_fields(facts: Mapping[str, Fact]) -> dict[str, Any]:
    return {
        path: {"value": fact.value, "grade": fact.grade, "source": fact.source}
        for path, fact in facts.items()
    }


def _machine(name: str) -> Machine:
    try:
        return machine.load(name)
    except UsageError as error:
        raise UsageError(f"{error}; instances are {', '.join(instances.names())}") from None


def _side_by_side(cores: list[Machine]) -> Iterator[str]:
    yield from (f"{core.name}: {core.generation}, {core.description}" for core in cores)
    paths = list(dict.fromkeys(path for core in cores for path in core.facts))
    width = max(map(len, paths))
    for path in paths:
        cells = [_cell(core.facts.get(path)) for core in cores]
        yield f"{path:{width}}  " + "  ".join(f"{c:24}" for c in cells).rstrip()
    yield ""
    yield "d documented, m measured, a assumed; `neuroncore machines NAME` prints the sources"
    yield f"Instances (print one by its name): {', '.join(instances.names())}"


def _cell(fact: Fact | None) -> str:
    return "-" if fact is None else f"{fact.value} ({fact.grade[0]})"


def _one_machine(core: Machine) -> Iterator[str]:
    yield f"{core.name}: {core.generation}, {core.description}"
    yield from _facts(*_with_harness(core))


def _with_harness(core: Machine) -> tuple[Mapping[str, Fact], Mapping[str, str]]:
    """Return the facts of a machine, with the overheads of tools that measure on it, and all
    sources."""
    added = {f"harness_us.{name}": fact for name, fact in harness.overheads(core.name).items()}
    return {**core.facts, **added}, {**core.sources, **harness.sources()}


def _one_instance(instance: Instance) -> Iterator[str]:
    yield from lines(instance)
    yield ""
    chip = instance.chip
    yield from _facts({**instance.facts, **chip.facts}, {**chip.sources, **instance.sources})


def _facts(facts: Mapping[str, Fact], sources: Mapping[str, str]) -> Iterator[str]:
    """Yield every number with its grade and source, then the list of sources."""
    path_width = max(map(len, facts))
    value_width = max(len(str(fact.value)) for fact in facts.values())
    for path, fact in facts.items():
        yield f"{path:{path_width}}  {fact.value!s:{value_width}}  {fact.grade:10}  {fact.source}"
    yield ""
    key_width = max(map(len, sources))
    yield from (f"{key:{key_width}}  {text}" for key, text in sources.items())


UNITS = {"TFLOPS": 1.0, "TOPS": 1.0, "PFLOPS": 1e-3}  # per TFLOPS
BINARY = {
    "GiB": ("GB", 2**30 / 1e9),
    "GiB/s": ("GB/s", 2**30 / 1e9),
}  # units that are compared in powers of ten
LANES, GPSIMD_LANES = 128, 8 * 16
ARITHMETIC = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


@dataclass(frozen=True)
class Claim:
    """A published number: a row of isa/published.toml.

    `of`: a core, chip or instance, which has `cores` cores.
    `what`: the quantity in words.
    `printed`: the number as published, in `unit`.
    `source`: a key of the file's sources.
    `rate`: for the Tensor engine, the rate of the format relative to bfloat16.
    `formula`: computes the number; empty if no formula is known. It can use values of the core and
        of the `instance`, and other claims by their `name`.
    `to`: the result of the formula is rounded to a multiple of `to`, by default to the last printed
        digit.
    `cut`: the result is truncated instead of rounded.
    `quantity`: claims with the same `quantity` should have the same number."""

    of: str
    machine: str
    cores: int
    what: str
    printed: str
    source: str
    instance: str = ""
    quantity: str = ""
    unit: str = "TFLOPS"
    name: str = ""
    rate: float | None = None
    formula: str = ""
    to: float = 0.0
    cut: bool = False
    note: str = ""

    @property
    def step(self) -> float:
        """Return the step to which the formula's result is rounded.

        The step is `to`, or by default 1 in the last printed digit."""
        return self.to or 10.0 ** -len(self.printed.partition(".")[2])

    @property
    def decimal(self) -> tuple[float, str]:
        """Return the number and its unit. Binary units are converted: GiB to GB, GiB/s to GB/s."""
        unit, factor = BINARY.get(self.unit, (self.unit, 1.0))
        return float(self.printed) * factor, unit

    def is_met_by(self, value: float) -> bool:
        steps = value / self.step
        return (floor(steps) if self.cut else round(steps)) == round(
            float(self.printed) / self.step
        )


def claims(text: str) -> list[Claim]:
    """Return the claims of published.toml, in their order."""
    groups = tomllib.loads(text)["claim"]
    published_claims = []
    for group in groups:
        rows = group.pop("rows")
        published_claims += [Claim(**{**group, **row}) for row in rows]
    return published_claims


def published() -> list[Claim]:
    return claims((machine.isa() / "published.toml").read_text("utf-8"))


def tensor_tflops(core: Machine, rate: float = 1.0) -> float:
    """Return the peak of the Tensor engine: cells x clock x rate, with two operations per cell."""
    return 2 * core.pe_cells * core.engines["tensor"].clock_ghz * rate / 1e3


def quantities(core: Machine) -> dict[str, float]:
    """Return the values of a core that formulas can use: its engines' TFLOPS, and GB/s of HBM."""
    clocks = {name: unit.clock_ghz / 1e3 for name, unit in core.engines.items()}
    return {
        "T": tensor_tflops(core),
        "P": core.peak_tflops["bfloat16"],
        "V": LANES * 8 * clocks["vector"],
        "S": LANES * 8 * clocks["scalar"],
        "G": GPSIMD_LANES * 4 * clocks["gpsimd"],
        "H": core.hbm.gigabytes_per_s,
    }


def of_instance(name: str) -> dict[str, float]:
    """Return the values of an instance that formulas can use: GiB of HBM, CC-cores of a chip, GB/s
    of links, and Gb/s of EFA."""
    if not name:
        return {}
    instance = instances.load(name)
    links = {f"L_{group.name}": 2 * group.each_way for group in instance.links}
    return {
        "M": instance.hbm_bytes / 2**30,
        "C": instance.chip.cc_cores,
        "L": 2 * instance.links_each_way,
        "E": instance.host.efa_interfaces * instance.host.efa_gigabits_per_s,
        **links,
    }


def evaluated(formula: str, names: Mapping[str, float]) -> float:
    """Return the value of a formula that consists of numbers, names, and the operators + - * and /.

    Raises DefinitionError for unknown names and other expressions.
    """

    def value(node: ast.expr) -> float:
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
                result: float = ARITHMETIC[type(op)](value(left), value(right))
                return result
        raise DefinitionError(f"{formula!r}: formulas have no {ast.unparse(node)!r}")

    return value(ast.parse(formula, mode="eval").body)


@dataclass(frozen=True)
class PublishedLine:
    """A line of the comparison with published numbers.

    `alone`: for a claim about the Tensor engine, this engine's peak in the claim's unit; else None.
    `derived`: the value of the claim's formula, or None if the claim has no formula."""

    claim: Claim
    alone: float | None
    derived: float | None

    @property
    def holds(self) -> bool:
        return self.derived is None or self.claim.is_met_by(self.derived)


def compared(every: list[Claim], cores: Mapping[str, Machine]) -> Iterator[PublishedLine]:
    printed = {claim.name: float(claim.printed) for claim in every if claim.name}
    for claim in every:
        core = cores[claim.machine]
        alone = derived = None
        if claim.rate is not None:
            alone = claim.cores * tensor_tflops(core, claim.rate) * UNITS[claim.unit]
        if claim.formula:
            names = {**printed, **quantities(core), **of_instance(claim.instance)}
            derived = evaluated(claim.formula, names)
        yield PublishedLine(claim, alone, derived)


def contradictions(every: list[Claim]) -> dict[str, list[Claim]]:
    """Return the quantities for which published numbers differ, with their claims."""
    groups: dict[str, list[Claim]] = {}
    for claim in every:
        if claim.quantity:
            groups.setdefault(claim.quantity, []).append(claim)
    return {
        quantity: claims
        for quantity, claims in groups.items()
        if len({claim.decimal for claim in claims}) > 1
    }


def check() -> int:
    """Print every claim and the result of its formula.

    Return 1 if a formula does not give the published number, else 0."""
    cores = {name: machine.load(name) for name in machine.names()}
    lines = list(compared(published(), cores))
    for core in cores.values():
        parts = ", ".join(f"{name} {value:.4g}" for name, value in quantities(core).items())
        print(f"{core.name}: {core.generation}, per core {parts}")
    print("T Tensor, P Tensor as published, V Vector, S Scalar, G GpSimd (TFLOPS), H HBM (GB/s)")
    head = None
    for line in lines:
        if line.claim.of != head:
            head = line.claim.of
            print(f"\n{head:26} {'Tensor alone':>12} {'derived':>10} {'published':>10}")
        print(_claimed(line))
    print()
    print("\n".join(_contradictions(contradictions([line.claim for line in lines]))))
    wrong = sum(not line.holds for line in lines)
    print(f"\n{len(lines)} published numbers, {wrong} that do not follow from the machine files")
    return int(wrong > 0)


def _contradictions(groups: Mapping[str, list[Claim]]) -> Iterator[str]:
    yield f"{len(groups)} contradictions: quantities with different published numbers"
    yield "(the first number is that of the machine files, if a quantity can be derived from them)"
    for quantity, every in groups.items():
        printed = (f"{c.printed} {c.unit}".rstrip() + f" ({c.source}: {c.what})" for c in every)
        yield f"  {quantity}: " + "; ".join(printed)


def _claimed(line: PublishedLine) -> str:
    claim = line.claim
    verdict = "OFF" if not line.holds else claim.formula or "-"
    words = [f"  {claim.what:24}", _number(line.alone), _number(line.derived)]
    words += [f"{claim.printed:>10}", f"{claim.unit:6}", f"{claim.source:5}", verdict]
    return " ".join(words) + (f"  ({claim.note})" if claim.note else "")


def _number(value: Any) -> str:
    return f"{'-':>10}" if value is None else f"{value:10.6g}"
