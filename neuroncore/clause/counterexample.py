"""Example calls of each instruction, each with its outcome, which for most calls is the code of an
error. `neuroncore isa` and tests use these calls.

A family of instructions has a table in `isa/counterexamples/`. A row has a key, which states how
the call differs from the clause's example (`neuroncore.clause.example`), and a value, the outcome:

    [tensor_tensor]
    "data1=psum; data2=psum" = "BUFFER_KIND one read port"
    "op={abs|rsqrt}" = "UNSUPPORTED_OP_COMBO"
    "trn1 trn2: data1=float8_e4m3fn" = "TARGET"
    "trn3: data1=float8_e4m3fn" = "legal"

The words after a code are a part of the message. Braces list alternatives: each alternative is a
separate row. A row holds on every machine that has the instruction, or only on the machines that it
names. A header may name several instructions and machines, and changes that all of its rows share:

    ["nc_matmul trn2 trn3: perf_mode='double_row'; stationary=float8_e4m3 4 2 6"]
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, product

from neuroncore import machine as machines
from neuroncore.base.errors import KernelError
from neuroncore.clause import example, legality
from neuroncore.clause.immediate import Immediate
from neuroncore.clause.instruction import Call, Instruction, Parameter, Rule

BRACES = re.compile(r"{([^}]*)}")
LEGAL = "legal"


@dataclass(frozen=True)
class Counterexample:
    """A call of an instruction, the machines on which it is made, and its outcome."""

    instruction: Instruction
    machines: tuple[str, ...]
    changes: str
    """The difference from the clause's example."""
    code: str
    """The code of the error, or `LEGAL`."""
    words: str
    """A part of the error's message."""

    def __str__(self) -> str:
        where = "" if self.machines == having(self.instruction) else f"{' '.join(self.machines)}: "
        return f"{where}{self.changes}"

    def call(self, name: str) -> Call:
        """Return the call on the machine with this name, without checking it."""
        return example.call(self.instruction, machines.load(name), self.changes)


def having(instruction: Instruction) -> tuple[str, ...]:
    """Return the names of the machines that have an instruction."""
    feature, names = instruction.feature, machines.names()
    return tuple(n for n in names if feature is None or machines.load(n).has(feature))


def rows(instruction: Instruction) -> list[Counterexample]:
    """Return the counterexamples of an instruction, in the order of its table."""
    counterexamples: list[Counterexample] = []
    known = machines.names()
    for header, table in _tables(instruction.family).items():
        words, _, base = header.partition(":")
        names = words.split()
        if instruction.name in names:
            where = tuple(name for name in names if name in known) or having(instruction)
            for key, value in table.items():
                counterexamples += _rows(
                    Counterexample(instruction, where, base, *value.partition(" ")[::2]), key
                )
    return counterexamples


def _tables(family: str) -> dict[str, dict[str, str]]:
    path = machines.isa() / "counterexamples" / f"{family}.toml"
    return tomllib.loads(path.read_text("utf-8")) if path.exists() else {}


def _rows(base: Counterexample, key: str) -> Iterator[Counterexample]:
    names, _, changes = key.rpartition(":")
    where = tuple(names.split()) or base.machines
    for alternative in expanded(changes.strip()):
        yield replace(base, machines=where, changes=f"{base.changes}; {alternative}".strip("; "))


def expanded(text: str) -> Iterator[str]:
    """Return every text that results from choosing one alternative in each pair of braces."""
    choices = [group.split("|") for group in BRACES.findall(text)]
    for chosen in product(*choices):
        alternatives = iter(chosen)
        yield BRACES.sub(lambda _, each=alternatives: next(each), text)  # type: ignore[misc]


def broken_rule(row: Counterexample) -> Rule | None:
    """Return the rule that refuses a row's call, or None.

    If several do, it is the rule whose error the call raises, or else one whose error has the row's
    words."""
    call = row.call(row.machines[0])
    chip, rules = call.machine, call.instruction.rules
    if any(_is_refused(call, p) for p in call.instruction.parameters):
        return None
    first = next(legality.whole_call(call, chip), None)
    if first is None:
        return None
    errors = [(rule, error) for rule in rules if (error := rule(call, chip))]
    alike = (rule for rule, error in errors if error.to_dict() == first.to_dict())
    quoted = (rule for rule, error in errors if row.words and row.words in error.statement)
    return next(chain(alike, quoted), None)


def _is_refused(call: Call, parameter: Parameter) -> bool:
    """Return whether the argument of a parameter is illegal by itself."""
    declared, name = parameter.declared, parameter.name
    if isinstance(declared, Immediate):
        try:
            declared.take(call.name, name, call[name])
        except KernelError:
            return True
    return any(legality.of_argument(call, parameter, call.machine))


def breaking(instruction: Instruction) -> dict[Rule, Counterexample]:
    """Return the first row that breaks each rule of a clause, for rules with such a row."""
    first_rows: dict[Rule, Counterexample] = {}
    for row in rows(instruction):
        if row.code == LEGAL or not row.machines:
            continue
        if (rule := broken_rule(row)) is not None:
            first_rows.setdefault(rule, row)
    return first_rows
