"""Finds out whether a program reads uninitialized memory in a way that must be reported. The
positions of bytes are those of the plain reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bench.programs.views import Array
from neuroncore.base.enums import engine, reduce_cmd
from neuroncore.plain.memory import Operand, PlainTensor
from neuroncore.record.rows import Row

EACH = ("activation", "memset", "tensor_copy", "tensor_scalar", "tensor_tensor", "dma_copy")
"""Instructions that write each element of a result, computed from those at the same place."""
ALONG = ("tensor_tensor_scan", "tensor_scalar_cumulative")
"""Instructions that compute an element from all elements up to it in its partition."""


class _Bytes:
    """Flags for the bytes of a memory: bytes that were never written (`never`), bytes that may
    depend on such bytes (`computed`), and bytes that certainly do (`certain`)."""

    def __init__(self, tensor: PlainTensor) -> None:
        self.tensor = tensor  # keeps the memory alive, whose id is the key
        self.never, self.computed = tensor.ever == 0, np.zeros(len(tensor.ever), np.bool_)
        self.certain = self.computed.copy()


class Origins:
    """The bytes that may depend on uninitialized memory: all results of an instruction that reads
    such a byte are included. `reported` says whether a read must be reported; it is None if that is
    unknown."""

    def __init__(self) -> None:
        self._memories: dict[int, _Bytes] = {}
        self._registers: set[engine] = set()  # engines whose accumulator registers depend on them
        self.reported: bool | None = False

    def note(self, row: Row, given: Mapping[str, Any]) -> None:
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

    def _may_pick(self, row: Row) -> bool:
        """Return whether a run-time index of an instruction may select bytes that depend on
        uninitialized memory."""
        return bool(row.call.dynamic) and any(m.computed.any() for m in self._memories.values())

    def _adds_up(self, row: Row) -> bool:
        """Return whether an instruction adds to accumulator registers that may depend on
        uninitialized memory."""
        command = row.call.arguments.get("reduce_cmd")
        return command is reduce_cmd.reduce and row.call.engine in self._registers

    def _first_seen(self, operand: Operand) -> None:
        """If this is the first use of a memory, flag the bytes of the operand, which the
        instruction writes, as never written before."""
        if id(operand.tensor.data) not in self._memories:
            self._of(operand).never[_places(operand)] = True

    def _of(self, operand: Operand) -> _Bytes:
        key = id(operand.tensor.data)
        if key not in self._memories:
            self._memories[key] = _Bytes(operand.tensor)
        return self._memories[key]

    def _depends(self, operand: Operand) -> bool:
        found, at = self._of(operand), _places(operand)
        return bool((found.never[at] | found.computed[at]).any())

    def _certain(self, dst: Operand, read: Sequence[Operand], along: bool) -> Array:
        """Return flags [partitions, elements per partition] of the elements of a result that
        certainly depend on uninitialized memory. With `along`, an element depends on all elements
        before it too."""
        flags = np.zeros((dst.lanes, dst.positions.size // dst.lanes), np.bool_)
        for operand in read:
            found, at = self._of(operand), _places(operand)
            own = (found.never[at] | found.certain[at]).reshape(-1, operand.form.size).any(axis=1)
            if own.size == flags.size:
                flags |= own.reshape(flags.shape)
            elif own.size == operand.lanes == dst.lanes:
                flags |= own.reshape(-1, 1)
        return np.logical_or.accumulate(flags, axis=1) if along else flags

    def _write(self, operand: Operand, depends: bool, certain: Array | None, whole: bool) -> None:
        """Update the flags of the bytes of a result. If `whole` is false, some elements may not
        have been written, and they keep their flags."""
        found, at = self._of(operand), _places(operand)
        never = operand.tensor.ever[at] == 0
        kept = found.computed[at] & (not whole)
        found.computed[at] = (kept | depends) & ~never
        sure = False if certain is None else np.repeat(certain.reshape(-1), operand.form.size)
        found.certain[at] = sure & ~never
        found.never[at] = never


def _places(operand: Operand) -> Array:
    """Return the positions of the bytes of an operand in its memory."""
    at = operand.tensor.places(operand.positions)
    return (at.reshape(-1, 1) + np.arange(operand.form.size)).reshape(-1)
