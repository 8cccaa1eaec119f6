"""Shapes in letters: which sizes must agree, which limits a size has, and the errors for shapes
that do not fit."""

from dataclasses import dataclass, field
from math import prod

import pytest
from every import for_all

from neuroncore import machine
from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import DefinitionError, FreeSizeError, ShapeError
from neuroncore.clause import legality, letters
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.memory.geometry import View
from neuroncore.numerics.formats import float32

TRN2 = machine.load("trn2")


@dataclass
class Clause:
    shapes: dict
    given: dict = field(default_factory=dict)
    equation: str = "dst[m, n] = ..."


@dataclass
class Call:
    instruction: Clause
    arguments: dict
    name: str = "example"

    def view(self, name):
        return self.arguments[name]


def view(*shape, region=MemoryRegion.sbuf):
    strides = tuple(prod(shape[i + 1 :]) for i in range(len(shape)))
    return View(shape, strides, float32, region, 0, 0, 0)


def wrong(shapes, given=None, **tiles):
    """Return the errors of a call with these tiles."""
    return list(
        legality.disagreements(Call(Clause(letters.parse(shapes), given or {}), tiles), TRN2)
    )


def test_a_letter_has_the_same_size_everywhere():
    shapes = "stationary: K M; moving: K N; dst: M N"
    assert not wrong(shapes, stationary=view(7, 3), moving=view(7, 5), dst=view(3, 5))
    (error,) = wrong(shapes, stationary=view(7, 3), moving=view(6, 5), dst=view(3, 5))
    assert (error.argument, error.expected) == ("moving", "the shape (7, 5)")
    assert "K is 7 in stationary and 6 in moving" in error.statement


def test_free_axes_count_as_one():
    assert not wrong("dst src: P F", dst=view(4, 6), src=view(4, 2, 3))
    (error,) = wrong("dst src: P F", dst=view(4, 6), src=view(4, 2, 2))
    assert (type(error), error.argument) == (ShapeError, "src")


def test_an_argument_that_is_not_a_tile_has_no_shape():
    assert not wrong("data: P F; bias: P 1", data=view(4, 6), bias="number")
    assert not wrong("data: P F; bias: P 1", data=view(4, 6), bias=None)


@pytest.mark.parametrize(
    ("term", "fits", "does_not"),
    [("8", 8, 7), ("2*F", 12, 11), ("F+1", 7, 6), ("F%4", 8, 6), ("F>=8", 8, 7)],
)
def test_terms(term, fits, does_not):
    shapes = (
        f"src: P {term}"
        if "%" in term or ">" in term or term == "8"
        else f"src: P F; dst: P {term}"
    )
    tiles = {"src": view(4, 6)} if "dst" in shapes else {}
    name = "dst" if tiles else "src"
    assert not wrong(shapes, **tiles, **{name: view(4, fits)})
    errors = wrong(shapes, **tiles, **{name: view(4, does_not)})
    assert [error.argument for error in errors] == [name]


def test_a_limit_of_the_machine():
    assert not wrong("src: P F<=stationary_free", src=view(4, 128))
    (error,) = wrong("src: P F<=stationary_free", src=view(4, 129))
    assert type(error) is FreeSizeError
    assert "129" in error.statement and "takes at most 128" in error.statement


def test_a_factor_that_the_clause_gives():
    shapes, given = "src: P G*F; dst: P F", {"G": lambda call: 2}
    assert not wrong(shapes, given, src=view(4, 6), dst=view(4, 3))
    (error,) = wrong(shapes, given, src=view(4, 6), dst=view(4, 6))
    assert error.expected == "the shape (4, 3)"


@pytest.mark.parametrize("text", ["src: P", "src: P F G", "src: P F-1", "src: P 2F"])
def test_an_invalid_shape_is_refused_when_it_is_defined(text):
    with pytest.raises((DefinitionError, ValueError)):
        letters.parse(text)


def test_letters_must_be_for_operands_of_the_clause():
    for one in INSTRUCTIONS.values():
        operands = {p.name for p in one.operands}
        assert operands >= one.shapes.keys(), one.name


ANY_SHAPE = {
    *("core_barrier", "dma_compute", "dma_copy", "dma_transpose"),
    *(name for name, one in INSTRUCTIONS.items() if one.module == "nki.collectives"),
}


@for_all("name", sorted(INSTRUCTIONS))
def test_every_instruction_on_the_chip_has_shapes(name):
    one = INSTRUCTIONS[name]
    assert bool(one.shapes) or len(one.operands) < 2 or name in ANY_SHAPE
