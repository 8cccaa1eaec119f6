"""Records of programs: two launches make the same one, and a file gives back what it was given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from neuroncore.record import saved
from neuroncore.record.inputs import Data
from neuroncore.record.program import Program, Record

FACTS = ("order", "dge", "software", "loads", "clock_phase", "flags", "left_out", "count")
DATA = {one.name for one in fields(Data) if not one.name.startswith("_")}
ANEW = {"values"}  # what a file has with other types
SETTING = ("machine", "options", "grid", "inputs", "world")


def differences(one: Record, other: Record) -> Iterator[str]:
    """What differs between the records of two launches of one kernel, the second of which may have
    other numbers among its inputs."""
    for first, second in zip(one.programs, other.programs, strict=True):
        yield from _of_programs(first, second, DATA)
        if first.rows != second.rows:
            yield "rows"


def from_file(record: Record) -> tuple[Record, list[str]]:
    """A record as a file has had it, and what differs from the given one."""
    found = saved.unpacked(saved.packed(record), Path("of a program"))
    wrong = []
    for first, second in zip(record.programs, found.programs, strict=True):
        wrong += [*_of_programs(first, second, DATA - ANEW)]
        wrong += ["places"] * (_places(first) != _places(second))
    wrong += [n for n in SETTING if getattr(record.setting, n) != getattr(found.setting, n)]
    return found, wrong


def _of_programs(one: Program, other: Program, data: set[str]) -> Iterator[str]:
    yield from (name for name in FACTS if getattr(one, name) != getattr(other, name))
    yield from (name for name in data if getattr(one.data, name) != getattr(other.data, name))
    for name in ("edges", "decided"):
        if not np.array_equal(getattr(one, name)(), getattr(other, name)()):
            yield name


def _places(program: Program) -> list[Any]:
    """The place of each instruction."""
    return [program.place(line) for line in program.columns().line.tolist()]
