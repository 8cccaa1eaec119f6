"""The JSON that `neuron-profile view --output-format json` writes, read as a capture.

The JSON contains a row for each instruction, whose operands are text that `operands` parses. It
also contains a row for each element that DMA engines moved, and for each change of a semaphore."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.errors import UsageError
from neuroncore.capture.encoding import DecodedInstruction
from neuroncore.capture.measured import CLOCK, ELEMENT, INSTRUCTION, UPDATE, Capture, MeasuredCore
from neuroncore.capture.moves import MOVE, Triggers, of_direct, unnamed
from neuroncore.capture.neff import Statement
from neuroncore.capture.operands import NAMED, instruction
from neuroncore.capture.trace import ENGINES, FULL, SEMAPHORES, content

Array = npt.NDArray[Any]
Json = Mapping[str, Any]

LARGEST = 1 << 30  # bytes of a file
TABLES = "instruction", "summary"  # tables that a profile must have
MATRIX = "TensorMatrix"  # the second row of the Tensor engine
DAMAGED = AttributeError, LookupError, TypeError, ValueError, OverflowError, RecursionError


def load(path: Path) -> Capture:
    """Read a file. Raises UsageError if it can't be read or is not a profile."""
    try:
        document = json.loads(content(path, LARGEST))
    except (ValueError, RecursionError):
        raise UsageError(f"{path} is not JSON") from None
    return read(document, str(path))


def read(document: Any, source: str) -> Capture:
    """Return the run in the tables of a profile. Raise UsageError if the document is not a
    profile."""
    if not isinstance(document, dict) or not all(document.get(name) for name in TABLES):
        missing = "it has no tables " + " and ".join(TABLES)
        raise UsageError(f"{source} is not a profile of neuron-profile: {missing}")
    try:
        return _capture(document, source)
    except DAMAGED as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        if isinstance(error, KeyError):
            reason = f"a row has no field {reason}"
        elif not isinstance(error, UsageError):
            reason = f"a field has an unexpected value ({reason})"
        raise UsageError(f"{source} is not a profile that can be read: {reason}") from None


def _capture(document: Json, source: str) -> Capture:
    about = document["summary"][0]
    names = dict.fromkeys(str(row["subgraph"]) for row in document["instruction"])
    total_ns = float(about["total_time"]) * 1e9
    header = document.get("neff_header") or [{}]
    return Capture(
        program=str(header[0].get("network_name", Path(source).stem)),
        instance=str(about.get("instance_type", "")),
        runtime=str(about.get("runtime_version", "")),
        source=source,
        cores=[
            _core(document, name, number, total_ns) for number, name in enumerate(sorted(names))
        ],
    )


def _core(document: Json, name: str, number: int, total_ns: float) -> MeasuredCore:
    listed = _of(document, "instruction", name)
    listed.sort(key=lambda row: row["timestamp"])
    rows, kinds = _instructions(listed)
    queues = [*dict.fromkeys(str(row["q_name"]) for row in _of(document, "dma_queues_info", name))]
    elements = _elements(document, name, queues)
    semaphores = dict(SEMAPHORES)
    updates = _array(UPDATE, _updates(_of(document, "semaphore_update", name), semaphores))
    triggers = Triggers(rows, kinds, updates, elements, queues)
    moves = np.array([*of_direct(triggers), *unnamed(triggers)], MOVE)
    ham = ((row["timestamp"], row["k"] * FULL // row["n"]) for row in _of(document, "ham", name))
    return MeasuredCore(
        name=name,
        number=number,
        total_ns=total_ns,
        instructions=rows,
        kinds=kinds,
        names=[str(row.get("bir_instruction_name", "")) for row in listed],
        moves=np.sort(moves, order="begin_ns", kind="stable"),
        queues=queues,
        elements=elements,
        updates=updates,
        clock=_array(CLOCK, ham),
        semaphores=semaphores,
        statements=_statements(listed),
        memory={},
    )


def _of(document: Json, table: str, core: str) -> list[Json]:
    return [row for row in document.get(table) or [] if row["subgraph"] == core]


def _array(dtype: np.dtype[Any], rows: Iterator[tuple[Any, ...]]) -> Array:
    """Return rows as a structured array, sorted by the first field."""
    table = np.array([*rows], dtype)
    return table[np.argsort(table[dtype.names[0]], kind="stable")] if dtype.names else table


def _instructions(listed: Sequence[Json]) -> tuple[Array, list[DecodedInstruction]]:
    numbers: dict[tuple[str, str, str], int] = {}
    rows = np.zeros(len(listed), INSTRUCTION)
    for at, row in enumerate(listed):
        key = str(row["opcode"]), str(row.get("operands", "")), str(row.get("instruction_type", ""))
        engine = ENGINES.index(str(row["subgroup"]).replace(MATRIX, ENGINES[0]))
        begin = float(row["timestamp"])
        statement = int(row.get("raw_penguin_id", -1))
        kind, own = numbers.setdefault(key, len(numbers)), "compiler_pc" in row
        rows[at] = begin, begin + float(row["duration"]), engine, kind, own, statement
    return rows, [instruction(*key) for key in numbers]


def _statements(listed: Sequence[Json]) -> dict[int, Statement]:
    """Return the statements of the instructions by number.

    A statement has the kernel's file and line if the row of its first instruction has them."""
    statements = {}
    for row in listed:
        number = int(row.get("raw_penguin_id", -1))
        if number >= 0 and number not in statements:
            file, _, line = str(row.get("nki_source_location", "")).rpartition(":")
            place = (file, int(line)) if file and line.isdecimal() else ("", 0)
            statements[number] = Statement(number, "", *place)
    return statements


def _elements(document: Json, name: str, queues: Sequence[str]) -> Array:
    numbers = {
        (str(row["q_eng_idx"]), str(row["q_idx"])): queues.index(str(row["q_name"]))
        for row in _of(document, "dma_queues_info", name)
    }
    of_queue = {queue: number for (_, queue), number in numbers.items()}

    def rows() -> Iterator[tuple[float, float, int, int, int]]:
        for row in _of(document, "dma", name):
            begin, key = float(row["timestamp"]), (str(row["dma_engine"]), str(row["dma_queue"]))
            queue = numbers.get(key, of_queue.get(key[1], -1))
            size = int(row["transfer_size"])
            yield begin, begin + float(row["duration"]), int(row["dma_engine"]), queue, size

    return _array(ELEMENT, rows())


def _updates(
    listed: Sequence[Json], semaphores: dict[int, str]
) -> Iterator[tuple[float, int, int, int]]:
    """Yield the changes of semaphores, and add the names of semaphores to `semaphores`.

    An engine changes the semaphores that are named after it. DMA engines change all other
    semaphores."""
    for row in listed:
        match = NAMED.fullmatch(str(row["id"]))
        number = int(match["number"] or match["alone"]) if match else -1
        if not 0 <= number < 256:
            raise ValueError(f"{row['id']!r} is not a semaphore")
        if match and match["name"]:
            semaphores[number] = match["name"]
        name = semaphores.get(number, "")
        by = ENGINES.index(name) if name in ENGINES else -1
        yield float(row["timestamp"]), number, int(row["value"]), by
