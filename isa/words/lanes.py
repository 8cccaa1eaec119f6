"""Operands, rules and costs of engines that compute in lanes: elementwise instructions, activation
functions, the GpSimd engine, and random numbers."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod
from typing import Annotated, Any

import numpy as np

from neuroncore.base.enums import engine, reduce_cmd
from neuroncore.base.errors import DtypeError, OperatorError, SignatureError
from neuroncore.base.units import either, plural
from neuroncore.clause import cost, rules
from neuroncore.clause.alu import Function, Operator
from neuroncore.clause.immediate import INT32, Immediate, Register
from neuroncore.clause.instruction import Call
from neuroncore.clause.operand import PSUM, SBUF, Act, Op, formats, reads, writes
from neuroncore.clause.refusal import Fault, Rule, fault, rule
from neuroncore.clause.rules import holds, on_engine_needs, one_of, same_dtype
from neuroncore.core import engines
from neuroncore.machine import Machine
from neuroncore.memory.geometry import View
from neuroncore.memory.register import VirtualRegister
from neuroncore.memory.tile import Tile
from neuroncore.numerics import generator
from neuroncore.numerics.formats import FLOATS, Format, float32

vector, scalar, gpsimd, unknown = engine.vector, engine.scalar, engine.gpsimd, engine.unknown

EXACT = formats("int32 uint32")  # the formats of the GpSimd engine's integer arithmetic
KEEP = 255  # in a shuffle mask: dst keeps the contents of this partition

CopiedTo = Annotated[Tile, writes(moved=True, indirect=True)]
Copied = Annotated[Tile, reads(moved=True, indirect=True)]
Filled = Annotated[Tile, writes(moved=True)]
Partly = Annotated[Tile, writes(partial=True)]
Chosen = Annotated[Tile, writes(partial=True, indirect=True)]
Source = Annotated[Tile | float, reads(scalar=True)]
Predicate = Annotated[Tile, reads("bool uint8 uint16 uint32", indirect=True)]
Mask = Annotated[tuple[int, ...], Immediate(int, depth=1, keyed=True, floats=True)]


def are_exact(*tiles: Tile | View) -> bool:
    return all(tile.dtype in EXACT for tile in tiles)


def shuffled(mask: tuple[int, ...], count: int, sources: int) -> tuple[Any, Any]:
    """Return two arrays: a flag for each partition of dst, whether a shuffle writes the partition;
    and the source partition of each partition that is written. `count` and `sources` are the
    numbers of partitions of dst and src. The length of the mask is the size of a quadrant."""
    rows, quadrant = np.arange(count), len(mask)
    wanted = np.array(mask)[rows % quadrant]
    origin = rows // quadrant * quadrant % (-(-sources // quadrant) * quadrant) + wanted
    moved = wanted != KEEP
    return moved, origin[moved]


# --- the choice of the engine ---------------------------------------------------------------------


def exact_integers_to_gpsimd(call: Call, machine: Machine) -> engine:
    """Choose the GpSimd engine for power, which only this engine has, and for arithmetic of 32-bit
    integers if no operand is in PSUM, because the integer arithmetic of GpSimd is exact (ISA).
    Otherwise choose the Vector engine."""
    if "gpsimd" in call["op"].engines and "vector" not in call["op"].engines:
        return gpsimd
    exact = are_exact(*call.views()) and all(v.region is not PSUM for v in call.views())
    return gpsimd if exact and call["op"].kind == "arithmetic" else vector


def operators_vector_lacks(call: Call) -> list[Any]:
    """Return the operators that the Vector engine doesn't have."""
    return [op for op in (call["op0"], call["op1"]) if op and "vector" not in op.engines]


def what_vector_lacks_to_gpsimd(call: Call, machine: Machine) -> engine:
    return gpsimd if operators_vector_lacks(call) else vector


def in_pipeline(call: Call) -> bool:
    """Return whether the Scalar engine's multiplier and adder can do the operators: a
    multiplication, an addition, or a multiplication and then an addition."""
    names = [op.name for op in (call["op0"], call["op1"]) if op]
    return names in (["multiply", "add"], ["multiply"], ["add"])


def open_arithmetic(call: Call, machine: Machine) -> list[engine]:
    """Return the engines among which the older API's compiler chooses for arithmetic that Scalar's
    multiplier and adder can do. In profiles of silu and adamw on trn1, Scalar executes such
    arithmetic if Vector has much to do."""
    takes = call["engine"] is unknown and in_pipeline(call)
    return [vector, scalar] if takes else [call.engine]


# --- rules ----------------------------------------------------------------------------------------


@rule(
    OperatorError,
    because="the Scalar engine's input stage is one multiplier followed by one adder",
    hint="use engine=nisa.engine.vector",
)
def multiplies_then_adds(call: Call, machine: Machine) -> Fault | None:
    """on the Scalar engine, op0 must be multiply or add, and only add may follow multiply"""
    if call.engine is not scalar or in_pipeline(call):
        return None
    names = [op.name for op in (call["op0"], call["op1"]) if op]
    got = " and then ".join(names)
    problem = f"the Scalar engine can't compute {got}"
    return fault("op0", problem, "multiply, add, or multiply and then add", got)


@rule(OperatorError)
def only_what_vector_lacks(call: Call, machine: Machine) -> Fault | None:
    """on the GpSimd engine, op0 or op1 must be rsqrt or power, which the Vector engine lacks"""
    lacking = operators_vector_lacks(call)
    fits = lacking and all("gpsimd" in op.engines for op in lacking)
    if call.engine is not gpsimd or fits:
        return None
    problem = f"{call.name} does not run {(*lacking, call['op0'])[0]} on the GpSimd engine"
    hint = None if lacking else "omit `engine`: then the Vector engine is chosen"
    got = f"op0={call['op0']}, op1={call['op1']}"
    return fault("op0", problem, "nl.rsqrt or nl.power", got, hint=hint)


@rule(
    OperatorError,
    because="arithmetic on addresses takes no indirect views, and 32-bit integers may be addresses",
)
def no_indirect_addresses(call: Call, machine: Machine) -> Fault | None:
    """arithmetic from 32-bit integers to 32-bit integers takes no indirect views"""
    # The documentation has this rule for arithmetic on addresses (ISA, tensor_scalar_addr), but
    # does not state which arithmetic is arithmetic on addresses.
    dst, data = call.view("dst"), call.view("data")
    addresses = are_exact(dst, data) and call["op0"].kind == "arithmetic"
    if not addresses or not (dst.picked_by or data.picked_by):
        return None
    return fault(
        "data" if data.picked_by else "dst",
        f"arithmetic from {data.dtype} to {dst.dtype} can't use an indirect view",
        "float32, narrower integers or a bitvec operator",
        f"{call['op0']} from {data.dtype} to {dst.dtype}",
    )


@rule()
def names_sources(call: Call, machine: Machine) -> Fault | None:
    """shuffle_mask must have, for each partition of a quadrant, the number of its source partition,
    or 255 if dst keeps its value"""
    mask, src, quadrant = call["shuffle_mask"], call.view("src"), machine.limits.quadrant
    if len(mask) != quadrant or not all(0 <= m < quadrant or m == KEEP for m in mask):
        expected = f"{quadrant} numbers from 0 to {quadrant - 1}, or {KEEP} to keep dst's value"
        problem = f"shuffle_mask must name a source for each of {quadrant} partitions"
        return fault("shuffle_mask", problem, expected, list(mask))
    _, origin = shuffled(mask, call.view("dst").partitions, src.partitions)
    if (origin < src.partitions).all():
        return None
    problem = f"shuffle_mask selects partition {origin.max()}, which src does not have"
    return fault("shuffle_mask", problem, f"partitions 0 to {src.partitions - 1}", src)


COPY = (
    rules.bits_if_opaque("dst", "src"),
    rules.on_engine_needs(scalar, "scalar_tensor_copy", "use nisa.activation(op=nl.copy)"),
    rules.indirect_on(vector, scalar),
)
TENSOR_TENSOR = (
    rules.not_both_in_psum("data1", "data2"),
    rules.two_operands("op"),
    rules.bitvec_on_integers("dst", "data1", "data2", ops=("op",)),
    rules.runs_there("op").when(
        "(checked for operators that only the GpSimd engine has)",
        lambda call: call["op"].engines == ("gpsimd",),
    ),
)
TENSOR_SCALAR = (
    rules.bitvec_on_integers("dst", "data", ops=("op0", "op1")),
    rules.operand_of(op0="operand0", op1="operand1"),
    rules.lane_scalars("op0", "operand0", "operand1"),
    rules.on_engine_needs(scalar, "scalar_tensor_scalar", "use engine=nisa.engine.vector"),
    rules.only_if("operand1", "op1", "is an operator", lambda op: op is not None),
    multiplies_then_adds,
    only_what_vector_lacks,
    rules.runs_there("op0", "op1").when(
        "(checked on the Vector engine)", lambda call: call.engine is vector
    ),
    no_indirect_addresses,
)
SCALAR_TENSOR_TENSOR = (
    rules.not_both_in_psum("data", "operand1"),
    rules.two_operands("op1"),
    rules.runs_there("op0", "op1"),
)


# --- costs ----------------------------------------------------------------------------------------


def predicated_cost(call: Call, machine: Machine) -> cost.Cost:
    """The time of reading src and predicate. The rate differs if one is in SBUF and the other in
    PSUM. If src is a scalar, only predicate takes time (FIT)."""
    regions = {view.region for view in call.views("src", "predicate") if view.free_size > 1}
    is_scalar = not isinstance(call["src"], View) or call.view("src").free_size == 1
    kind = "default" if is_scalar else "predicated_mixed" if len(regions) > 1 else "predicated"
    return cost.stream(call, machine, cost.elements(call) / cost.rate(machine, vector, kind))


STEPS = (
    ("multiply", "add"),
    ("multiply", "subtract"),
    ("multiply", "bypass"),
    ("add", "bypass"),
    ("subtract", "bypass"),
    ("bypass", "bypass"),
)
FOLDS = ("add", "maximum", "minimum", "abs_max", "abs_min")
NARROW = "float8_e4m3 float8_e5m2 float16 bfloat16 float32 int8 int16 int32 uint8 uint16"

Activation = Annotated[Function, Act()]
Data = Annotated[Tile, reads(indirect=True, float8="scalar_float8_e4m3fn")]
Bias = Annotated[Tile | float | None, reads("but tfloat32", scalar=True, optional=True)]
Sum = Annotated[Operator, Op(names=("add",))]
MaybeSum = Annotated[Operator | None, Op(names=("add",), optional=True)]
Step = Annotated[Operator, Op(names=("multiply", "add", "subtract", "bypass"))]
MaybeFold = Annotated[Operator | None, Op(names=FOLDS, optional=True)]
Exponents = Annotated[Tile, reads(f"{NARROW} uint32", indirect=True)]
Exponentials = Annotated[Tile, writes(f"{NARROW} tfloat32", indirect=True)]
Total = Annotated[
    Tile | None,
    writes("float8_e4m3 float8_e5m2 float16 bfloat16 float32 tfloat32", optional=True),
]


# --- rules ----------------------------------------------------------------------------------------


@rule(
    because="each partition of a result comes from the same partition of the operands",
    also="err_num_partition_mismatch",
)
def registers_of_data_or_more(call: Call, machine: Machine) -> Fault | None:
    """reduce_res must have at least as many partitions as data"""
    # nki-library's router_topk of NKI 0.2 reads registers of more partitions than data has
    data, result = call.view("data"), call["reduce_res"]
    if not isinstance(result, View):
        return None
    count, beyond = data.partitions, machine.limits.partitions - data.partition
    if count <= result.partitions <= beyond:
        return None
    problem = f"reduce_res has {plural(result.partitions, 'partition')}, but data has {count}"
    return fault("reduce_res", problem, f"{plural(count, 'partition')}, as data ({data})")


@rule(OperatorError)
def two_steps(call: Call, machine: Machine) -> Fault | None:
    """op0 and op1 must be a pair that the input stage supports"""
    op0, op1 = call["op0"], call["op1"]
    if (op0.name, op1.name) in STEPS:
        return None
    expected = f"(op0, op1) is {either(f'({first}, {second})' for first, second in STEPS)}"
    return fault("op1", f"op1={op1} can't follow op0={op0}", expected, f"({op0.name}, {op1.name})")


BIAS = (
    rules.needs(
        "scalar_constant_bias",
        "constant bias",
        "bias",
        lambda call: call["bias"] == "number",
        hint="fill a tile of shape (P, 1) with nisa.memset, and pass the tile",
        also="NCC_IBIR605",
    ),
    rules.needs(
        "scalar_constant_bias",
        "bias with nl.reciprocal",
        "bias",
        lambda call: call["op"].name == "reciprocal" and isinstance(call["bias"], View),
    ),
)
COMMANDS = rules.commands("idle", "reset", "reduce", "reset_reduce")
ACTIVATE2 = (
    two_steps,
    rules.only_if("reverse0", "op0", "has two operands", lambda op: op.arity == 2),
    rules.only_if("reverse1", "op1", "has two operands", lambda op: op.arity == 2),
    rules.same_dtype("imm0", "imm1", because=None),
    rules.needed_if(
        "reduce_op", "reduce_cmd", "is not idle", lambda cmd: cmd is not reduce_cmd.idle
    ),
    COMMANDS,
)


# --- costs ----------------------------------------------------------------------------------------


def activation_cost(call: Call, machine: Machine) -> cost.Cost:
    """One element per lane and cycle, whatever the function; reading the accumulator is a second
    instruction (ISA226). Every function but copy fetches a column for its bias, even without a
    bias: in published traces, copy is faster by exactly this time."""
    reads_out = call["reduce_res"] is not None
    cycles = cost.elements(call) / cost.rate(machine, engine.scalar, "default")
    extra = reads_out * machine.fixed.accumulator_read_cycles
    stream = cost.stream(call, machine, cycles, extra, column=call["op"].name != "copy")
    return replace(stream, table=call["op"].table)


COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")

MovedIn = Annotated[Tile, reads("", SBUF, moved=True)]
MovedOut = Annotated[Tile, writes("", SBUF, moved=True)]
CoreIndex = Annotated[Tile, reads("uint16", SBUF)]
Indices = Annotated[Tile, reads("uint32", SBUF)]
Comparison = Annotated[Operator, Op(names=COMPARISONS)]
Run = Annotated[int, Immediate(int, keyed=True)]
Count = Annotated[int | None, Immediate(int, optional=True, keyed=True)]
# Published kernels compute offsets by divisions, which give floats.
OFFSET = Immediate(int, *INT32, floats=True)
Offset = Annotated[int, OFFSET]
# Registers are accepted as offsets since NKI 0.4 (release notes).
Start = Annotated[VirtualRegister | int, Register(number=True, numbers=OFFSET)]


@rule()
def counts_multiply(call: Call, machine: Machine) -> Fault | None:
    """pattern must have 1 to iota_dims counts, and their product must be the number of elements per
    partition of dst"""
    counts = [pair[-1] for pair in call["pattern"] if pair]
    size, most = call.view("dst").free_size, machine.limits.iota_dims
    if not 0 < len(counts) <= most:
        problem = f"the pattern has {len(counts)} pairs"
        return fault("pattern", problem, f"1 to {most} [step, count] pairs", call["pattern"])
    if prod(counts) == size and min(counts) > 0:
        return None
    problem = f"the counts {counts} must be positive, and their product must be {size:,}"
    return fault("pattern", problem, f"{size:,} elements per partition, as dst", call["pattern"])


PATTERN = (
    holds(
        "pattern", "pattern must list [step, count] pairs of integers",
        lambda call: all(len(pair) == 2 for pair in call["pattern"]), SignatureError,
    ),
    counts_multiply,
)  # fmt: skip


@rule()
def filled(call: Call, machine: Machine) -> Fault | None:
    """the elements that the indices gather must fill dst exactly. The indices are all elements of
    index, or its first num_valid_indices elements; at most gather_indices of them"""
    run, valid, dst = call["num_elem_per_idx"], call["num_valid_indices"], call.view("dst")
    limits = machine.limits
    available = limits.gpsimd_core_partitions * call.view("index").free_size
    limit = limits.gather_indices
    count = available if valid is None else valid
    if not 0 < count <= min(available, limit):
        name = "index" if valid is None else "num_valid_indices"
        because = f"index has {available:,} entries for each GpSimd core; its limit is {limit:,}"
        problem = f"a GpSimd core can't take {count} indices"
        expected = f"1 to {min(available, limit)} indices"
        return fault(name, problem, expected, count, because=because)
    if dst.free_size == count * run:
        return None
    gathered = f"{count} {'index gathers' if count == 1 else 'indices gather'}"
    problem = f"{gathered} {count * run:,} elements, but dst has {dst.free_size:,} per partition"
    return fault("dst", problem, f"{count * run:,} elements per partition", dst)


LOCAL_GATHER = (
    same_dtype("src_buffer", "dst"),
    one_of("num_elem_per_idx", (1, 2, 4, 8, 16, 32)),
    filled,
)


def local_gather_cost(call: Call, machine: Machine) -> cost.Cost:
    """150 + elements * C cycles. C depends on the size and number of the elements that an index
    gathers. The published formula (ISA226) divides by C. By that formula, gathering fewer elements
    at a time would be cheaper, and 16-bit formats slower. With multiplication by C, the cost is the
    time that the engine's ports need."""
    run, element_bytes = call["num_elem_per_idx"], call.view("dst").dtype.itemsize
    factor = (28 + 4 * run) / (4 * run) / min(4 / element_bytes, run)
    start = machine.fixed.gpsimd_start_cycles
    return cost.stream(call, machine, call.view("dst").free_size * factor, start)


def n_gather_cost(call: Call, machine: Machine) -> cost.Cost:
    """One element per lane and cycle. The start cycles of the engine are added once per
    gpsimd_gather_elements elements (ISA)."""
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
    engine.vector, "vector_random_state", "seed the Vector engine with nisa.set_rng_seed"
)


def shape_of_states(call: Call) -> tuple[int, ...]:
    """Return [P, words]: all states of each lane, one after the other."""
    view = call.views()[0]
    return view.partitions, generator.WORDS * engines.streams(call.engine, call.machine)


def states_of_a_lane(name: str) -> Rule:
    return holds(
        name, f"{name} must have the shape [P, 24] on the Vector engine, or [P, 6] on GpSimd",
        lambda call: call.view(name).shape == shape_of_states(call),
        expected=lambda call: f"{shape_of_states(call)} for the {call.engine.name} engine",
    )  # fmt: skip


def of_probabilities(call: Call) -> tuple[Format, ...]:
    """Return the formats that the operand `prob` of dropout may have: float32 if `data` has
    integers, any float if it has floats (ISA)."""
    return (float32,) if call.view("data").dtype.is_integer else FLOATS


DROPOUT = (
    same_dtype("dst", "data"),
    holds(
        "prob", "prob must be float32 if data has integers, and any float if data has floats (ISA)",
        lambda call: not isinstance(call["prob"], View)
        or call["prob"].dtype in of_probabilities(call),
        DtypeError, lambda call: either(of_probabilities(call)),
    ),
)  # fmt: skip


@cost.dynamic
def generating(call: Call, machine: Machine) -> cost.Cost:
    """The time to fill dst at the engine's rate of random numbers."""
    start = machine.fixed.gpsimd_start_cycles if call.engine is engine.gpsimd else 0
    cycles = cost.elements(call) / cost.rate(machine, call.engine, "random")
    return cost.stream(call, machine, cycles, start)
