"""Write docs/instructions.md: the formats of each instruction on each machine.

pytest tests/isa --covered        # writes tests/data/covered.json
python docs/generate/instructions.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from neuroncore import machine
from neuroncore.clause.instruction import INSTRUCTIONS, Instruction
from neuroncore.clause.operand import Operand
from neuroncore.machine import Machine, api_number
from neuroncore.memory.geometry import View
from neuroncore.numerics.formats import FORMATS, OPAQUE
from neuroncore.plain.reading import meaning

DOCS = Path(__file__).parents[1]
COVERED = DOCS.parent / "tests/data/covered.json"
PAGE = DOCS / "instructions.md"
ALL = {**FORMATS, **OPAQUE}
SHORT = {
    "float32": "f32", "tfloat32": "tf32", "bfloat16": "bf16", "float16": "f16",
    "float8_e5m2": "e5m2", "float8_e4m3": "e4m3", "float8_e3m4": "e3m4",
    "float8_e4m3fn": "e4m3fn", "float8_e8m0fnu": "e8m0", "float8_e5m2_x4": "e5m2 x4",
    "float8_e4m3fn_x4": "e4m3fn x4", "float4_e2m1fn_x4": "e2m1 x4",
}  # fmt: skip

HEAD = """\
# Instructions and formats

The table says which formats each instruction accepts on each machine. It has a row for each
instruction and a column for each format. The name of an instruction links to its meaning in a few
lines of numpy. The numbers in the cells are machines: {machines}.

* *A number*: on that machine, at least one tile operand of the instruction accepts the format, and
  the tests of `tests/isa` issue the instruction with this format.
* *A number in brackets*: the instruction accepts the format on that machine, but no test issues the
  instruction with this format.
* *No number*: the instruction refuses the format on that machine.

Rules about several operands exclude some combinations of formats as well: `neuroncore isa NAME`
prints these rules.

`docs/generate/instructions.py` writes this page. A test fails if it is stale.
"""


def takes(operand: Operand, form: str, one: Machine) -> bool:
    """Return whether a single operand may have a format."""
    view = View((1, 1), (1, 1), ALL[form], operand.regions[0], 0, 0, 0)
    return next(operand.violations("operand", view, one), None) is None


def accepted(instruction: Instruction, one: Machine) -> set[str]:
    """Return the formats that at least one operand accepts on a machine."""
    if instruction.feature and not one.has(instruction.feature):
        return set()
    operands = [p.operand for p in instruction.operands if p.operand]
    return {form for form in ALL if any(takes(o, form, one) for o in operands)}


def machines() -> list[Machine]:
    """Return the machines in the order of their generations."""
    return sorted(map(machine.load, machine.names()), key=lambda one: api_number(one.api_version))


def rows(covered: dict[str, dict[str, list[str]]]) -> Iterator[list[str]]:
    for name, instruction in sorted(INSTRUCTIONS.items()):
        if not instruction.operands:
            continue
        columns = [
            marked(str(number), accepted(instruction, one), covered.get(name, {}).get(one.name, []))
            for number, one in enumerate(machines(), 1)
        ]
        yield [f"[`{name}`]({meaning_of(name)})", *map("".join, zip(*columns, strict=True))]


def meaning_of(name: str) -> str:
    """Return a link to the plain function of an instruction."""
    code = meaning(name).__code__
    return f"../neuroncore/plain/{Path(code.co_filename).name}#L{code.co_firstlineno}"


def marked(number: str, takes: set[str], tested: list[str]) -> list[str]:
    """Return the machine's number for each format, in brackets if it is not tested."""
    return [
        number if form in takes and form in tested else f"({number})" if form in takes else ""
        for form in ALL
    ]


def page() -> str:
    table = list(rows(json.loads(COVERED.read_text())))
    titles = ["", *(SHORT.get(form, form) for form in ALL)]
    lines = [titles, ["---"] * len(titles), *table]
    numbered = (f"{number} for {one.name}" for number, one in enumerate(machines(), 1))
    head = HEAD.format(machines=", ".join(numbered))
    return head + "\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
