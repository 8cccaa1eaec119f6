"""Tracking of leftovers: elements that depend on uninitialized memory.

A kernel may compute with a tile that is only partly filled, if it stores only the filled part: the
rest has no effect. So a read of leftovers is reported only if its results may reach HBM, a register
or another core. Lane-wise instructions, copies, transposes and products are tracked element by
element; for any other instruction that reads leftovers the finding is reported. Until then the
finding is kept with the elements that depend on the read."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from neuroncore.base.enums import reduce_cmd
from neuroncore.clause import product
from neuroncore.clause.instruction import Call
from neuroncore.core import indirection
from neuroncore.memory.access import Flags, Gaps
from neuroncore.memory.storage import Born, Storage
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics.formats import Format

T = TypeVar("T", bound=Hashable)
# the largest number of reads remembered per storage; a loop that also writes there makes more
READS = 256
AFRESH = (reduce_cmd.reset_reduce, reduce_cmd.load_reduce)


@dataclass
class _Laid(Generic[T]):
    """The reads of one storage that met leftovers. They are valid while the storage has these
    `gaps` and is read in the format `held`.

    A key of `findings` has the site of a read, its window, and the number of bytes written so far:
    after a write that fills a gap, the read is checked again. A value is (the finding, the site);
    the site keeps its code object alive."""

    gaps: Gaps
    held: Format
    findings: dict[tuple[Any, ...], tuple[T, Born]] = field(default_factory=dict)


@dataclass
class _Spot(Generic[T]):
    """Flags of the elements of a storage that depend on leftovers, and the findings about them."""

    flags: Flags
    why: dict[T, None] = field(default_factory=dict)

    def copy(self) -> _Spot[T]:
        return _Spot(deepcopy(self.flags), dict(self.why))


class Leftovers(Generic[T]):
    """The leftovers on one core's chip, and in its accumulator registers. `tell` is called with
    each finding whose leftovers may have an effect."""

    def __init__(self, tell: Callable[[T], None]) -> None:
        self.tell = tell
        self._spots: WeakKeyDictionary[Storage, _Spot[T]] = WeakKeyDictionary()
        self._laid: WeakKeyDictionary[Storage, _Laid[T]] = WeakKeyDictionary()
        # undo the reads of the instruction that is being executed
        self._reads: list[Callable[[], None]] = []
        # the findings on which the accumulator registers depend
        self._registers: dict[T, None] = {}

    def kept(self, storages: Iterable[Storage]) -> tuple[list[Any], dict[T, None]]:
        """Return a copy of the leftovers of these storages and of the registers, for `put_back`."""
        spots = [self._spots.get(storage) for storage in storages]
        copies = [s and s.copy() for s in spots]
        return copies, dict(self._registers)

    def put_back(self, storages: Iterable[Storage], kept: tuple[list[Any], dict[T, None]]) -> None:
        """Restore the leftovers of these storages, and remove those of all other storages."""
        spots, registers = kept
        copies = [s and s.copy() for s in spots]
        pairs = zip(storages, copies, strict=True)
        self._spots = WeakKeyDictionary({one: spot for one, spot in pairs if spot})
        self._registers = dict(registers)
        self._laid.clear()

    def knows_reads_of(self, tile: Tile) -> bool:
        """Return whether reads of the tile's storage in its current state may have been
        remembered."""
        laid = self._laid.get(tile.storage)
        return laid is not None and laid.gaps is tile.storage.gaps and laid.held is tile.held

    def known(self, tile: Tile, site: Born, deferred: bool) -> T | None:
        """Return the finding of an equal earlier read at this site, or None. If there is a finding,
        the read needs no more checks. `knows_reads_of(tile)` must be true."""
        found = self._laid[tile.storage].findings.get(_window(tile, site, deferred))
        return found and found[0]

    def remember(self, tile: Tile, site: Born, deferred: bool, finding: T) -> None:
        """Remember the finding of a read, for `known`. Reads of a storage at an address that the
        kernel chose are not remembered, because other tensors may write to its bytes."""
        storage = tile.storage
        if storage.image is not None or storage.gaps is None:
            return
        laid = self._laid.get(storage)
        if laid is None or not self.knows_reads_of(tile) or len(laid.findings) >= READS:
            laid = self._laid[storage] = _Laid(storage.gaps, tile.held)
        laid.findings[_window(tile, site, deferred)] = finding, site

    def lay(self, tile: Tile, missing: Array, zeros: bool, findings: list[T]) -> None:
        """Put poison, or 0 with `zeros`, into the elements that `missing` flags. If the instruction
        is refused later, their bits are restored, and findings that were added in the meantime are
        removed."""
        codes, count = tile.codes(), len(findings)
        old = codes[missing]

        def undo() -> None:
            codes[missing] = old
            del findings[count:]

        self._reads.append(undo)
        tile.poison_elements(missing, zeros)

    def found(self, tile: Tile, missing: Array, finding: T) -> None:
        """Keep a finding with the elements that `missing` flags, which are about to be read. In a
        storage at an address that the kernel chose, report the finding at once."""
        storage = tile.storage
        if storage.image is not None:  # other tensors may write there
            self.tell(finding)
            return
        spot = self._spots.get(storage)
        before = spot and spot.copy()

        def undo() -> None:
            if before is None:
                del self._spots[storage]
            else:
                self._spots[storage] = before

        self._reads.append(undo)
        flags = tile.flags(self._spot(storage, {finding: None}).flags)
        flags[...] |= missing.reshape(missing.shape + (1,) * (flags.ndim - missing.ndim))

    def refused(self) -> None:
        """Undo the reads of an instruction that is refused."""
        while self._reads:
            self._reads.pop()()
            self._laid.clear()

    def skipped(self) -> None:
        """Keep the reads of an instruction that has no effect: they can't be undone any more."""
        self._reads.clear()

    def follow(self, call: Call, arguments: dict[str, Any]) -> None:
        """Track leftovers through an instruction that has been executed."""
        self._reads.clear()
        if not self._spots and not self._registers:
            return
        reads, writes = ({n: arguments[n] for n in names} for names in (call.reads, call.writes))
        masks = {n: m for n, tile in reads.items() if (m := self.within(tile)) is not None}
        why = {f: None for n in masks for f in self._spots[reads[n].storage].why}
        said = call.instruction.traits
        if said.accumulates:
            self._accumulated(call.arguments.get(said.command), why)
        if moved := [*_where_indices_say((*reads.values(), *writes.values()))]:
            spots = (self._spots.get(storage) for storage in moved)
            why |= {f: None for spot in spots if spot and spot.flags.mask.any() for f in spot.why}
        elif (results := _results(call, reads, writes, masks)) is not None:
            self._wrote(arguments, call, results, why)
            return
        self._known(why)
        self._wrote(arguments, call, dict.fromkeys(writes), {}, indexed=True)

    def _accumulated(self, command: reduce_cmd | None, why: dict[T, None]) -> None:
        """Remember the findings `why` about values that the command accumulates in the accumulator
        registers. If the command does not reset the registers first, report the findings that were
        remembered before."""
        if command is reduce_cmd.idle:
            return
        if command not in AFRESH:
            self._known(self._registers)
        self._registers = dict(why)

    def _wrote(
        self,
        arguments: dict[str, Any],
        call: Call,
        results: dict[str, Array | None],
        why: dict[T, None],
        indexed: bool = False,
    ) -> None:
        """Mark the results of an instruction. It is `indexed` if an index may lead out of bounds,
        or if its operands are not tracked: then it may leave out elements."""
        operands = {p.name: p.operand for p in call.instruction.operands}
        said = call.instruction.traits
        adds = said.multiplies and arguments.get(said.adds) is not False
        for name, mask in results.items():
            operand = operands[name.partition("[")[0]]
            partial = operand is not None and operand.partial and (indexed or not operand.skips)
            self._write(arguments[name], mask, adds or partial or name in call.reads, why)

    def _write(self, tile: Tile, mask: Array | None, again: bool, why: dict[T, None]) -> None:
        """Mark the elements of a result that depend on leftovers, as `mask` flags them. With
        `again` the result keeps a part of its earlier contents, so earlier marks stay."""
        spot = self._spots.get(tile.storage)
        if mask is None:
            if spot is not None and not again:
                tile.flags(spot.flags)[...] = False
            return
        if not tile.storage.on_chip or tile.storage.image is not None:
            self._known(why)
            return
        flags = tile.flags(self._spot(tile.storage, why).flags)
        mask = mask.reshape(mask.shape + (1,) * (flags.ndim - mask.ndim))
        flags[...] = flags | mask if again else mask

    def _spot(self, storage: Storage, why: dict[T, None]) -> _Spot[T]:
        spot = self._spots.get(storage)
        if spot is None:
            spot = self._spots[storage] = _Spot(Flags(storage.nbytes))
        spot.why |= why
        return spot

    def within(self, tile: Tile) -> Array | None:
        """Return which elements of an operand depend on leftovers; None for none."""
        spot = self._spots.get(tile.storage)
        if spot is None or tile.dynamic or isinstance(tile, indirection.Picked):
            return None
        flags = tile.flags(spot.flags)
        if not flags.any():
            return None
        return flags.copy() if flags.ndim == len(tile.shape) else np.any(flags, axis=-1)

    def _known(self, findings: dict[T, None]) -> None:
        """Report findings, and remove them from the elements and registers, so that each is
        reported once."""
        for finding in list(findings):
            self.tell(finding)
            self._registers.pop(finding, None)
            for spot in self._spots.values():
                spot.why.pop(finding, None)


def _where_indices_say(tiles: Iterable[Tile]) -> Iterator[Storage]:
    """Yield the storages of tiles whose elements or positions an index determines, and the storages
    of these indices."""
    for tile in tiles:
        if isinstance(tile, indirection.Picked):
            yield from (tile.source.storage, tile.index.storage)
        elif tile.dynamic:
            indices = (one.index for one in tile.dynamic)
            yield from (tile.storage, *(i.storage for i in indices if isinstance(i, Tile)))


def _window(tile: Tile, site: Born, deferred: bool) -> tuple[Any, ...]:
    assert tile.storage.gaps is not None
    place = site and (id(site[0]), site[1])
    return place, deferred, tile.geometry, tile.offset, tile.storage.gaps.written


def _results(
    call: Call, reads: dict[str, Tile], writes: dict[str, Tile], masks: dict[str, Array]
) -> dict[str, Array | None] | None:
    """Return, for each result, flags of the elements that depend on the elements of inputs that
    `masks` flags; no flags (None) if there are no masks. Return None instead of a dictionary if the
    dependence is unknown."""
    traits, sources = call.instruction.traits, [*masks.values()]
    if not masks:
        return dict.fromkeys(writes)
    if traits.lanewise:
        rows = {len(m) for m in sources} | {tile.shape[0] for tile in writes.values()}
        one = len(rows) == 1
        return {n: _in_lanes(sources, t, traits.scans) for n, t in writes.items()} if one else None
    if traits.transposes or traits.multiplies:
        into = _turned(sources) if traits.transposes else _multiplied(reads, writes, masks)
        return None if into is None else {n: into.reshape(t.shape) for n, t in writes.items()}
    sizes = {m.size for m in sources} | {tile.size for tile in writes.values()}
    if not traits.copies or len(sizes) > 1:
        return None
    return {n: np.any([m.reshape(t.shape) for m in sources], axis=0) for n, t in writes.items()}


def _in_lanes(masks: list[Array], dst: Tile, scans: bool) -> Array:
    found = np.zeros((dst.shape[0], dst.free_size), np.bool_)
    for mask in (mask.reshape(len(mask), -1) for mask in masks):
        alike = mask.shape == found.shape and not scans
        found |= mask if alike else mask.any(axis=1, keepdims=True)
    return found.reshape(dst.shape)


def _turned(masks: list[Array]) -> Array:
    (mask,) = masks
    turned: Array = mask.reshape(len(mask), -1).T
    return turned


def _multiplied(
    reads: dict[str, Tile], writes: dict[str, Tile], masks: dict[str, Array]
) -> Array | None:
    """Return flags of the elements of a product that depend on leftovers; None if that is unknown.
    A sum depends on all numbers that are added; a number that the product only moves depends only
    on itself."""
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
    """Fill in the outputs that each of two cores has allocated separately, and yield them. Such an
    output is one tensor for both cores, so elements that this core has not written are copied from
    the other core (nki-library's kernels of NKI 0.2). `result` is this core's result, `other` that
    of the other core. Yield this core's tensor, the other tensor, and flags of the copied
    elements."""
    for mine, theirs in _pairs(result, other):
        alike = (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        if mine.storage is theirs.storage or not alike or theirs.untouched:
            continue
        if (missing := mine.missing()) is None:
            continue
        never = theirs.missing()
        brought = missing if never is None else missing & ~never
        mine.codes()[brought] = theirs.codes()[brought]
        mine.mark_written(brought)
        yield mine, theirs, brought


def _pairs(one: Any, other: Any) -> Iterator[tuple[Tile, Tile]]:
    """Yield the pairs of tensors at the same places of two results."""
    if isinstance(one, Tile) and isinstance(other, Tile):
        yield one, other
    elif isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() & other.keys():
            yield from _pairs(one[key], other[key])
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
        for pair in zip(one, other, strict=False):
            yield from _pairs(*pair)


def unwritten(tile: Tile) -> int:
    """Return the number of elements that were never written."""
    if tile.untouched:
        return tile.size
    missing = tile.missing()
    return 0 if missing is None or not tile.size else int(missing.sum())


def contents(tile: Tile, zeros: bool) -> Array:
    """Return the elements of a tile in the numpy type that users expect. If memory has this type
    and order, the array is the memory itself. Elements that were never written are 0 with `zeros`,
    otherwise poison."""
    # one element, broadcast, because the tensor may have gigabytes
    if tile.untouched and tile.size:
        return np.broadcast_to(tile.leftover(zeros), tile.shape)
    missing = tile.missing()
    if missing is not None and tile.size:
        tile.poison_elements(missing, zeros)
    codes = tile.codes()
    if codes.dtype == tile.held.numpy:
        return codes
    return np.ascontiguousarray(codes).view(tile.held.numpy)
