"""Operands and operators that clauses of several families have, by the names they go by."""

from __future__ import annotations

from typing import Annotated

from neuroncore.clause.arithmetic import Operator
from neuroncore.clause.operand import Op, Operand
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import float32

BOTH = ("arithmetic", "bitvec")

# One number for each lane, from a tile or from the instruction itself.
Number = Annotated[Tile | float, Operand(reads=True, column=True, scalar=True)]
MaybeNumber = Annotated[
    Tile | float | None, Operand(reads=True, column=True, scalar=True, optional=True)
]
Single = Annotated[Tile | float, Operand(reads=True, column=True, scalar=True, dtypes=(float32,))]
MaybeSingle = Annotated[
    Tile | float | None,
    Operand(reads=True, column=True, scalar=True, optional=True, dtypes=(float32,)),
]
Reduced = Annotated[Tile | None, Operand(writes=True, column=True, optional=True)]

AnyOp = Annotated[Operator, Op(BOTH)]
MaybeOp = Annotated[Operator | None, Op(BOTH, optional=True)]
Arithmetic = Annotated[Operator, Op()]
