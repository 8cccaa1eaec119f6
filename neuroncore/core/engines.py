"""Random number generators, activation tables of the Scalar engine, and groups of partitions of the
GpSimd engine.

Each lane of the Vector engine has a generator. From NeuronCore-v3 on, each lane of the GpSimd
engine has one too. `Options.rng` names the kind of the generators, and `Options.rng_seed` is their
first seed.

Each processor of the GpSimd engine works on a group of G consecutive partitions. The elements of a
group are numbered: element j is in partition j % G of the group, column j // G."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from neuroncore.base.enums import engine
from neuroncore.clause.alu import Function
from neuroncore.clause.arithmetic import activate, flat, put
from neuroncore.core.core import Core
from neuroncore.machine import Machine
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics import generator
from neuroncore.numerics.generator import Generator
from neuroncore.numerics.loops import elementary


def streams(unit: engine, machine: Machine) -> int:
    """Return the number of states of each lane's random number generator (its streams)."""
    return 4 if unit is engine.vector and machine.has("vector_random_state") else 1


def kind(core: Core, unit: engine) -> Generator:
    """Return the kind of an engine's random number generators.

    With `Options.rng` "philox" it is Philox. Otherwise it resembles the hardware: shift registers
    for a Vector engine without readable random state, XORWOW for all other engines."""
    if core.options.rng == "philox":
        return generator.PHILOX
    older = unit is engine.vector and not core.machine.has("vector_random_state")
    return generator.LFSR if older else generator.XORWOW


def seed(core: Core, unit: engine, number: int, program: int = 0) -> None:
    """Restart the generators of all lanes of an engine from the seed `number`. `program` is the
    program of the launch grid."""
    lanes, count = core.machine.limits.partitions, streams(unit, core.machine)
    generators = kind(core, unit).seeded(number, program, unit.value, lanes, count)
    core.generators[unit] = generators


def states(core: Core, unit: engine, tile: Tile) -> Any:
    """Return a view of the generators' states for the lanes of a tile, shape [P, streams,
    words]."""
    if unit not in core.generators:
        seed(core, unit, core.options.rng_seed, core.program_id)
    return core.generators[unit][tile.start_partition :][: tile.shape[0]]


def draw(core: Core, unit: engine, tile: Tile) -> Any:
    """Return random 32-bit numbers for the elements of a tile, shape [P, F]."""
    return kind(core, unit).draw(states(core, unit, tile), tile.free_size)


def uniform(core: Core, unit: engine, tile: Tile) -> Array:
    """Return a random float32 number in [0, 1) for each element of a tile."""
    drawn: Array = kind(core, unit).uniform(states(core, unit, tile), tile.free_size)
    return drawn.reshape(tile.shape)


def looked_up(op: Function) -> Callable[[Core, Array, Array], None]:
    """Return a function that writes op(x) to an array, and reports inputs outside of the activation
    tables."""
    function = op.apply
    if op.valid[0] == -np.inf:
        return lambda core, x, out: activate(function, x, out)

    def look_up(core: Core, x: Array, out: Array) -> None:
        x = flat(x)
        _report_outside(core, op, x)
        activate(function, x, out)

    return look_up


def _report_outside(core: Core, op: Function, x: Array) -> None:
    """Report inputs outside of the activation tables. Zeros and infinities are assumed to need no
    table."""
    low, high = op.valid
    size = np.abs(x) if op.of_magnitude else x
    if low <= size.min() and size.max() <= high:
        return
    bounds = map(x.dtype.type, (low, high, np.finfo(x.dtype).max))
    place = elementary.first_outside.over(x.size)(size, x, *bounds)
    if place >= 0:
        core.report(
            "OUT_OF_RANGE",
            lambda: (
                f"{op} gets the input {x[place]:.9g}, but its table is valid only from "
                f"{low:.9g} to {high:.9g}; outside of this range, the device's results differ "
                "from neuroncore's"
            ),
        )


def group_size(core: Core) -> int:
    """Return the number of partitions in a group."""
    return core.machine.limits.gpsimd_core_partitions


def read_rows(core: Core, name: str, tile: Tile, chosen: Any) -> Any:
    """Return the codes of the partitions that `chosen` flags, shape [rows, F]. Only these
    partitions count as read."""
    if tile.storage.gaps is not None:
        core.check_written(name, tile, np.flatnonzero(chosen))
    return tile.codes()[chosen].reshape(np.count_nonzero(chosen), -1)


def read_groups(core: Core, name: str, tile: Tile, count: int) -> Any:
    """Return the first `count` elements of each group, as codes of shape [groups, count]. Only
    these elements count as read."""
    _check(core, name, tile, count)
    columns = -(-count // group_size(core))
    blocks = tile.codes()[:, :columns].reshape(-1, group_size(core), columns)
    return blocks.swapaxes(1, 2).reshape(len(blocks), -1)[:, :count]


def write_groups(core: Core, tile: Tile, codes: Any) -> None:
    """Write `codes`, shape [groups, count], to the first `count` elements of each group.

    All other unwritten elements become 0 or poison (`codec.poison`, such as NaN). They count as
    written too, because the example of nki.isa.topk uses the whole results."""
    number, count = codes.shape
    columns = -(-count // group_size(core))
    whole = columns * group_size(core)
    padded = np.zeros((number, whole), codes.dtype)
    padded[:, :count] = codes
    chosen = np.zeros(tile.shape, np.bool_)
    chosen[:, :columns] = _wound(np.arange(whole) < np.full((number, 1), count), columns)
    put(tile, chosen, _wound(padded, columns)[chosen[:, :columns]])
    if (missing := tile.missing()) is not None:
        tile.poison_elements(missing, core.options.undefined_as_zeros)
        tile.mark_written()


def _check(core: Core, name: str, tile: Tile, count: int) -> None:
    """Report unwritten elements among the first `count` elements of each group: they fill the first
    columns, and the next column down to a partition."""
    if tile.storage.gaps is None:
        return
    columns, rest = divmod(count, group_size(core))
    partitions = tile.shape[0]
    if columns:
        core.check_written(name, tile.window((partitions, columns), tile.strides, tile.offset))
    if rest:
        tail = tile.window((partitions, 1), tile.strides, tile.offset + columns * tile.strides[1])
        core.check_written(
            name, tail, np.flatnonzero(np.arange(partitions) % group_size(core) < rest)
        )


def _wound(rows: Any, columns: int) -> Any:
    """Return the elements of groups, arranged by partition and column.

    `rows`: shape [groups, G * columns]. Element j of group g goes to [G * g + j % G, j // G]."""
    return rows.reshape(len(rows), columns, -1).swapaxes(1, 2).reshape(-1, columns)
