"""neuroncore isa: the instruction set, one instruction or one operator, from the tables in isa/."""

from __future__ import annotations

import argparse
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any

from neuroncore import machine
from neuroncore.base.errors import unknown
from neuroncore.base.units import either
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
    parser.add_argument(
        "name", nargs="?", help="the name of an instruction, an operator or a function"
    )
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
        raise unknown(f"there is no instruction {name!r}", name, known)
    return 0


def document(names: Iterable[str]) -> dict[str, Any]:
    """Return the JSON object for some names. A name may be both an operator and a function."""
    names = list(names)
    return {
        "schema": SCHEMA,
        "instructions": [_fields(INSTRUCTIONS[name]) for name in names if name in INSTRUCTIONS],
        "operators": [_operator_fields(name) for name in names if name in OPERATORS],
        "functions": [_function_fields(name) for name in names if name in FUNCTIONS],
    }


def _fields(instruction: Instruction) -> dict[str, Any]:
    return {
        "name": instruction.name,
        "module": instruction.module,
        "equation": instruction.equation,
        "engines": [engine.name for engine in instruction.engines],
        "machines": [core.name for core in _machines_with(instruction.feature)],
        "opcode": instruction.opcode,
        "defined": str(instruction.where),
        "parameters": [
            {
                "name": parameter.name,
                "required": parameter.required,
                "description": _parameter(parameter),
                "shape": [term.text for term in instruction.shapes.get(parameter.name, ())],
            }
            for parameter in instruction.parameters
        ],
        "rules": [
            {"sentence": rule.sentence, "because": rule.because or None}
            for rule in instruction.rules
        ],
        "cost": inspect.getdoc(instruction.cost) or "",
        "meaning": inspect.getsource(meaning(instruction.name)),
    }


def _operator_fields(name: str) -> dict[str, Any]:
    row = OPERATORS[name]
    return {
        "name": name,
        "kind": row.kind,
        "operands": row.arity,
        "engines": list(row.engines),
        "machines": [each.name for each in _machines_with(row.feature)],
        "reduces": bool(row.reduces),
    }


def _function_fields(name: str) -> dict[str, Any]:
    function = FUNCTIONS[name]
    valid = [end if isfinite(end) else None for end in function.valid]  # None: unlimited
    return {"name": name, "definition": function.definition, "valid": valid}


def _list() -> None:
    width = max(map(len, INSTRUCTIONS))
    for family in dict.fromkeys(i.family for i in INSTRUCTIONS.values()):
        print(f"isa/{family}.py")
        for instruction in INSTRUCTIONS.values():
            if instruction.family == family:
                print(f"  {instruction.name:{width}}  {instruction.equation.splitlines()[0]}")
    print(f"operators  {' '.join(OPERATORS)}")
    print(f"functions  {' '.join(FUNCTIONS)}")


def _described(instruction: Instruction) -> Iterator[str]:
    yield f"{instruction.name}({', '.join(p.name for p in instruction.parameters)})"
    yield from (f"  {line}" for line in instruction.equation.splitlines())
    yield ""
    yield f"engines   {', '.join(e.name for e in instruction.engines)}"
    yield f"machines  {', '.join(m.name for m in _machines_with(instruction.feature))}"
    yield f"opcode    {instruction.opcode}"
    yield f"defined   {instruction.where}"
    yield ""
    width = max(len(p.name) for p in instruction.parameters)
    for parameter in instruction.parameters:
        shape = instruction.shapes.get(parameter.name)
        shape_text = f"[{', '.join(term.text for term in shape)}]  " if shape else ""
        yield f"  {parameter.name:{width}}  {shape_text}{_parameter(parameter)}"
    for letter, size in instruction.given.items():
        described = " ".join((inspect.getdoc(size) or "").removeprefix("Return ").split())
        yield from _wrapped(f"  {letter:{width}}", described, width + 4)
    yield ""
    yield from _rules(instruction)
    yield from _cost(instruction)
    yield ""
    yield from _meaning(instruction)


def _meaning(instruction: Instruction) -> Iterator[str]:
    """Yield the source of the numpy function that defines an instruction.

    The parameter `i` of this function has the instruction's arguments, by name."""
    function = meaning(instruction.name)
    place = function.__module__.replace(".", "/")  # the same for every installation
    yield f"meaning   {place}.py:{function.__code__.co_firstlineno}"
    yield from (f"  {line}".rstrip() for line in inspect.getsource(function).splitlines())


def _rules(instruction: Instruction) -> Iterator[str]:
    """Yield each rule, with the first call in the table of counterexamples that breaks it."""
    breaking = counterexample.breaking(instruction)
    for number, rule in enumerate(instruction.rules):
        yield from _wrapped("" if number else "rules", rule.sentence)
        if rule.because:
            yield from _wrapped("", f"because {rule.because}", 12)
        if row := breaking.get(rule):
            yield from _wrapped("", f"refused: {row} ({row.code})", 12)


def _cost(instruction: Instruction) -> Iterator[str]:
    """Yield the cost of an instruction, an example call, and the call's time on each machine.

    Times are nanoseconds. Machines that refuse the call are left out."""
    for number, line in enumerate((inspect.getdoc(instruction.cost) or "").splitlines()):
        yield f"{'cost' if number == 0 else '':8}  {line}"
    calls = [(m, example.call(instruction, m)) for m in _machines_with(instruction.feature)]
    errors = {m.name: list(whole_call(call, m)) for m, call in calls}
    legal = [(m, call) for m, call in calls if not errors[m.name]]
    if not legal:
        reasons = [refused[0].statement for refused in errors.values()]
        reasons.append(f"no machine has {instruction.feature}")
        yield from _wrapped("example", f"no legal example: {reasons[0]}")
        return
    module = "nisa" if instruction.module == "nki.isa" else instruction.module
    yield from _wrapped("example", f"{module}.{instruction.name}({', '.join(_shown(legal[0][1]))})")
    for m, call in legal:
        cost = instruction.cost(call, m)
        busy = cost.transfer.ns if cost.transfer else cost.busy_ns
        latency = f"; the result is visible {cost.latency_ns:.0f} ns later" * bool(cost.latency_ns)
        yield f"{'':8}  {m.name}: {call.engine.name} is busy for {busy:.0f} ns{latency}"


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
    described = str(declared) if isinstance(declared, Immediate | Register) else ""
    default = "" if parameter.required else f"default {parameter.default!r}"
    return "; ".join(filter(None, (described, default)))


def _operand(operand: Operand) -> str:
    verb = " and ".join(v for v, on in (("read", operand.reads), ("written", operand.writes)) if on)
    regions = dict.fromkeys(
        r.value.removeprefix("private_").removeprefix("shared_") for r in operand.regions
    )
    notes = [verb, f"in {' or '.join(regions)}"]
    notes += ["one element per partition"] * operand.column
    notes += ["or a number"] * operand.scalar
    notes += ["optional"] * operand.optional
    notes += ["a list of tiles"] * operand.many
    if operand.indirect:
        names = ", ".join(m.name for m in _machines_with("tensor_indirection"))
        notes.append(f"an index may select the elements ({names})")
    notes += [f"formats {', '.join(operand.dtypes)}"] if operand.dtypes else []
    notes += [f"elements of {either(operand.widths)} bytes"] if operand.widths else []
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
        yield f"  valid for x from {function.valid[0]:g} to {function.valid[1]:g}"
