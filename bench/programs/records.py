"""Comparison of records: two launches of a program must make equal records, and reading a file must
return the record that was written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from neuroncore.memory.tile import Tile
from neuroncore.record import saved
from neuroncore.record.inputs import Data, is_leaf, mapped
from neuroncore.record.program import Program, Record

FACTS = ("order", "dge", "software", "loads", "clock_phase", "flags", "left_out", "count")
# fields of Data with numbers of geometries, with NaN, or with compressed parts
APART = {"results", "places", "values", "iterations"}
DATA = {one.name for one in fields(Data) if not one.name.startswith("_")} - APART
SETTING = ("machine", "options", "grid", "inputs", "world")


def differences(one: Record, other: Record) -> Iterator[str]:
    """Yield the names of what differs between the records of two launches of one kernel. The
    launches may have different numbers in their inputs."""
    for first, second in zip(one.programs, other.programs, strict=True):
        yield from _of_programs(first, second)


def from_file(record: Record) -> tuple[Record, list[str]]:
    """Write a record and read it again. Return the record that was read, and the names of what
    differs from the given one."""
    found = saved.unpacked(saved.packed(record), Path("of a program"))
    wrong = []
    for first, second in zip(record.programs, found.programs, strict=True):
        wrong += [*_of_programs(first, second)]
    wrong += [n for n in SETTING if getattr(record.setting, n) != getattr(found.setting, n)]
    return found, wrong


def _of_programs(one: Program, other: Program) -> Iterator[str]:
    yield from (name for name in FACTS if getattr(one, name) != getattr(other, name))
    yield from (name for name in DATA if getattr(one.data, name) != getattr(other.data, name))
    first, second = _read(one), _read(other)
    yield from (name for name in first if first[name] != second[name])


def _exact(key: tuple[Any, ...]) -> list[Any]:
    """Return the values of a row for a comparison: floats by their bits, and tiles without their
    class, which a file leaves out."""
    pairs = zip(key[::2], key[1::2], strict=True)
    return [Tile if issubclass(kind, Tile) else (kind, _bits(part)) for part, kind in pairs]


def _bits(part: Any) -> Any:
    return np.asarray(part).tobytes() if isinstance(part, float | np.floating) else part


def _read(program: Program) -> dict[str, Any]:
    """Return the data of a program for a comparison, by name. Numbers of geometries are replaced by
    shapes, strides and formats, because equal geometries may have several numbers after a cache was
    cleared. Numbers of lines are replaced by places, because one place may be several lines."""
    lines = [*map(program.place, range(len(program.lines)))]
    lies = [(one.shape, one.strides, one.dtype.name) for one in program.geometries]
    (rows, begins), windows, data = program.raw(), program.windows(), program.data
    places = zip(*(one.tolist() for one in (windows.storage, windows.geometry, windows.offset)))
    known = [(storage, lies[number], offset) for storage, number, offset in places]
    moved = zip(data.places[::2], data.places[1::2], strict=True)
    return {
        "operands": [known[window] for window in program.operand_windows().tolist()],
        "values": [*map(_exact, data.values)],
        "calls": [program.calls[call].name for call in rows[begins[:-1]].tolist()],
        "begins": begins.tolist(),
        "places": [lines[line] for line in rows[begins[:-1] + 1].tolist()],
        "moved operands": [(lies[number], offset) for number, offset in moved],
        "results": mapped(
            data.results, lambda leaf: leaf._replace(geometry=lies[leaf[1]]), is_leaf
        ),
        "iterations": data.marks().tolist(),
        "edges": program.edges().tolist(),
        "decisions": program.decided().tolist(),
    }
