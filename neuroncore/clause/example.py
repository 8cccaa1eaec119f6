"""A call of an instruction as its clause would have it, for pages and for people to look at.

Letters are 128 along partitions and 512 along free axes, or what bounds them; formats are the first
that the operand takes of those in use. Where that is not legal, the clause's `example` says what to
do otherwise: sizes of letters and arguments, as "F=32; axis=(1,)".
"""

from __future__ import annotations

from ast import literal_eval
from math import prod
from typing import Any

from neuroncore.clause.alu import FUNCTIONS, OPERATORS
from neuroncore.clause.immediate import Immediate
from neuroncore.clause.instruction import Call, Instruction, Parameter
from neuroncore.clause.letters import Term
from neuroncore.clause.operand import HBM, Act, Op, Operand, Static
from neuroncore.enums import MemoryRegion, engine
from neuroncore.machine import Machine
from neuroncore.memory.geometry import View
from neuroncore.numerics.formats import FORMATS, bfloat16, float32, lookup, uint8, uint32

PARTITIONS, FREE, LISTED = 128, 512, 32
USUAL = (bfloat16, float32, uint8, uint32)


def call(instruction: Instruction, machine: Machine) -> Call:
    """The call, not checked, and without its engine."""
    asked = _asked(instruction)
    sizes = {name: int(text) for name, text in asked.items() if len(name) == 1}
    arguments = {
        p.name: _argument(instruction, p, asked.get(p.name), sizes, machine)
        for p in instruction.parameters
    }
    return Call(instruction, machine, arguments)


def _asked(instruction: Instruction) -> dict[str, str]:
    pairs = (part.partition("=") for part in instruction.example.split(";") if part.strip())
    return {name.strip(): text.strip() for name, _, text in pairs}


def _argument(
    instruction: Instruction,
    p: Parameter,
    asked: str | None,
    sizes: dict[str, int],
    machine: Machine,
) -> Any:
    declared = p.declared
    if isinstance(declared, Operand):
        if p.default is None and asked is None:
            return None
        if declared.scalar and asked is None:
            return "number"
        view = _view(instruction, p.name, declared, asked or "", sizes, machine)
        alone = "alone" in (asked or "").split()
        return ((view,) if alone else (view, view)) if declared.many else view
    if isinstance(declared, Op):
        return _operator(declared, asked, p)
    if asked is not None:
        return literal_eval(asked)
    if not p.required:
        return p.default
    if isinstance(declared, Act):
        return FUNCTIONS["exp"]
    if isinstance(declared, Immediate):
        return (0,) * LISTED if declared.depth else max(declared.low, 0)
    return next(iter(declared.members)) if isinstance(declared, Static) and declared.members else 0


def _operator(declared: Op, asked: str | None, p: Parameter) -> Any:
    if asked is None and not p.required:
        return p.default
    usual = "add" if "arithmetic" in declared.kinds else "bitwise_and"
    return OPERATORS[asked or (declared.names or (usual,))[0]]


def _view(
    instruction: Instruction,
    name: str,
    operand: Operand,
    asked: str,
    sizes: dict[str, int],
    machine: Machine,
) -> View:
    """A tile; `asked` may name format, memory and shape, and that a list has it alone."""
    words = asked.split()
    regions = {"sbuf": MemoryRegion.sbuf, "psum": MemoryRegion.psum, "hbm": HBM[0]}
    region = next((regions[word] for word in words if word in regions), None)
    if region is None:
        from_hbm = engine.dma in instruction.engines and operand.reads
        region = HBM[0] if from_hbm and HBM[0] in operand.regions else operand.regions[0]
    formats = operand.dtypes or USUAL
    usual = (float32, *USUAL) if region is MemoryRegion.psum else USUAL
    form = next((f for f in usual if f in formats), formats[0])
    form = next((lookup(word) for word in words if word in FORMATS), form)
    numbers = tuple(int(word) for word in words if word.isdigit())
    shape = numbers or _shape(instruction, name, sizes, machine)
    strides = tuple(prod(shape[i + 1 :]) for i in range(len(shape)))
    return View(shape, strides, form, region, 0, 0, 0)


def _shape(
    instruction: Instruction, name: str, sizes: dict[str, int], machine: Machine
) -> tuple[int, ...]:
    terms = instruction.shapes.get(name)
    if terms is None:
        return PARTITIONS, FREE
    along_partitions = {first.letter for first, _ in instruction.shapes.values()}
    return tuple(_size(term, sizes, along_partitions, instruction, machine) for term in terms)


def _size(
    term: Term,
    sizes: dict[str, int],
    along_partitions: set[str | None],
    instruction: Instruction,
    machine: Machine,
) -> int:
    if term.letter is None:
        return term.plus
    usual = PARTITIONS if term.letter in along_partitions else FREE
    size = sizes.get(term.letter, usual)
    alike = [t for shape in instruction.shapes.values() for t in shape if t.letter == term.letter]
    size = min([size, *(getattr(machine.limits, t.most) for t in alike if t.most)])
    size -= size % max(t.step(machine.limits) for t in alike)
    times = term.times if isinstance(term.times, int) else 1
    return int(times * size + term.plus)
