"""What clauses of several families have, by the names it goes by: operands, operators, traits."""

from __future__ import annotations

from typing import Annotated

from neuroncore.clause.arithmetic import Operator
from neuroncore.clause.instruction import Traits
from neuroncore.clause.operand import Op, Operand
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import FORMATS, Format, float32

BOTH = ("arithmetic", "bitvec")
LANEWISE = Traits(lanewise=True, casts=True)
FOLDING = Traits(lanewise=True, casts=True, accumulates=True)


def every_format_but(*forms: Format) -> tuple[Format, ...]:
    return tuple(form for form in FORMATS.values() if form not in forms)


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
