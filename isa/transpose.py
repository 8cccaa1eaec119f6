"""Transposes by the Tensor engine, or of small tiles by the Vector engine."""

from __future__ import annotations

from neuroncore.base.enums import engine
from neuroncore.clause.instruction import Run, Traits, instruction
from neuroncore.clause.operand import PSUM
from neuroncore.clause.usual import In, Out
from neuroncore.core import sums
from neuroncore.core.core import Core
from neuroncore.memory.tile import Tile

from .words import tensor as words

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
    traits=Traits(transposes=True, weights="data", streams=None),
)
def nc_transpose(dst: Out, data: In, engine: engine = unknown, *, core: Core) -> Run:
    """dst[f, p] = data[p, f]

    From v3 on bit for bit; there the Tensor engine may leave 8-bit floats in 16 bits, the upper 8
    of them zero. The Tensor engine of v2 multiplies by an identity matrix: NaN and infinities
    spread along their row, and -0 becomes +0; an uninitialized element counts as finite.
    """
    exact = engine is vector or core.machine.has("native_transpose") or data.dtype.is_integer
    turn = turned if exact else sums.transposed
    if dst.region is not PSUM:
        return turn
    foreign = engine is vector

    def run(core: Core, dst: Tile, data: Tile) -> None:
        dst.mark_foreign(foreign)
        turn(core, dst, data)

    return run


def turned(core: Core, dst: Tile, data: Tile) -> None:
    sums.put_bits(dst, data.codes().reshape(data.shape[0], -1).T)
