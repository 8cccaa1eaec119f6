"""The Vector engine (DVE): 128 lanes, each with an ALU that computes in float32. The Scalar and the
GpSimd engine can execute some of these instructions, too."""

from __future__ import annotations

from functools import partial

from neuroncore.base.enums import engine
from neuroncore.clause import alu, cost, rules
from neuroncore.clause import arithmetic as numeric
from neuroncore.clause.alu import copied, in_steps
from neuroncore.clause.immediate import Constant
from neuroncore.clause.instruction import LANEWISE, Fusion, Run, Traits, instruction, left_open
from neuroncore.clause.operand import (
    AnyOp,
    Arithmetic,
    Gathered,
    In,
    MaybeNumber,
    MaybeOp,
    Number,
    Out,
    Scattered,
)
from neuroncore.clause.refusal import constant_of, numbers_for
from neuroncore.memory.tile import Tile

from .words import lanes as words
from .words.lanes import Chosen, Copied, CopiedTo, Filled, Mask, Partly, Predicate, Source

vector, scalar, gpsimd, unknown = engine.vector, engine.scalar, engine.gpsimd, engine.unknown


@instruction(
    vector,
    scalar,
    gpsimd,
    shapes="dst src: P F",
    cost=cost.dynamic(cost.copying),
    rules=words.COPY,
    opcode="COPY",
    traits=Traits(lanewise=True, casts=True, copies=True, copies_out=True),
    older_compiler=Fusion(engines=left_open),
)
def tensor_copy(dst: CopiedTo, src: Copied, engine: engine = unknown) -> Run:
    """dst[p, f] = src[p, f]; equal formats keep their bits, others are converted through float32"""
    return numeric.move(dst, src)


@instruction(
    vector,
    gpsimd,
    cost=cost.filling,
    opcode="MEMSET",
    older_compiler=Fusion(fills=True),
)
def memset(dst: Filled, value: Constant, engine: engine = unknown) -> Run:
    """dst[p, f] = value; for packed formats it must be 0"""
    return fill


@instruction(
    vector,
    shapes="dst src predicate: P F",
    cost=cost.dynamic(words.predicated_cost),
    rules=[rules.same_dtype("dst", "src"), rules.not_both_in_psum("src", "predicate")],
    traits=Traits(lanewise=True, casts=True, copies=True),
)
def tensor_copy_predicated(
    dst: Chosen, src: Source, predicate: Predicate, reverse_pred: bool = False
) -> None:
    """dst[p, f] = src[p, f] if predicate[p, f] != 0, else unchanged"""
    chosen = numeric.mask(predicate, dst, reverse_pred)
    if isinstance(src, Tile):
        codes = numeric.shaped(src.codes(), dst.shape)
    else:
        codes = constant_of(dst, src, "tensor_copy_predicated", "src", floats=True)
    numeric.put(dst, chosen, codes)


def fill(dst: Tile, value: float) -> None:
    dst.codes()[...] = constant_of(dst, value, "memset", "value")


in_steps(fill, lambda dst, value: copied(dst, constant_of(dst, value, "memset", "value")))


# --- element by element ---------------------------------------------------------------------------


@instruction(
    vector,
    gpsimd,
    shapes="dst data1 data2: P F",
    cost=cost.dynamic(cost.two_inputs),
    choose=words.exact_integers_to_gpsimd,
    rules=words.TENSOR_TENSOR,
    traits=Traits(lanewise=True, casts=True, bytes_counted=False),
    older_compiler=Fusion(once=True, sums=lambda call: call["op"].name == "add"),
)
def tensor_tensor(
    dst: Scattered, data1: Gathered, data2: In, op: AnyOp, engine: engine = unknown
) -> Run:
    """dst[p, f] = data1[p, f] <op> data2[p, f]; on GpSimd, 32-bit integers are exact and wrap
    around"""
    exact = engine is gpsimd and op.integer and words.are_exact(dst, data1, data2)
    if op.kind == "bitvec" or exact:
        return partial(numeric.integer_binary, op)
    return numeric.binary(dst, op.apply, data1, data2)


@instruction(
    vector,
    scalar,
    gpsimd,
    shapes="dst data: P F; operand0 operand1: P 1",
    cost=cost.dynamic(cost.copying),
    choose=words.what_vector_lacks_to_gpsimd,
    rules=words.TENSOR_SCALAR,
    traits=LANEWISE,
    older_compiler=Fusion(engines=words.open_arithmetic, once=True),
)
def tensor_scalar(
    dst: Scattered,
    data: Gathered,
    op0: AnyOp,
    operand0: MaybeNumber,
    reverse0: bool = False,
    op1: MaybeOp = None,
    operand1: MaybeNumber = None,
    reverse1: bool = False,
    engine: engine = unknown,
) -> Run:
    """dst[p, f] = (data[p, f] <op0> operand0[p]) <op1> operand1[p]"""
    second = (op1, operand1, reverse1) if op1 else None
    run = numeric.chain(dst, data, (op0, operand0, reverse0), second)
    return numbers_for(run, (op0, operand0, "operand0"), (op1, operand1, "operand1"))


@instruction(
    vector,
    shapes="dst data operand1: P F; operand0: P 1",
    cost=cost.dynamic(cost.two_inputs),
    rules=words.SCALAR_TENSOR_TENSOR,
    traits=LANEWISE,
)
def scalar_tensor_tensor(
    dst: Out,
    data: In,
    op0: Arithmetic,
    operand0: Number,
    op1: Arithmetic,
    operand1: In,
    reverse0: bool = False,
    reverse1: bool = False,
) -> Run:
    """dst[p, f] = (data[p, f] <op0> operand0[p]) <op1> operand1[p, f]"""
    return numeric.chain(dst, data, (op0, operand0, reverse0), (op1, operand1, reverse1))


@instruction(
    vector,
    shapes="dst data: P F",
    cost=cost.streaming("reciprocal"),
    traits=LANEWISE,
    older_compiler=Fusion(once=True),
)
def reciprocal(dst: Out, data: In) -> Run:
    """dst[p, f] = 1 / data[p, f]"""
    return numeric.unary(dst, alu.inverse, data)


# --- across partitions ----------------------------------------------------------------------------


@instruction(
    vector,
    shapes="src: S F; dst: P F",
    cost=cost.streaming(),
    rules=[rules.same_dtype("dst", "src"), words.names_sources],
    traits=Traits(moves_bits=True),
)
def nc_stream_shuffle(dst: Partly, src: In, shuffle_mask: Mask) -> None:
    """dst[32q + i, f] = src[32q + shuffle_mask[i], f] in each quadrant q; 255 keeps dst unchanged

    If src has fewer quadrants than dst, they repeat: quadrant q of dst reads quadrant q % n of the
    n quadrants of src.
    """
    moved, origin = words.shuffled(shuffle_mask, dst.shape[0], src.shape[0])
    codes = numeric.shaped(src.codes(), (src.shape[0], *dst.shape[1:]))
    numeric.put(dst, moved, codes[origin])
