"""Elementwise functions of the older API: tiles and numbers in, a tile out.

Their names are also the operators that nki.isa takes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import ShapeError, SignatureError
from neuroncore.frontend.formats import common, format_of
from neuroncore.frontend.neuronxcc.nki import isa
from neuroncore.frontend.neuronxcc.nki.isa.arguments import begin
from neuroncore.frontend.neuronxcc.nki.isa.broadcast import across_partitions
from neuroncore.frontend.neuronxcc.nki.isa.elementwise import combined
from neuroncore.frontend.neuronxcc.nki.keywords import check_keywords
from neuroncore.frontend.neuronxcc.nki.language.composed import as_newer, as_older
from neuroncore.frontend.neuronxcc.nki.results import (
    flush,
    tile,
)
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor, Untiled
from neuroncore.frontend.nki import language as newer
from neuroncore.frontend.operators import LATER, ByNumber, Operation, operations
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import Format, bool_, float32

PSUM = MemoryRegion.psum
TILES = (Tile, Untiled)
COMPARISONS = frozenset(
    (
        *("equal", "not_equal", "greater", "greater_equal", "less", "less_equal"),
        *("logical_and", "logical_or", "logical_xor", "logical_not"),
    )
)


def is_tile(value: Any) -> bool:
    return isinstance(value, TILES)


def _result_format(name: str, dtype: Any, *tiles: Tensor) -> Format:
    if dtype is not None:
        return bool_ if dtype is bool else format_of(dtype, position=0)
    return bool_ if name in COMPARISONS else common(tiles[0], tiles[-1])


# --- two operands ---------------------------------------------------------------------------------


def _binary(name: str) -> Operation:
    def lowered(x: Any, y: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Any:
        if kwargs:
            check_keywords(kwargs, name=name)
        if not is_tile(x) and not is_tile(y):
            return on_host(name, x, y)
        flush()
        if not is_tile(y):
            x = tile(x, "x")
            return isa.tensor_scalar(
                x, operator, y, dtype=_result_format(name, dtype, x), mask=mask
            )
        if not is_tile(x):
            y = tile(y, "y")
            form = _result_format(name, dtype, y)
            return isa.tensor_scalar(y, operator, x, reverse0=True, dtype=form, mask=mask)
        a, b = tile(x, "x"), tile(y, "y")
        return _of_tiles(operator, a, b, _result_format(name, dtype, a, b), mask)

    operator = Operation(name, lowered, f"x {name} y: tensor_tensor or tensor_scalar.")
    return _of_bools(operator) if name in COMPARISONS else operator


def _of_bools(comparison: Operation) -> Operation:
    """Return a comparison whose dtype is bool by default, as its signature shows."""
    parameters = comparison.__signature__.parameters.values()
    changed = [p.replace(default=bool) if p.name == "dtype" else p for p in parameters]
    comparison.__signature__ = comparison.__signature__.replace(parameters=changed)
    return comparison


def on_host(name: str, *numbers: Any) -> Any:
    """Return the function for numbers that are known while the kernel is traced."""
    function = getattr(np, name, None)
    if function is None:
        raise SignatureError(f"nl.{name} of {numbers[0]!r:.60}", argument="x", expected="a tile")
    value = function(*numbers)
    return value.item() if isinstance(value, np.generic) else value


def _of_tiles(operator: Operation, x: Tensor, y: Tensor, form: Format, mask: Any) -> Tensor:
    if x.shape != y.shape:
        x, y = _same_rank(x, y)
        if x.free_size > 1 and _is_column(y, x):
            return isa.tensor_scalar(x, operator, y, dtype=form, mask=mask)
        if y.free_size > 1 and _is_column(x, y):
            return isa.tensor_scalar(y, operator, x, reverse0=True, dtype=form, mask=mask)
        if x.shape[0] != y.shape[0]:
            _check_free_axes(x, y)
            x, y = _same_partitions(x, y), _same_partitions(y, x)
    if x.region is PSUM and y.region is PSUM:
        x = isa.tensor_copy(x)
        flush()
    if x.shape == y.shape:
        return combined(x, y, operator, form, mask)
    return isa.tensor_tensor(x, y, operator, dtype=form, mask=mask)


def _same_rank(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return both tiles with the same number of axes: axes of size 1 are inserted after the
    partition."""
    for _ in range(len(x.shape) - len(y.shape)):
        y = y.expand_dims(1)
    for _ in range(len(y.shape) - len(x.shape)):
        x = x.expand_dims(1)
    return x, y


def _is_column(x: Tensor, other: Tensor) -> bool:
    """Return whether x can be a column: one number for each partition of the other tile."""
    return x.free_size == 1 and x.shape[0] == other.shape[0] and x.dtype is float32


def _check_free_axes(x: Tensor, y: Tensor) -> None:
    """Raise ShapeError if the sizes of a free axis differ and neither is 1."""
    sizes = list(zip(x.shape[1:], y.shape[1:], strict=True))
    if x.free_size != y.free_size and any(n != m and 1 not in (n, m) for n, m in sizes):
        raise ShapeError(
            f"{x} and {y} do not match",
            argument="y",
            position=1,
            expected="sizes that are equal or 1",
            got=f"{x.shape} and {y.shape}",
        )


def _same_partitions(x: Tensor, other: Tensor) -> Tensor:
    if x.shape[0] == other.shape[0] or x.shape[0] != 1:
        return x
    return broadcast_to(x, shape=(other.shape[0], *x.shape[1:]))


# --- one operand ----------------------------------------------------------------------------------


def _activated(name: str) -> Operation:
    def lowered(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Any:
        check_keywords(kwargs, name=name)
        if not is_tile(x):
            return on_host(name, x)
        return isa.activation(operator, x, dtype=dtype, mask=mask)

    operator = Operation(name, lowered, f"{name} of each element: activation.")
    return operator


def _by_number(name: str, row: ByNumber) -> Operation:
    def lowered(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Any:
        check_keywords(kwargs, name=name)
        flush()
        form = _result_format(name, dtype, tile(x, "x"))
        operator = getattr(newer, row.operator or name)
        return isa.tensor_scalar(x, operator, row.number, dtype=form, mask=mask)

    operation = Operation(name, lowered, f"{row.doc}: tensor_scalar.")
    return _of_bools(operation) if name in COMPARISONS else operation


OPERATIONS = operations(_binary, _activated, _by_number, without=LATER)


def __getattr__(name: str) -> Operation:
    if name in OPERATIONS:
        return OPERATIONS[name]
    raise AttributeError(f"neuronxcc.nki.language has no {name!r}")


def _reciprocal(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tensor:
    check_keywords(kwargs, name="reciprocal")
    return isa.reciprocal(x, dtype=dtype, mask=mask)


def _copy(src: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> Tensor:
    check_keywords(kwargs, name="copy")
    return isa.tensor_copy(src, mask=mask, dtype=dtype)


reciprocal = Operation("reciprocal", _reciprocal, "1 / x: reciprocal.")
copy = Operation("copy", _copy, "x in SBUF: tensor_copy.")


def broadcast_to(src: Any, *, shape: Any, **kwargs: Any) -> Tensor:
    """src repeated along axes of size 1; across partitions by a product with ones, or by
    nc_stream_shuffle for formats other than float32."""
    begin(kwargs)
    x, sizes = tile(src, "src"), tuple(int(n) for n in shape)
    while len(x.shape) < len(sizes):
        x = x.expand_dims(1)
    fits = len(x.shape) == len(sizes)
    if not fits or any(n not in (1, m) for n, m in zip(x.shape, sizes, strict=True)):
        raise ShapeError(
            f"{x.shape} can't be broadcast to {sizes}",
            argument="shape",
            expected="equal sizes, or 1 in the source",
        )
    if x.shape == sizes:
        return x
    if x.shape[0] == sizes[0]:
        return x.stretched(sizes)
    if x.dtype is float32:
        return across_partitions(x, sizes[0]).stretched(sizes)
    return as_older(newer.broadcast_to(as_newer(x), (sizes[0], *x.shape[1:]))).stretched(sizes)


def static_cast(input_data: Any, dtype: Any) -> Any:
    """The data in another format: a tile is converted by tensor_copy, an array by numpy."""
    if not is_tile(input_data):
        return np.asarray(input_data).astype(format_of(dtype, position=1).numpy)
    return isa.tensor_copy(input_data, dtype=dtype)


__all__ = [*OPERATIONS, "broadcast_to", "copy", "reciprocal", "static_cast"]
