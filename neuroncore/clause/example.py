"""An example of a call of each instruction, made from its clause, for `neuroncore isa` and tests.

The letters of shapes (`neuroncore.clause.letters`) have the size 128 along partitions and 512 along
free axes, or less if a limit requires it. The format of a tile is the first of the usual formats
that the operand takes. If such a call is not legal, the clause's `example` states the differences:
sizes of letters, and arguments, such as "F=32; axis=(1,)".

`changes` to a call are written in the same way. An argument is a number, a name or a Python
literal; a tile is described by words:

    psum             its memory
    bfloat16         its format
    128 2 512        its shape
    at 32            its first partition
    byte 2044        its first byte in that partition
    stepped          every other partition only
    moved            at an address that a register gives
    gathered         rows that an index chooses
    picked           elements that an index chooses along the free axes
    alone            a list with this tile once; without this word the list has the tile twice

Commas separate the tiles of a list if they differ; () is an empty list.
"""

from __future__ import annotations

import re
from ast import literal_eval
from dataclasses import replace
from math import prod
from typing import Any

from neuroncore.base.enums import MemoryRegion, engine
from neuroncore.base.errors import DefinitionError
from neuroncore.clause.alu import FUNCTIONS, OPERATORS
from neuroncore.clause.immediate import Immediate
from neuroncore.clause.instruction import Call, Declared, Instruction, Parameter
from neuroncore.clause.letters import Term
from neuroncore.clause.operand import HBM, Act, Op, Operand, Static
from neuroncore.machine import Machine
from neuroncore.memory.geometry import View
from neuroncore.numerics.formats import FORMATS, OPAQUE, bfloat16, float32, uint8, uint16, uint32

PARTITIONS, FREE, LISTED = 128, 512, 32
USUAL = (bfloat16, float32, uint8, uint32)
REGIONS = {"sbuf": MemoryRegion.sbuf, "psum": MemoryRegion.psum, "hbm": HBM[0]}
FORMS = {**FORMATS, **OPAQUE}
FLAGS = ("stepped", "moved", "gathered", "picked", "alone")
PICKED = 16  # elements that each column of an index chooses
LETTER = re.compile("[A-Z]$")
LITERAL = re.compile(r"[-(\['\"]|\d+(\.|$)|(None|True|False|nan|inf)$")


def call(instruction: Instruction, machine: Machine, changes: str = "") -> Call:
    """Return the example call, changed as `changes` states. It is not checked and has no engine.
    Raises DefinitionError for an argument that the instruction doesn't take."""
    texts = parsed(f"{instruction.example}; {changes}")
    sizes = {name: int(values[-1]) for name, values in texts.items() if LETTER.match(name)}
    if unknown := texts.keys() - sizes - {p.name for p in instruction.parameters}:
        raise DefinitionError(f"{instruction.name} doesn't take {min(unknown)!r}")
    example = Call(instruction, machine, {})
    for p in instruction.parameters:
        text = texts.get(p.name, [])
        if p.operand and not is_literal("".join(text[-1:])):
            value = _tiles(example, p, [t for t in text if not is_literal(t)], sizes)
        else:
            value = _argument(p, text[-1] if text else None)
        example.arguments[p.name] = value
        if isinstance(value, tuple) and p.name in instruction.lists:
            example.arguments |= {f"{p.name}[{i}]": view for i, view in enumerate(value)}
    return example


def parsed(text: str) -> dict[str, list[str]]:
    """Return the values in `text`, such as "F=32; axis=(1,)", as a list of texts for each letter or
    argument."""
    texts: dict[str, list[str]] = {}
    for part in filter(str.strip, text.split(";")):
        name, _, value = part.partition("=")
        texts.setdefault(name.strip(), []).append(value.strip())
    return texts


def is_literal(text: str) -> bool:
    """Return whether the text of an argument is a Python literal. A text of several numbers is the
    shape of a tile, not a literal."""
    return bool(LITERAL.match(text))


def _words(texts: list[str]) -> dict[str, Any]:
    """Return the properties of a tile in these texts. Later texts override earlier texts."""
    properties: dict[str, Any] = {}
    for text in texts:
        properties |= _words_of(text)
    return properties


def _words_of(text: str) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    words = iter(text.split())
    for word in words:
        if word in REGIONS:
            properties["region"] = REGIONS[word]
        elif word in FORMS:
            properties["dtype"] = FORMS[word]
        elif word in ("at", "byte"):
            properties[word] = int(next(words))
        elif word.isdecimal():
            properties["shape"] = (*properties.get("shape", ()), int(word))
        elif word in FLAGS:
            properties[word] = True
        else:
            raise DefinitionError(f"{word!r} does not describe a tile")
    return properties


def _argument(p: Parameter, text: str | None) -> Any:
    declared = p.declared
    if isinstance(declared, Operand):
        value = literal(text or "1.0")
        return value if value is None or declared.many else "number"
    if text is not None:
        return _named(declared, text)
    if not p.required:
        return p.default
    if isinstance(declared, Op):
        usual = "add" if "arithmetic" in declared.kinds else "bitwise_and"
        return OPERATORS[(declared.names or (usual,))[0]]
    if isinstance(declared, Act):
        return FUNCTIONS["exp"]
    if isinstance(declared, Immediate):
        return (0,) * LISTED if declared.depth else max(declared.low, 0)
    return next(iter(declared.members)) if isinstance(declared, Static) and declared.members else 0


def _named(declared: Declared, text: str) -> Any:
    """Return an argument by name: a member of an enumeration, an operator or an activation
    function. Other texts are literals."""
    if isinstance(declared, Op) and text in OPERATORS:
        return OPERATORS[text]
    if isinstance(declared, Static) and declared.members and text in declared.members.__members__:
        return declared.members[text]
    if isinstance(declared, Act) and text in FUNCTIONS:
        return FUNCTIONS[text]
    return literal(text)


def literal(text: str) -> Any:
    """Return the value of a literal; nan, inf and -inf are floats."""
    return float(text) if text in ("nan", "inf", "-inf") else literal_eval(text)


def _tiles(call: Call, p: Parameter, texts: list[str], sizes: dict[str, int]) -> Any:
    """Return the tile of an operand, or a tuple of the tiles of a list."""
    declared = p.operand
    assert declared is not None
    if not texts and (p.default is None or declared.scalar):
        return p.default if p.default is None else "number"
    *earlier, last = texts or [""]
    words = [_words([*earlier, tile_text]) for tile_text in last.split(",")]
    views = tuple(_view(call, p.name, declared, tile_words, sizes) for tile_words in words)
    if not declared.many:
        return views[0]
    return views if len(views) > 1 or "alone" in words[0] else views * 2


def _view(
    call: Call, name: str, operand: Operand, words: dict[str, Any], sizes: dict[str, int]
) -> View:
    instruction = call.instruction
    region = words.get("region")
    if region is None:
        from_hbm = engine.dma in instruction.engines and operand.reads
        region = HBM[0] if from_hbm and HBM[0] in operand.regions else operand.regions[0]
    formats = operand.dtypes or USUAL
    usual = (float32, *USUAL) if region is MemoryRegion.psum else USUAL
    form = words.get("dtype") or next((f for f in usual if f in formats), formats[0])
    shape = words.get("shape") or _shape(instruction, name, sizes, call.machine)
    strides = tuple(prod(shape[i + 1 :]) for i in range(len(shape)))
    place = words.get("at", 0), words.get("byte", 0)
    view = View(shape, strides, form, region, *place, 0, "stepped" in words)
    if "picked" in words:
        columns = -(-prod(shape[1:]) // PICKED)
        spot = MemoryRegion.sbuf, view.partition, 0, 0
        index = View((shape[0], columns), (columns, 1), uint16, *spot)
        return replace(view, dynamic=3, picked_by=index, indices=1)
    if "gathered" in words:
        return replace(view, dynamic=2, indices=1)
    return replace(view, dynamic=1) if "moved" in words else view


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
