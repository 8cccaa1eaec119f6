"""neuroncore isa: the instruction set, one instruction or one operator, from the tables."""

from __future__ import annotations

import argparse
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any

from neuroncore import machine
from neuroncore.base.errors import UsageError, did_you_mean
from neuroncore.clause import counterexample, example
from neuroncore.clause.alu import FUNCTIONS, OPERATORS
from neuroncore.clause.immediate import Immediate, Register
from neuroncore.clause.instruction import INSTRUCTIONS, Call, Instruction, Parameter
from neuroncore.clause.legality import whole_call
from neuroncore.clause.operand import Act, Op, Operand
from neuroncore.cli import terminal
from neuroncore.machine import Machine
from neuroncore.plain.reading import meaning

SCHEMA = "neuroncore.isa/1"


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="one instruction, operator or function")
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    parser.set_defaults(command=isa)


def isa(arguments: argparse.Namespace) -> int:
    name = (arguments.name or "").removeprefix("nisa.").removeprefix("nl.")
    known = [*INSTRUCTIONS, *OPERATORS, *FUNCTIONS]
    if arguments.json and (not name or name in known):
        terminal.write_json(document([name] if name else known))
    elif not name:
        _list()
    elif name in INSTRUCTIONS:
        print("\n".join(_described(INSTRUCTIONS[name])))
    elif name in OPERATORS or name in FUNCTIONS:
        print("\n".join(_operator(name)))
    else:
        hint = did_you_mean(name, known)
        raise UsageError(f"there is no instruction {name!r}" + (f"; {hint}" if hint else ""))
    return 0


def document(names: Iterable[str]) -> dict[str, Any]:
    """Return the JSON object for some names. A name may be both an operator and a function."""
    names = list(names)
    return {
        "schema": SCHEMA,
        "instructions": [_fields(INSTRUCTIONS[name]) for name in names if name in INSTRUCTIONS],
        "operators": [_of_operator(name) for name in names if name in OPERATORS],
        "functions": [_of_function(name) for name in names if name in FUNCTIONS],
    }


def _fields(one: Instruction) -> dict[str, Any]:
    return {
        "name": one.name,
        "module": one.module,
        "equation": one.equation,
        "engines": [each.name for each in one.engines],
        "machines": [each.name for each in _machines_with(one.feature)],
        "opcode": one.opcode,
        "defined": str(one.where),
        "parameters": [
            {
                "name": each.name,
                "required": each.required,
                "description": _parameter(each),
                "shape": [term.text for term in one.shapes.get(each.name, ())],
            }
            for each in one.parameters
        ],
        "rules": [
            {"sentence": rule.sentence, "because": rule.because or None} for rule in one.rules
        ],
        "cost": inspect.getdoc(one.cost) or "",
        "meaning": inspect.getsource(meaning(one.name)),
    }


def _of_operator(name: str) -> dict[str, Any]:
    row = OPERATORS[name]
    return {
        "name": name,
        "kind": row.kind,
        "operands": row.arity,
        "engines": list(row.engines),
        "machines": [each.name for each in _machines_with(row.feature)],
        "reduces": bool(row.reduces),
    }


def _of_function(name: str) -> dict[str, Any]:
    function = FUNCTIONS[name]
    valid = [end if isfinite(end) else None for end in function.valid]  # None: unlimited
    return {"name": name, "definition": function.definition, "valid": valid}


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
        shape = one.shapes.get(parameter.name)
        said = f"[{', '.join(term.text for term in shape)}]  " if shape else ""
        yield f"  {parameter.name:{width}}  {said}{_parameter(parameter)}"
    for letter, size in one.given.items():
        yield f"  {letter:{width}}  {inspect.getdoc(size)}"
    yield ""
    yield from _rules(one)
    yield from _cost(one)
    yield ""
    yield from _meaning(one)


def _meaning(one: Instruction) -> Iterator[str]:
    """Yield the source of an instruction's plain function, in which `i` has the arguments by
    name."""
    function = meaning(one.name)
    place = function.__module__.replace(".", "/")  # the same for every installation
    yield f"meaning   {place}.py:{function.__code__.co_firstlineno}"
    yield from (f"  {line}".rstrip() for line in inspect.getsource(function).splitlines())


def _rules(one: Instruction) -> Iterator[str]:
    """Yield each rule, with the first call in the tables that breaks it."""
    breaking = counterexample.breaking(one)
    for number, rule in enumerate(one.rules):
        yield from _wrapped("" if number else "rules", rule.sentence)
        if rule.because:
            yield from _wrapped("", f"because {rule.because}", 12)
        if row := breaking.get(rule):
            yield from _wrapped("", f"refused: {row} ({row.code})", 12)


def _cost(one: Instruction) -> Iterator[str]:
    """Yield the cost of an instruction, and its time for the example call."""
    for number, line in enumerate((inspect.getdoc(one.cost) or "").splitlines()):
        yield f"{'cost' if number == 0 else '':8}  {line}"
    calls = [(m, example.call(one, m)) for m in _machines_with(one.feature)]
    errors = {m.name: list(whole_call(call, m)) for m, call in calls}
    legal = [(m, call) for m, call in calls if not errors[m.name]]
    if not legal:
        result = [found[0].statement for found in errors.values()]
        result.append(f"no machine has {one.feature}")
        yield from _wrapped("example", f"no legal example: {result[0]}")
        return
    of = "nisa" if one.module == "nki.isa" else one.module
    yield from _wrapped("example", f"{of}.{one.name}({', '.join(_shown(legal[0][1]))})")
    for m, call in legal:
        paid = one.cost(call, m)
        busy = paid.transfer.ns if paid.transfer else paid.busy_ns
        then = f", its result {paid.latency_ns:.0f} ns later" if paid.latency_ns else ""
        yield f"{'':8}  {m.name}: {call.engine.name} busy for {busy:.0f} ns{then}"


def _wrapped(head: str, text: str, indent: int = 10) -> list[str]:
    margin = " " * indent
    return textwrap.wrap(text, 100, initial_indent=f"{head:{indent}}", subsequent_indent=margin)


def _shown(call: Call) -> Iterator[str]:
    """Yield the arguments of a call that differ from their defaults, as NAME=VALUE."""
    for p in call.instruction.parameters:
        value = call.arguments[p.name]
        if p.name in call.instruction.lists:
            value = f"[{', '.join(map(str, value))}]"
        if value is not p.default and value != p.default:
            yield f"{p.name}={'1.0' if value == 'number' else value}"


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
    said = str(declared) if isinstance(declared, Immediate | Register) else ""
    default = "" if parameter.required else f"default {parameter.default!r}"
    return "; ".join(filter(None, (said, default)))


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
        notes.append(f"elements selected by an index ({names})")
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
