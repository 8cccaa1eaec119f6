"""Operands, rules and costs of the GpSimd engine and of random numbers."""

from __future__ import annotations

from math import ceil, prod
from typing import Annotated

from neuroncore.base.enums import engine
from neuroncore.base.errors import DtypeError, SignatureError
from neuroncore.clause import cost
from neuroncore.clause.alu import Operator
from neuroncore.clause.immediate import INT32, Immediate
from neuroncore.clause.instruction import Call
from neuroncore.clause.operand import SBUF, Op
from neuroncore.clause.refusal import Fault, Rule, fault, rule
from neuroncore.clause.rules import holds, on_engine_needs, one_of, same_dtype
from neuroncore.clause.usual import reads, writes
from neuroncore.core import engines
from neuroncore.machine import Machine
from neuroncore.memory.geometry import View
from neuroncore.memory.tile import Tile
from neuroncore.numerics import generator
from neuroncore.numerics.formats import FLOATS, Format, float32

COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")

MovedIn = Annotated[Tile, reads("", SBUF, moved=True)]
MovedOut = Annotated[Tile, writes("", SBUF, moved=True)]
CoreIndex = Annotated[Tile, reads("uint16", SBUF)]
Indices = Annotated[Tile, reads("uint32", SBUF)]
Comparison = Annotated[Operator, Op(names=COMPARISONS)]
Run = Annotated[int, Immediate(int, keyed=True)]
Count = Annotated[int | None, Immediate(int, optional=True, keyed=True)]
# Published kernels compute offsets by divisions, whose whole numbers are floats.
Offset = Annotated[int, Immediate(int, *INT32, floats=True)]


@rule()
def counts_multiply(call: Call, machine: Machine) -> Fault | None:
    """the counts of pattern, 1 to iota_dims of them, multiply to the elements of dst"""
    counts = [pair[-1] for pair in call["pattern"] if pair]
    size, most = call.view("dst").free_size, machine.limits.iota_dims
    if not 0 < len(counts) <= most:
        said = f"the pattern has {len(counts)} axes"
        return fault("pattern", said, f"1 to {most} [step, count] pairs", call["pattern"])
    if prod(counts) == size and min(counts) > 0:
        return None
    said = f"the pattern counts {prod(counts)} elements, dst has {size} per partition"
    return fault("pattern", said, f"counts that multiply to {size}", call["pattern"])


PATTERN = (
    holds(
        "pattern", "pattern lists [step, count] pairs of integers",
        lambda call: all(len(pair) == 2 for pair in call["pattern"]), SignatureError,
    ),
    counts_multiply,
)  # fmt: skip


@rule()
def filled(call: Call, machine: Machine) -> Fault | None:
    """dst holds what 1 to gather_indices indices fetch, or the num_valid_indices first of them"""
    run, valid, dst = call["num_elem_per_idx"], call["num_valid_indices"], call.view("dst")
    limits = machine.limits
    there = limits.gpsimd_core_partitions * call.view("index").free_size
    limit = limits.gather_indices
    count = there if valid is None else valid
    if not 0 < count <= min(there, limit):
        name = "index" if valid is None else "num_valid_indices"
        because = f"index has {there} for each core, and a core takes at most {limit}"
        said, expected = f"a core can't take {count} indices", f"1 to {min(there, limit)}"
        return fault(name, said, expected, count, because=because)
    if dst.free_size == count * run:
        return None
    said = f"{count} indices of {run} elements don't fill dst ({dst})"
    return fault("dst", said, f"{count * run} elements per partition", dst.free_size)


LOCAL_GATHER = (
    same_dtype("src_buffer", "dst"),
    one_of("num_elem_per_idx", (1, 2, 4, 8, 16, 32)),
    filled,
)


def local_gather_cost(call: Call, machine: Machine) -> cost.Cost:
    """The published 150 + elements / C would make it cheaper the less it gathers at a time, and
    16-bit formats slower; times C it is what the engine's ports allow (ISA226)."""
    run, element_bytes = call["num_elem_per_idx"], call.view("dst").dtype.itemsize
    factor = (28 + 4 * run) / (4 * run) / min(4 / element_bytes, run)
    start = machine.fixed.gpsimd_start_cycles
    return cost.stream(call, machine, call.view("dst").free_size * factor, start)


def n_gather_cost(call: Call, machine: Machine) -> cost.Cost:
    """One element per lane and cycle, after a start for each gpsimd_gather_elements (ISA)."""
    count, fixed = call.view("dst").free_size, machine.fixed
    start = fixed.gpsimd_start_cycles * ceil(count / fixed.gpsimd_gather_elements)
    return cost.stream(call, machine, count / cost.rate(machine, engine.gpsimd, "default"), start)


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
    return view.partitions, generator.WORDS * engines.streams(call.engine, call.machine)


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
