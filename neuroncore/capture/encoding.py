"""Decoding of the 64 bytes of an instruction, with the tables of `isa/encoding.toml`.

A layout says where the fields of an instruction are. A condition is a wait for a semaphore, or an
update of a semaphore. A setting is any other field, such as a scale."""

from __future__ import annotations

import re
import struct
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.errors import DefinitionError
from neuroncore.base.units import plural
from neuroncore.machine import isa

ON_CHIP = 1 << 37  # bit of a 64-bit address on trn2: the address is not in HBM
PSUM = 1 << 25  # bit of an address in a partition: it is in PSUM, otherwise in SBUF
KEPT = 1 << 16  # decoded instructions that are cached, because programs repeat instructions
NUMBERS = {"u1": "<B", "u2": "<H", "u4": "<I", "u8": "<Q", "f4": "<f"}
BYTES = {"u1": 1, "u2": 2, "u4": 4, "u8": 8, "f4": 4} | {
    "scalar": 4,
    "flags": 1,
    "format": 1,
    "rows": 1,
}
CONDITIONS = range(4, 12)  # the bytes with the waits and updates of every instruction
WIDTH, USUAL = 64, 0x10  # bytes of an instruction, and the second byte of all instructions
SECOND = 32  # the byte at which a semaphore instruction has its second condition
WORD = re.compile(r"\{(\w+)")

Array = npt.NDArray[Any]
Names = Mapping[int, str]


class Condition(NamedTuple):
    """A wait for a semaphore (S) or an event (E), or an update of a semaphore or an event.

    `kind`: the letter S or E followed by the comparison or the change, such as "S>=" or "S++".
    `number`: identifies the semaphore or event.
    `value`: the number to compare with, or to change by."""

    kind: str
    number: int
    value: int

    def profiler_text(self, names: Names) -> str:
        """Return the text that the profiler writes for a condition. `names` contains the name of
        each semaphore, by number."""
        name = f" ({names[self.number]})" if self.number in names else ""
        text = f"{self.kind[0]}[{self.number}]{name}{self.kind[1:]}"
        return f"{text}{self.value}" if self.kind.endswith("=") else text


class DecodedOperand(NamedTuple):
    """A tensor in SBUF or PSUM.

    `address`: the byte where it begins in a partition.
    `steps`: the step of each axis within a partition, in elements.
    `sizes`: the number of elements along each of these axes.
    `rows`: the number of partitions.
    `format`: "" if the instruction does not contain it."""

    name: str
    reads: bool
    address: int
    steps: tuple[int, ...]
    sizes: tuple[int, ...]
    format: str
    rows: int

    @property
    def in_psum(self) -> bool:
        return bool(self.address & PSUM)

    @property
    def free(self) -> int:
        """The number of elements per partition."""
        return prod(max(size, 1) for size in self.sizes)

    @property
    def free_bytes(self) -> int:
        """The bytes per partition, without gaps."""
        return self.free * _tables().element_bytes.get(self.format, 4)

    @property
    def span_bytes(self) -> int:
        """The bytes per partition from the first element to the end of the last one, with gaps."""
        far = zip(self.steps, self.sizes, strict=True)
        reach = sum(abs(step) * (max(size, 1) - 1) for step, size in far)
        return (reach + 1) * self.free_bytes // self.free

    @property
    def before_bytes(self) -> int:
        """The distance in bytes per partition from the lowest element to the first one. The
        distance is 0 unless a step is negative."""
        far = zip(self.steps, self.sizes, strict=True)
        reach = sum(max(-step, 0) * (max(size, 1) - 1) for step, size in far)
        return reach * self.free_bytes // self.free

    def __str__(self) -> str:
        form = f"{self.format}@" if self.format else ""
        return f"{form}{self.address:#x}{_list(self.steps)}{_list(self.sizes)}"


class Block(NamedTuple):
    """One end of a DMA transfer, as the instruction that starts the transfer describes it.

    The end is the source if `reads` is True, else the destination. The end consists of counts[0] x
    counts[1] elements of `element` bytes; `steps` are in bytes. The meaning of `address` depends on
    `kind`:

    * "address": an address of the device;
    * "variable": an offset in the variable `number`;
    * "table": an offset in the variable at entry `number` of the table of variables."""

    name: str
    reads: bool
    kind: str
    number: int
    address: int
    steps: tuple[int, ...]
    counts: tuple[int, ...]
    element: int
    format: str

    @property
    def nbytes(self) -> int:
        return prod(self.counts) * self.element

    @property
    def in_sbuf(self) -> bool:
        """True if the block is at an address of the device that is in SBUF."""
        return self.kind == "address" and bool(self.address & ON_CHIP)

    def __str__(self) -> str:
        where = f"{self.kind} {self.number}+" if self.kind != "address" else ""
        each = f"{_list(self.steps)}{_list(self.counts)}"
        return f"{self.format}@{where}{self.address:#x}{each} of {plural(self.element, 'byte')}"


class Scalar(NamedTuple):
    """A number, or the address of a separate number in each partition."""

    value: float
    is_address: bool

    @property
    def source(self) -> str:
        return "PTR" if self.is_address else "INSTRUCTION"

    def __str__(self) -> str:
        return f"{int(self.value):#x}" if self.is_address else f"{self.value:g}"


class DecodedInstruction(NamedTuple):
    """An instruction of a device.

    `role`: its purpose, such as "compute" or "transfer", from `isa/encoding.toml`.
    `printed`: the profiler's text if the instruction comes from the profiler's JSON, else None.

    For an unknown opcode, `role` is "", `opcode` is its number, and there are no operands."""

    opcode: str
    role: str
    waits: tuple[Condition, ...]
    updates: tuple[Condition, ...]
    operands: tuple[DecodedOperand, ...]
    blocks: tuple[Block, ...]
    settings: Mapping[str, Any]
    printed: str | None = None

    @property
    def known(self) -> bool:
        return bool(self.role)

    def operand(self, name: str) -> DecodedOperand:
        return next(each for each in self.operands if each.name == name)

    def block(self, name: str) -> Block:
        return next(each for each in self.blocks if each.name == name)

    def profiler_text(self, names: Names | None = None) -> str:
        """Return an instruction as the text that the profiler writes.

        The text contains the waits, updates, settings and operands. `names` contains the name of
        each semaphore, by number."""
        if self.printed is not None:
            return self.printed
        names = names or {}
        first, *others = [wait.profiler_text(names) for wait in self.waits] or [""]
        done = [f"{update.profiler_text(names)}@complete" for update in self.updates]
        each = {part.name: str(part) for part in self.operands}
        each |= {part.name: str(part) for part in self.blocks}
        text = _tables().texts.get(self.opcode, "").format(**self.settings, **each)
        return " ".join(" ".join([first, *done, text, *others]).split())


@lru_cache(KEPT)
def decoded(word: bytes) -> DecodedInstruction:
    """Decode the 64 bytes of an instruction."""
    tables = _tables()
    name, role, layout = tables.opcodes.get(word[0], (f"{word[0]:#04x}", "", None))
    waits, updates = (
        [_condition(word, 4, 8, tables.waits)],
        [_condition(word, 6, 0, tables.updates)],
    )
    operands, blocks, settings = [], [], {}
    if layout is not None:
        operands = [read(word, tables) for read in layout.operands]
        blocks = [read(word, tables) for read in layout.blocks]
        settings = {name: read(word, tables) for name, read in layout.settings.items()}
        if layout.second:
            waits.append(_condition(word, SECOND, SECOND + 4, tables.waits))
            updates.append(_condition(word, SECOND + 2, SECOND + 8, tables.updates))
    return DecodedInstruction(
        opcode=name,
        role=role,
        waits=tuple(condition for condition in waits if condition is not None),
        updates=tuple(condition for condition in updates if condition is not None),
        operands=tuple(operands),
        blocks=tuple(blocks),
        settings=settings,
    )


def opcodes() -> dict[int, str]:
    """Return the names of opcodes by their codes."""
    return {code: name for code, (name, *_) in _tables().opcodes.items()}


def does(opcode: str) -> str:
    """Return the name of the function in `meanings` that executes this opcode; "" if none is
    known."""
    return _tables().does.get(opcode, "")


def our_format(name: str) -> str:
    """Return neuroncore's name for a format of the profiler."""
    return str(_tables().ours["formats"].get(name, name))


def our_operator(name: str) -> str:
    """Return neuroncore's name for an operator of the profiler; "" for no operator.

    Raise LookupError for an unknown operator."""
    return str(_tables().ours["operators"][name])


def our_function(name: str) -> tuple[str, bool]:
    """Return neuroncore's name for an activation function, and whether it adds a bias to its input.

    Raise LookupError for an unknown function."""
    row = _tables().ours["functions"][name]
    return row["name"], row["bias"]


def unpublished(words: Array) -> Array:
    """Return a flag for each instruction: True if it contains a byte that no published program
    contains at the same position.

    The published instructions with the same opcode are compared. If the layout decodes a byte, the
    byte is checked only if the table `published` of `isa/encoding.toml` lists its values.

    `words`: bytes of instructions with the same known opcode, shape [instructions, 64]."""
    tables = _tables()
    name, _, layout = tables.opcodes[int(words[0, 0])]
    unknown = np.zeros(len(words), np.bool_)
    known = tables.published.get(name, {})
    for at in range(1, WIDTH):
        if at not in layout.bytes or str(at) in known:
            values = [0, *([USUAL] if at == 1 else known.get(str(at), []))]
            unknown |= ~np.isin(words[:, at], values)
    return unknown


def role(opcode: str) -> str:
    """Return the role of instructions with this opcode name; "" for an unknown name."""
    return next((what for name, what, _ in _tables().opcodes.values() if name == opcode), "")


# --- tables ---------------------------------------------------------------------------------------


class _OpcodeLayout(NamedTuple):
    """A layout: functions that decode the fields of an instruction from its 64 bytes.

    `bytes` lists the positions of all bytes that are decoded."""

    operands: Sequence[Callable[[bytes, _Tables], DecodedOperand]]
    blocks: Sequence[Callable[[bytes, _Tables], Block]]
    settings: Mapping[str, Callable[[bytes, _Tables], Any]]
    second: bool  # whether the instruction has a second wait and a second update
    bytes: frozenset[int]  # the positions of bytes that are decoded


class _Tables(NamedTuple):
    opcodes: Mapping[int, tuple[str, str, _OpcodeLayout]]
    texts: Mapping[str, str]
    formats: Mapping[int, str]
    element_bytes: Mapping[str, int]
    names: Mapping[str, Mapping[int, str]]
    waits: Mapping[int, str]
    updates: Mapping[int, str]
    addresses: Mapping[int, str]
    does: Mapping[str, str]
    ours: Mapping[str, Mapping[str, Any]]
    published: Mapping[str, Mapping[str, Sequence[int]]]


@cache
def _tables() -> _Tables:
    """Return the tables of `isa/encoding.toml`. Raise DefinitionError if the file is wrong."""
    raw = tomllib.loads((isa() / "encoding.toml").read_text("utf-8"))
    layouts = {name: _layout(name, table) for name, table in raw["layouts"].items()}
    rows = raw["opcodes"]
    if missing := {row["layout"] for row in rows.values()} - layouts.keys():
        raise DefinitionError(f"isa/encoding.toml: there is no layout {', '.join(missing)}")
    if unknown := {row["source"] for row in rows.values()} - raw["sources"].keys():
        raise DefinitionError(f"isa/encoding.toml: there is no source {', '.join(unknown)}")
    return _Tables(
        opcodes={
            row["code"]: (name, row["role"], layouts[row["layout"]]) for name, row in rows.items()
        },
        texts={name: raw["layouts"][row["layout"]]["text"] for name, row in rows.items()},
        formats=_by_code(raw["formats"]),
        element_bytes=raw["element_bytes"],
        names={name: _by_code(table) for name, table in raw["names"].items()},
        waits=_by_code(raw["waits"]),
        updates=_by_code(raw["updates"]),
        addresses=_by_code(raw["addresses"]),
        does={name: row.get("does", "") for name, row in rows.items()},
        ours=raw["ours"],
        published=raw["published"],
    )


def _by_code(table: Mapping[str, int]) -> dict[int, str]:
    return {code: name for name, code in table.items()}


def _layout(name: str, table: Mapping[str, Any]) -> _OpcodeLayout:
    operands, blocks, settings = [], [], {}
    for field, spec in table.items():
        if field == "text":
            continue
        if "steps" in spec:
            blocks.append(_block(field, spec))
        elif "rank" in spec:
            operands.append(_operand(field, spec))
        else:
            settings[field] = _setting(field, spec)
    known = {*settings, *(f for f in table if f != "text")}
    if unknown := set(WORD.findall(table["text"])) - known:
        raise DefinitionError(
            f"isa/encoding.toml: the text of the layout {name} contains "
            f"{', '.join(sorted(unknown))}, but the layout has no such field"
        )
    second = name == "semaphore"
    read = {*CONDITIONS, *(at for field in table.values() for at in _bytes(field))}
    return _OpcodeLayout(operands, blocks, settings, second, frozenset(read))


def _bytes(spec: Any) -> Iterator[int]:
    """Yield the positions of the bytes that a field of a layout reads."""
    if not isinstance(spec, dict):
        return
    sizes = {**BYTES, "text": spec.get("length", 0)}
    if "steps" in spec:
        sizes |= {"reads": 8, "writes": 8, "steps": 8, "sizes": 4, "element": 2}
    elif "rank" in spec:
        sizes |= dict.fromkeys(("reads", "writes"), 4 + 4 * spec["rank"])
    for key, at in spec.items():
        if key in sizes:
            yield from range(at, at + sizes[key])


def _operand(name: str, spec: Mapping[str, Any]) -> Callable[[bytes, _Tables], DecodedOperand]:
    at, rank = spec.get("reads", spec.get("writes")), spec["rank"]
    pattern, reads, form = struct.Struct(f"<I{rank}h{rank}H"), "reads" in spec, spec.get("format")
    shift, mask = {"low": (0, 15), "high": (4, 15), None: (0, 255)}[spec.get("nibble")]

    def read(word: bytes, tables: _Tables) -> DecodedOperand:
        address, *rest = pattern.unpack_from(word, at)
        code = None if form is None else word[form] >> shift & mask
        return DecodedOperand(
            name=name,
            reads=reads,
            address=address,
            steps=tuple(rest[:rank]),
            sizes=tuple(rest[rank:]),
            format="" if code is None else tables.formats.get(code, f"format{code}"),
            rows=word[spec["rows"]],
        )

    return read


def _block(name: str, spec: Mapping[str, Any]) -> Callable[[bytes, _Tables], Block]:
    at, reads = spec.get("reads", spec.get("writes")), "reads" in spec

    def read(word: bytes, tables: _Tables) -> Block:
        (raw,) = struct.unpack_from("<Q", word, at)
        kind = tables.addresses.get(raw >> 56, f"kind{raw >> 56}")
        plain = kind == "address"
        return Block(
            name=name,
            reads=reads,
            kind=kind,
            number=0 if plain else raw >> 32 & 0xFFFFFF,
            address=raw if plain else raw & 0xFFFFFFFF,
            steps=struct.unpack_from("<2i", word, spec["steps"]),
            counts=struct.unpack_from("<2H", word, spec["sizes"]),
            element=struct.unpack_from("<H", word, spec["element"])[0],
            format=tables.formats.get(word[spec["format"]], f"format{word[spec['format']]}"),
        )

    return read


def _setting(name: str, spec: Mapping[str, Any]) -> Callable[[bytes, _Tables], Any]:
    if "text" in spec:
        part = slice(spec["text"], spec["text"] + spec["length"])
        return lambda word, _: word[part].partition(b"\0")[0].decode("latin-1")
    if "scalar" in spec:
        return _scalar(spec["scalar"], spec["flags"], spec["bit"])
    ((kind, at),) = [(kind, at) for kind, at in spec.items() if kind in NUMBERS]
    number = struct.Struct(NUMBERS[kind])
    if "names" not in spec:
        if "unless" in spec:
            return lambda word, _: _unless(name, number.unpack_from(word, at)[0], spec["unless"])
        return lambda word, _: number.unpack_from(word, at)[0]

    def named(word: bytes, tables: _Tables) -> str:
        (code,) = number.unpack_from(word, at)
        value = tables.names[spec["names"]].get(code, f"{code:#x}")
        return _unless(name, code, spec["unless"], value) if "unless" in spec else value

    return named


def _unless(name: str, code: int, usual: int, text: str | None = None) -> str:
    """Return "NAME=VALUE" for a setting, or "" if `code` is its usual value.

    VALUE is `text`, or the code if there is no text."""
    return "" if code == usual else f"{name}={text or code}"


def _scalar(at: int, flags: int, bit: int) -> Callable[[bytes, _Tables], Scalar]:
    def read(word: bytes, _: _Tables) -> Scalar:
        is_address = bool(word[flags] >> bit & 1)
        (value,) = struct.unpack_from("<I" if is_address else "<f", word, at)
        return Scalar(value, is_address)

    return read


def _condition(word: bytes, at: int, value: int, kinds: Mapping[int, str]) -> Condition | None:
    """Return the wait or the update whose kind is at byte `at`; None if this byte is 0.

    The number of the semaphore is at the next byte. The value of the condition is at byte `value`,
    or is 1 if `value` is 0."""
    if not word[at]:
        return None
    amount = struct.unpack_from("<I", word, value)[0] if value else 1
    return Condition(kinds.get(word[at], f"?{word[at]:#x}"), word[at + 1], amount)


def _list(numbers: Sequence[int]) -> str:
    return f"[{','.join(map(str, numbers))}]"
