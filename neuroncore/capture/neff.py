"""Compiled programs (.neff): what the device's compiler made of a kernel.

A file is a header of 1,024 bytes and a gzipped tar archive. For each core the archive contains

* the instructions of each engine (64 bytes each);
* JSON with its queues, its variables and its static DMA blocks;
* the constants;
* debug information: the compiler's name of each instruction, and its statement.

The format is not documented. This module reads the parts that published programs contain."""

from __future__ import annotations

import io
import json
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.errors import UsageError
from neuroncore.capture.encoding import DecodedInstruction, decoded
from neuroncore.capture.files import ARCHIVE, GZIP
from neuroncore.capture.protobuf import Malformed, Message, packed
from neuroncore.capture.trace import SEMAPHORES, SIZE, content

Array = npt.NDArray[Any]
Json = Mapping[str, Any]

LARGEST = 1 << 30  # bytes of a file: the largest published one has 2 MB
UNPACKED = 1 << 31  # bytes of its archive
FILE, LINE = "kernel_file", "kernel_line"  # attributes of a statement, from older compilers
# The engines' names in files, in the order of ENGINES, and the prefixes of queues for them.
STEMS = ("PE", "Activation", "Pool", "DVE", "SP")
OWNERS = {"PE": "Tensor", "Act": "Scalar", "Pool": "GpSimd", "DVE": "Vector", "SP": "Sync"}
TARGETS = {"sunda": "trn1", "cayman": "trn2"}  # NeuronCore v2 and v3
STATE_BUFFER = "state-buffer"  # the type of the variable that is SBUF
TRANSPOSE = 3  # the type of an instruction that transposes, in the debug information

DAMAGED = (
    *(AttributeError, EOFError, LookupError, OSError, OverflowError, RecursionError, TypeError),
    *(ValueError, zlib.error, tarfile.TarError, MemoryError),
)


@dataclass(frozen=True, eq=False)
class Statement:
    """A statement of the kernel, as the compiler names it.

    `text` is the statement's result, such as "float32<128 x 512> $12[i, j]". `file` and `line` are
    "" and 0 if the program does not contain them."""

    number: int
    text: str
    file: str
    line: int


@dataclass(frozen=True, eq=False)
class Code:
    """The program of one engine.

    The instructions have 64 bytes each. For each instruction, the program contains the compiler's
    name, the number of its statement (-1 for none), and whether it transposes."""

    words: Array
    names: Sequence[str]
    statements: Sequence[int]
    transposes: Sequence[bool]

    @cached_property
    def instructions(self) -> list[DecodedInstruction]:
        return [decoded(word.tobytes()) for word in self.words]


@dataclass(frozen=True, eq=False)
class DmaMove:
    """One part of the work of a static DMA block: a copy from one variable to another.

    Each side consists of an offset in bytes, and of sizes and steps by axis, the innermost axis
    first. The innermost size is a number of bytes; all other sizes are counts. Steps are in
    bytes."""

    source: str
    source_offset: int
    source_sizes: Sequence[int]
    source_steps: Sequence[int]
    source_format: str
    target: str
    target_offset: int
    target_sizes: Sequence[int]
    target_steps: Sequence[int]
    target_format: str
    operation: str

    @property
    def nbytes(self) -> int:
        """The number of bytes that the copy writes."""
        return prod(self.target_sizes)

    @property
    def read_bytes(self) -> int:
        return prod(self.source_sizes)


@dataclass(frozen=True, eq=False)
class StaticBlock:
    """A group of copies that one instruction starts.

    The DMA descriptors of the copies are written before the program runs. `semaphore` is
    incremented when the copies end."""

    number: int
    name: str
    queue: str
    semaphore: int
    moves: Sequence[DmaMove]


@dataclass(frozen=True)
class Queue:
    """A DMA queue.

    The attributes are its name in the file, its kind, its number of rings of descriptors, and the
    semaphores that its transfers increment."""

    name: str
    kind: str
    rings: int
    semaphores: Sequence[int]

    @property
    def shown(self) -> str:
        """Return the profiler's name of the queue."""
        return shown(self.name)


@dataclass(frozen=True, eq=False)
class Variable:
    """A tensor in HBM, or the whole of SBUF.

    `number`: identifies the variable.
    `kind`: its type in the file.
    `size`: its bytes.
    `file`: for a constant, the file of the archive with its contents.
    `table`: for a table of variables, the `number` of each entry. A DMA transfer can name a
        variable by its position in the tables."""

    name: str
    number: int
    kind: str
    size: int
    file: str = ""
    table: Sequence[int] = ()
    format: str = ""
    shape: Sequence[int] = ()


@dataclass(frozen=True, eq=False)
class Graph:
    """The program of one core. `code` and `blocks` are listed by engine, `statements` by number."""

    name: str
    code: Mapping[int, Code]
    blocks: Mapping[int, Sequence[StaticBlock]]
    queues: Mapping[str, Queue]
    variables: Mapping[str, Variable]
    constants: Mapping[str, bytes]  # files of numpy, by variable
    statements: Mapping[int, Statement]

    @cached_property
    def semaphores(self) -> dict[int, str]:
        """The user of each semaphore: an engine or a queue, with the profiler's name."""
        by_queue = {s: queue.shown for queue in self.queues.values() for s in queue.semaphores}
        return {**SEMAPHORES, **by_queue}

    def variable(self, number: int) -> Variable | None:
        """Return the variable with this number, or None."""
        return next(
            (variable for variable in self.variables.values() if variable.number == number), None
        )


@dataclass(frozen=True, eq=False)
class Neff:
    """A compiled program.

    The attributes are the target, the compiler that made the program, the programs of the cores,
    and the inputs and outputs. Each input and output has a format and a shape, by name."""

    name: str
    target: str
    compiler: str
    inputs: Mapping[str, tuple[str, tuple[int, ...]]]
    outputs: Mapping[str, tuple[str, tuple[int, ...]]]
    graphs: Sequence[Graph]


def shown(queue: str) -> str:
    """Return the profiler's name of a queue. The profiler and the files have different names for
    engines."""
    for prefix, engine in OWNERS.items():
        if queue.startswith(f"q{prefix}"):
            return f"q{engine}{queue[1 + len(prefix) :]}"
    return queue


def load(path: Path) -> Neff:
    """Read a compiled program.

    Raise UsageError if the file does not exist, is not a compiled program, or is cut short or
    damaged."""
    data = content(path, LARGEST)
    try:
        return read(data)
    except Malformed as error:
        raise UsageError(f"{path} is not a compiled program that can be read: {error}") from None


def read(data: bytes) -> Neff:
    """Return the program in the bytes of a file. Raise Malformed if they are not a program."""
    if len(data) < ARCHIVE + len(GZIP) or data[ARCHIVE : ARCHIVE + len(GZIP)] != GZIP:
        raise Malformed(f"no archive begins at byte {ARCHIVE:,}")
    try:
        return _neff(_files(data[ARCHIVE:]))
    except Malformed:
        raise
    except DAMAGED as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise Malformed(f"the archive is damaged ({reason})") from None


def _files(archive: bytes) -> dict[str, bytes]:
    """Return the contents of the archive's files by name."""
    unpacking = zlib.decompressobj(wbits=31)
    unpacked = unpacking.decompress(archive, UNPACKED)
    if not unpacking.eof:
        raise Malformed(f"the archive is cut short, or has more than {UNPACKED:,} bytes")
    contents = {}
    with tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as tar:
        for member in tar:
            if member.isreg() and not member.issparse():
                file = tar.extractfile(member)
                assert file is not None
                contents[member.name] = file.read()
    return contents


def _neff(files: Mapping[str, bytes]) -> Neff:
    about, nodes = _json(files, "kelf-0.json"), _json(files, "neff.json")
    graphs = [_graph(files, each["name"], each["definition"]) for each in about["graphs"]]
    if not graphs:
        raise Malformed("the program has no graph")
    info = _json(files, "info.json")
    inputs, outputs = _ends(nodes)
    return Neff(
        name=str(info["name"]),
        target=TARGETS.get(about["target"], str(about["target"])),
        compiler=str(info["tool_version"]),
        inputs=inputs,
        outputs=outputs,
        graphs=graphs,
    )


def _json(files: Mapping[str, bytes], name: str) -> Any:
    if name not in files:
        raise Malformed(f"the archive has no {name}")
    try:
        return json.loads(files[name])
    except (ValueError, RecursionError):
        raise Malformed(f"the archive's {name} is not JSON") from None


def _ends(nodes: Json) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the inputs and the outputs by name, each with its format and shape."""
    formats, shapes = nodes["attrs"]["dltype"][1], nodes["attrs"]["shape"][1]
    names = [name for node in nodes["nodes"] for name in node["output_names"]]
    both = [
        (str(form), tuple(int(size) for size in shape))
        for form, shape in zip(formats, shapes, strict=True)
    ]
    listed = dict(zip(names, both, strict=False))
    input_names = [nodes["nodes"][number]["output_names"][0] for number in nodes["arg_nodes"]]
    outputs = {name: what for name, what in listed.items() if name not in input_names}
    return {name: listed[name] for name in input_names}, outputs


def _graph(files: Mapping[str, bytes], name: str, path: str) -> Graph:
    definition = _json(files, path)
    folder = path.rpartition("/")[0]
    shapes = _json(files, f"{folder}/tensor_map.json")
    variables = {
        str(key): _variable(str(key), raw, shapes) for key, raw in definition["var"].items()
    }
    code, blocks = {}, {}
    for engine, stem in enumerate(STEMS):
        if f"{folder}/{stem}.bin" in files:
            code[engine] = _code(files, folder, stem)
            listed = _json(files, f"{folder}/{stem}.json").get("dma", [])
            blocks[engine] = [_block(raw) for raw in listed]
    return Graph(
        name=str(name),
        code=code,
        blocks=blocks,
        queues={str(key): _queue(str(key), q) for key, q in definition["dma_queue"].items()},
        variables=variables,
        constants={
            key: files[f"{folder}/{variable.file}"]
            for key, variable in variables.items()
            if variable.file and f"{folder}/{variable.file}" in files
        },
        statements=_statements(files, name),
    )


def _variable(name: str, raw: Json, shapes: Json) -> Variable:
    tensor = shapes.get(name, {})
    return Variable(
        name=name,
        number=int(raw["var_id"]),
        kind=str(raw["type"]),
        size=int(raw.get("size", 0)),
        file=str(raw.get("file_name", "")),
        table=[int(number) for number in raw.get("list", [])],
        format=str(tensor.get("dtype", "")),
        shape=[int(size) for size in tensor.get("sim_shape", [])],
    )


def _queue(name: str, raw: Json) -> Queue:
    return Queue(
        name=name,
        kind=str(raw["type"]),
        rings=int(raw["num_queues"]),
        semaphores=[int(number) for number in raw["semaphore_set"]],
    )


def _block(raw: Json) -> StaticBlock:
    return StaticBlock(
        number=int(raw["id"]),
        name=str(raw.get("#comment", "")),
        queue=str(raw["queue"]),
        semaphore=int(raw["semaphore"]),
        moves=[_move(each) for each in raw["desc"]],
    )


def _move(raw: Json) -> DmaMove:
    def numbers(key: str) -> list[int]:
        return [int(number) for number in raw[key]]

    return DmaMove(
        source=str(raw["from"]),
        source_offset=int(raw["from_off"]),
        source_sizes=numbers("from_sizes"),
        source_steps=numbers("from_steps"),
        source_format=str(raw["from_dtype"]),
        target=str(raw["to"]),
        target_offset=int(raw["to_off"]),
        target_sizes=numbers("to_sizes"),
        target_steps=numbers("to_steps"),
        target_format=str(raw["to_dtype"]),
        operation=str(raw["op"]),
    )


def _code(files: Mapping[str, bytes], folder: str, stem: str) -> Code:
    raw = files[f"{folder}/{stem}.bin"]
    if len(raw) % SIZE:
        raise Malformed(f"the archive's {stem}.bin ends within an instruction")
    words = np.frombuffer(raw, np.uint8).reshape(-1, SIZE)
    debug = _debug_rows(files, folder, stem)
    count = len(words)
    debug = (debug + [("", -1, False)] * count)[:count]
    names, statements, transposes = zip(*debug, strict=True) if debug else ((), (), ())
    return Code(words, names, statements, transposes)


# --- debug information ----------------------------------------------------------------------------


def _debug_rows(files: Mapping[str, bytes], folder: str, stem: str) -> list[tuple[str, int, bool]]:
    """Return each instruction's name, the number of its statement, and whether it transposes.

    The list is shorter than the engine's program, or empty, if the archive lacks some data."""
    known = {}
    for each in _entries(files.get(f"{folder}/debug_info_backend_{stem}.dbg", b"")):
        statement = _first(each, 3)
        known[each.integer(1)] = (each.text(2), statement, each.integer(6) == TRANSPOSE)
    listed = _entries(files.get(f"{folder}/debug_info_asm_{stem}.dbg", b""))
    return [known.get(_first(each, 3), ("", -1, False)) for each in listed]


def _entries(data: bytes) -> list[Message]:
    """Return the entries of a file of debug information, one for each instruction."""
    return Message(memoryview(data)).messages(3)


def _first(entry: Message, number: int) -> int:
    """Return the first integer of the packed field `number`, or -1."""
    numbers = [integer for part in entry.all_bytes(number) for integer in packed(part)]
    return numbers[0] if numbers else -1


def _statements(files: Mapping[str, bytes], graph: str) -> dict[int, Statement]:
    """Return the statements of a core by number.

    The statements are read from files whose names contain the core's name (`graph`). If there are
    no such files, all files of statements are read."""
    named = [name for name in files if name.startswith("debug_info/debug_info_penguin")]
    chosen = [name for name in named if graph in name] or named
    statements = {}
    for name in chosen:
        whole = Message(memoryview(files[name]))
        paths = [str(path, "utf-8") for path in whole.all_bytes(5)]
        for each in whole.messages(3):
            statement = _statement(each, paths)
            statements[statement.number] = statement
    return statements


def _statement(entry: Message, paths: Sequence[str]) -> Statement:
    attributes = {pair.text(1): pair.text(2) for pair in entry.messages(7)}
    file, line = (_whole(attributes.get(key, "")) for key in (FILE, LINE))
    path = paths[file] if file < len(paths) else ""
    return Statement(entry.integer(1), entry.text(2), path if line else "", line)


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() else 0
