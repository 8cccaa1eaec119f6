"""Counts of the programs in which each kind of step, instruction, format and cache hit occurred."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from bench.programs.hits import hits
from bench.programs.program import Program
from neuroncore.clause.instruction import INSTRUCTIONS, Call
from neuroncore.hosts.api import Run
from neuroncore.memory.geometry import View
from neuroncore.numerics.formats import FORMATS, OPAQUE

OFTEN = 0.03  # the share of programs in which each kind of step must occur
EACH = 1000  # each instruction must be in one of this many programs
DEVIATIONS = 3  # standard deviations by which a count may be too low
GROUPS = ("kinds", "options", "instructions", "arguments", "formats", "cache hits")


def occurred(program: Program, run: Run, before: Mapping[str, int]) -> dict[str, set[str]]:
    """Return the names of what occurred in a program, by group (GROUPS). `before` has the numbers
    of cache hits before the program."""
    records = run.record.programs
    found = {name for name, count in hits.items() if count > before.get(name, 0)}
    if any(len(one) > len(one.calls) for one in records):
        found.add("a call of the same program")
    words = set(re.findall(r"\w+", program.source()))
    options = {kind for kind in program.kinds if kind.startswith("Options.")}
    return {
        "kinds": program.kinds - options,
        "options": options,
        "instructions": {call.instruction.name for one in records for call in one.calls},
        "arguments": {name for one in records for call in one.calls for name in _arguments(call)},
        "formats": words & {*FORMATS, *OPAQUE},
        "cache hits": found,
    }


def _arguments(call: Call) -> Iterator[str]:
    """Yield a text for each argument of a call that is a flag, a member of an enumeration, or has
    alternatives: a tile, a number or None."""
    for one in call.instruction.parameters:
        value = call.arguments.get(one.name)
        operand = one.operand
        if operand is not None and (operand.scalar or operand.optional):
            said = "a tile" if isinstance(value, View) else "None" if value is None else "a number"
            yield f"{call.name} {one.name}: {said}"
        elif isinstance(value, bool):
            yield f"{call.name} {one.name}: {value}"
        elif isinstance(value, Enum):
            yield f"{call.name} {one.name}: {value.name}"


class Counts:
    """The sums over all programs."""

    def __init__(self, seed: int) -> None:
        self.seed, self.programs, self.seconds = seed, 0, 0.0
        self.failed: list[int] = []  # seeds of the failed programs
        self.groups = {group: Counter[str]() for group in GROUPS}

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Counts:
        """Return the counts that `to_dict` has returned."""
        made = cls(kept["seed"])
        made.programs, made.seconds, made.failed = (
            kept["programs"],
            kept["seconds"],
            kept["failed"],
        )
        made.groups = {group: Counter(kept.get(group, {})) for group in GROUPS}
        return made

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain data for a file, from which a later run continues."""
        own = {"seed": self.seed, "programs": self.programs, "seconds": self.seconds}
        return {**own, "failed": self.failed, **self.groups}

    def add(self, found: Mapping[str, set[str]]) -> None:
        for group, names in found.items():
            self.groups[group].update(names)

    def lines(self) -> Iterator[str]:
        """Yield the sums as text."""
        said = f"{self.programs} programs, {len(self.failed)} failures, {self.seconds:.1f} CPU s"
        yield f"seeds {self.seed} to {self.seed + self.programs - 1}: {said}"
        for group, counts in self.groups.items():
            yield f"{group}, in how many programs"
            for name, count in counts.most_common():
                yield f"  {count / max(1, self.programs):6.1%} {name}"

    def seldom(self) -> Iterator[str]:
        """Yield a text for each kind and each instruction that occurs in too few programs.
        Deviations that random draws explain are allowed. Every instruction must occur at least
        once."""
        if self.programs < EACH:
            return
        for kind, count in self.groups["kinds"].items():
            if count < _least(OFTEN * self.programs):
                yield f"{kind} is in {count / self.programs:.1%} of programs, not in {OFTEN:.0%}"
        for name in sorted(INSTRUCTIONS):
            count = self.groups["instructions"][name]
            if count < max(1, _least(self.programs / EACH)):
                yield f"{name} is in {count} programs of {self.programs}, not in one of {EACH}"


def _least(expected: float) -> float:
    """Return the least acceptable count of an event with this expected count: DEVIATIONS standard
    deviations of the Poisson distribution below it."""
    return expected - DEVIATIONS * math.sqrt(expected)
