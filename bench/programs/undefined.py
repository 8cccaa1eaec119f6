"""Finds out whether a program reads uninitialized memory in a way that must be reported. The
positions of bytes are those of the plain reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bench.programs.views import Array
from neuroncore.base.enums import engine, reduce_cmd
from neuroncore.plain.memory import ALL_SET, Operand, PlainTensor, viewed
from neuroncore.record.instructions import Recorded

EACH = ("activation", "memset", "tensor_copy", "tensor_scalar", "tensor_tensor", "dma_copy")
"""Instructions that write each element of a result, computed from those at the same place."""
ALONG = ("tensor_tensor_scan", "tensor_scalar_cumulative")
"""Instructions that compute an element from all elements up to it in its partition."""


class _Bytes:
    """Flags for the bytes of a memory: bytes that were written before (`known`), bytes that may
    depend on bytes that were never written (`computed`), and bytes that certainly do (`certain`).
    Unless `depends` is true, no byte has a flag of the last two kinds. A memory with tensors at
    addresses is large, and has no contents before its first instruction."""

    def __init__(self, tensor: PlainTensor) -> None:
        self.tensor = tensor  # keeps the memory alive, because its id is the key
        placed = tensor.layout.placed
        self.known = np.zeros(len(tensor.ever), np.uint8) if placed else tensor.ever.copy()
        self.computed = np.zeros(len(tensor.ever), np.uint8)
        self.certain = np.zeros(len(tensor.ever), np.uint8)
        self.depends = False


class Origins:
    """The bytes that may depend on uninitialized memory: all results of an instruction that reads
    such a byte are included. `reported` says whether a read must be reported; it is None if that is
    unknown."""

    def __init__(self) -> None:
        self._memories: dict[int, _Bytes] = {}
        # engines whose accumulator registers depend on uninitialized memory
        self._registers: set[engine] = set()
        self.reported: bool | None = False

    def note(self, row: Recorded, given: Mapping[str, Any]) -> None:
        """Add an instruction that the plain reading has executed."""
        call, name = row.call, row.call.instruction.name
        written, read = (
            [one for n in names if isinstance(one := given.get(n), Operand)]
            for names in (call.writes, call.reads)
        )
        for operand in written:
            self._first_seen(operand)
        depends = any([self._depends(operand) for operand in read])
        placed = any(one.tensor.layout.placed for one in (*read, *written))
        followed = name in (*EACH, *ALONG) and len(written) == 1
        followed = followed and not (call.dynamic or placed)
        certain = self._certain(written[0], read, name in ALONG) if followed and depends else None
        to_hbm = name == "dma_copy" and not written[0].tensor.layout.on_chip
        if to_hbm and (read[0].missing().any() or (certain is not None and certain.any())):
            self.reported = True
        elif not self.reported:
            shown = to_hbm or not followed
            picked = not followed and self._may_pick(row)
            if (depends and shown) or picked or self._adds_up(row):
                self.reported = None
        if depends and row.call.instruction.traits.accumulates:
            self._registers.add(row.call.engine)
        for operand in written:
            self._write(operand, depends, certain, whole=followed)

    def _may_pick(self, row: Recorded) -> bool:
        """Return whether a run-time index of an instruction may select bytes that depend on
        uninitialized memory."""
        return bool(row.call.dynamic) and any(
            one.depends and one.computed.any() for one in self._memories.values()
        )

    def _adds_up(self, row: Recorded) -> bool:
        """Return whether an instruction adds to accumulator registers that may depend on
        uninitialized memory."""
        command = row.call.arguments.get("reduce_cmd")
        return command is reduce_cmd.reduce and row.call.engine in self._registers

    def _first_seen(self, operand: Operand) -> None:
        """If this is the first use of a memory, flag the bytes of the operand, which the
        instruction writes, as never written before."""
        if id(operand.tensor.data) not in self._memories:
            words, at = _words(self._of(operand).known, operand)
            words[at] = 0

    def _of(self, operand: Operand) -> _Bytes:
        key = id(operand.tensor.data)
        if key not in self._memories:
            self._memories[key] = _Bytes(operand.tensor)
        return self._memories[key]

    def _depends(self, operand: Operand) -> bool:
        found = self._of(operand)
        if _never(found, operand).any():
            return True
        return found.depends and bool(_at(found.computed, operand).any())

    def _certain(self, dst: Operand, read: Sequence[Operand], along: bool) -> Array:
        """Return flags [partitions, elements per partition] of the elements of a result that
        certainly depend on uninitialized memory. With `along`, an element depends on all elements
        before it too."""
        flags = np.zeros((dst.lanes, dst.positions.size // dst.lanes), np.bool_)
        for operand in read:
            found = self._of(operand)
            own = _never(found, operand) | (_at(found.certain, operand) != 0)
            if own.size == flags.size:
                flags |= own.reshape(flags.shape)
            elif own.size == operand.lanes == dst.lanes:
                flags |= own.reshape(-1, 1)
        return np.logical_or.accumulate(flags, axis=1) if along else flags

    def _write(self, operand: Operand, depends: bool, certain: Array | None, whole: bool) -> None:
        """Update the flags of the bytes of a result. If `whole` is false, some elements may not
        have been written, and they keep their flags."""
        found = self._of(operand)
        known, at = _words(found.known, operand)
        known[at] = written = _at(operand.tensor.ever, operand)
        found.depends |= depends
        if not found.depends:
            return
        computed, certainly = (_words(one, operand)[0] for one in (found.computed, found.certain))
        kept = 0 if whole else computed[at]
        computed[at] = (ALL_SET[operand.form.size] if depends else kept) & written
        certainly[at] = 0 if certain is None else written * certain.reshape(at.shape)


def _words(flags: Array, operand: Operand) -> tuple[Array, Array]:
    """Return an array with the flags of a memory's bytes, in which the flags of the bytes of an
    element are one number. Also return the indices of the operand's elements in this array."""
    places = operand.tensor.places(operand.positions)
    return viewed(flags, places, ALL_SET[operand.form.size].dtype)


def _at(flags: Array, operand: Operand) -> Array:
    """Return, for each element of an operand, the flags of its bytes in one number."""
    words, at = _words(flags, operand)
    found: Array = words[at]
    return found


def _never(found: _Bytes, operand: Operand) -> Array:
    """Return, for each element of an operand, whether one of its bytes was never written."""
    never: Array = _at(found.known, operand) != ALL_SET[operand.form.size]
    return never
