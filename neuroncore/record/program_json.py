"""Converts a program to tables of JSON and columns of integers, and converts them back."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import KernelError
from neuroncore.base.options import Order, assumptions, choices, phase
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
DATA = "registers", "branches", "places", "moves", "programs"  # the columns from Data
EACH = 2 + len(COLUMNS) + len(DATA)  # the number of columns of a program


def written(program: Program, blobs: list[bytes]) -> tuple[dict[str, Any], list[Array]]:
    """Return a program as tables of JSON and columns of integers. The JSON refers to bytes of
    constants by their index in `blobs`, where new ones are appended."""
    data = program.data
    tables = {
        "order": program.order,
        "dge": program.dge,
        "software": program.software,
        "loads": program.loads,
        "assume": ",".join(program.assume),
        "clock_phase": program.clock_phase,
        "flags": list(program.flags),
        "left_out": program.left_out,
        "calls": [_call(call) for call in program.calls],
        "lines": [list(vars(program.place(line)).values()) for line in range(len(program.lines))],
        "kinds": [plain(tuple(kind)) for kind in program.kinds],
        "geometries": [plain(geometry.arguments) for geometry in program.geometries],
        "values": [plain_values(key) for key in data.values],
        "constants": [
            [number, _numbered(content, blobs)] for number, content in data.constants.items()
        ],
        "results": plain_tree(data.results, lambda item: item if isinstance(item, Leaf) else None),
        "skipped": data.skipped,
        "loop_ends": list(data.loop_ends),
        "iterations": data.marks().reshape(-1).tolist(),
        "carried": sorted(data.carried),
    }
    storages, kept = program.storages(), program.kept()
    more = [np.array(getattr(data, name), np.int64) for name in DATA]
    return tables, [storages.number, storages.kind, *(kept[name] for name in COLUMNS), *more]


def _numbered(content: bytes, blobs: list[bytes]) -> int:
    """Return the index of the object `content` in `blobs`, after appending it if it is new."""
    for number, blob in enumerate(blobs):
        if blob is content:
            return number
    blobs.append(content)
    return len(blobs) - 1


def _call(call: Call) -> dict[str, Any]:
    arguments = {name: plain(argument) for name, argument in call.arguments.items()}
    return {
        "instruction": plain(call.instruction),
        "machine": plain(call.machine),
        "arguments": arguments,
    }


def program(tables: Mapping[str, Any], columns: list[Array], blobs: list[bytes]) -> Program:
    """Return the program that `written` converted. Raises `record.saved.DAMAGED` for damaged
    tables, and KernelError for a call that its machine refuses."""
    number, kind, *kept = columns
    program = Program()
    program.geometries += [_geometry(value(entry)) for entry in tables["geometries"]]
    program.order, program.left_out = tables["order"], int(tables["left_out"])
    if program.order not in get_args(Order) or program.left_out < 0:
        raise ValueError(
            f"the order ({program.order!r}) or the number of instructions that are left out "
            f"({program.left_out}) is not valid"
        )
    program.dge = tables.get("dge", False) is True  # older files have no entry "dge"
    program.software = tables.get("software", False) is True
    program.loads = tables.get("loads", "ahead")
    if program.loads not in choices()["loads"]:
        raise ValueError(f"Options.loads can't be {program.loads!r}")
    program.assume = assumptions(tables.get("assume", ""))
    clock_phase = tables.get("clock_phase")
    program.clock_phase = None if clock_phase is None else phase(clock_phase)
    program.flags = tuple(map(str, tables.get("flags", ())))
    program.calls = [_called(entry, i) for i, entry in enumerate(tables["calls"])]
    program.lines = [place(*line) for line in tables["lines"]]
    kinds = [_area(value(entry)) for entry in tables["kinds"]]
    program.restore(dict(zip(COLUMNS, kept, strict=False)), number, kind, kinds)
    program.data = _data(tables, kept[len(COLUMNS) :], blobs)
    program.check()
    checks.check(program)
    return program


def _data(tables: Mapping[str, Any], columns: list[Array], blobs: list[bytes]) -> Data:
    data = Data()
    for name, column in zip(DATA, columns, strict=True):
        setattr(data, name, array("q", column.astype(np.int64).tobytes()))
    data.values = {key_of(entry): number for number, entry in enumerate(tables["values"])}
    if len(data.values) != len(tables["values"]):
        raise ValueError("the table of values repeats a value")
    data.constants = {int(number): blobs[blob] for number, blob in tables["constants"]}
    data.results = tree(tables["results"], leaf)
    data.skipped = int(tables["skipped"])
    data.iterations.extend(array("q", tables.get("iterations", ())).tobytes())  # not in older files
    data.loop_ends.extend(tables.get("loop_ends", ()))
    data.carried.update(map(int, tables.get("carried", ())))
    return data


# --- calls ----------------------------------------------------------------------------------------


def _called(entry: dict[str, Any], index: int) -> Call:
    """Return the Call of an entry. Raise KernelError if the machine refuses it, and ValueError if
    the entry is damaged."""
    instruction, chip = value(entry["instruction"]), value(entry["machine"])
    if not (isinstance(instruction, Instruction) and isinstance(chip, Machine)):
        raise ValueError(
            f"a call has {instruction!r:.40} as its instruction and {chip!r:.40} as its machine"
        )
    arguments = {name: value(part) for name, part in entry["arguments"].items()}
    call = Call(instruction, chip, {}, index=index)
    for parameter in instruction.parameters:
        if parameter.name not in arguments:
            raise ValueError(f"a call of {instruction.name} lacks the argument {parameter.name}")
        call.arguments.update(_taken(call, parameter, arguments))
    if unknown := arguments.keys() - call.arguments.keys():
        raise ValueError(f"{instruction.name} has no parameter {min(unknown)}")
    for error in _errors(call, chip):
        raise error
    legality.name_operands(call)
    return call


def _errors(call: Call, chip: Machine) -> Iterator[KernelError]:
    for parameter in call.instruction.parameters:
        yield from legality.of_argument(call, parameter, chip)
    yield from legality.whole_call(call, chip)


def _taken(call: Call, parameter: Parameter, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return {name: argument} for one argument of a Call. For a list of tiles, add the view of each
    tile under a name such as `tiles[0]`."""
    name, declared = parameter.name, parameter.declared
    argument = arguments[name]
    if isinstance(declared, Operand) and declared.many:
        if not (isinstance(argument, tuple) and all(isinstance(view, View) for view in argument)):
            raise ValueError(f"{name} of {call.name} is not a list of tiles")
        views = {f"{name}[{i}]": view for i, view in enumerate(argument)}
        return {**views, name: argument}
    if isinstance(declared, Operand):
        absent = argument is None and declared.optional
        number = argument == "number" and declared.scalar
        if not (isinstance(argument, View) or absent or number):
            raise ValueError(f"{name} of {call.name} is not a tile")
    elif isinstance(declared, Immediate) and declared.keyed:
        argument = declared.take(call.name, name, argument)
    elif not parameter.varies:
        hash(argument)
    elif argument is not None:
        raise ValueError(
            f"{name} of {call.name} is {argument!r:.40}, but a call must not fix this value"
        )
    return {name: argument}


# --- geometries, places and areas -----------------------------------------------------------------


def _geometry(entry: tuple[Any, ...]) -> Geometry:
    layout_entry, shape, strides, dtype = entry
    region, whole, kept, spread, pitch, place, placed = layout_entry
    lists = are_dims(shape), are_dims(strides), are_dims(whole), are_dims(place), bool(whole)
    kinds = isinstance(region, MemoryRegion), isinstance(kept, Format), isinstance(dtype, Format)
    numbers = type(spread) is int, type(pitch) is int, type(placed) is bool
    if not all((*lists, *kinds, *numbers, len(shape) == len(strides) > 0, len(place) == 2)):
        raise ValueError("a malformed geometry")
    if min(*whole, *shape, spread, *place) < 0:
        raise ValueError("a malformed geometry")
    return layout(*layout_entry).geometry(shape, strides, dtype)


def place(file: Any, *numbers: Any) -> Place:
    *span, function = numbers
    if not (isinstance(file, str) and isinstance(function, str) and are_dims(tuple(span))):
        raise ValueError("a malformed line")
    return Place(file, *numbers)


def _area(entry: tuple[Any, ...]) -> Area:
    area = Area(*entry)
    numbers = area.partitions, area.row_bytes, area.line
    kinds = isinstance(area.region, MemoryRegion), isinstance(area.name, str)
    if not all((*kinds, are_dims(numbers), type(area.placed) is bool)):
        raise ValueError("a malformed area")
    return area
