"""Functions that work element by element, and the operators that instructions take."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import OperatorError, ShapeError, SignatureError
from neuroncore.core.core import current
from neuroncore.frontend.nki import isa
from neuroncore.frontend.nki.language.creation import ndarray
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.frontend.operators import ByNumber, Operation, Simulated, common, operations
from neuroncore.memory.access import Dims
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import float32, uint8

PSUM = MemoryRegion.psum


def checked(x: Any, argument: str = "x", position: int = 0) -> Any:
    """Return x if it is a tile. Raises SignatureError for other values, and OutsideKernelError
    outside a kernel. `argument` and `position` are the name and the position of x in the call."""
    current()
    if not isinstance(x, Tile):
        raise SignatureError(
            f"{x!r:.60} is not a tile",
            argument=argument,
            position=position,
            expected="a tensor in sbuf or psum",
            got=type(x).__name__,
            hint="nl.load copies an argument to sbuf; nl.full creates a tile from a number",
        )
    return x


def result(like: Tile, dtype: Any = None) -> NkiTensor:
    """Return a new tile in SBUF with the shape of `like`. Its format is `dtype`, by default the
    format of `like`."""
    return ndarray(checked(like).shape, dtype or like.dtype)


def in_sbuf(x: NkiTensor) -> NkiTensor:
    """Return the tile x, or a copy in SBUF if x is in PSUM. Issues tensor_copy for the copy."""
    if x.region is not PSUM:
        return x
    copied = result(x)
    isa.tensor_copy(copied, x)
    return copied


def in_partitions(x: NkiTensor, count: int) -> NkiTensor:
    """Return a tile of `count` partitions that each repeat x, a tile of one partition.

    Issues nc_stream_shuffle, once per 32 partitions; first a DMA if no engine can start at x. This
    is necessary because broadcast_to is documented for any tile: the Wigner matrices of
    equiformer-trainium use single rows of a table."""
    if x.shape[0] == count:
        return x
    out = ndarray((count, *x.shape[1:]), x.dtype)
    quadrant = current().machine.limits.quadrant
    if x.start_partition % quadrant and x.region is not PSUM:
        row = ndarray(x.shape, x.dtype)
        isa.dma_copy(row, x)
        x = row
    for start in range(0, count, quadrant):
        isa.nc_stream_shuffle(out[start : min(start + quadrant, count)], x, [0] * quadrant)
    return out


def repeated(x: NkiTensor, shape: Dims) -> NkiTensor:
    """Return a view whose free axes of size 1 are repeated to the sizes in `shape`. Issues no
    instruction."""
    for axis in range(1, len(shape)):
        if x.shape[axis] != shape[axis]:
            x = x.broadcast(axis, shape[axis])
    return x


def _is_column(x: Any, other: Any) -> bool:
    """Return whether x is a tile with one element per partition, and `other` is a tile with several
    elements per partition. Both tiles have the same number of partitions."""
    return (
        isinstance(x, Tile)
        and x.free_size == 1
        and (isinstance(other, Tile) and other.free_size > 1 and x.shape[0] == other.shape[0])
    )


def _scalar_operand(x: Any, bitvec: bool) -> Any:
    """Return x, a number or a [P, 1] tile, as an operand of tensor_scalar. A tile is converted to
    float32 for arithmetic operators, but not for bitwise operators (`bitvec`)."""
    if not isinstance(x, Tile) or bitvec or x.dtype is float32:
        return x
    column = ndarray(x.shape, float32)
    isa.tensor_copy(column, x)
    return column


def _binary(name: str, kind: type[Operation] = Operation) -> Operation:
    """Return the operator `name` of two operands, as an object of the class `kind`."""

    def lowered(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
        shape = _common_shape(name, x, y)
        out = ndarray(shape, dtype or common(x, y))
        if isinstance(x, NkiTensor):
            x = in_partitions(x, shape[0])
        if isinstance(y, NkiTensor):
            y = in_partitions(y, shape[0])
        bitvec = token.operator.kind == "bitvec"
        if not isinstance(y, NkiTensor) or _is_column(y, x):
            isa.tensor_scalar(out, x, token, _scalar_operand(y, bitvec))
        elif not isinstance(x, NkiTensor) or _is_column(x, y):
            isa.tensor_scalar(out, y, token, _scalar_operand(x, bitvec), reverse0=True)
        else:
            both_in_psum = x.region is PSUM and y.region is PSUM
            x = in_sbuf(x) if both_in_psum else x
            isa.tensor_tensor(out, repeated(x, shape), repeated(y, shape), token)
        return out

    doc = (
        f"Return x {name} y, element by element. Issues tensor_tensor, or tensor_scalar if an "
        "operand is a number or a (P, 1) tile. Axes of size 1 are repeated (the partition axis by "
        "nc_stream_shuffle), because the vendor's simulator repeats them, and published kernels "
        "depend on this (trnsparse, 0.3). According to the release notes of 0.3, the vendor's "
        "compiler doesn't broadcast yet."
    )
    token = kind(name, lowered, doc)
    return token


def _common_shape(name: str, x: Any, y: Any) -> Dims:
    """Return the shape of x <op> y. Raises SignatureError if neither x nor y is a tile. Raises
    ShapeError if two sizes differ and neither size is 1."""
    tile = x if isinstance(x, NkiTensor) else y
    other = y if isinstance(y, NkiTensor) else tile
    if not isinstance(tile, NkiTensor):
        statement = f"nl.{name} needs at least one tile"
        raise SignatureError(statement, expected="a tile in sbuf or psum", got=f"{x} and {y}")
    if tile.shape == other.shape:
        return tile.shape
    left, right = _aligned(tile, other), _aligned(other, tile)
    pairs = list(zip(left, right, strict=False))
    if len(left) != len(right) or any(m != n and 1 not in (m, n) for m, n in pairs):
        raise ShapeError(
            f"nl.{name}: the shapes {x.shape} and {y.shape} do not match",
            argument="y",
            position=1,
            expected="along each axis, the sizes must be equal, or one must be 1",
            because="tiles are combined element by element, and only axes of size 1 are repeated",
            hint="change a shape with nl.expand_dims(tile, axis) or nl.broadcast_to(tile, shape)",
        )
    current().report(
        "BROADCAST_OPERANDS",
        f"nl.{name} has two tiles of different shapes: {x.shape} and {y.shape}",
    )
    return tuple(n if m == 1 else m for m, n in pairs)


def _aligned(x: NkiTensor, other: NkiTensor) -> Dims:
    """Return the shape of x, to compare with the shape of `other`. If x has one element per
    partition, the shape has as many axes as `other`, and all free axes have size 1."""
    return (x.shape[0], *(1,) * (len(other.shape) - 1)) if x.free_size == 1 else x.shape


def _activated(name: str) -> Operation:
    """Return the operator of an activation function."""

    def lowered(x: NkiTensor, dtype: Any = None) -> NkiTensor:
        out = result(x, dtype)
        isa.activation(out, token, x)
        return out

    token = Operation(name, lowered, f"Return {name} of each element. Issues activation.")
    return token


def _by_number(name: str, row: ByNumber) -> Operation:
    """Return the operator `name`, which applies another operator with a constant. `row` is its row
    in the table BY_NUMBER."""

    def lowered(x: NkiTensor, dtype: Any = None) -> NkiTensor:
        out = result(x, dtype)
        isa.tensor_scalar(out, x, OPERATIONS[row.operator or name], row.number)
        return out

    return Operation(name, lowered, f"Return {row.doc}. Issues tensor_scalar.")


OPERATIONS = operations(_binary, _activated, _by_number)


def __getattr__(name: str) -> Operation:
    if name in OPERATIONS:
        return OPERATIONS[name]
    raise AttributeError(f"nki.language has no {name!r}")


prelu = Operation("prelu", None, "Parametric ReLU, only as an argument of nisa.activation.")
bypass = Operation("bypass", None, "No operation, only as an argument of nki.isa instructions.")
average = Operation("average", None, "The mean, only as an argument of nki.isa reductions.")


def _reciprocal(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    out = result(x, dtype)
    isa.reciprocal(out, x)
    return out


def _copy(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    out = result(x, dtype)
    isa.tensor_copy(out, x)
    return out


reciprocal = Operation("reciprocal", _reciprocal, "Return 1 / x. Issues reciprocal.")
copy = Operation("copy", _copy, "Return a copy of x in SBUF. Issues tensor_copy.")


def _divided(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    if not isinstance(y, Tile):
        return OPERATIONS["multiply"](x, float(np.divide(1.0, y)), dtype)  # type: ignore[no-any-return]
    inverse = ndarray(y.shape, float32)
    isa.reciprocal(inverse, y)
    return OPERATIONS["multiply"](x, inverse, dtype or common(x, y))  # type: ignore[no-any-return]


divide = Simulated(
    "divide",
    _divided,
    "Return x / y, as x times 1 / y; both steps round. Issues reciprocal, and tensor_tensor or "
    "tensor_scalar.",
)


def where(condition: NkiTensor, x: NkiTensor, y: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Return x where the condition isn't 0, else y. Issues tensor_scalar, tensor_copy and
    tensor_copy_predicated."""
    for position, name in enumerate(("condition", "x", "y")):
        checked((condition, x, y)[position], name, position)
    out, chosen = result(x, dtype), ndarray(condition.shape, uint8)
    isa.tensor_scalar(chosen, condition, OPERATIONS["not_equal"], 0.0)
    isa.tensor_copy(out, y)
    source = x if x.dtype is out.dtype else copy(x, out.dtype)
    isa.tensor_copy_predicated(out, source, chosen)
    return out


def _no_hardware(name: str, quotient: str) -> Simulated:
    """Return the operator of a remainder, which only the vendor's simulator has. A call raises
    OperatorError, unless Options.simulator_operators is set. `quotient` is the function that rounds
    the quotient."""
    simulated = _binary(name, Simulated)

    def refused(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
        if token.accepted:
            return simulated(x, y, dtype)  # type: ignore[no-any-return]
        raise OperatorError(
            f"nl.{name} has no hardware instruction",
            because="no engine divides; the vendor's simulator computes quotients and remainders, "
            "but the compiler refuses them",
            hint=f"compute x - y * nl.{quotient}(nl.divide(x, y)), or set "
            "Options(simulator_operators=True)",
        )

    token = Simulated(name, refused, "Refused, because no hardware instruction computes this.")
    return token


mod = _no_hardware("mod", "floor")
fmod = _no_hardware("fmod", "trunc")

__all__ = [
    *OPERATIONS,
    *("average", "bypass", "copy", "divide", "fmod", "mod", "prelu", "reciprocal", "where"),
]
