"""Saved records: the programs of a run's cores in a file, to be timed again without the kernel.

A file is plain data: a line that says what it is, then, compressed, JSON and columns of integers.
Nothing in it is run, and all of it is checked when it is read. A record says how instructions were
called, not what they compute: it has to be made anew when a clause's parameters change, or what an
API's function issues.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from math import prod
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from neuroncore.clause.instruction import Call, Instruction
from neuroncore.enums import MemoryRegion, engine
from neuroncore.errors import UsageError
from neuroncore.machine import Machine
from neuroncore.memory.geometry import Geometry, View, layout
from neuroncore.numerics.formats import Format
from neuroncore.options import Order
from neuroncore.record.boxes import Area
from neuroncore.record.data import Setting
from neuroncore.record.program import COLUMNS, Program
from neuroncore.record.values import are_dims, plain, value
from neuroncore.source import Place

Array = npt.NDArray[Any]

FORMAT = 5  # of the files: older ones are refused
LEVEL = 1  # of compression
MARK = b"neuroncore.record.saved/"
INTEGERS = frozenset(f"{sign}{size}" for sign in "iu" for size in (1, 2, 4, 8))
DAMAGED = (
    *(zlib.error, UsageError, AttributeError, LookupError, OverflowError),
    *(RecursionError, TypeError, ValueError),
)
NAMES = "reads", "writes", "dynamic", "indices"  # of a Call: its operands by what they are


@dataclass(frozen=True, eq=False)
class Record:
    """The programs of one launch, one for each core, and `about` it what its maker noted: text,
    numbers, and lists and dicts of those. `setting` is what they ran in, without which they can
    be timed but not executed again."""

    programs: Sequence[Program]
    about: Mapping[str, Any] = field(default_factory=dict)
    setting: Setting | None = None


def save(record: Record, path: Path) -> None:
    """Write a record; its folder is made. Raises UsageError if it can't be written."""
    written = [_written(program) for program in record.programs]
    columns = [narrowest(column) for _, kept in written for column in kept]
    head = {
        "about": dict(record.about),
        "programs": [tables for tables, _ in written],
        "columns": [[column.dtype.str[1:], len(column)] for column in columns],
    }
    try:
        text = json.dumps(head, default=_number).encode()
    except TypeError as error:
        raise UsageError(f"{path} can't be written: {error}") from None
    content = b"\n".join([text, b"".join(column.tobytes() for column in columns)])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(MARK + b"%d\n" % FORMAT + zlib.compress(content, LEVEL))
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}") from None


def load(path: Path) -> Record:
    """What `save` wrote. Raises UsageError if there is no such file, it is something else, or its
    format is another version's."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from None
    head, _, packed = content.partition(b"\n")
    if not head.startswith(MARK):
        raise UsageError(f"{path} is not a record of neuroncore")
    if head != MARK + b"%d" % FORMAT:
        raise UsageError(f"{path} has format {head.decode()}, not {FORMAT}: record it again")
    try:
        return _record(zlib.decompress(packed))
    except DAMAGED as error:
        raise UsageError(f"{path} is damaged ({error}): record it again") from None


def narrowest(column: Array) -> Array:
    """The same integers, little-endian, in as few bytes each as the largest needs."""
    ends = (int(column.min()), int(column.max())) if len(column) else (0, 0)
    kind = np.result_type(*map(np.min_scalar_type, ends))
    return column.astype(kind.newbyteorder("<"))


def _number(given: Any) -> Any:
    if isinstance(given, np.generic):
        return given.item()
    raise TypeError(f"a record can't hold {given!r:.60}")


def _written(program: Program) -> tuple[dict[str, Any], list[Array]]:
    """What JSON has of a program, and its columns."""
    tables = {
        "order": program.order,
        "left_out": program.left_out,
        "calls": [_call(call) for call in program.calls],
        "lines": [list(astuple(program.place(line))) for line in range(len(program.lines))],
        "kinds": [plain(tuple(kind)) for kind in program.kinds],
        "geometries": [plain(lies.given) for lies in program.geometries],
    }
    areas = np.fromiter(program.areas, np.int64, len(program.areas))
    kind = np.fromiter(program.areas.values(), np.int64, len(program.areas))
    return tables, [areas, kind, *(program.kept()[name] for name in COLUMNS)]


def _call(call: Call) -> dict[str, Any]:
    names = {name: list(getattr(call, name)) for name in NAMES}
    arguments = {name: plain(given) for name, given in call.arguments.items()}
    what = {"instruction": call.instruction, "machine": call.machine, "engine": call.engine}
    return {
        **{name: plain(given) for name, given in what.items()},
        "arguments": arguments,
        **names,
    }


def _record(content: bytes) -> Record:
    """Raises what damaged content leads to."""
    text, _, numbers = content.partition(b"\n")
    head = json.loads(text)
    columns, at = [], 0
    for kind, count in head["columns"]:
        if kind not in INTEGERS:
            raise ValueError(f"a column of {kind}")
        columns.append(np.frombuffer(numbers, f"<{kind}", count, at).astype(np.int64))
        at += columns[-1].size * int(kind[1:])
    each = 2 + len(COLUMNS)
    parts = [columns[i : i + each] for i in range(0, len(columns), each)]
    programs = [_program(*pair) for pair in zip(head["programs"], parts, strict=True)]
    return Record(programs, head["about"])


def _program(tables: dict[str, Any], columns: list[Array]) -> Program:
    areas, kind, *kept = columns
    geometries = [_geometry(value(given)) for given in tables["geometries"]]
    program = Program.restored(geometries, dict(zip(COLUMNS, kept, strict=True)))
    program.order, program.left_out = tables["order"], int(tables["left_out"])
    if program.order not in get_args(Order):
        raise ValueError(f"no order is called {program.order!r}")
    program.calls = [_called(given, i) for i, given in enumerate(tables["calls"])]
    program.lines = [_place(*line) for line in tables["lines"]]
    program.kinds = [_area(value(given)) for given in tables["kinds"]]
    program.areas = dict(zip(areas.tolist(), kind.tolist(), strict=True))
    program.check()
    return program


def _called(given: dict[str, Any], index: int) -> Call:
    instruction, chip, unit = (value(given[n]) for n in ("instruction", "machine", "engine"))
    if not (isinstance(instruction, Instruction) and isinstance(chip, Machine)):
        raise ValueError(f"a call of {instruction} on {chip}")
    if not isinstance(unit, engine):
        raise ValueError(f"a call on {unit}")
    arguments = {name: value(one) for name, one in given["arguments"].items()}
    if missing := {p.name for p in instruction.parameters} - arguments.keys():
        raise ValueError(f"{instruction.name} lacks {min(missing)}")
    names = {name: tuple(given[name]) for name in NAMES}
    if unknown := {one for listed in names.values() for one in listed} - arguments.keys():
        raise ValueError(f"{instruction.name} has no {min(unknown)}")
    for tile in (p.name for p in instruction.parameters if p.always_tile):
        if not isinstance(arguments[tile], View):
            raise ValueError(f"{tile} of {instruction.name} is no tile")
    return Call(instruction, chip, arguments, unit, index, **names)


def _geometry(given: tuple[Any, ...]) -> Geometry:
    laid_out, shape, strides, dtype = given
    region, whole, kept, spread, pitch, place, placed = laid_out
    lists = are_dims(shape), are_dims(strides), are_dims(whole), are_dims(place), bool(whole)
    kinds = isinstance(region, MemoryRegion), isinstance(kept, Format), isinstance(dtype, Format)
    numbers = type(spread) is int, type(pitch) is int, type(placed) is bool
    if not all((*lists, *kinds, *numbers, len(shape) == len(strides) > 0, len(place) == 2)):
        raise ValueError("a geometry of something else")
    if min(*whole, *shape, spread, *place) < 0 or prod(shape) == 0:
        raise ValueError("a geometry of no elements")
    return layout(*laid_out).geometry(shape, strides, dtype)


def _place(file: Any, *numbers: Any) -> Place:
    *span, function = numbers
    if not (isinstance(file, str) and isinstance(function, str) and are_dims(tuple(span))):
        raise ValueError("a line of something else")
    return Place(file, *numbers)


def _area(given: tuple[Any, ...]) -> Area:
    found = Area(*given)
    numbers = found.partitions, found.row_bytes, found.line
    kinds = isinstance(found.region, MemoryRegion), isinstance(found.name, str)
    if not all((*kinds, are_dims(numbers), type(found.placed) is bool)):
        raise ValueError("an area of something else")
    return found
