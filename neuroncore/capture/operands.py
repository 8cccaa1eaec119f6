"""Parse the text that the profiler prints for an instruction: its opcode and its operands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from neuroncore.capture.encoding import Block, Condition, DecodedInstruction, DecodedOperand, role

NAMED = re.compile(r"S\[(?P<number>\d+)\](?: \((?P<name>[^)]*)\))?|(?P<alone>\d+)")
WAIT = re.compile(r"([SE])\[(\d+)\](?: \([^)]*\))?(==|>=|-)(\d*)(?=\s|$)")
UPDATE = re.compile(r"([SE])\[(\d+)\](?: \([^)]*\))?(\+\+|--|\+=|=|\+)(\d*)@complete")
TENSOR = re.compile(r"(\w+)=(?:(\w+)@)?(0x[0-9a-f]+)\[([-\d,]+)\]\[([\d,]+)\]")
CELLS = re.compile(r"(?<!\S)(\d+)\*(\d+)(?!\S)")
SETTING = re.compile(r"(?<!\S)(\w+)=(\S+)")
PATTERN = re.compile(r"\[([-\d,]+)\]\[([-\d,]+)\]")
ENDS = "src", "dst"  # the ends of a transfer: read and written
TRANSPOSE = "TRANSPOSE"  # the type of an instruction that transposes


def instruction(opcode: str, text: str, kind: str) -> DecodedInstruction:
    """Return an instruction from its opcode, the text of its operands, and its type. Raise
    ValueError or KeyError if the text can't be parsed.

    The text lacks the number of partitions. It is assumed to be the number of array rows of a
    product, and otherwise the field `channels`. Other missing data stay unknown."""
    fields = dict(SETTING.findall(text))
    settings: dict[str, Any] = dict(fields)
    rows = int(fields.get("channels", 0))
    if cells := CELLS.search(text):
        rows, settings["rows"], settings["columns"] = int(cells[1]), int(cells[1]), int(cells[2])
        settings["transpose"] = "ENABLED" if kind == TRANSPOSE else "DISABLED"
    if "sem_increment" in fields:
        settings["semaphore"] = int(fields["semaphore"])
        settings["increment"] = int(fields["sem_increment"])
    else:
        settings.pop("semaphore", None)
    if "dst" in fields and not TENSOR.search(text):
        settings["dst"] = int(fields["dst"].partition(",")[0], 0)
    return DecodedInstruction(
        opcode=opcode,
        role=role(opcode),
        waits=tuple(Condition(s + how, int(n), int(v or 1)) for s, n, how, v in WAIT.findall(text)),
        updates=tuple(
            Condition(s + how, int(n), int(v or 1)) for s, n, how, v in UPDATE.findall(text)
        ),
        operands=tuple(_operands(text, rows)),
        blocks=tuple(_blocks(fields)),
        settings=settings,
        printed=text,
    )


def _operands(text: str, rows: int) -> Iterator[DecodedOperand]:
    for name, form, address, steps, sizes in TENSOR.findall(text):
        yield DecodedOperand(
            name=name,
            reads=name.startswith(ENDS[0]),
            address=int(address, 16),
            steps=_numbers(steps),
            sizes=_numbers(sizes),
            format=form,
            rows=rows,
        )


def _blocks(fields: dict[str, str]) -> Iterator[Block]:
    """Yield the two ends of a transfer, from the fields of its text by name."""
    for end in ENDS:
        match = PATTERN.fullmatch(fields.get(f"{end}_pattern", ""))
        if match is None:
            continue
        is_address = f"{end}_addr_imm" in fields
        where = fields.get(f"{end}_addr_imm", fields.get(f"{end}_table_offset_imm", "0"))
        yield Block(
            name=end,
            reads=end == ENDS[0],
            kind="address" if is_address else "table",
            number=int(fields.get(f"{end}_table_index", 0)),
            address=int(where, 0),
            steps=_numbers(match[1]),
            counts=_numbers(match[2]),
            element=int(fields[f"{end}_elem_size"]),
            format=fields.get("in_dtype" if end == ENDS[0] else "out_dtype", ""),
        )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))
