"""neuroncore machines: the numbers of generations and instances, with their grades and sources."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping

from neuroncore import machine
from neuroncore.base.errors import UsageError
from neuroncore.cli import instances as drawn
from neuroncore.cli import published
from neuroncore.machine import Fact, Machine, harness
from neuroncore.machine import instance as instances
from neuroncore.machine.instance import Instance


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
    yield from drawn.lines(one)
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
