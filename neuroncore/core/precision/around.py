"""The state that the float64 evaluations of one core share.

The state contains caches of float64 inputs, of float64 tiles, and of functions that execute calls.
It also contains a `StandIn`, which replaces the core in an evaluation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from neuroncore.base.enums import engine
from neuroncore.clause.instruction import Call, Run
from neuroncore.core.core import Core
from neuroncore.core.packs import Packs
from neuroncore.core.precision.findings import Float64Tile, Precision, chip_float64, new_tile
from neuroncore.core.precision.slots import SlotsOfCalls
from neuroncore.memory.tile import Array, Tile

RECENT = 16  # the largest number of cached tiles
Registers = dict[engine, Array]


class Recent:
    """A cache of the last RECENT error-free inputs, converted to float64. The cache saves time,
    because successive products often share an operand."""

    def __init__(self) -> None:
        self._tiles: dict[Any, tuple[int, Float64Tile]] = {}

    def exact(self, tile: Tile) -> Float64Tile:
        storage = tile.storage
        if storage.image is not None:  # other tensors may share these bytes
            return new_tile(chip_float64(tile), tile)
        key = storage, tile.offset, tile.shape, tile.strides, tile.dtype
        version, known = self._tiles.pop(key, (-1, None))
        if known is None or version != storage.version:
            known = new_tile(chip_float64(tile), tile)
        self._tiles[key] = storage.version, known
        if len(self._tiles) > RECENT:
            del self._tiles[next(iter(self._tiles))]
        return known


class SharedState:
    """The state that the float64 evaluations (`Step`) of one core share."""

    def __init__(self, core: Core, analysis: Precision) -> None:
        self.core, self.analysis, self.recent = core, analysis, Recent()
        self.slots = SlotsOfCalls()
        self.options = replace(
            core.options, matmul="chain", fp32_matmul="chain", subnormals="keep", storage="own"
        )
        self.staged: dict[tuple[Any, ...], tuple[Call, Run]] = {}  # see `step.staged`
        self._stand_in = StandIn(self)

    def stand_in(self, registers: Registers, peers: Any = None) -> StandIn:
        """Return the replacement for the core, with these accumulator registers. It is valid until
        the next call. `peers` are the other cores of an exchange."""
        self._stand_in.begin(registers, peers)
        return self._stand_in


class StandIn:
    """The replacement for the core in float64 evaluations. It reports and records nothing."""

    has_undefined = True  # `undefined_in` looks for them

    def __init__(self, shared: SharedState) -> None:
        self._core = core = shared.core
        self.machine, self.options, self.operators = core.machine, shared.options, core.operators
        self.number, self.world, self.rank = core.number, core.world, core.rank
        self.rounding = None

    def begin(self, accumulators: Registers, peers: Any) -> None:
        """Copy the state of the core before an instruction, except these accumulator registers and
        peers."""
        core = self._core
        self.program_id, self.grid, self.groups = core.program_id, core.grid, core.groups
        self.accumulators, self.peers = accumulators, peers
        self.generators = {unit: states.copy() for unit, states in core.generators.items()}

    @property
    def packs(self) -> Packs:
        """A new, empty cache at each access: no evaluation uses operands that an earlier one has
        packed."""
        return Packs()

    def check_written(self, *_: Any, **__: Any) -> None:
        """Do nothing. The core itself makes all reports when it executes the instruction."""

    report = birthplace = check_written

    def undefined_in(self, tile: Tile) -> Array | None:
        """Return flags of the NaN elements, or None if there are none.

        Undefined elements are NaN on the chip. Other NaN are flagged too: instructions move all NaN
        in the same way."""
        lost: Array = np.isnan(tile.values())
        return lost if lost.any() else None
