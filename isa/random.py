"""Random numbers: one generator for each lane of the Vector and, from v3 on, the GpSimd engine.

Which generators these are, `Options.rng` says. They start as if seeded with 0.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from neuroncore.clause import arithmetic as numeric
from neuroncore.clause import cost
from neuroncore.clause.instruction import Call, Rule, instruction, require
from neuroncore.clause.operand import SBUF, In, Operand, Out, View
from neuroncore.clause.rules import (
    on_engine_needs,
    same_dtype,
    same_elements,
    same_partitions,
)
from neuroncore.clause.usual import Number, Single
from neuroncore.core.core import Core
from neuroncore.enums import engine
from neuroncore.errors import DtypeError, KernelError, OperatorError, ShapeError
from neuroncore.machine import Machine
from neuroncore.memory.tile import Tile
from neuroncore.numerics import generator
from neuroncore.numerics.formats import (
    FLOATS,
    FORMATS,
    INTEGERS,
    bool_,
    float8_e3m4,
    float8_e4m3fn,
    float32,
    int32,
    tfloat32,
    uint32,
)
from neuroncore.numerics.generator import Generator

from .control import one_element

vector, gpsimd = engine.vector, engine.gpsimd

Integers = Annotated[
    Tile, Operand(writes=True, dtypes=tuple(f for f in INTEGERS if f is not bool_))
]
Uniform = Annotated[
    Tile,
    Operand(
        writes=True,
        dtypes=tuple(f for f in FORMATS.values() if f not in (float8_e3m4, float8_e4m3fn, bool_)),
    ),
]
StateIn = Annotated[Tile, Operand(reads=True, regions=(SBUF,), dtypes=(uint32,))]
StateOut = Annotated[Tile, Operand(writes=True, dtypes=(uint32,))]
Seed = Annotated[Tile, Operand(reads=True, dtypes=(int32, uint32, float32, tfloat32))]

RNG_ENGINES = on_engine_needs(gpsimd, "gpsimd_random", "use engine=nisa.engine.vector")
STATE_ENGINES = on_engine_needs(vector, "vector_random_state", "seed it with nisa.set_rng_seed")


def streams(unit: engine, machine: Machine) -> int:
    """How many states a lane of an engine has."""
    return 4 if unit is vector and machine.has("vector_random_state") else 1


def kind(core: Core, unit: engine) -> Generator:
    """The generators of an engine. Those of hardware: XORWOW where a state of six words can be
    read, shift registers for the Vector engine of earlier generations."""
    if core.options.rng == "philox":
        return generator.PHILOX
    older = unit is vector and not core.machine.has("vector_random_state")
    return generator.LFSR if older else generator.XORWOW


def seeded(core: Core, unit: engine, seed: int, program: int) -> Any:
    lanes, count = core.machine.limits.partitions, streams(unit, core.machine)
    return kind(core, unit).seeded(seed, program, unit.value, lanes, count)


def lanes(core: Core, unit: engine, tile: Tile) -> Any:
    """The states [P, streams, words] of the lanes that a tile lies in, to be changed in place."""
    if unit not in core.generators:
        core.generators[unit] = seeded(core, unit, 0, core.program_id)
    return core.generators[unit][tile.start_partition :][: tile.shape[0]]


def uniform(core: Core, unit: engine, tile: Tile) -> Any:
    """A number in [0, 1) for each element of a tile, float32."""
    drawn = kind(core, unit).uniform(lanes(core, unit, tile), tile.free_size)
    return drawn.reshape(tile.shape)


def generating(call: Call, machine: Machine) -> cost.Cost:
    start = machine.fixed.gpsimd_start_cycles if call.engine is gpsimd else 0
    cycles = cost.elements(call) / cost.rate(machine, call.engine, "random")
    return cost.stream(call, machine, cycles, start)


def states_of_a_lane(name: str) -> Rule:
    """[P, words]: all states of each lane, side by side."""

    def rule(call: Call, machine: Machine) -> KernelError | None:
        view, words = call.view(name), generator.WORDS * streams(call.engine, machine)
        if view.shape[1:] == (words,):
            return None
        return ShapeError(
            f"{call.name}: {name} must have {words} words per partition",
            argument=name,
            expected=f"({view.partitions}, {words})",
            got=str(view),
            because=f"that is what a lane of the {call.engine.name} engine keeps",
        )

    return rule


def probability_format(call: Call, machine: Machine) -> KernelError | None:
    """Integers are compared with float32 probabilities, floats with any float (ISA)."""
    prob, data = call["prob"], call.view("data")
    allowed = (float32,) if data.dtype.is_integer else FLOATS
    if not isinstance(prob, View) or prob.dtype in allowed:
        return None
    return DtypeError(
        f"{call.name}: prob can't be {prob.dtype} where data is {data.dtype}",
        argument="prob",
        expected=" or ".join(allowed),
        got=str(prob),
    )


@instruction(vector, gpsimd, cost=cost.dynamic(generating), rules=[RNG_ENGINES])
def rng(dst: Integers, engine: engine = vector, *, core: Core) -> None:
    """dst[p, f] = the lowest bits of the next 32-bit random number of lane p"""
    numbers = kind(core, engine).draw(lanes(core, engine, dst), dst.free_size)
    bits = numbers.astype(dst.dtype.code_type).view(dst.dtype.storage)
    dst.codes()[...] = bits.reshape(dst.shape)


@instruction(
    vector,
    cost=cost.dynamic(generating),
    rules=[same_partitions("dst", "min", "max")],
    feature="uniform_random",
)
def rand2(dst: Uniform, min: Single, max: Single, *, core: Core) -> None:
    """dst[p, f] = min[p] + u * (max[p] - min[p]), u uniform in [0, 1)

    u takes the upper 24 bits of a random number. Each operation rounds to float32, so that max
    itself is possible.
    """
    require(
        isinstance(min, Tile) or isinstance(max, Tile) or min < max,
        f"rand2: min is {min}, max is {max}",
        OperatorError,
        argument="min",
        expected="min < max",
        got=f"{min} and {max}",
    )
    out = uniform(core, vector, dst)
    low, high = numeric.scalar(min, out), numeric.scalar(max, out)
    out *= high - low
    out += low
    dst.store(out)


@instruction(
    vector,
    cost=cost.streaming(),
    rules=[
        same_elements("dst", "data"),
        same_dtype("dst", "data"),
        same_partitions("data", "prob"),
        probability_format,
    ],
)
def dropout(dst: Out, data: In, prob: Number, *, core: Core) -> None:
    """dst[p, f] = 0 if u < prob[p] else data[p, f], u uniform in [0, 1)

    What is kept is not scaled; its bits stay.
    """
    require(
        isinstance(prob, Tile) or 0 <= prob <= 1,
        f"dropout: {prob} is not a probability",
        OperatorError,
        argument="prob",
        expected="0 to 1",
        got=str(prob),
    )
    codes = numeric.shaped(data.codes(), dst.shape)
    u = uniform(core, vector, dst)
    dropped = u < numeric.scalar(prob, u)
    dst.codes()[...] = np.where(dropped, codes.dtype.type(0), codes)


@instruction(vector, cost=cost.streaming(), rules=[one_element("src_seeds")])
def set_rng_seed(src_seeds: Seed, *, core: Core) -> None:
    """all lanes of the Vector engine draw anew from the seed src_seeds[0, 0]"""
    seed = int(src_seeds.codes().view(np.uint32).flat[0])
    core.generators[vector] = seeded(core, vector, seed, 0)


@instruction(
    gpsimd,
    vector,
    cost=cost.streaming(),
    rules=[STATE_ENGINES, states_of_a_lane("src_seeds")],
    feature="gpsimd_random",
)
def rand_set_state(src_seeds: StateIn, engine: engine = gpsimd, *, core: Core) -> None:
    """state[p] = src_seeds[p, :], 6 words for the GpSimd engine, 4 x 6 for the Vector engine"""
    states = lanes(core, engine, src_seeds)
    states[...] = src_seeds.codes().reshape(states.shape)


@instruction(
    gpsimd,
    vector,
    cost=cost.streaming(),
    rules=[STATE_ENGINES, states_of_a_lane("dst")],
    feature="gpsimd_random",
)
def rand_get_state(dst: StateOut, engine: engine = gpsimd, *, core: Core) -> None:
    """dst[p, :] = state[p], 6 words of the GpSimd engine, 4 x 6 of the Vector engine"""
    dst.codes()[...] = lanes(core, engine, dst).reshape(dst.shape)
