"""Elementwise functions of the older API: they take tiles and numbers, and return a tile. Most of
them are also operators that nki.isa takes.

Most functions that issue several instructions call the function of today's API with the same name,
for each box that a mask chooses. A box is a rectangle of elements of a tile (`boxes`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import ShapeError, SignatureError
from neuroncore.frontend import limits
from neuroncore.frontend.neuronxcc.nki import isa
from neuroncore.frontend.neuronxcc.nki.boxes import check_apart, chosen, follow
from neuroncore.frontend.neuronxcc.nki.expressions import Box, Mask
from neuroncore.frontend.neuronxcc.nki.isa.arguments import begin
from neuroncore.frontend.neuronxcc.nki.isa.elementwise import combined
from neuroncore.frontend.neuronxcc.nki.isa.matrix import across_partitions
from neuroncore.frontend.neuronxcc.nki.keywords import check_keywords
from neuroncore.frontend.neuronxcc.nki.promotion import promoted
from neuroncore.frontend.neuronxcc.nki.results import flush, hold, issue, new, tile
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor, Untiled
from neuroncore.frontend.nki import language as newer
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.frontend.operators import (
    BY_NUMBER,
    LATER,
    ByNumber,
    Operation,
    format_of,
    operations,
)
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import Format, bool_, float32, int32, uint8

Axis = int | Sequence[int]


def lanes(value: Any, box: Box, _: Any) -> Any:
    """Return the part of a tile in the partitions of a box, with all elements of its free axes.
    Other arguments are returned unchanged."""
    if not isinstance(value, Tensor):
        return value
    return value.within((box[0], *((0, n) for n in value.shape[1:])))


def composed(
    function: Callable[..., NkiTensor], mask: Any, *operands: Any, axis: Axis | None = None,
    folds: bool = False, keepdims: bool = False, cut: Callable[..., Any] = follow, **more: Any,
) -> Tensor:  # fmt: skip
    """Apply `function`, a function of today's API, to tiles of the older API.

    `mask`: chooses elements; it has the shape of the first tile, and so has the result
    `cut`: cut(tile, box, shape) returns the part of another tile for a box of chosen elements
    `axis`: free axes along which the function works. It is called once for each position along the
        other free axes.
    `folds`: whether the result lacks these axes; with `keepdims` they have size 1"""
    flush()
    tiles = [tile(x) if isinstance(x, Tile | Untiled) else x for x in operands]
    space = tiles[0].shape
    whole = tuple((0, n) for n in space)
    boxes = [box or whole for box in chosen(mask, space)]
    axes = () if axis is None else free_axes(axis, tiles[0])
    if axis is not None:
        more["axis"] = tuple(range(1, len(space)))
        others = [a for a in range(1, len(space)) if a not in axes]
        boxes = [row for box in boxes for row in _rows(box, others)]
        check_apart([tuple(row[a] for a in (0, *others)) for row in boxes])
    folded = axes if folds else ()
    kept = [a for a in range(len(space)) if keepdims or a not in folded]
    sizes = [1 if a in folded else space[a] for a in kept] + [1] * (2 - len(kept))
    pieces = [[tiles[0].within(box), *(cut(x, box, space) for x in tiles[1:])] for box in boxes]
    parts = [Tensor.like(function(*map(_newer, piece), **more)) for piece in pieces]
    if boxes == [whole]:
        return parts[0].shaped(tuple(sizes))
    form = parts[0].dtype if parts else format_of(more.get("dtype") or tiles[0].dtype, position=0)
    places = [
        tuple((0, 1) if a in folded else box[a] for a in kept) + ((0, 1),) * (2 - len(kept))
        for box in boxes
    ]

    def run(dst: Tensor, _: dict[str, Any]) -> None:
        for place, part in zip(places, parts, strict=True):
            out = dst.within(place)
            issue("tensor_copy", dst=out, src=part.shaped(out.shape))

    return hold(new(sizes, form), run, places)


def _newer(x: Any) -> Any:
    return NkiTensor.like(x) if isinstance(x, Tensor) else x


def _rows(box: Box, others: Sequence[int]) -> list[Box]:
    """Return the pieces of a box that have size 1 along the axes `others`."""
    choices = [
        [(at, 1) for at in range(first, first + count)] if a in others else [(first, count)]
        for a, (first, count) in enumerate(box)
    ]
    return list(product(*choices))


def free_axes(axis: Axis, x: Tensor) -> tuple[int, ...]:
    """Return the free axes to work along, counted from the front. Raises ShapeError for the
    partition axis and for axes that the tile lacks."""
    axes = tuple(sorted(a + x.ndim if a < 0 else a for a in limits.axes(axis)))
    if axes and axes[0] > 0 and axes[-1] < x.ndim:
        return axes
    raise ShapeError(
        f"axis {axis!r} of {x} can't be used",
        argument="axis",
        position=1,
        expected=f"use axes from 1 to {x.ndim - 1}",
        got=repr(axis),
        because="axis 0 is the partition axis, and each partition is reduced separately",
        hint="apply nl.transpose first; for a sum, nl.matmul with a tile of ones also works",
    )


PSUM = MemoryRegion.psum
TILES = (Tile, Untiled)
COMPARISONS = frozenset(
    (
        *("equal", "not_equal", "greater", "greater_equal", "less", "less_equal"),
        *("logical_and", "logical_or", "logical_xor", "logical_not"),
    )
)


def is_tile(value: Any) -> bool:
    """Return whether a value is a tile, or a tensor with block axes."""
    return isinstance(value, TILES)


def _result_format(name: str, dtype: Any, *operands: Any) -> Format:
    if dtype is not None:
        return bool_ if dtype is bool else format_of(dtype, position=0)
    return bool_ if name in COMPARISONS else promoted(operands[0], operands[-1], OPERATIONS[name])


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
            form = _result_format(name, dtype, x, y)
            return isa.tensor_scalar(x, operator, y, dtype=form, mask=mask)
        if not is_tile(x):
            y = tile(y, "y")
            form = _result_format(name, dtype, x, y)
            return isa.tensor_scalar(y, operator, x, reverse0=True, dtype=form, mask=mask)
        a, b = tile(x, "x"), tile(y, "y")
        return _of_tiles(operator, a, b, _result_format(name, dtype, a, b), mask)

    operator = Operation(
        name, lowered, f"Return x {name} y. Issues tensor_tensor or tensor_scalar."
    )
    return _of_bools(operator) if name in COMPARISONS else operator


def _of_bools(comparison: Operation) -> Operation:
    """Change the signature of a comparison to show that bool is the default of `dtype`. Return the
    comparison."""
    parameters = comparison.__signature__.parameters.values()
    changed = [p.replace(default=bool) if p.name == "dtype" else p for p in parameters]
    comparison.__signature__ = comparison.__signature__.replace(parameters=changed)
    return comparison


def on_host(name: str, *numbers: Any) -> Any:
    """Return numpy's function `name` of Python numbers, which are known while the kernel is traced.
    Raises SignatureError if numpy has no such function."""
    function = getattr(np, name, None)
    if function is None:
        raise SignatureError(
            f"nl.{name} can't take the number {numbers[0]!r:.60}", argument="x", expected="a tile"
        )
    value = function(*numbers)
    return value.item() if isinstance(value, np.generic) else value


def _of_tiles(operator: Operation, x: Tensor, y: Tensor, form: Format, mask: Any) -> Tensor:
    """Return x <op> y for two tiles, in format `form`. Axes of size 1 are repeated."""
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
    """Return both tiles with the same number of axes. Axes of size 1 are inserted after the
    partition axis."""
    for _ in range(len(x.shape) - len(y.shape)):
        y = y.expand_dims(1)
    for _ in range(len(y.shape) - len(x.shape)):
        x = x.expand_dims(1)
    return x, y


def _is_column(x: Tensor, other: Tensor) -> bool:
    """Return whether x can be an operand with one number for each partition of `other`. Such an
    operand is a float32 tile with one element per partition and as many partitions as `other`."""
    return x.free_size == 1 and x.shape[0] == other.shape[0] and x.dtype is float32


def _check_free_axes(x: Tensor, y: Tensor) -> None:
    """Raise ShapeError if the sizes of x and y in a free axis differ and neither is 1."""
    sizes = list(zip(x.shape[1:], y.shape[1:], strict=True))
    if x.free_size != y.free_size and any(n != m and 1 not in (n, m) for n, m in sizes):
        raise ShapeError(
            f"the shapes of {x} and {y} do not match",
            argument="y",
            position=1,
            expected="along each axis, the sizes must be equal, or one must be 1",
            got=f"{x.shape} and {y.shape}",
        )


def _same_partitions(x: Tensor, other: Tensor) -> Tensor:
    """Return x. If x has a single partition, it is repeated in the partitions of `other`."""
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

    operator = Operation(name, lowered, f"Return {name} of each element. Issues activation.")
    return operator


def _by_number(name: str, row: ByNumber) -> Operation:
    def lowered(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Any:
        check_keywords(kwargs, name=name)
        flush()
        data = tile(x, "x")
        form = _result_format(name, dtype, data)
        used = BY_NUMBER[row.of_bools] if row.of_bools and data.dtype is bool_ else row
        operator = getattr(newer, used.operator or name)
        return isa.tensor_scalar(data, operator, used.number, dtype=form, mask=mask)

    operation = Operation(name, lowered, f"Return {row.doc}. Issues tensor_scalar.")
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


reciprocal = Operation("reciprocal", _reciprocal, "Return 1 / x. Issues reciprocal.")
copy = Operation("copy", _copy, "Return a copy of x in SBUF. Issues tensor_copy.")


def broadcast_to(src: Any, *, shape: Any, **kwargs: Any) -> Tensor:
    """Return src with axes of size 1 repeated.

    The partition axis of a float32 tile is repeated by a matrix product with ones. For other
    formats nc_stream_shuffle repeats it. For a tensor in HBM the result is a view: a DMA can read
    the same bytes for several partitions, and the page of tensor.broadcast_to says that nothing is
    copied."""
    begin(kwargs)
    x, sizes = tile(src, "src"), tuple(int(n) for n in shape)
    while len(x.shape) < len(sizes):
        x = x.expand_dims(int(x.storage.on_chip))
    fits = len(x.shape) == len(sizes)
    if not fits or any(n not in (1, m) for n, m in zip(x.shape, sizes, strict=True)):
        raise ShapeError(
            f"{x.shape} can't be broadcast to {sizes}",
            argument="shape",
            expected="each size of the source must equal the new size, or be 1",
        )
    if x.shape == sizes:
        return x
    if x.shape[0] == sizes[0] or not x.storage.on_chip:
        return x.stretched(sizes)
    if x.dtype is float32:
        return across_partitions(x, sizes[0]).stretched(sizes)
    return Tensor.like(newer.broadcast_to(NkiTensor.like(x), (sizes[0], *x.shape[1:]))).stretched(
        sizes
    )


def static_cast(input_data: Any, dtype: Any) -> Any:
    """Return the data in another format. A tile is converted by tensor_copy, an array by numpy."""
    if not is_tile(input_data):
        return np.asarray(input_data).astype(format_of(dtype, position=1).numpy)
    return isa.tensor_copy(input_data, dtype=dtype)


add, subtract, multiply = (OPERATIONS[name] for name in ("add", "subtract", "multiply"))
absolute, sign, less = (OPERATIONS[name] for name in ("abs", "sign", "less"))


def divide(x: Any, y: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Any:
    """Return x / y, computed as x times 1 / y. Issues reciprocal, then tensor_tensor or
    tensor_scalar."""
    check_keywords(kwargs)
    if not is_tile(y):
        if not is_tile(x):
            return x / y
        inverse: Any = float(np.divide(1.0, y))
    else:
        inverse = isa.reciprocal(y, dtype=float32, mask=_over(mask, y))
        flush()
    form = promoted(x, y)
    # If the quotient of integers were an integer, nl.floor(rows / width) in nki-samples' resize
    # would get a number that is already rounded.
    fraction = float32 if form.is_integer else form
    return multiply(x, inverse, dtype=dtype or fraction, mask=mask)


def _over(mask: Any, y: Any) -> Any:
    """Return the terms of a mask whose axes all have size 1 or the size in the operand `y`, or
    None. For example, a term over columns is left out for a tile with one number per partition."""
    if not isinstance(mask, Mask):
        return mask
    terms = [
        (index, how)
        for index, how in mask.terms
        if all(m in (1, n) for m, n in zip(index.shape, y.shape, strict=False))
    ]
    return Mask(tuple(terms)) if terms else None


def _composed(name: str) -> Callable[..., Any]:
    """Return the older API's function `name`, which calls the function of today's API with the same
    name."""
    function = getattr(newer, name)

    def lowered(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Any:
        check_keywords(kwargs, name=name)
        return composed(function, mask, x, dtype=dtype) if is_tile(x) else on_host(name, x)

    lowered.__name__ = lowered.__qualname__ = name
    lowered.__doc__ = function.__doc__
    return lowered


floor = _composed("floor")
ceil = _composed("ceil")
trunc = _composed("trunc")
cos = _composed("cos")
tan = _composed("tan")
sin = Operation("sin", _composed("sin"), "Return the sine of x, which may be any number.")


def where(
    condition: Any, x: Any, y: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any
) -> Tensor:
    """Return x where the condition isn't 0, else y. x and y may be tiles or numbers.

    The condition may also be a comparison of index expressions, which affine_select converts to a
    tile (iitaku/nki-llama, whose flash attention was measured on the device)."""
    begin(kwargs)
    if isinstance(condition, Mask):
        ones = isa.memset(condition.shape, 1, uint8)
        condition = isa.affine_select(condition, ones, 0)
    tiles = [tile(v) for v in (x, y) if is_tile(v)]
    form = dtype or (promoted(x, y) if tiles else float32)
    shapes = [v.shape for v in (tile(condition, "condition"), *tiles)]
    rank = max(map(len, shapes))
    aligned = [(s[0], *(1,) * (rank - len(s)), *s[1:]) for s in shapes]
    shape = tuple(map(max, zip(*aligned, strict=True)))

    def whole_tile(value: Any) -> Tensor:
        if is_tile(value):
            return broadcast_to(value, shape=shape)
        constant = isa.memset(shape, value, form)
        flush()
        return constant

    return composed(newer.where, mask, *map(whole_tile, (condition, x, y)), dtype=form)


def _remainder(x: Any, y: Any, like: Any, step: Any, dtype: Any, mask: Any) -> Any:
    """Return r = x - y * round(x / y), plus `step` where r and `like` have opposite signs.

    The quotient is rounded because it may be slightly below an exact integer."""
    single = {"dtype": float32, "mask": mask}
    rest = subtract(x, multiply(divide(x, y, dtype=int32, mask=mask), y, **single), **single)
    wrong = less(multiply(rest, like, **single), 0.0, **single)
    form = dtype or promoted(x, y)
    return add(rest, multiply(wrong, step, **single), dtype=form, mask=mask)


def mod(x: Any, y: Any, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Any:
    """Return the remainder of x / y, with the sign of y. Issues the instructions of nl.divide and
    six more."""
    check_keywords(kwargs)
    if not is_tile(x) and not is_tile(y):
        return on_host("mod", x, y)
    return _remainder(x, y, y, y, dtype, mask)


def fmod(x: Any, y: Any, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Any:
    """Return the remainder of x / y, with the sign of x. Issues the instructions of nl.divide and
    nine more."""
    check_keywords(kwargs)
    if not is_tile(x) and not is_tile(y):
        return on_host("fmod", x, y)
    size = absolute(y, dtype=float32, mask=mask) if is_tile(y) else on_host("abs", y)
    step = multiply(sign(x, dtype=float32, mask=mask) if is_tile(x) else on_host("sign", x), size)
    return _remainder(x, y, x, step, dtype, mask)


__all__ = [
    *OPERATIONS, "broadcast_to", "ceil", "copy", "cos", "divide", "floor", "fmod", "mod",
    "reciprocal", "sin", "static_cast", "tan", "trunc", "where",
]  # fmt: skip
