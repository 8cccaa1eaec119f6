"""The instructions that read or write each byte of memory in a record; for each use of a byte, the
last instruction that wrote the byte before; and findings about these uses:

* sums in PSUM that continue after they were read, or that are never read,
* tensors whose addresses overlap, and tensors without an address in a memory where other tensors
  have an address,
* iterations of a parallel loop that read bytes which other iterations write.

A use is one operand of one instruction. A window is a view of one tensor, and a storage is the
memory of one tensor. An area is a storage, or a whole memory if the kernel specifies addresses in
this memory. A box is the set of bytes that a window covers in an area."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.findings import Finding
from neuroncore.base.lazy import Lazy
from neuroncore.base.source import Place
from neuroncore.clause.instruction import Call
from neuroncore.record.boxes import Areas
from neuroncore.record.columns import owners
from neuroncore.record.program import Columns, Program

if TYPE_CHECKING:
    from neuroncore.time.loops import dependencies as dataflow
else:
    dataflow = Lazy("neuroncore.time.loops.dependencies")


Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Uses:
    """The operands of all instructions of a program, one after the other. `box`, `window`, `user`,
    `place`, `writes`, `area` and `reaching` have an element for each operand. `user` is the index
    of its instruction."""

    program: Program

    @cached_property
    def columns(self) -> Columns:
        return self.program.columns()

    @property
    def box(self) -> Array:
        """The box of each operand: a row of `Program.box_table`."""
        return self.columns.operands

    @cached_property
    def window(self) -> Array:
        """The number of each operand's window."""
        return self.program.operand_windows()

    @cached_property
    def user(self) -> Array:
        return owners(self.columns.start)

    @cached_property
    def place(self) -> Array:
        """The position of each operand in its instruction: operands that are read, then indices,
        then results."""
        places: Array = np.arange(len(self.box)) - self.columns.start[self.user]
        return places

    @cached_property
    def writes(self) -> Array:
        """True for each operand that is written."""
        reads = np.array([c.inputs for c in self.program.calls], np.int64)
        flags: Array = self.place >= reads[self.columns.call[self.user]]
        return flags

    @property
    def areas(self) -> Areas:
        return self.program.boxes().areas

    @cached_property
    def area(self) -> Array:
        """The area of each operand. Areas are numbered in the order of first use."""
        numbers: Array = self.areas.of_box[self.box]
        return numbers

    @cached_property
    def reaching(self) -> Array:
        """The last earlier instruction that wrote a byte of each operand; -1 for none."""
        count = len(self.columns.call)
        near = self.program.boxes().near
        reads = np.bincount(self.user[~self.writes], minlength=count).astype(np.int32)
        accesses = dataflow.Accesses(self.columns.start, self.box, reads, *near)
        single_queue = np.zeros(count, np.int32)
        no_weights = np.full(count, -1, np.int8)
        return dataflow.dependencies(single_queue, 1, accesses, no_weights, defines=True).reaching

    def share_bytes(self, first: int, second: int) -> bool:
        """Return whether two operands share bytes."""
        near, start = self.program.boxes().near
        a, b = int(self.box[first]), int(self.box[second])
        return bool((near[start[a] : start[a + 1]] == b).any())

    def call(self, instruction: int) -> Call:
        return self.program.calls[int(self.columns.call[instruction])]

    def line(self, instruction: int) -> Place:
        """Return the place of the kernel's line that issued an instruction."""
        return self.program.place(int(self.columns.line[instruction]))


def sums(uses: Uses) -> Iterator[Finding]:
    """Yield two kinds of findings about lines with matrix products:

    * The products continue a sum that was already read, without stating it. The author may think
      that a new sum begins.
    * The products overwrite a sum that was never read."""
    if not any(call.instruction.traits.multiplies for call in uses.program.calls):
        return
    window_uses = _WindowUses.of(uses)
    reported: set[int] = set()
    lines = uses.columns.line
    for adds, read in window_uses.after_reads():
        if lines[adds] not in reported:
            reported.add(int(lines[adds]))
            yield Finding(
                "SUM_GOES_ON",
                "this product is added to a sum that is finished: "
                f"{uses.call(read).name} at {uses.line(read).short} has already read it. Only the "
                "first product that is written to a tile begins a sum",
                uses.line(adds),
            )
    for begins, lost in window_uses.over_unread():
        if ~lines[begins] not in reported:
            reported.add(~int(lines[begins]))
            yield Finding(
                "SUM_NOT_READ",
                f"this product replaces a sum in dst that {uses.line(lost).short} computed and "
                "that was never read",
                uses.line(begins),
            )


@dataclass(frozen=True, eq=False)
class _WindowUses:
    """The uses of each window in program order, window by window. Tensors at the same address have
    different windows, and so separate sums."""

    uses: Uses
    window: Array
    user: Array
    writes: Array

    @classmethod
    def of(cls, uses: Uses) -> _WindowUses:
        order = np.lexsort((uses.place, uses.user, uses.window))
        return cls(uses, uses.window[order], uses.user[order], uses.writes[order])

    def after_reads(self) -> Iterator[tuple[int, int]]:
        """Yield pairs of instructions: a product that does not state whether it accumulates, and
        the previous user of the window, which read the sum there."""
        after = self._follow(self._products(None), ~self.writes)
        began = _written_before(self.window, self.writes)
        for k in sorted(after[began[after]].tolist(), key=lambda k: int(self.user[k + 1])):
            yield int(self.user[k + 1]), int(self.user[k])

    def over_unread(self) -> Iterator[tuple[int, int]]:
        """Yield pairs of instructions: a product that begins a sum, and the product that used the
        window before it. Nothing read the result of the earlier product."""
        every = self._products(None) | self._products(True) | self._products(False)
        following = self._follow(self._products(False), every)
        read = self.uses.reaching[~self.uses.writes]
        for k in following[~np.isin(self.user[following], read)].tolist():
            yield int(self.user[k + 1]), int(self.user[k])

    def _products(self, adds: bool | None) -> Array:
        """Return which uses are results of products with `accumulate=adds` (None: not stated)."""
        stated = np.array([_says(call, adds) for call in self.uses.program.calls], np.bool_)
        products: Array = stated[self.uses.columns.call[self.user]] & self.writes
        return products

    def _follow(self, later: Array, earlier: Array) -> Array:
        """Return the positions k with flags earlier[k] and later[k + 1], where both uses have the
        same window and different instructions."""
        same = (self.window[1:] == self.window[:-1]) & (self.user[1:] != self.user[:-1])
        following: Array = np.flatnonzero(later[1:] & earlier[:-1] & same)
        return following


def _written_before(window: Array, writes: Array) -> Array:
    """Return whether each use, or an earlier use of its window, writes. Uses are sorted by
    window."""
    count = np.cumsum(writes)
    first = np.flatnonzero(np.diff(window, prepend=-1))
    before = np.repeat(count[first] - writes[first], np.diff(np.append(first, len(window))))
    earlier: Array = count > before
    return earlier


def _says(call: Call, adds: bool | None) -> bool:
    """Return whether a call is a product with `accumulate=adds`."""
    traits = call.instruction.traits
    is_stated = traits.multiplies and traits.adds in call.arguments
    return is_stated and call.arguments[traits.adds] is adds


MOST_TRIES = 16  # the most reads that are examined for each pair of lines


def overlaps(uses: Uses) -> Iterator[Finding]:
    """Yield findings for a tensor A that is overwritten through another tensor B at the same
    address.

    The message names the line that writes A, the line that writes B, and the line that reads A.
    There is none if the writer of B reads all bytes that it overwrites: B may be meant as a view of
    A."""
    program = uses.program
    if not program.storages().is_placed().any():
        return
    storage = program.windows().storage[uses.window]
    tries: dict[tuple[int, int], int] = {}
    for k in _candidates(uses, storage).tolist():
        reader, writer = int(uses.user[k]), int(uses.reaching[k])
        pair = int(uses.columns.line[reader]), int(uses.columns.line[writer])
        tries[pair] = tried = tries.get(pair, 0) + 1
        if tried > MOST_TRIES:
            continue
        lost = _overwritten(uses, storage, k, writer)
        if lost is not None:
            tries[pair] = MOST_TRIES
            yield Finding(
                "OVERLAPPING_ADDRESSES",
                f"{uses.call(writer).name} overwrites bytes that {uses.call(lost).name} at "
                f"{uses.line(lost).short} wrote to another tensor, and {uses.call(reader).name} at "
                f"{uses.line(reader).short} reads them from that tensor",
                uses.line(writer),
            )


def _candidates(uses: Uses, storage: Array) -> Array:
    """Return the inputs whose bytes were last written through another tensor. Writers with several
    results are left out.

    `storage`: the storage of each operand"""
    kinds, areas = uses.program.kinds, uses.areas
    placed = np.array([kind.placed for kind in kinds], np.bool_)[areas.kind][uses.area]
    reads_of_single = np.flatnonzero(placed & ~uses.writes & (uses.reaching >= 0))
    written = np.flatnonzero(uses.writes)
    first, last = (
        np.searchsorted(uses.user[written], uses.reaching[reads_of_single] + e) for e in (0, 1)
    )
    single = last - first == 1  # of several results, it is unknown which has the bytes
    reads_of_single, write = reads_of_single[single], written[first[single]]
    candidates: Array = reads_of_single[storage[reads_of_single] != storage[write]]
    return candidates


def _overwritten(uses: Uses, storage: Array, read: int, writer: int) -> int | None:
    """Return the last instruction before `writer` that wrote the tensor of operand `read`, at bytes
    that the operand and `writer` share. Return None if there is none, or if `writer` reads all that
    it overwrites.

    `storage`: the storage of each operand"""
    start, end = uses.columns.start[writer : writer + 2]
    (target,) = (k for k in range(start, end) if uses.writes[k])
    sources = [k for k in range(start, end) if not uses.writes[k]]
    if any(uses.share_bytes(k, target) and _is_within(uses, target, k) for k in sources):
        return None
    before = np.flatnonzero(uses.writes & (storage == storage[read]) & (uses.user < writer))
    for k in before[::-1].tolist():
        if uses.share_bytes(k, target) and uses.share_bytes(k, read):
            return int(uses.user[k])
    return None


def _is_within(uses: Uses, inner: int, outer: int) -> bool:
    """Return whether the bounds of operand `inner`'s box are inside those of operand `outer`'s
    box."""
    table = uses.program.box_table()
    (low, high, first, last), (least, most, begin, end) = table[
        uses.box[[inner, outer]], 1:5
    ].tolist()
    return bool(least <= low and high <= most and begin <= first and last <= end)


MOST_REPORTED = 4  # the most lines that are reported


def unplaced(uses: Uses) -> Iterator[Finding]:
    """Yield findings for lines that allocate a tensor without an address in a memory where others
    have addresses: the first MOST_REPORTED lines."""
    kinds = uses.program.kinds
    placed = {kind.region for kind in kinds if kind.placed}
    free = (k for k in kinds if not k.placed and k.region in placed and k.line >= 0)
    lines = dict.fromkeys((kind.line, kind.region) for kind in free)
    for line, region in list(lines)[:MOST_REPORTED]:
        yield Finding(
            "MIXED_ALLOCATION",
            f"a tensor in {region.value} has no address, but other tensors there have explicit "
            "addresses",
            uses.program.place(line),
        )


NOWHERE = -1  # in no loop


@dataclass(frozen=True, eq=False)
class Nesting:
    """The parallel loops around each instruction. A span is a range of instructions without begins
    or ends of loops and iterations.

    `begins`: span k begins with instruction begins[k]
    `loops`: the loops around span k, the outermost first, and then NOWHERE
    `values`: the values of these loops' variables"""

    begins: Array
    loops: Array
    values: Array

    @classmethod
    def of(cls, marks: Array) -> Nesting:
        """Return the nesting of `Data.iterations`: rows [instruction, loop, value] where an
        iteration begins, and [instruction, ~loop, 0] where a loop ends."""
        within: dict[int, int] = {}  # loops in progress, with their variables
        spans = [dict(within)]
        for loop, value in marks[:, 1:].tolist():
            if loop >= 0:
                within[loop] = value
            else:
                del within[~loop]
            spans.append(dict(within))
        shape = len(spans), max(map(len, spans))
        loops, values = np.full(shape, NOWHERE, np.int64), np.zeros(shape, np.int64)
        for span, around in enumerate(spans):
            loops[span, : len(around)] = list(around)
            values[span, : len(around)] = list(around.values())
        return cls(np.append(0, marks[:, 0]), loops, values)

    def differ(self, first: Array, second: Array) -> Array:
        """Return flags (pairs, depths): whether instructions first[k] and second[k] are in
        different iterations of one loop at this depth."""
        a, b = (np.searchsorted(self.begins, rows, "right") - 1 for rows in (first, second))
        same_loop = (self.loops[a] == self.loops[b]) & (self.loops[a] != NOWHERE)
        different: Array = same_loop & (self.values[a] != self.values[b])
        return different

    def share(self, first: Array, second: Array) -> Array:
        """Return whether one parallel loop contains instructions first[k] and second[k], at one
        depth."""
        a, b = (np.searchsorted(self.begins, rows, "right") - 1 for rows in (first, second))
        inside = (self.loops[a] == self.loops[b]) & (self.loops[a] != NOWHERE)
        shared: Array = inside.any(axis=1)
        return shared

    def value(self, row: int, depth: int) -> int:
        """Return the loop variable at `depth` for an instruction; depth 0 is the outermost loop."""
        return int(self.values[np.searchsorted(self.begins, row, "right") - 1, depth])


def carried_reads(uses: Uses) -> Iterator[Finding]:
    """Yield a finding for each pair of lines that depend on the order of iterations: one reads
    bytes, and the other writes them in another iteration."""
    nesting, reported = _nesting(uses), set()
    if nesting is None:
        return
    for operand, writer, depth in _carried(uses, nesting):
        reader = int(uses.user[operand])
        lines = uses.line(writer), uses.line(reader)
        if lines in reported or not _is_one_tensor(uses, operand, writer):
            continue
        reported.add(lines)
        does = "has written" if writer < reader else "overwrites"
        yield Finding(
            "LOOP_CARRIED_READ",
            f"iteration {nesting.value(reader, depth)} of an affine_range reads what iteration "
            f"{nesting.value(writer, depth)} {does} at {lines[0].short}",
            lines[1],
        )


def conflicts(uses: Uses) -> Iterator[tuple[int, int]]:
    """Yield pairs (earlier instruction, later instruction) that use the same bytes in different
    iterations of a parallel loop. At least one of them writes."""
    nesting = _nesting(uses)
    if nesting is None:
        return
    for operand, writer, _ in (*_carried(uses, nesting), *_written_twice(uses, nesting)):
        if _is_one_tensor(uses, operand, writer):
            user = int(uses.user[operand])
            yield min(user, writer), max(user, writer)


def _nesting(uses: Uses) -> Nesting | None:
    """Return the parallel loops around the instructions of a program; None if it has no parallel
    loops."""
    marks = uses.program.data.marks()
    return Nesting.of(marks) if len(marks) else None


def _written_twice(uses: Uses, nesting: Nesting) -> Iterator[tuple[int, int, int]]:
    """Yield (operand, writer, depth) for each operand that overwrites bytes of another iteration of
    the loop at `depth`. The instruction `writer` wrote these bytes last."""
    written: Array = np.flatnonzero(uses.writes & (uses.reaching >= 0))
    before = uses.reaching[written]
    differ = nesting.differ(uses.user[written], before)
    for k in np.flatnonzero(differ.any(axis=1)).tolist():
        yield int(written[k]), int(before[k]), int(differ[k].argmax())


def _carried(uses: Uses, nesting: Nesting) -> Iterator[tuple[int, int, int]]:
    """Yield (operand, writer, depth) for each operand that reads bytes of another iteration of the
    loop at `depth`.

    `writer` is the last to write them before the read, or after it (`_overwritten_later`). Operands
    that iterations may share, and operands with an index, are left out."""
    windows = uses.program.windows()
    shared = np.isin(windows.storage, list(uses.program.data.carried)) | (windows.moving >= 0)
    read: Array = np.flatnonzero(~uses.writes & ~shared[uses.window])
    written = uses.reaching[read]
    differ = nesting.differ(uses.user[read], written) & (written >= 0)[:, np.newaxis]
    for k in np.flatnonzero(differ.any(axis=1)).tolist():
        yield int(read[k]), int(written[k]), int(differ[k].argmax())
    yield from _overwritten_later(uses, nesting, read)


def _overwritten_later(uses: Uses, nesting: Nesting, read: Array) -> Iterator[tuple[int, int, int]]:
    """Yield (operand, writer, depth) for operands in `read` that another iteration of the loop at
    `depth` overwrites later. `writer` is the last instruction to write there. Operands that the
    same iteration wrote before are left out."""
    near, start = uses.program.boxes().near
    last = np.full(len(start) - 1, -1, np.int64)  # the last writer of a box
    np.maximum.at(last, uses.box[uses.writes], uses.user[uses.writes])
    of_box = owners(start)
    latest = np.full(len(last), -1, np.int64)  # the last writer of any byte of a box
    np.maximum.at(latest, of_box, last[near])
    reader, writer, before = uses.user[read], latest[uses.box[read]], uses.reaching[read]
    same_iteration = (
        (before >= 0) & nesting.share(reader, before) & ~nesting.differ(reader, before).any(axis=1)
    )
    differ = nesting.differ(reader, writer) & ((writer > reader) & ~same_iteration)[:, np.newaxis]
    for k in np.flatnonzero(differ.any(axis=1)).tolist():
        yield int(read[k]), int(writer[k]), int(differ[k].argmax())


def _is_one_tensor(uses: Uses, operand: int, writer: int) -> bool:
    """Return whether instruction `writer` writes to the tensor of `operand`, at a fixed position.
    Return False if the instruction of `operand` updates the tensor in place."""
    windows, start = uses.program.windows(), uses.columns.start
    window, reader = uses.window[operand], uses.user[operand]
    updated = slice(start[reader], start[reader + 1])
    if (uses.writes[updated] & (uses.window[updated] == window)).any():
        return False
    written = slice(start[writer], start[writer + 1])
    others = uses.window[written][uses.writes[written]]
    fixed = windows.moving[others] < 0
    return bool((fixed & (windows.storage[others] == windows.storage[window])).any())
