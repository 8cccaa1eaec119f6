"""Operands, operators and traits that clauses of several families share, by name."""

from __future__ import annotations

from typing import Annotated, Any

from neuroncore.base.enums import MemoryRegion
from neuroncore.clause.alu import Operator
from neuroncore.clause.instruction import Traits
from neuroncore.clause.operand import SBUF, Op, Operand
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import FORMATS, Format

BOTH = ("arithmetic", "bitvec")
LANEWISE = Traits(lanewise=True, casts=True)
SCANNING = Traits(lanewise=True, scans=True, casts=True)
FOLDING = Traits(lanewise=True, casts=True, accumulates=True)


def formats(names: str) -> tuple[Format, ...]:
    """The formats of these names, or all "but" these."""
    but, *others = names.split()
    if but == "but":
        return tuple(form for form in FORMATS.values() if form.name not in others)
    return tuple(FORMATS[name] for name in names.split())


def reads(names: str = "", *regions: MemoryRegion, **more: Any) -> Operand:
    """A tile that is read, of these `formats` and in these memories, or of all and in all that
    compute engines reach; `more` are fields of Operand."""
    return Operand(reads=True, **_where(names, regions), **more)


def writes(names: str = "", *regions: MemoryRegion, **more: Any) -> Operand:
    """A tile that is written, with the same parameters."""
    return Operand(writes=True, **_where(names, regions), **more)


def _where(names: str, regions: tuple[MemoryRegion, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {"dtypes": formats(names)} if names else {}
    return found | ({"regions": regions} if regions else {})


# Compute engines read and write SBUF and PSUM.
In = Annotated[Tile, reads()]
Out = Annotated[Tile, writes()]
Gathered = Annotated[Tile, reads(indirect=True)]
Scattered = Annotated[Tile, writes(indirect=True)]
SbufIn = Annotated[Tile, reads("", SBUF)]
SbufOut = Annotated[Tile, writes("", SBUF)]

# One number for each lane, from a tile or from the instruction itself.
Number = Annotated[Tile | float, reads(scalar=True)]
MaybeNumber = Annotated[Tile | float | None, reads(scalar=True, optional=True)]
Single = Annotated[Tile | float, reads("float32", scalar=True)]
MaybeSingle = Annotated[Tile | float | None, reads("float32", scalar=True, optional=True)]
Reduced = Annotated[Tile | None, writes(optional=True)]

AnyOp = Annotated[Operator, Op(BOTH)]
MaybeOp = Annotated[Operator | None, Op(BOTH, optional=True)]
Arithmetic = Annotated[Operator, Op()]
