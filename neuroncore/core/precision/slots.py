"""Float64 tiles for evaluations. Each evaluation reuses the memory of the previous one.

A call is the use of an instruction with certain formats, shapes and operators, but without data;
many instructions of a kernel may have the same call. The role of a tile consists of its purpose,
the name of its operand, and a number that distinguishes several such tiles."""

from __future__ import annotations

from math import prod

import numpy as np

from neuroncore.base import buffers
from neuroncore.clause.instruction import Call
from neuroncore.core.precision.findings import DOUBLE, Float64Tile, new_tile, tile_of_layout
from neuroncore.memory.geometry import Layout, make_room
from neuroncore.memory.tile import Array, Tile

ROOM = buffers.SMALL // DOUBLE.itemsize  # elements; a larger tile is made for each evaluation
Role = tuple[str, str, int]  # the purpose of a tile, its operand, and a number


class Slots:
    """Contiguous float64 tiles for the evaluations of one call, valid until the next
    instruction."""

    def __init__(self, call: Call, memory: dict[Role, Array]) -> None:
        self.call = call
        self._memory = memory
        self._tiles: dict[Role, Float64Tile] = {}
        self._layouts: dict[str, Layout] = {}

    def fresh(self, name: str, like: Tile) -> Float64Tile:
        """Return an uninitialized tile for the result `name`, in the shape of `like`."""
        array, layout = buffers.array(like.shape, DOUBLE), self._layouts.get(name)
        if layout is not None:
            return tile_of_layout(array, layout)
        tile = new_tile(array, like)
        self._layouts[name] = tile.storage.layout
        return tile

    def tile(self, role: Role, like: Tile, shape: tuple[int, ...]) -> Float64Tile:
        """Return the uninitialized tile with this role. A role has one `shape` in each call."""
        tile = self._tiles.get(role)
        if tile is not None:
            return tile
        size = prod(shape)
        if size > ROOM:
            return new_tile(buffers.array(shape, DOUBLE), like)
        block = self._memory.get(role)
        if block is None:
            block = self._memory[role] = np.empty(ROOM, DOUBLE)
        tile = self._tiles[role] = new_tile(block[:size].reshape(shape), like)
        return tile

    def copy(self, role: Role, like: Tile, values: Array) -> Float64Tile:
        """Return the tile with this role, filled with `values`."""
        tile = self.tile(role, like, values.shape)
        np.copyto(tile.codes(), values)
        return tile


class SlotsOfCalls:
    """The `Slots` of all calls of one core. Tiles of different calls with the same role share
    memory."""

    def __init__(self) -> None:
        self._memory: dict[Role, Array] = {}
        self._known: dict[int, Slots] = {}

    def of(self, call: Call) -> Slots:
        if call.dynamic:  # the partitions of its tiles may differ
            return Slots(call, self._memory)
        slots = self._known.get(id(call))
        if slots is None:
            make_room(self._known)
            slots = self._known[id(call)] = Slots(call, self._memory)
        return slots
