"""neuroncore machines: the numbers of each generation, with their grades and sources."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from neuroncore import machine
from neuroncore.cli import published
from neuroncore.machine import Fact, Machine


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="one machine; all side by side without it")
    parser.add_argument(
        "--check", action="store_true", help="peaks and bandwidths beside every printed number"
    )
    parser.set_defaults(command=machines)


def machines(arguments: argparse.Namespace) -> int:
    if arguments.check:
        return published.check()
    if arguments.name:
        print("\n".join(_one_machine(machine.load(arguments.name))))
    else:
        print("\n".join(_side_by_side([machine.load(name) for name in machine.names()])))
    return 0


def _side_by_side(found: list[Machine]) -> Iterator[str]:
    yield from (f"{one.name}: {one.generation}, {one.description}" for one in found)
    paths = list(dict.fromkeys(path for one in found for path in one.facts))
    width = max(map(len, paths))
    for path in paths:
        cells = [_cell(one.facts.get(path)) for one in found]
        yield f"{path:{width}}  " + "  ".join(f"{c:24}" for c in cells).rstrip()
    yield ""
    yield "d documented, m measured, a assumed; `neuroncore machines NAME` gives the sources"


def _cell(fact: Fact | None) -> str:
    return "-" if fact is None else f"{fact.value} ({fact.grade[0]})"


def _one_machine(one: Machine) -> Iterator[str]:
    yield f"{one.name}: {one.generation}, {one.description}"
    path_width = max(map(len, one.facts))
    value_width = max(len(str(fact.value)) for fact in one.facts.values())
    for path, fact in one.facts.items():
        yield f"{path:{path_width}}  {fact.value!s:{value_width}}  {fact.grade:10}  {fact.source}"
    yield ""
    key_width = max(map(len, one.sources))
    yield from (f"{key:{key_width}}  {text}" for key, text in one.sources.items())
