"""The letters in shapes: which sizes are equal, which limits they have, and which sizes follow from
other sizes.

`shapes="stationary: K M<=stationary_free; moving: K N; dst: M N"` gives each operand two terms: its
partitions, and its elements per partition (all free axes together). A letter has one size in a
call, whatever the free axes look like. A term is a number or one of

    F    2*F    F+1    F%2 (a multiple of 2)    F>=8    F<=search_free (a limit of the machine)

or several of these together. The name of a limit of the machine may also follow `%`. `G*F` is F
times the result of the function G in the clause's `given`. If two operands disagree about the size
of a letter, the error blames the operand that comes later in the list."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from neuroncore.base.errors import DefinitionError
from neuroncore.machine import Limits

TERM = re.compile(
    r"(?:(?P<number>\d+)|(?:(?P<times>\d+|[A-Z])\*)?(?P<letter>[A-Z])(?:\+(?P<plus>\d+))?)"
    r"(?:%(?P<multiple>\w+))?(?:>=(?P<least>\d+))?(?:<=(?P<most>\w+))?$"
)
Given = Mapping[str, Callable[[Any], int]]  # functions of a Call


@dataclass(frozen=True)
class Term:
    """One size of an operand: `times` * the size of the letter + `plus`, at least `least`.

    `letter`: if it is missing, the size is `plus`
    `multiple`, `most`: the letter's size must be a multiple of `multiple`, and at most the
        machine's limit `most`"""

    text: str
    letter: str | None
    times: int | str  # a string is a letter of the clause's `given`
    plus: int
    multiple: int | str  # a string is a limit of the machine
    least: int
    most: str | None

    @classmethod
    def of(cls, text: str) -> Term:
        match = TERM.match(text)
        if match is None:
            raise DefinitionError(f"{text!r} is not a term of a shape")
        number, times, letter, plus, multiple, least, most = match.groups()
        factor = times if times and times.isalpha() else int(times or 1)
        other = int(number or plus or 0)
        step = multiple if multiple and not multiple.isdecimal() else int(multiple or 1)
        return cls(text, letter, factor, other, step, int(least or 0), most)

    @property
    def size(self) -> str:
        """The term without its bounds, such as 2*F+1."""
        factor = "" if self.times == 1 else f"{self.times}*"
        return f"{factor}{self.letter}" + (f"+{self.plus}" if self.plus else "")

    def step(self, limits: Limits) -> int:
        """Return the number of which the letter's size must be a multiple."""
        step = self.multiple
        return step if isinstance(step, int) else int(getattr(limits, step))

    @property
    def plain(self) -> bool:
        """True if the size is the size of the letter itself, without factor and addend."""
        return self.times == 1 and not self.plus


Shape = tuple[Term, Term]


def parse(text: str) -> dict[str, Shape]:
    """Return the operands of `shapes` with their two terms, in order."""
    shapes: dict[str, Shape] = {}
    for group in filter(None, map(str.strip, text.split(";"))):
        names, _, terms = group.partition(":")
        first, second = map(Term.of, terms.split())
        shapes.update(dict.fromkeys(names.split(), (first, second)))
    return shapes
