"""Transposes by the Tensor engine, or of small tiles by the Vector engine."""

from __future__ import annotations

import numpy as np

from neuroncore.clause import PSUM, In, Out, Traits, instruction, numeric, product
from neuroncore.core.core import Core
from neuroncore.core.psum import put_bits
from neuroncore.enums import engine

from .words import transpose as words

tensor, vector, unknown = engine.tensor, engine.vector, engine.unknown


@instruction(
    tensor,
    vector,
    shapes="data: P F; dst: F P",
    cost=words.transpose_cost,
    choose=words.choose,
    rules=words.RULES,
    opcode="MATMUL",
    example="F=128; dst=psum bfloat16",
    traits=Traits(transposes=True),
)
def nc_transpose(dst: Out, data: In, engine: engine = unknown, *, core: Core) -> None:
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
