"""Operands, rules and costs of random numbers."""

from __future__ import annotations

from typing import Annotated

from neuroncore.clause import SBUF, Call, Fault, Operand, Rule, View, cost, fault, rule
from neuroncore.clause.rules import holds, on_engine_needs, same_dtype
from neuroncore.core.generators import streams
from neuroncore.enums import engine
from neuroncore.errors import DtypeError
from neuroncore.machine import Machine
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import (
    FLOATS,
    INTEGERS,
    bool_,
    float8_e3m4,
    float8_e4m3fn,
    float32,
    int32,
    tfloat32,
    uint32,
)
from neuroncore.numerics.generator import WORDS

WHOLE = tuple(form for form in INTEGERS if form is not bool_)
DRAWN = tuple(form for form in FLOATS if form not in (float8_e3m4, float8_e4m3fn))
Integers = Annotated[Tile, Operand(writes=True, dtypes=WHOLE)]
Uniform = Annotated[Tile, Operand(writes=True, dtypes=DRAWN + WHOLE)]
StateIn = Annotated[Tile, Operand(reads=True, regions=(SBUF,), dtypes=(uint32,))]
StateOut = Annotated[Tile, Operand(writes=True, dtypes=(uint32,))]
Seed = Annotated[Tile, Operand(reads=True, dtypes=(int32, uint32, float32, tfloat32))]

RNG_ENGINES = on_engine_needs(engine.gpsimd, "gpsimd_random", "use engine=nisa.engine.vector")
STATE_ENGINES = on_engine_needs(
    engine.vector, "vector_random_state", "seed it with nisa.set_rng_seed"
)


def shape_of_states(call: Call) -> tuple[int, ...]:
    """[P, words]: all states of each lane, side by side."""
    view = call.views()[0]
    return view.partitions, WORDS * streams(call.engine, call.machine)


def states_of_a_lane(name: str) -> Rule:
    return holds(
        name, f"{name} is [P, 6], or [P, 24] of a Vector engine whose state can be read",
        lambda call: call.view(name).shape == shape_of_states(call),
        expected=lambda call: f"{shape_of_states(call)} for the {call.engine.name} engine",
    )  # fmt: skip


@rule(DtypeError)
def probability_format(call: Call, machine: Machine) -> Fault | None:
    """prob is float32 where data are integers, and any float where they are floats (ISA)"""
    prob, data = call["prob"], call.view("data")
    allowed = (float32,) if data.dtype.is_integer else FLOATS
    if not isinstance(prob, View) or prob.dtype in allowed:
        return None
    said = f"prob can't be {prob.dtype} where data is {data.dtype}"
    return fault("prob", said, " or ".join(allowed))


DROPOUT = (same_dtype("dst", "data"), probability_format)


@cost.dynamic
def generating(call: Call, machine: Machine) -> cost.Cost:
    """One pass over dst at the engine's rate of random numbers."""
    start = machine.fixed.gpsimd_start_cycles if call.engine is engine.gpsimd else 0
    cycles = cost.elements(call) / cost.rate(machine, call.engine, "random")
    return cost.stream(call, machine, cycles, start)
