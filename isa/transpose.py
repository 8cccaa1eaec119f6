"""Transposes by the Tensor engine, or of small tiles by the Vector engine."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from neuroncore.clause import arithmetic as numeric
from neuroncore.clause import cost, product
from neuroncore.clause.instruction import Call, instruction
from neuroncore.clause.operand import PSUM, SBUF, Operand, View
from neuroncore.clause.rules import same_dtype, within_one_bank
from neuroncore.core.core import Core
from neuroncore.core.psum import put_bits
from neuroncore.enums import engine
from neuroncore.errors import BufferKindError, FreeSizeError, KernelError, ShapeError
from neuroncore.machine import Machine
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import float32

from .words.tensor import carries

tensor, vector, unknown = engine.tensor, engine.vector, engine.unknown


def transpose_dtype(call: Call, machine: Machine) -> KernelError | None:
    """dst has the format of data, or takes what the Tensor engine makes of it. Where that engine
    multiplies (v2), its sums are float32 and may stay so (published kernels for trn1 do it:
    autocomp, SD attention)."""
    dst, data = call.view("dst").dtype, call.view("data").dtype
    if call.engine is tensor:
        native = machine.has("native_transpose")
        if carries(dst, data) if native else data.is_float and dst is float32:
            return None
    return same_dtype("dst", "data")(call, machine)


def transpose_shapes(call: Call, machine: Machine) -> KernelError | None:
    dst, data = call.view("dst"), call.view("data")
    if (dst.partitions, dst.free_size) == (data.free_size, data.partitions):
        return None
    return ShapeError(
        f"nc_transpose: dst ({dst}) is not the transpose of data ({data})",
        argument="dst",
        expected=f"({data.free_size}, {data.partitions})",
        got=str(dst),
        because="the free axes become the partition axis and the other way round",
    )


def choose_transpose(call: Call, machine: Machine) -> engine:
    """The Tensor engine reads SBUF and writes PSUM; small tiles elsewhere go to the Vector
    engine."""
    on_tensor = call.view("data").region is SBUF and call.view("dst").region is PSUM
    return tensor if on_tensor else vector


def transpose_engine(call: Call, machine: Machine) -> KernelError | None:
    dst, data = call.view("dst"), call.view("data")
    if call.engine is tensor:
        return _tensor_transpose(dst, data, machine)
    most = machine.limits.vector_transpose
    if max(data.partitions, data.free_size) <= most:
        return None
    return FreeSizeError(
        f"nc_transpose: data ({data}) is too large for the Vector engine",
        argument="data",
        expected=f"at most {most} x {most}",
        got=str(data),
        because=f"a lane exchanges data within its group of {most} partitions only",
        hint="put data in SBUF and dst in PSUM, and the Tensor engine does up to 128 x 128",
        also="err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel",
    )


def _tensor_transpose(dst: View, data: View, machine: Machine) -> KernelError | None:
    if data.region is not SBUF or dst.region is not PSUM:
        return BufferKindError(
            f"nc_transpose on the Tensor engine: data ({data}) to dst ({dst})",
            argument="dst",
            expected="data in sbuf, dst in psum",
            got=f"data in {data.region.value}, dst in {dst.region.value}",
            because="the array reads SBUF and writes PSUM",
        )
    most = machine.limits.stationary_free
    if data.free_size > most:
        return FreeSizeError(
            f"nc_transpose: data ({data}) has more than {most} elements per partition",
            argument="data",
            expected=f"at most {most} x {most}",
            got=str(data),
            because="data is the stationary tile of the array",
        )
    return None


def transpose_bank(call: Call, machine: Machine) -> KernelError | None:
    """What the Tensor engine writes lies in one bank, as for any other product."""
    return within_one_bank("dst")(call, machine) if call.engine is tensor else None


def transpose_cost(call: Call, machine: Machine) -> cost.Cost:
    data = call.view("data")
    if call.engine is vector:
        return cost.stream(call, machine, data.free_size)
    return cost.systolic(
        call, machine, cost.transpose_kind(data), "data", data.partitions, data.free_size
    )


@instruction(
    tensor,
    vector,
    cost=transpose_cost,
    choose=choose_transpose,
    rules=[transpose_dtype, transpose_shapes, transpose_engine, transpose_bank],
    opcode="MATMUL",
)
def nc_transpose(
    dst: Annotated[Tile, Operand(writes=True)],
    data: Annotated[Tile, Operand(reads=True)],
    engine: engine = unknown,
    *,
    core: Core,
) -> None:
    """dst[f, p] = data[p, f]

    From v3 on bit for bit; there the Tensor engine may leave 8-bit floats in 16 bits, the upper 8
    of them zero. The Tensor engine of v2 multiplies by an identity matrix: NaN and infinities
    spread along their row, and -0 becomes +0.
    """
    if dst.region is PSUM:
        dst.mark_foreign(engine is vector)
    flat = data.codes().reshape(data.shape[0], -1)
    if engine is vector or core.machine.has("native_transpose") or data.dtype.is_integer:
        put_bits(dst, flat.T)
        return
    values = product.operand(data, "stationary", core.options)
    out = numeric.floats(dst, (values.shape[1], values.shape[0]))
    product.chain(values, np.eye(values.shape[0], dtype=np.float32), out, False)
    dst.store(out)
