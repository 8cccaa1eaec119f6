"""Tracks undefined elements: elements that depend on uninitialized memory.

A kernel may compute with a tile that is only partly filled. If the kernel then stores only the
filled part, the unfilled part has no effect. So the finding about a read of undefined elements is
deferred: it is kept with the elements that depend on the read. It is reported only if these
elements may reach HBM, a register or another core. Lane-wise instructions, copies, transposes and
products are tracked element by element. If any other instruction reads undefined elements, the
finding is reported at once.

A storage is the memory of one tensor, and a window is a view of a storage. A site is a place in the
user's code. Poison is the value that a read of uninitialized memory returns, such as NaN
(`codec.poison`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from neuroncore.base import source
from neuroncore.base.enums import engine, reduce_cmd
from neuroncore.clause import product
from neuroncore.clause.instruction import Call
from neuroncore.core import indirection
from neuroncore.memory.access import Flags, Gaps
from neuroncore.memory.storage import Born, Storage
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics.formats import Format

T = TypeVar("T", bound=Hashable)
# the largest number of reads remembered per storage. A loop that also writes to the storage could
# add reads without end, because the key of a read includes the number of bytes written so far
READS = 256


@dataclass
class _UndefinedReads(Generic[T]):
    """Known reads of undefined elements in one storage. Equal reads need no new check.

    They are valid while the storage has these `gaps` (unwritten elements) and the format `held`.

    `findings`: (place of the read, window, bytes written so far) -> (finding, place). So a read
        after the write of a gap has another key. The place keeps its code object alive."""

    gaps: Gaps
    held: Format
    findings: dict[tuple[Any, ...], tuple[T, Born]] = field(default_factory=dict)


@dataclass
class _Tainted(Generic[T]):
    """Flags of a storage's undefined elements, and their deferred findings."""

    flags: Flags
    findings: dict[T, None] = field(default_factory=dict)

    def copy(self) -> _Tainted[T]:
        return _Tainted(deepcopy(self.flags), dict(self.findings))


class UndefinedElements(Generic[T]):
    """The undefined elements in one core's on-chip memories and accumulator registers. `report` is
    called with each finding that may matter."""

    def __init__(self, report: Callable[[T], None]) -> None:
        self.report = report
        self._tainted: WeakKeyDictionary[Storage, _Tainted[T]] = WeakKeyDictionary()
        self._reads: WeakKeyDictionary[Storage, _UndefinedReads[T]] = WeakKeyDictionary()
        # functions that undo the reads of the instruction that is being executed
        self._undo: list[Callable[[], None]] = []
        # the findings on which the accumulator registers of each engine depend
        self._registers: dict[engine, dict[T, None]] = {}

    def copies(self, storages: Iterable[Storage]) -> tuple[list[Any], dict[engine, dict[T, None]]]:
        """Return copies of the undefined elements of these storages and of the registers, for
        `restore`."""
        tainted = [self._tainted.get(storage) for storage in storages]
        return [t and t.copy() for t in tainted], _copied(self._registers)

    def restore(
        self,
        storages: Iterable[Storage],
        copies: tuple[list[Any], dict[engine, dict[T, None]]],
    ) -> None:
        """Restore the undefined elements of these storages and of the registers. Remove all
        others."""
        tainted, registers = copies
        pairs = zip(storages, tainted, strict=True)
        self._tainted = WeakKeyDictionary({storage: t.copy() for storage, t in pairs if t})
        self._registers = _copied(registers)
        self._reads.clear()

    def forget(self, storage: Storage) -> None:
        """Forget the undefined elements of a storage whose tensor has ended."""
        self._tainted.pop(storage, None)
        self._reads.pop(storage, None)

    def knows_reads_of(self, tile: Tile) -> bool:
        """Return whether known reads may be valid for the tile's storage."""
        reads = self._reads.get(tile.storage)
        return reads is not None and reads.gaps is tile.storage.gaps and reads.held is tile.held

    def known(self, tile: Tile, site: Born, deferred: bool) -> T | None:
        """Return the finding of an earlier read of these elements at this place, or None.

        `deferred`: whether the finding may be deferred; must be equal for both reads

        `knows_reads_of(tile)` must be true."""
        known = self._reads[tile.storage].findings.get(_window(tile, site, deferred))
        return known and known[0]

    def remember(self, tile: Tile, site: Born, deferred: bool, finding: T) -> None:
        """Remember the finding of a read for `known`.

        Reads at addresses that the kernel chose are not remembered: other tensors may write
        there."""
        storage = tile.storage
        if storage.image is not None or storage.gaps is None:
            return
        reads = self._reads.get(storage)
        if reads is None or not self.knows_reads_of(tile) or len(reads.findings) >= READS:
            reads = self._reads[storage] = _UndefinedReads(storage.gaps, tile.held)
        reads.findings[_window(tile, site, deferred)] = finding, site

    def poison(self, tile: Tile, missing: Array, zeros: bool, findings: list[T]) -> None:
        """Put poison, or 0 with `zeros`, into the elements that `missing` flags.

        If the instruction is refused, `refused` restores these elements and removes new
        `findings`."""
        codes, count = tile.codes(), len(findings)
        old = codes[missing]

        def undo() -> None:
            codes[missing] = old
            del findings[count:]

        self._undo.append(undo)
        tile.poison_elements(missing, zeros)

    def defer(self, tile: Tile, missing: Array, finding: T) -> None:
        """Defer a finding about the elements that `missing` flags. Report it at once if the kernel
        chose the tile's address."""
        storage = tile.storage
        if storage.image is not None:  # other tensors may write there
            self.report(finding)
            return
        tainted = self._tainted.get(storage)
        before = tainted and tainted.copy()

        def undo() -> None:
            if before is None:
                del self._tainted[storage]
            else:
                self._tainted[storage] = before

        self._undo.append(undo)
        flags = tile.flags(self._add(storage, {finding: None}).flags)
        flags[...] |= missing.reshape(missing.shape + (1,) * (flags.ndim - missing.ndim))

    def refused(self) -> None:
        """Undo the reads of an instruction that is refused."""
        while self._undo:
            self._undo.pop()()
            self._reads.clear()

    def skipped(self) -> None:
        """Keep the reads of a skipped instruction, so that `refused` doesn't undo them later."""
        self._undo.clear()

    def follow(self, call: Call, arguments: dict[str, Any]) -> None:
        """Track undefined elements through an instruction that has been executed."""
        self._undo.clear()
        if not self._tainted and not any(self._registers.values()):
            return
        reads, writes = ({n: arguments[n] for n in names} for names in (call.reads, call.writes))
        masks = {n: m for n, tile in reads.items() if (m := self.within(tile)) is not None}
        findings = {f: None for n in masks for f in self._tainted[reads[n].storage].findings}
        if call.instruction.traits.accumulates:
            self._accumulate(call, findings)
        if indexed := [*_indexed_storages((*reads.values(), *writes.values()))]:
            several = [t for s in indexed if (t := self._tainted.get(s)) and t.flags.mask.any()]
            findings |= {f: None for tainted in several for f in tainted.findings}
        elif (results := _results(call, reads, writes, masks)) is not None:
            self._mark_results(arguments, call, results, findings)
            return
        self._report(findings)
        self._mark_results(arguments, call, dict.fromkeys(writes), {}, untracked=True)

    def _accumulate(self, call: Call, findings: dict[T, None]) -> None:
        """Keep findings about values that the call accumulates in its engine's registers. Report
        the earlier ones if the call adds to earlier values."""
        if call.register_command is reduce_cmd.idle:
            return
        if call.adds_to_registers:
            self._report(self._registers.get(call.engine, {}))
        only_resets = call.register_command is reduce_cmd.reset
        self._registers[call.engine] = {} if only_resets else dict(findings)

    def _mark_results(
        self,
        arguments: dict[str, Any],
        call: Call,
        results: dict[str, Array | None],
        findings: dict[T, None],
        untracked: bool = False,
    ) -> None:
        """Mark the results of an instruction that depend on undefined elements.

        `untracked`: whether an index is involved, or dependences are unknown. Marks of a result
            that is written only in part (`Operand.partial`) then stay."""
        operands = {p.name: p.operand for p in call.instruction.operands}
        traits = call.instruction.traits
        adds = traits.multiplies and arguments.get(traits.adds) is not False
        for name, mask in results.items():
            operand = operands[name.partition("[")[0]]
            partial = operand is not None and operand.partial and (untracked or not operand.skips)
            self._mark(arguments[name], mask, adds or partial or name in call.reads, findings)

    def _mark(self, tile: Tile, mask: Array | None, keeps: bool, findings: dict[T, None]) -> None:
        """Mark the elements of a result that `mask` flags. With `keeps`, earlier marks stay."""
        tainted = self._tainted.get(tile.storage)
        if mask is None:
            if tainted is not None and not keeps:
                tile.flags(tainted.flags)[...] = False
            return
        if not tile.storage.on_chip or tile.storage.image is not None:
            self._report(findings)
            return
        flags = tile.flags(self._add(tile.storage, findings).flags)
        mask = mask.reshape(mask.shape + (1,) * (flags.ndim - mask.ndim))
        flags[...] = flags | mask if keeps else mask

    def _add(self, storage: Storage, findings: dict[T, None]) -> _Tainted[T]:
        """Add findings to a storage, and return its flags and findings."""
        tainted = self._tainted.get(storage)
        if tainted is None:
            tainted = self._tainted[storage] = _Tainted(Flags(storage.nbytes))
        tainted.findings |= findings
        return tainted

    def within(self, tile: Tile) -> Array | None:
        """Return flags of the tile's undefined elements. Return None if there are
        none, or if the tile has an index."""
        tainted = self._tainted.get(tile.storage)
        if tainted is None or tile.dynamic or isinstance(tile, indirection.Picked):
            return None
        flags = tile.flags(tainted.flags)
        if not flags.any():
            return None
        return flags.copy() if flags.ndim == len(tile.shape) else np.any(flags, axis=-1)

    def _report(self, findings: dict[T, None]) -> None:
        """Report findings once: remove them from the elements and registers."""
        for finding in list(findings):
            self.report(finding)
            for kept in (*self._registers.values(), *(t.findings for t in self._tainted.values())):
                kept.pop(finding, None)


def _copied(registers: dict[engine, dict[T, None]]) -> dict[engine, dict[T, None]]:
    return {unit: dict(findings) for unit, findings in registers.items()}


def _indexed_storages(tiles: Iterable[Tile]) -> Iterator[Storage]:
    """Yield the storages of tiles with an index, and of their indices."""
    for tile in tiles:
        if isinstance(tile, indirection.Picked):
            yield from (tile.source.storage, tile.index.storage)
        elif tile.dynamic:
            indices = (dynamic.index for dynamic in tile.dynamic)
            yield from (tile.storage, *(i.storage for i in indices if isinstance(i, Tile)))


def _window(tile: Tile, site: Born, deferred: bool) -> tuple[Any, ...]:
    assert tile.storage.gaps is not None
    return (
        site and source.key_of(site),
        deferred,
        tile.geometry,
        tile.offset,
        tile.storage.gaps.written,
    )


def _results(
    call: Call, reads: dict[str, Tile], writes: dict[str, Tile], masks: dict[str, Array]
) -> dict[str, Array | None] | None:
    """Return, for each result, flags of the elements that depend on undefined elements; None if
    unknown.

    `masks`: flags of the undefined elements in each input"""
    traits, sources = call.instruction.traits, [*masks.values()]
    if not masks:
        return dict.fromkeys(writes)
    if traits.lanewise:
        rows = {len(m) for m in sources} | {tile.shape[0] for tile in writes.values()}
        if len(rows) > 1:
            return None
        return {n: _in_lanes(sources, t, traits.scans) for n, t in writes.items()}
    if traits.transposes or traits.multiplies:
        into = _transposed(sources) if traits.transposes else _multiplied(reads, writes, masks)
        return None if into is None else {n: into.reshape(t.shape) for n, t in writes.items()}
    sizes = {m.size for m in sources} | {tile.size for tile in writes.values()}
    if not traits.copies or len(sizes) > 1:
        return None
    return {n: np.any([m.reshape(t.shape) for m in sources], axis=0) for n, t in writes.items()}


def _in_lanes(masks: list[Array], dst: Tile, scans: bool) -> Array:
    """Return flags of the elements of a lane-wise result that depend on flagged input elements.

    An input of the size of `dst` affects the same positions, unless the instruction `scans`. Any
    other input affects whole lanes."""
    flags = np.zeros((dst.shape[0], dst.free_size), np.bool_)
    for mask in (mask.reshape(len(mask), -1) for mask in masks):
        alike = mask.shape == flags.shape and not scans
        flags |= mask if alike else mask.any(axis=1, keepdims=True)
    return flags.reshape(dst.shape)


def _transposed(masks: list[Array]) -> Array:
    (mask,) = masks
    transposed: Array = mask.reshape(len(mask), -1).T
    return transposed


def _multiplied(
    reads: dict[str, Tile], writes: dict[str, Tile], masks: dict[str, Array]
) -> Array | None:
    """Return flags of the elements of a product that depend on undefined elements; None if unknown.
    A sum depends on all its terms. If the product only moves numbers, an element depends on one
    number."""
    (dst,) = writes.values()
    sizes = {"stationary": dst.shape[0], "moving": dst.free_size}
    if masks.keys() - sizes or any(not reads[n].dtype.is_float for n in sizes):
        return None  # scales or packed formats
    s, x = (reads[n].values().reshape(-1, size) for n, size in sizes.items())
    in_s, in_x = (masks[n].reshape(-1, size) if n in masks else None for n, size in sizes.items())
    into = product.moved(s, x, in_s, in_x)
    if into is not None:
        return into
    rows, columns = (np.any(m, axis=0) if m is not None else np.False_ for m in (in_s, in_x))
    return np.broadcast_to(np.expand_dims(rows, -1) | columns, (s.shape[1], x.shape[1]))


# --- results of a kernel -----------------------------------------------------------------------


def complete(result: Any, other: Any) -> Iterator[tuple[Tile, Tile, Array]]:
    """Copy elements from the other core that this core has not written, after a launch on two
    cores.

    Each core may have allocated an output separately, as in nki-library's kernels of NKI 0.2. Yield
    (tensor of this core, tensor of the other core, flags of the copied elements)."""
    for mine, theirs in _pairs(result, other):
        alike = (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        if mine.storage is theirs.storage or not alike or theirs.untouched:
            continue
        if (missing := mine.missing()) is None:
            continue
        never = theirs.missing()
        copied = missing if never is None else missing & ~never
        mine.codes()[copied] = theirs.codes()[copied]
        mine.mark_written(copied)
        yield mine, theirs, copied


def _pairs(first: Any, second: Any) -> Iterator[tuple[Tile, Tile]]:
    """Yield the tensors at equal places in two results: nested dictionaries, lists and tuples."""
    if isinstance(first, Tile) and isinstance(second, Tile):
        yield first, second
    elif isinstance(first, dict) and isinstance(second, dict):
        for key in first.keys() & second.keys():
            yield from _pairs(first[key], second[key])
    elif isinstance(first, list | tuple) and isinstance(second, list | tuple):
        for pair in zip(first, second, strict=False):
            yield from _pairs(*pair)


def unwritten(tile: Tile) -> int:
    """Return the number of elements that were never written."""
    if tile.untouched:
        return tile.size
    missing = tile.missing()
    return 0 if missing is None or not tile.size else int(missing.sum())


def contents(tile: Tile, zeros: bool) -> Array:
    """Return the elements of a tile in the stored numpy type. Unwritten elements are poison, or 0
    with `zeros`.

    The array is a view if memory has this type and some elements were written."""
    # a single element is broadcast, because a copy of the tensor might need gigabytes
    if tile.untouched and tile.size:
        return np.broadcast_to(tile.unwritten_value(zeros), tile.shape)
    missing = tile.missing()
    if missing is not None and tile.size:
        tile.poison_elements(missing, zeros)
    codes = tile.codes()
    if codes.dtype == tile.held.numpy:
        return codes
    return np.ascontiguousarray(codes).view(tile.held.numpy)
