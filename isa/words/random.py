"""Operands, rules and costs of random numbers."""

from __future__ import annotations

from typing import Annotated

from neuroncore.base.enums import engine
from neuroncore.base.errors import DtypeError
from neuroncore.clause import SBUF, Call, Rule, View, cost, reads, writes
from neuroncore.clause.rules import holds, on_engine_needs, same_dtype
from neuroncore.core.generators import streams
from neuroncore.machine import Machine
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import FLOATS, Format, float32
from neuroncore.numerics.generator import WORDS

Integers = Annotated[Tile, writes("int8 int16 int32 uint8 uint16 uint32")]
Uniform = Annotated[Tile, writes("but float8_e3m4 float8_e4m3fn bool")]
StateIn = Annotated[Tile, reads("uint32", SBUF)]
StateOut = Annotated[Tile, writes("uint32")]
Seed = Annotated[Tile, reads("int32 uint32 float32 tfloat32")]

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


def of_probabilities(call: Call) -> tuple[Format, ...]:
    """Their formats: integers are compared with float32, floats with any float (ISA)."""
    return (float32,) if call.view("data").dtype.is_integer else FLOATS


DROPOUT = (
    same_dtype("dst", "data"),
    holds(
        "prob", "prob is float32 where data is integers, and any float where it is floats (ISA)",
        lambda call: not isinstance(call["prob"], View)
        or call["prob"].dtype in of_probabilities(call),
        DtypeError, lambda call: " or ".join(of_probabilities(call)),
    ),
)  # fmt: skip


@cost.dynamic
def generating(call: Call, machine: Machine) -> cost.Cost:
    """One pass over dst at the engine's rate of random numbers."""
    start = machine.fixed.gpsimd_start_cycles if call.engine is engine.gpsimd else 0
    cycles = cost.elements(call) / cost.rate(machine, call.engine, "random")
    return cost.stream(call, machine, cycles, start)
