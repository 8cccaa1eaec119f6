"""Where leftovers go: elements that depend on memory that nothing has written.

A kernel may compute with whole tiles of which the last is not full, if it stores the part that is:
nobody sees the rest. So a read of leftovers is told only if what comes of it may reach HBM, a
register or another core. Instructions of which every lane works for itself, and copies, are
followed element by element; any other makes the finding known.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from neuroncore.clause.instruction import Call
from neuroncore.core.indirection import Picked
from neuroncore.enums import reduce_cmd
from neuroncore.memory.storage import Gaps, Storage
from neuroncore.memory.tile import Tile

Array = npt.NDArray[Any]
T = TypeVar("T", bound=Hashable)
AFRESH = (reduce_cmd.reset_reduce, reduce_cmd.load_reduce)


@dataclass
class _Spot(Generic[T]):
    """What of a storage depends on leftovers, and the findings of those."""

    flags: Gaps
    why: dict[T, None] = field(default_factory=dict)


class Leftovers(Generic[T]):
    """The leftovers on one core's chip; `tell` gets the findings that matter."""

    def __init__(self, tell: Callable[[T], None]) -> None:
        self.tell = tell
        self._spots: dict[int, _Spot[T]] = {}  # by storage
        self._registers: dict[T, None] = {}  # what the accumulator registers depend on

    def found(self, tile: Tile, missing: Array, finding: T) -> None:
        """Elements that are `missing` are about to be read."""
        if tile.storage.image is not None:  # others may write there
            self.tell(finding)
            return
        flags = tile.flags(self._spot(tile.storage, {finding: None}).flags)
        flags[...] |= missing.reshape(missing.shape + (1,) * (flags.ndim - missing.ndim))

    def follow(self, call: Call, arguments: dict[str, Any]) -> None:
        """An instruction has read and computed."""
        if not self._spots and not self._registers:
            return
        reads, writes = ({n: arguments[n] for n in names} for names in (call.reads, call.writes))
        masks = {n: m for n, tile in reads.items() if (m := self._mask(tile)) is not None}
        why = {f: None for n in masks for f in self._spots[reads[n].storage.id].why}
        if call.instruction.traits.accumulates:
            self._accumulated(call.arguments.get("reduce_cmd"), why)
        if any(t.dynamic or isinstance(t, Picked) for t in (*reads.values(), *writes.values())):
            why = {f: None for spot in self._spots.values() for f in spot.why}
        elif _can_be_followed(call, masks, writes):
            self._wrote(call, writes, masks, why)
            return
        self._known(why)
        self._wrote(call, writes, {}, {})

    def _accumulated(self, command: reduce_cmd | None, why: dict[T, None]) -> None:
        """The accumulator registers take part, with what is in them unless they begin afresh."""
        if command is reduce_cmd.idle:
            return
        if command not in AFRESH:
            self._known(self._registers)
        self._registers = dict(why)

    def _wrote(
        self, call: Call, writes: dict[str, Tile], masks: dict[str, Array], why: dict[T, None]
    ) -> None:
        operands = {p.name: p.operand for p in call.instruction.operands}
        for name, tile in writes.items():
            operand = operands[name.partition("[")[0]]
            again = name in call.reads or (operand is not None and operand.partial)
            self._write(tile, _result(call, list(masks.values()), tile), again, why)

    def _write(self, tile: Tile, mask: Array | None, again: bool, why: dict[T, None]) -> None:
        """Results are there, of which the masked elements depend on leftovers; what was there
        before counts if it is written `again` or in part."""
        spot = self._spots.get(tile.storage.id)
        if mask is None or not why:
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
        if storage.id not in self._spots:
            self._spots[storage.id] = _Spot(Gaps(storage.nbytes, storage.dtype.itemsize))
        spot = self._spots[storage.id]
        spot.why |= why
        return spot

    def _mask(self, tile: Tile) -> Array | None:
        """Which elements of an operand depend on leftovers; None for none."""
        spot = self._spots.get(tile.storage.id)
        if spot is None or tile.dynamic or isinstance(tile, Picked):
            return None
        flags = tile.flags(spot.flags)
        if not flags.any():
            return None
        return flags.copy() if flags.ndim == len(tile.shape) else np.any(flags, axis=-1)

    def _known(self, findings: dict[T, None]) -> None:
        """Tell findings, and follow them no longer."""
        for finding in list(findings):
            self.tell(finding)
            self._registers.pop(finding, None)
            for spot in self._spots.values():
                spot.why.pop(finding, None)
        self._spots = {key: spot for key, spot in self._spots.items() if spot.why}


def _can_be_followed(call: Call, masks: dict[str, Array], writes: dict[str, Tile]) -> bool:
    traits = call.instruction.traits
    if not masks:
        return True
    if traits.lanewise:
        rows = {len(m) for m in masks.values()} | {tile.shape[0] for tile in writes.values()}
        return len(rows) == 1
    sizes = {m.size for m in masks.values()} | {tile.size for tile in writes.values()}
    return traits.copies and len(sizes) == 1


def _result(call: Call, masks: list[Array], dst: Tile) -> Array | None:
    """Which elements of a result depend on the masked ones of its sources."""
    if not masks:
        return None
    if not call.instruction.traits.lanewise:
        same: Array = np.any([mask.reshape(dst.shape) for mask in masks], axis=0)
        return same
    found = np.zeros((dst.shape[0], dst.free_size), np.bool_)
    for mask in (mask.reshape(len(mask), -1) for mask in masks):
        alike = mask.shape == found.shape and not call.instruction.traits.scans
        found |= mask if alike else mask.any(axis=1, keepdims=True)
    return found.reshape(dst.shape)
