"""The environment of an instruction that is evaluated in float64: a core for it to see, and the
shared state of the steps of one core."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from neuroncore.base.enums import engine
from neuroncore.core.core import Core
from neuroncore.memory.tile import Array, Tile
from neuroncore.precision.doubles import Beside, chip_doubles, made
from neuroncore.precision.findings import Precision

RECENT = 16  # tiles that are kept
Registers = dict[engine, Array]


class Recent:
    """The last exact inputs, in float64: products that follow each other share operands."""

    def __init__(self) -> None:
        self._tiles: dict[Any, tuple[int, Beside]] = {}

    def exact(self, tile: Tile) -> Beside:
        storage = tile.storage
        if storage.image is not None:  # others may write there
            return made(chip_doubles(tile), tile)
        key = storage, tile.offset, tile.shape, tile.strides, tile.dtype
        version, known = self._tiles.pop(key, (-1, None))
        if known is None or version != storage.version:
            known = made(chip_doubles(tile), tile)
        self._tiles[key] = storage.version, known
        if len(self._tiles) > RECENT:
            del self._tiles[next(iter(self._tiles))]
        return known


class Around:
    """The shared state of the steps of one core."""

    def __init__(self, core: Core, found: Precision) -> None:
        self.core, self.found, self.recent = core, found, Recent()
        self.options = replace(
            core.options, matmul="chain", fp32_matmul="chain", subnormals="keep", storage="own"
        )


class Stand:
    """The replacement for the core when an instruction is evaluated in float64."""

    has_leftovers = True  # `leftovers_in` looks for them

    def __init__(self, around: Around, accumulators: Registers, peers: Any = None) -> None:
        core = around.core
        self.machine, self.program_id, self.grid = core.machine, core.program_id, core.grid
        self.options, self.accumulators, self.peers = around.options, accumulators, peers
        self.operators, self.groups, self.rounding = core.operators, core.groups, None
        self.number, self.world, self.rank = core.number, core.world, core.rank
        self.generators = {unit: states.copy() for unit, states in core.generators.items()}

    def check_written(self, *_: Any, **__: Any) -> None:
        """The chip has."""

    report = birthplace = check_written

    def leftovers_in(self, tile: Tile) -> Array | None:
        """The chip knows which, and has NaN there; another NaN is moved like one here."""
        lost: Array = np.isnan(tile.values())
        return lost if lost.any() else None
