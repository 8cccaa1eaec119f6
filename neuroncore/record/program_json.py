"""Conversion of a program to tables of JSON and columns of integers, and back."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import astuple
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import KernelError
from neuroncore.base.options import Order, choices, phase
from neuroncore.base.source import Place
from neuroncore.clause import legality
from neuroncore.clause.immediate import Immediate
from neuroncore.clause.instruction import Call, Instruction, Parameter
from neuroncore.clause.operand import Operand
from neuroncore.machine import Machine
from neuroncore.memory.geometry import Geometry, View, layout
from neuroncore.numerics.formats import Format
from neuroncore.record import checks
from neuroncore.record.call_json import (
    are_dims,
    key_of,
    leaf,
    plain,
    plain_tree,
    plain_values,
    tree,
    value,
)
from neuroncore.record.columns import Area
from neuroncore.record.inputs import Data, Leaf
from neuroncore.record.program import COLUMNS, Program

Array = npt.NDArray[Any]
DATA = "registers", "branches", "places", "moves", "programs"  # columns of Data
EACH = 2 + len(COLUMNS) + len(DATA)  # columns of a program


def written(program: Program, blobs: list[bytes]) -> tuple[dict[str, Any], list[Array]]:
    """Return a program as tables of JSON and as columns of integers. Each array of bytes is
    appended to `blobs` unless it is there already, and the JSON has its index."""
    data = program.data
    tables = {
        "order": program.order,
        "dge": program.dge,
        "software": program.software,
        "loads": program.loads,
        "clock_phase": program.clock_phase,
        "flags": list(program.flags),
        "left_out": program.left_out,
        "calls": [_call(call) for call in program.calls],
        "lines": [list(astuple(program.place(line))) for line in range(len(program.lines))],
        "kinds": [plain(tuple(kind)) for kind in program.kinds],
        "geometries": [plain(geometry.given) for geometry in program.geometries],
        "values": [plain_values(key) for key in data.values],
        "constants": [[number, _numbered(one, blobs)] for number, one in data.constants.items()],
        "results": plain_tree(data.results, lambda one: one if isinstance(one, Leaf) else None),
        "skipped": data.skipped,
        "iterations": list(data.iterations),
        "carried": sorted(data.carried),
    }
    storages, kept = program.storages(), program.kept()
    more = [np.array(getattr(data, name), np.int64) for name in DATA]
    return tables, [storages.number, storages.kind, *(kept[name] for name in COLUMNS), *more]


def _numbered(content: bytes, blobs: list[bytes]) -> int:
    """Return the number of a blob, which is appended unless it is there already."""
    for number, blob in enumerate(blobs):
        if blob is content:
            return number
    blobs.append(content)
    return len(blobs) - 1


def _call(call: Call) -> dict[str, Any]:
    arguments = {name: plain(given) for name, given in call.arguments.items()}
    return {
        "instruction": plain(call.instruction),
        "machine": plain(call.machine),
        "arguments": arguments,
    }


def program(tables: Mapping[str, Any], columns: list[Array], blobs: list[bytes]) -> Program:
    """Return the program that `written` converted. Raise ValueError if the tables are damaged and
    do not fit, and KernelError if the machine of a call refuses the call."""
    number, kind, *kept = columns
    made = Program()
    made.geometries += [_geometry(value(given)) for given in tables["geometries"]]
    made.order, made.left_out = tables["order"], int(tables["left_out"])
    if made.order not in get_args(Order) or made.left_out < 0:
        raise ValueError(f"no order is called {made.order!r}")
    made.dge = tables.get("dge", False) is True  # older files have none
    made.software = tables.get("software", False) is True
    made.loads = tables.get("loads", "ahead")
    if made.loads not in choices()["loads"]:
        raise ValueError(f"no loads are called {made.loads!r}")
    given = tables.get("clock_phase")
    made.clock_phase = None if given is None else phase(given)
    made.flags = tuple(map(str, tables.get("flags", ())))
    made.calls = [_called(given, i) for i, given in enumerate(tables["calls"])]
    made.lines = [place(*line) for line in tables["lines"]]
    kinds = [_area(value(given)) for given in tables["kinds"]]
    made.restore(dict(zip(COLUMNS, kept, strict=False)), number, kind, kinds)
    made.data = _data(tables, kept[len(COLUMNS) :], blobs)
    made.check()
    checks.check(made)
    return made


def _data(tables: Mapping[str, Any], columns: list[Array], blobs: list[bytes]) -> Data:
    made = Data()
    for name, column in zip(DATA, columns, strict=True):
        setattr(made, name, array("q", column.astype(np.int64).tobytes()))
    made.values = {key_of(given): number for number, given in enumerate(tables["values"])}
    if len(made.values) != len(tables["values"]):
        raise ValueError("the table of values repeats a value")
    made.constants = {int(number): blobs[blob] for number, blob in tables["constants"]}
    made.results = tree(tables["results"], leaf)
    made.skipped = int(tables["skipped"])
    made.iterations.extend(tables.get("iterations", ()))  # older files have none
    made.carried.update(map(int, tables.get("carried", ())))
    return made


# --- calls ----------------------------------------------------------------------------------------


def _called(given: dict[str, Any], index: int) -> Call:
    """Return the call of an entry of the table of calls; `index` is the position of the entry.
    Raise KernelError if its machine refuses it, and ValueError if it is damaged."""
    instruction, chip = value(given["instruction"]), value(given["machine"])
    if not (isinstance(instruction, Instruction) and isinstance(chip, Machine)):
        raise ValueError(f"a call of {instruction} on {chip}")
    arguments = {name: value(one) for name, one in given["arguments"].items()}
    call = Call(instruction, chip, {}, index=index)
    for parameter in instruction.parameters:
        if parameter.name not in arguments:
            raise ValueError(f"{instruction.name} lacks {parameter.name}")
        call.arguments.update(_taken(call, parameter, arguments))
    if unknown := arguments.keys() - call.arguments.keys():
        raise ValueError(f"{instruction.name} has no {min(unknown)}")
    for error in _errors(call, chip):
        raise error
    legality.name_operands(call)
    return call


def _errors(call: Call, chip: Machine) -> Iterator[KernelError]:
    for parameter in call.instruction.parameters:
        yield from legality.of_argument(call, parameter, chip)
    yield from legality.whole_call(call, chip)


def _taken(call: Call, parameter: Parameter, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return one argument of a call as a dict with the name of its parameter. For a list of tiles,
    the dict also has the view of each tile under a name with its position, like `tiles[0]`."""
    name, declared = parameter.name, parameter.declared
    given = arguments[name]
    if isinstance(declared, Operand) and declared.many:
        if not (isinstance(given, tuple) and all(isinstance(one, View) for one in given)):
            raise ValueError(f"{name} of {call.name} are not tiles")
        views = {f"{name}[{i}]": view for i, view in enumerate(given)}
        return {**views, name: given}
    if isinstance(declared, Operand):
        absent = given is None and declared.optional
        number = given == "number" and declared.scalar
        if not (isinstance(given, View) or absent or number):
            raise ValueError(f"{name} of {call.name} is not a tile")
    elif isinstance(declared, Immediate) and declared.keyed:
        given = declared.take(call.name, name, given)
    elif not parameter.varies:
        hash(given)
    elif given is not None:
        raise ValueError(f"{name} of {call.name} is {given!r:.40}")
    return {name: given}


# --- where things are -----------------------------------------------------------------------------


def _geometry(given: tuple[Any, ...]) -> Geometry:
    laid_out, shape, strides, dtype = given
    region, whole, kept, spread, pitch, place, placed = laid_out
    lists = are_dims(shape), are_dims(strides), are_dims(whole), are_dims(place), bool(whole)
    kinds = isinstance(region, MemoryRegion), isinstance(kept, Format), isinstance(dtype, Format)
    numbers = type(spread) is int, type(pitch) is int, type(placed) is bool
    if not all((*lists, *kinds, *numbers, len(shape) == len(strides) > 0, len(place) == 2)):
        raise ValueError("a malformed geometry")
    if min(*whole, *shape, spread, *place) < 0:
        raise ValueError("a malformed geometry")
    return layout(*laid_out).geometry(shape, strides, dtype)


def place(file: Any, *numbers: Any) -> Place:
    *span, function = numbers
    if not (isinstance(file, str) and isinstance(function, str) and are_dims(tuple(span))):
        raise ValueError("a malformed line")
    return Place(file, *numbers)


def _area(given: tuple[Any, ...]) -> Area:
    found = Area(*given)
    numbers = found.partitions, found.row_bytes, found.line
    kinds = isinstance(found.region, MemoryRegion), isinstance(found.name, str)
    if not all((*kinds, are_dims(numbers), type(found.placed) is bool)):
        raise ValueError("a malformed area")
    return found
