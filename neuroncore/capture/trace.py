"""Device traces (.ntff): what engines, DMA engines and semaphores did on a device, and when.

A file begins with 128 bytes that contain a version and the length of the header. Then come the
header and the body. The header is a protobuf message. For each core the header contains a graph:
the programs of the core as they were loaded, the names of its queues, and the rates of its clocks.
The body consists of sections. A section is an array of records of 16 bytes. The format is not
documented. It was worked out from published traces, and compared with the tables that
`neuron-profile view` prints for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.errors import UsageError, reading
from neuroncore.capture.files import START, VERSIONS, saved_run
from neuroncore.capture.protobuf import Malformed, Message

Array = npt.NDArray[Any]

LARGEST = 1 << 30  # bytes of a file: the largest published trace has 4 MB
LATEST_PS = 1 << 62  # the latest time: 53 days
RATES = 1 << 31  # the slowest clock, in 1/1024 ps per tick: 2 us per tick
SIZE = 64  # bytes of an instruction
LFS = b"version https://git-lfs"

# The engines by the numbers that files have for them.
ENGINES = ("Tensor", "Scalar", "GpSimd", "Vector", "Sync")
TENSOR, SCALAR, GPSIMD, VECTOR, SYNC = range(len(ENGINES))

# The semaphores that engines increment when they have done an instruction. The runtime uses lower
# numbers, and DMA queues use higher ones.
SEMAPHORES = {3: "GpSimd", 4: "Scalar", 5: "Tensor", 6: "Vector", 7: "Sync"}

RECORD = np.dtype([("id", "<u2"), ("part", "u1"), ("unit", "u1"), ("value", "<u4"), ("ps", "<u8")])
KINDS = {0: "instructions", 1: "events", 4: "transfers", 5: "clock"}  # of sections

# Units of records: for engine e, 132 + 4 e is the begin of an instruction, 133 + 4 e its end, and
# 135 + 4 e an event; DMA engine d has 64 + d; changes of semaphores by DMA have other units.
BEGINS, ENDS, EVENTS, STRIDE = 132, 133, 135, 4
DMA_UNIT = 64
INCREMENT, CLEAR = 243, 249  # parts of events
ELEMENT_BEGINS, ELEMENT_ENDS = 1, 5  # low hex digits of values; the second digit is the queue
PC_BITS = 21  # bits of an instruction's number; the bit above them marks a branch that was taken

INSTRUCTION = np.dtype(
    [("begin_ps", "i8"), ("end_ps", "i8"), ("engine", "u1"), ("pc", "i4"), ("own", "?")]
)
TRANSFER = np.dtype(
    [
        *(("begin_ps", "i8"), ("end_ps", "i8"), ("engine", "u1"), ("queue", "u1")),
        *(("bytes", "i4"), ("checksum", "u2")),
    ]
)
UPDATE = np.dtype([("ps", "i8"), ("semaphore", "u1"), ("value", "i8"), ("by", "i1")])
FULL = 8  # eighths of the clock
CLOCK = np.dtype([("ps", "i8"), ("eighths", "u1")])


@dataclass(frozen=True, eq=False)
class EventStream:
    """The program of one engine as it was loaded.

    The runtime's instructions are around the compiler's.

    `code`: the bytes of the instructions, [instructions, 64].
    `own`: True for instructions of the compiler.
    `place`: the position of each instruction in the compiled program, or -1 for the runtime's.
    `base`: the number of the first instruction in the trace's records. Later instructions have the
        following numbers."""

    code: Array
    own: Array
    place: Array
    base: int


@dataclass(frozen=True, eq=False)
class Graph:
    """The trace of one core. All times are picoseconds on one clock.

    Four structured arrays are sorted by time:

    * `instructions` of dtype INSTRUCTION; `pc` is an index of the stream's code, or -1 for an
      instruction outside of the code.
    * `transfers` of dtype TRANSFER; each is one element of a DMA on one DMA engine.
    * `updates` of dtype UPDATE: the new values of semaphores; `by` is the engine, or -1 for a DMA.
    * `clock` of dtype CLOCK: the rate of the Tensor engine's clock from a time on, in eighths of
      the full rate.
    """

    name: str
    core: int
    total_ps: int  # what the profiler calls total_time
    streams: Mapping[int, EventStream]  # by engine
    queues: Mapping[tuple[int, int], str]  # by DMA engine and number
    memory: Mapping[str, int]  # the bytes of HBM that each kind of use takes
    instructions: Array
    transfers: Array
    updates: Array
    clock: Array

    @property
    def window_ps(self) -> tuple[int, int]:
        """The begin of the compiler's first instruction and the end of its last one, in
        picoseconds."""
        own = self.instructions[self.instructions["own"]]
        if not len(own):
            return 0, 0
        return int(own["begin_ps"].min()), int(own["end_ps"].max())


@dataclass(frozen=True, eq=False)
class Trace:
    """A device trace.

    `origin_ps` is the time at which the profiler begins to count. Older files lack this time; then
    `origin_ps` is the begin of the compiler's first instruction."""

    program: str  # the file name of the compiled program
    instance: str
    version: int
    runtime: str
    origin_ps: int
    graphs: Sequence[Graph]


@dataclass(frozen=True, eq=False)
class _Clocks:
    """The clocks that the recorded times come from. On trn1 each engine has a separate clock. On
    trn2 all engines share one, whose times are right.

    `of`: for each clock, triples of a reference time in ps, the assumed length of a tick, and its
        true length, both in 1/1024 ps"""

    of: Mapping[int, Sequence[tuple[int, int, int]]] = field(default_factory=dict)

    def times(self, ps: Array, clock: int, number: int = 0) -> Array:
        """Convert recorded times to times on the common clock, in picoseconds.

        `clock`: identifies the clock that recorded the times.
        `number`: the index of the triple to use, among the triples of this clock (`of`)."""
        recorded = _signed(ps)
        triples = self.of.get(clock)
        if not triples:
            return recorded
        start, assumed, real = triples[number if number < len(triples) else 0]
        if assumed == real:
            return recorded
        whole, rest = np.divmod(recorded - start, assumed)
        if len(whole) and int(np.abs(whole).max()) > LATEST_PS // max(real, 1):
            raise Malformed("a time is out of range")
        return np.asarray(whole * real + rest * real // assumed)


ENGINE_CLOCKS = (1, 2, 4, 3, 5)  # the numbers of the engines' clocks
# DMA engines share a list of clocks. All changes of semaphores use the clock of Sync: with it,
# published traces of trn1 have 13 ns from the end of an instruction to its increment, as on trn2.
DMA_CLOCKS, SEMAPHORE_CLOCK = 8, ENGINE_CLOCKS[SYNC]


def load(path: Path) -> Trace:
    """Read a trace.

    Raises UsageError if the file does not exist, is not a trace, has an unknown version, or is cut
    short or damaged."""
    data = content(path, LARGEST)
    try:
        return read(data)
    except Malformed as error:
        raise UsageError(f"{path} is not a trace that can be read: {error}") from None


def content(path: Path, largest: int) -> bytes:
    """Return the bytes of a file.

    Raises UsageError if the file cannot be read, is too large, is only a pointer of Git LFS, or is
    a saved run of neuroncore."""
    with reading(path):
        if path.stat().st_size > largest:
            raise UsageError(f"{path} has more than {largest:,} bytes: it is not read")
        data = path.read_bytes()
    if data.startswith(LFS):
        raise UsageError(f"{path} is a pointer of Git LFS: fetch the file itself with git lfs pull")
    if saved := saved_run(path, data):
        raise UsageError(saved)
    return data


def read(data: bytes) -> Trace:
    """Return the trace in the bytes of a file. Raise Malformed if they are not a trace."""
    if len(data) < START:
        raise Malformed("the file is cut short: it ends before its header")
    version, length = data[0], int.from_bytes(data[1:5], "little")
    if version not in VERSIONS:
        known = f"{VERSIONS[0]} to {VERSIONS[-1]}"
        raise Malformed(f"the first byte has version {version}; the supported versions are {known}")
    if START + length > len(data):
        raise Malformed(
            f"the file is cut short: its header has {length:,} bytes, of which "
            f"{len(data) - START:,} are in the file"
        )
    view = memoryview(data)
    header, body = Message(view[START : START + length]), view[START + length :]
    sections = [_Section.of(each) for each in header.messages(16)]
    graphs = [
        _graph(graph, body, sections)
        for device in header.messages(4)
        for group in device.messages(4)
        for graph in group.messages(1)
    ]
    if not graphs:
        raise Malformed("the header has no graph: nothing was traced")
    runtime = header.message(8)
    return Trace(
        program=header.text(1),
        instance=header.text(9),
        version=version,
        runtime=".".join(str(runtime.integer(number)) for number in (1, 2, 3)),
        origin_ps=_time(header.message(15).integer(2)) or _first_own(graphs),
        graphs=graphs,
    )


def _first_own(graphs: Sequence[Graph]) -> int:
    return min((begin for begin, _ in (graph.window_ps for graph in graphs) if begin), default=0)


@dataclass(frozen=True)
class _Section:
    """A section of the body: its kind, its offset and size in bytes, and the number of its core.

    The kind is a key of KINDS, or unknown."""

    kind: int
    offset: int
    size: int
    core: int

    @classmethod
    def of(cls, message: Message) -> _Section:
        return cls(*(message.integer(number) for number in (1, 5, 6, 7)))


def _part(body: memoryview, offset: int, size: int, what: str) -> memoryview:
    if offset + size > len(body):
        raise Malformed(
            f"the file is cut short: its {what} end at byte {offset + size:,}, but its body has "
            f"{len(body):,} bytes"
        )
    return body[offset : offset + size]


def _graph(message: Message, body: memoryview, sections: Sequence[_Section]) -> Graph:
    core = message.integer(3)
    listed = [_Section.of(each) for each in message.messages(6)]  # of older files
    listed += [each for each in sections if each.core == core]
    records = {each.kind: _records(body, each) for each in listed if each.size}
    none = np.empty(0, RECORD)
    clocks, streams = _clocks(message.message(10)), _streams(message, body)
    return Graph(
        name=message.text(1),
        core=core,
        total_ps=_time(message.integer(14)),
        streams=streams,
        queues={(q.integer(1), q.integer(2)): q.text(4) for q in message.messages(7)},
        memory={each.text(3): each.integer(2) for each in message.messages(11)},
        instructions=_instructions(records.get(0, none), streams, clocks),
        transfers=_transfers(records.get(4, none), clocks),
        updates=_updates(records.get(1, none), clocks),
        clock=_clock(records.get(5, none)),
    )


def _records(body: memoryview, section: _Section) -> Array:
    if section.size % RECORD.itemsize:
        raise Malformed(f"a section of {section.size:,} bytes is not a whole number of records")
    what = KINDS.get(section.kind, "other records")
    return np.frombuffer(_part(body, section.offset, section.size, what), RECORD)


def _clocks(message: Message) -> _Clocks:
    rates_of = {}
    for number in (*ENGINE_CLOCKS, DMA_CLOCKS):
        rates = [
            (each.integer(1), each.integer(2, 1), each.integer(3, 1))
            for each in message.messages(number)
        ]
        if not all(0 < r < RATES and 0 < t < RATES and s < LATEST_PS for s, t, r in rates):
            raise Malformed("the rate of a clock is out of range")
        rates_of[number] = rates
    return _Clocks(rates_of)


# --- programs -------------------------------------------------------------------------------------


def _streams(message: Message, body: memoryview) -> dict[int, EventStream]:
    """Return the loaded program of each engine. `message` is the header's part about a core. The
    instructions are in this message, or in the body of the trace."""
    edits = {each.integer(1): each.messages(2) for each in message.messages(5)}
    streams = {}
    for each in message.messages(4):
        engine = each.integer(1)
        if engine >= len(ENGINES):
            raise Malformed(
                f"the trace has a program of engine {engine}, but only {len(ENGINES)} engines exist"
            )
        embedded = each.all_bytes(3)
        raw = (
            embedded[-1]
            if embedded
            else _part(body, each.integer(7), each.integer(8), f"programs of {ENGINES[engine]}")
        )
        if len(raw) % SIZE:
            raise Malformed(f"the program of {ENGINES[engine]} ends within an instruction")
        code = np.frombuffer(raw, np.uint8).reshape(-1, SIZE)
        own, place = _edited(len(code), edits.get(engine, []))
        streams[engine] = EventStream(code, own, place, each.integer(2) >> 6 & 0xFFFFFF)
    return streams


def _edited(count: int, edits: Sequence[Message]) -> tuple[Array, Array]:
    """Return two arrays for `count` loaded instructions.

    The first one flags instructions of the compiler. The second one has their positions in the
    compiled program, -1 for instructions of the runtime. `edits` lists the instructions that the
    runtime has added and removed."""
    own, shift = np.ones(count, np.bool_), np.zeros(count + 1, np.int64)
    for edit in edits:
        at, number = edit.integer(1) // SIZE, edit.integer(2)
        if at > count or number > count:
            raise Malformed("the runtime's edits are outside of the program")
        if edit.integer(3) == 2:  # removed
            shift[at] += number
        else:
            own[at : at + number] = False
    place = np.cumsum(own) - 1 + np.cumsum(shift[:-1])
    return own, np.where(own, place, -1)


# --- records --------------------------------------------------------------------------------------


def _time(ps: int) -> int:
    if ps > LATEST_PS:
        raise Malformed("a time is out of range")
    return ps


def _signed(ps: Array) -> Array:
    if len(ps):
        _time(int(ps.max()))
    return ps.astype(np.int64)


def _instructions(records: Array, streams: Mapping[int, EventStream], clocks: _Clocks) -> Array:
    rows = []
    for engine, stream in streams.items():
        unit = BEGINS + STRIDE * engine
        of_engine = records[(records["unit"] == unit) | (records["unit"] == unit + 1)]
        of_engine = of_engine[np.argsort(of_engine["ps"], kind="stable")]
        number = of_engine["id"].astype(np.int64) | of_engine["part"].astype(np.int64) << 16
        pc = number - stream.base & (1 << PC_BITS) - 1
        begin, end = _pairs(pc, of_engine["unit"] == unit, of_engine["unit"] == unit + 1)
        timed = np.zeros(len(begin), INSTRUCTION)
        timed["begin_ps"] = clocks.times(of_engine["ps"][begin], ENGINE_CLOCKS[engine])
        timed["end_ps"] = clocks.times(of_engine["ps"][end], ENGINE_CLOCKS[engine])
        timed["engine"], timed["pc"] = engine, pc[begin]
        outside = timed["pc"] >= len(stream.code)  # the runtime's instructions around the program
        timed["pc"][outside] = -1
        timed["own"][~outside] = stream.own[timed["pc"][~outside]]
        rows.append(timed)
    return _in_time(rows, INSTRUCTION, "begin_ps")


def _transfers(records: Array, clocks: _Clocks) -> Array:
    """Return transfers (TRANSFER) from the records of the begins and ends of elements.

    Elements of one queue on one DMA engine end in the order in which they begin."""
    records = records[np.argsort(records["ps"], kind="stable")]
    engine, kind = records["unit"].astype(np.int64) - DMA_UNIT, records["value"] & 0xF
    if (engine < 0).any():
        raise Malformed("a transfer is on no DMA engine")
    queue = records["value"] >> 4 & 0xF
    begin, end = _pairs(engine << 4 | queue, kind == ELEMENT_BEGINS, kind == ELEMENT_ENDS)
    ps = np.zeros(len(records), np.int64)
    for number in range(16):
        of_engine = engine % 16 == number
        ps[of_engine] = clocks.times(records["ps"][of_engine], DMA_CLOCKS, number)
    transfers = np.zeros(len(begin), TRANSFER)
    transfers["begin_ps"], transfers["end_ps"] = ps[begin], ps[end]
    transfers["engine"], transfers["queue"] = engine[begin], queue[begin]
    ended = records[end]
    transfers["bytes"] = ended["id"].astype(np.int32) | ended["part"].astype(np.int32) << 16
    transfers["checksum"] = ended["value"] >> 16
    return _in_time([transfers], TRANSFER, "begin_ps")


def _updates(records: Array, clocks: _Clocks) -> Array:
    records = records[(records["part"] == INCREMENT) | (records["part"] == CLEAR)]
    updates = np.zeros(len(records), UPDATE)
    updates["by"] = -1
    for engine in range(len(ENGINES)):
        updates["by"][records["unit"] == EVENTS + STRIDE * engine] = engine
    updates["ps"] = clocks.times(records["ps"], SEMAPHORE_CLOCK)
    updates["semaphore"] = records["id"] & 0xFF
    updates["value"] = np.where(records["part"] == INCREMENT, records["value"], 0)
    return _in_time([updates], UPDATE, "ps")


def _clock(records: Array) -> Array:
    """Return the rates of the Tensor engine's clock.

    Records of other rates are left out. An example is 64 eighths in a trace on trn1, whose clock
    has one rate."""
    records = records[(records["value"] & 0xFF) <= FULL]
    rates = np.zeros(len(records), CLOCK)
    rates["ps"], rates["eighths"] = _signed(records["ps"]), records["value"] & 0xFF
    return _in_time([rates], CLOCK, "ps")


def _in_time(rows: Sequence[Array], dtype: np.dtype[Any], by: str) -> Array:
    """Return all rows of some arrays as one array of `dtype`, sorted by the field `by`."""
    whole = np.concatenate([np.empty(0, dtype), *rows])
    return whole[np.argsort(whole[by], kind="stable")]


def _pairs(key: Array, begins: Array, ends: Array) -> tuple[Array, Array]:
    """Return the indices of begins and of their ends, paired first in, first out.

    `key`: the key of each record. Only begins and ends with the same key are paired.
    `begins` and `ends`: flags of the records.

    An end without a begin, or a begin without an end, is left out."""
    at = np.flatnonzero(begins | ends)
    at = at[np.argsort(key[at], kind="stable")]
    first = np.diff(key[at], prepend=-1) != 0
    step = np.where(begins[at], 1, -1)
    # The number of open begins of each key. An offset keeps the ranges of keys apart.
    apart = -len(at) * np.cumsum(first)
    level = np.cumsum(step)
    level += apart - np.repeat(
        (level - step)[first], np.diff(np.append(np.flatnonzero(first), len(at)))
    )
    lowest = np.minimum.accumulate(np.minimum(level, apart))
    below = np.minimum(np.concatenate([lowest[:1] * 0, lowest[:-1]]), apart)
    kept = (step > 0) | (level >= below)  # an end below all earlier levels has no begin
    opened, closed = kept & (step > 0), kept & (step < 0)
    return _nth_of_both(at, key[at], opened, closed)


def _nth_of_both(at: Array, key: Array, opened: Array, closed: Array) -> tuple[Array, Array]:
    """Pair the n-th begin of each key with its n-th end, and return two arrays of indices.

    Begins without an end are left out, and ends without a begin.

    `at`: the indices of the records.
    `key`: their keys.
    `opened` and `closed`: flags of begins and ends."""
    numbered = []
    for chosen in (opened, closed):
        keys = key[chosen]
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        turn = np.arange(len(keys)) - np.repeat(starts, np.diff(np.append(starts, len(keys))))
        numbered.append((at[chosen], keys * (len(at) + 1) + turn))
    (begin, which), (end, other) = numbered
    _, opened_at, closed_at = np.intersect1d(which, other, assume_unique=True, return_indices=True)
    return begin[opened_at], end[closed_at]
