"""The generators of random numbers of a core: one for each lane of the Vector and, from v3 on, the
GpSimd engine. Which these are, `Options.rng` says. They start as if
seeded with `Options.rng_seed`."""

from __future__ import annotations

from typing import Any

from neuroncore.base.enums import engine
from neuroncore.core.core import Core
from neuroncore.machine import Machine
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics import generator
from neuroncore.numerics.generator import Generator


def streams(unit: engine, machine: Machine) -> int:
    """How many states a lane of an engine has."""
    return 4 if unit is engine.vector and machine.has("vector_random_state") else 1


def kind(core: Core, unit: engine) -> Generator:
    """The generators of an engine. The hardware's are XORWOW where a state of six words can be
    read, and shift registers on the Vector engine of earlier generations."""
    if core.options.rng == "philox":
        return generator.PHILOX
    older = unit is engine.vector and not core.machine.has("vector_random_state")
    return generator.LFSR if older else generator.XORWOW


def seed(core: Core, unit: engine, number: int, program: int = 0) -> None:
    """Restart all lanes of an engine from a seed."""
    lanes, count = core.machine.limits.partitions, streams(unit, core.machine)
    made = kind(core, unit).seeded(number, program, unit.value, lanes, count)
    core.generators[unit] = made


def states(core: Core, unit: engine, tile: Tile) -> Any:
    """The states [P, streams, words] of the lanes that a tile is in, to be changed in place."""
    if unit not in core.generators:
        seed(core, unit, core.options.rng_seed, core.program_id)
    return core.generators[unit][tile.start_partition :][: tile.shape[0]]


def draw(core: Core, unit: engine, tile: Tile) -> Any:
    """A 32-bit number for each element of a tile, [P, F]."""
    return kind(core, unit).draw(states(core, unit, tile), tile.free_size)


def uniform(core: Core, unit: engine, tile: Tile) -> Array:
    """A number in [0, 1) for each element of a tile, float32."""
    drawn: Array = kind(core, unit).uniform(states(core, unit, tile), tile.free_size)
    return drawn.reshape(tile.shape)
