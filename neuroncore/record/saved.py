"""Saves records to files, and loads them. A file contains the programs, settings and outcome of a
launch.

A file begins with a line that names its format. The rest is compressed: JSON, integers, and bytes
of arrays. Loading a file executes none of its contents. It checks that every call is legal for its
machine, and that every window is inside its tensor.

Instructions and machines are looked up by name. So a record must be made again if the parameters of
a clause change, or if an API function issues other instructions."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, astuple, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.errors import NeuronError, UsageError, reading, writing
from neuroncore.base.options import Options
from neuroncore.machine import Machine
from neuroncore.machine.world import World
from neuroncore.numerics.formats import Format, lookup
from neuroncore.record import MARK
from neuroncore.record import program_json as tables
from neuroncore.record.call_json import are_dims, plain, plain_tree, tree, value
from neuroncore.record.inputs import Input, Outcome, Setting
from neuroncore.record.program import Program, Record

Array = npt.NDArray[Any]

FORMAT = 9  # the version of the format of files; other versions are refused
LEVEL = 1  # the level of compression
LARGEST = 1 << 33  # the most bytes that a file may have after decompression
INTEGERS = frozenset(f"{sign}{size}" for sign in "iu" for size in (1, 2, 4, 8))
DAMAGED = (
    *(zlib.error, NeuronError, AttributeError, LookupError, OverflowError),
    *(RecursionError, TypeError, ValueError, ZeroDivisionError, MemoryError),
)


def save(record: Record, path: Path) -> None:
    """Write a record to a file; its folder is created if necessary. Raise UsageError if the file
    can't be written."""
    try:
        content = packed(record)
    except (TypeError, UsageError) as error:
        raise UsageError(f"{path} can't be written: {error}") from None
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def packed(record: Record, arrays: bool = True) -> bytes:
    """Return a record as the bytes of a file. Without `arrays`, values of inputs and the outcome
    are left out. Raise TypeError or UsageError for data that a file can't contain."""
    if not arrays:
        setting = record.setting
        bare = None if setting is None else replace(setting, arrays={})
        record = replace(record, setting=bare, outcome=None)
    blobs: list[bytes] = []
    written = [tables.written(program, blobs) for program in record.programs]
    columns = [narrowest(column) for _, kept in written for column in kept]
    head: dict[str, Any] = {
        "about": dict(record.about),
        "programs": [texts for texts, _ in written],
        "columns": [[column.dtype.str[1:], len(column)] for column in columns],
        "setting": None if record.setting is None else _setting(record.setting, blobs),
        "outcome": None if record.outcome is None else _outcome(record.outcome, blobs),
        "blobs": [],
    }
    head["blobs"] = [len(blob) for blob in blobs]
    text = json.dumps(head, default=_number).encode()
    content = b"\n".join([text, b"".join([*(c.tobytes() for c in columns), *blobs])])
    return MARK + b"%d\n" % FORMAT + zlib.compress(content, LEVEL)


def load(path: Path) -> Record:
    """Return the record in a file. Raise UsageError if the file is not an intact record of this
    version, or if a machine refuses a call."""
    with reading(path):
        content = path.read_bytes()
    return unpacked(content, path)


def unpacked(content: bytes, path: Path, largest: int = LARGEST) -> Record:
    """Return the record for the bytes of a file. Raises the errors of `load`, which name `path`.

    `largest`: the limit in bytes of the decompressed contents"""
    head, _, body = content.partition(b"\n")
    if not head.startswith(MARK):
        raise UsageError(f"{path} is not a record of neuroncore")
    version = head.removeprefix(MARK)
    if version != b"%d" % FORMAT:
        newer = version.isdigit() and len(version) < 9 and int(version) > FORMAT
        advice = "a newer version of neuroncore has written it" if newer else "record it again"
        name = version.decode(errors="replace")
        raise UsageError(f"{path} has format {name}, not {FORMAT}: {advice}")
    try:
        return _record(_decompressed(body, largest))
    except DAMAGED as error:
        cause = getattr(error, "statement", None) or error or type(error).__name__
        raise UsageError(f"{path} is damaged ({cause}): record it again") from None


def narrowest(column: Array) -> Array:
    """Return a column in the smallest little-endian type for all its integers."""
    low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
    kind = np.min_scalar_type(high if low >= 0 else min(low, -high - 1))
    return column.astype(kind.newbyteorder("<"))


def _decompressed(body: bytes, largest: int) -> bytes:
    unpacking = zlib.decompressobj()
    content = unpacking.decompress(body, largest)
    if not unpacking.eof:
        raise ValueError(f"the contents end too early, or have more than {largest} bytes")
    return content


def _number(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a record can't hold {value!r:.60}")


def _record(content: bytes) -> Record:
    """Return the record in the decompressed contents of a file. Damaged contents raise various
    errors (DAMAGED)."""
    text, _, numbers = content.partition(b"\n")
    head = json.loads(text)
    if not isinstance(head["about"], dict):
        raise ValueError("malformed notes")
    columns, at = [], 0
    for kind, count in head["columns"]:
        if kind not in INTEGERS or count < 0:
            raise ValueError(f"a column can't have {count} numbers of type {kind!r:.40}")
        columns.append(np.frombuffer(numbers, f"<{kind}", count, at).astype(np.int64))
        at += columns[-1].size * int(kind[1:])
    blobs = []
    for size in head["blobs"]:
        blobs.append(numbers[at : at + size])
        at += size
        if size < 0 or at > len(numbers):
            raise ValueError("an entry refers to missing bytes")
    each = tables.EACH
    parts = [columns[i : i + each] for i in range(0, len(columns), each)]
    pairs = zip(head["programs"], parts, strict=True)
    programs = [tables.program(texts, part, blobs) for texts, part in pairs]
    setting, outcome = head["setting"], head["outcome"]
    return Record(
        programs,
        head["about"],
        None if setting is None else _setting_of(setting, programs, blobs),
        None if outcome is None else _outcome_of(outcome, blobs),
    )


# --- arrays ---------------------------------------------------------------------------------------


def _array(values: Any, blobs: list[bytes]) -> list[Any]:
    """Append the bytes of an array to `blobs`. Return [name of its format, shape, index in
    `blobs`]."""
    array = np.asarray(values)
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    blobs.append(array.tobytes())
    return [lookup(array.dtype).name, list(array.shape), len(blobs) - 1]


def _array_of(entry: list[Any], blobs: list[bytes]) -> Array:
    name, shape, number = entry
    form = lookup(name)
    if not are_dims(tuple(shape)) or min(shape, default=0) < 0 or number < 0:
        raise ValueError("a malformed array")
    if prod(shape) * form.itemsize != len(blobs[number]):
        raise ValueError(f"an array of shape {shape} has {len(blobs[number])} bytes")
    return np.frombuffer(bytearray(blobs[number]), form.numpy).reshape(shape)


# --- settings and outcome -------------------------------------------------------------------------


def _setting(setting: Setting, blobs: list[bytes]) -> dict[str, Any]:
    return {
        "machine": plain(setting.machine),
        "options": {name: plain(option) for name, option in asdict(setting.options).items()},
        "grid": list(setting.grid),
        "inputs": [[*i[:2], list(i.shape), i.dtype.name, i.rank] for i in setting.inputs],
        "arrays": {name: _array(array, blobs) for name, array in setting.arrays.items()},
        "world": list(astuple(setting.world)),
    }


def _setting_of(entry: dict[str, Any], programs: list[Program], blobs: list[bytes]) -> Setting:
    machine, grid = value(entry["machine"]), value(entry["grid"])
    if not isinstance(machine, Machine) or not are_dims(grid):
        raise ValueError("the machine or the grid is not valid")
    if any(call.machine is not machine for program in programs for call in program.calls):
        raise ValueError("a call is for a machine other than the record's")
    setting = Setting(
        machine=machine,
        options=_options(entry["options"]),
        grid=grid,
        inputs=tuple(_input(*fields) for fields in entry["inputs"]),
        arrays={name: _array_of(array, blobs) for name, array in entry["arrays"].items()},
        world=_world(entry["world"], len(programs)),
    )
    if len({i.name for i in setting.inputs}) < len(setting.inputs):
        raise ValueError("two inputs have the same name")
    return setting


def _world(entry: Any, programs: int) -> World:
    ranks, cores, instance = entry
    if not are_dims((ranks, cores)) or not isinstance(instance, str | None):
        raise ValueError("the numbers of ranks and cores are not valid")
    world = World(ranks, cores, instance)
    if world.size != programs:
        raise ValueError(f"the record has {programs} programs for {world.size} cores")
    return world


def _options(entry: dict[str, Any]) -> Options:
    options = {name: value(part) for name, part in entry.items()}
    for name, default in asdict(Options()).items():
        if isinstance(default, int) and type(options.get(name)) is not type(default):
            raise ValueError(f"the option {name} has a wrong type: {options.get(name)!r:.40}")
    return Options(**options)


def _input(name: Any, storage: Any, shape: Any, dtype: Any, rank: Any) -> Input:
    form = lookup(dtype)
    fits = isinstance(name, str) and are_dims((storage, rank, *shape)) and isinstance(form, Format)
    if not fits or min(shape, default=0) < 0:
        raise ValueError("a malformed input")
    return Input(name, storage, tuple(shape), form, rank)


def _outcome(outcome: Outcome, blobs: list[bytes]) -> dict[str, Any]:
    def tensor(item: Any) -> Any:
        return _array(item, blobs) if isinstance(item, np.ndarray) else None

    return {
        "results": plain_tree(outcome.results, tensor),
        "findings": [
            [code, message, None if place is None else list(astuple(place))]
            for code, message, place in outcome.findings
        ],
        "shares": [list(ranks) for ranks in outcome.shares],
        "changed": [[place, _array(array, blobs)] for place, array in outcome.changed.items()],
    }


def _outcome_of(entry: dict[str, Any], blobs: list[bytes]) -> Outcome:
    findings = []
    for code, message, place in entry["findings"]:
        if not (isinstance(code, str) and isinstance(message, str)):
            raise ValueError("a malformed finding")
        findings.append((code, message, None if place is None else tables.place(*place)))
    shares = [list(value(ranks)) for ranks in entry["shares"]]
    if not all(are_dims(tuple(ranks)) for ranks in shares):
        raise ValueError("the list of a core's programs is malformed")
    results = tree(entry["results"], lambda item: _array_of(item, blobs))
    changed = {int(place): _array_of(array, blobs) for place, array in entry["changed"]}
    return Outcome(results, findings, shares, changed)
