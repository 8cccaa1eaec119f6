"""neuroncore machines and neuroncore isa: the tables that everything else reads."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from neuroncore import machine
from neuroncore.clause.arithmetic import FUNCTIONS, OPERATORS
from neuroncore.clause.instruction import INSTRUCTIONS, Instruction, Parameter
from neuroncore.clause.operand import Act, Op, Operand
from neuroncore.cli import published
from neuroncore.errors import UsageError, did_you_mean
from neuroncore.machine import Fact, Machine


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


def isa(arguments: argparse.Namespace) -> int:
    if arguments.name is None:
        _list()
        return 0
    name = arguments.name.removeprefix("nisa.").removeprefix("nl.")
    if name in INSTRUCTIONS:
        print("\n".join(_described(INSTRUCTIONS[name])))
    elif name in OPERATORS or name in FUNCTIONS:
        print("\n".join(_operator(name)))
    else:
        known = [*INSTRUCTIONS, *OPERATORS, *FUNCTIONS]
        hint = did_you_mean(name, known)
        raise UsageError(f"there is no instruction {name!r}" + (f"; {hint}" if hint else ""))
    return 0


def _list() -> None:
    width = max(map(len, INSTRUCTIONS))
    for family in dict.fromkeys(i.family for i in INSTRUCTIONS.values()):
        print(f"isa/{family}.py")
        for one in INSTRUCTIONS.values():
            if one.family == family:
                print(f"  {one.name:{width}}  {one.equation.splitlines()[0]}")
    print(f"operators  {' '.join(OPERATORS)}")
    print(f"functions  {' '.join(FUNCTIONS)}")


def _described(one: Instruction) -> Iterator[str]:
    yield f"{one.name}({', '.join(p.name for p in one.parameters)})"
    yield from (f"  {line}" for line in one.equation.splitlines())
    yield ""
    yield f"engines   {', '.join(e.name for e in one.engines)}"
    yield f"machines  {', '.join(m.name for m in _machines_with(one.feature))}"
    yield f"opcode    {one.opcode}"
    yield f"defined   {one.where}"
    yield ""
    width = max(len(p.name) for p in one.parameters)
    for parameter in one.parameters:
        yield f"  {parameter.name:{width}}  {_parameter(parameter)}"


def _machines_with(feature: str | None) -> list[Machine]:
    every = [machine.load(name) for name in machine.names()]
    return [m for m in every if feature is None or m.has(feature)]


def _parameter(parameter: Parameter) -> str:
    declared = parameter.declared
    if isinstance(declared, Operand):
        return _operand(declared)
    if isinstance(declared, Op):
        allowed = declared.names or (f"{' or '.join(declared.kinds)} operators",)
        return f"{'reduction: ' if declared.reduces else ''}{', '.join(allowed)}"
    if isinstance(declared, Act):
        return "activation function"
    return "" if parameter.required else f"default {parameter.default!r}"


def _operand(operand: Operand) -> str:
    verb = " and ".join(v for v, on in (("read", operand.reads), ("written", operand.writes)) if on)
    regions = dict.fromkeys(
        r.value.removeprefix("private_").removeprefix("shared_") for r in operand.regions
    )
    notes = [verb, f"in {' or '.join(regions)}"]
    notes += ["one element per partition"] * operand.column
    notes += ["or a number"] * operand.scalar
    notes += ["optional"] * operand.optional
    notes += ["a list of them"] * operand.many
    if operand.indirect:
        names = ", ".join(m.name for m in _machines_with("tensor_indirection"))
        notes.append(f"elements picked by an index ({names})")
    notes += [f"formats {', '.join(operand.dtypes)}"] if operand.dtypes else []
    notes += [f"of {' or '.join(map(str, operand.widths))} bytes"] if operand.widths else []
    return "; ".join(notes)


def _operator(name: str) -> Iterator[str]:
    if name in OPERATORS:
        row = OPERATORS[name]
        names = ", ".join(m.name for m in _machines_with(row.feature))
        yield f"operator nl.{name}: {row.kind}, {row.arity} operand{'s' * (row.arity > 1)}"
        yield f"  engines   {', '.join(row.engines)}"
        yield f"  machines  {names}"
        yield f"  reduction {'yes' if row.reduces else 'no'}"
    if name in FUNCTIONS:
        function = FUNCTIONS[name]
        yield f"activation function nl.{name}(x) = {function.definition}"
        yield f"  valid for x in [{function.valid[0]:g}, {function.valid[1]:g}]"
