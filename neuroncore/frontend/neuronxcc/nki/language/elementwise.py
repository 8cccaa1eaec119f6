"""Functions of each element, in the older API: tiles and numbers in, a tile out.

Their names are also the operators that nki.isa takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from neuroncore.enums import MemoryRegion
from neuroncore.errors import ShapeError, SignatureError
from neuroncore.frontend.neuronxcc.nki import isa
from neuroncore.frontend.neuronxcc.nki.isa.broadcast import across_partitions
from neuroncore.frontend.neuronxcc.nki.keywords import check_keywords
from neuroncore.frontend.neuronxcc.nki.language.composed import as_newer, as_older, composed
from neuroncore.frontend.neuronxcc.nki.results import (
    flush,
    tile,
)
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor, Untiled
from neuroncore.frontend.nki import language as newer
from neuroncore.frontend.nki.language.elementwise import common
from neuroncore.frontend.nki.tensor import format_of
from neuroncore.frontend.operation import Operation
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import Format, bool_, float32, int32

PSUM = MemoryRegion.psum
COMPARISONS = frozenset(
    (
        *("equal", "not_equal", "greater", "greater_equal", "less", "less_equal"),
        *("logical_and", "logical_or", "logical_xor", "logical_not"),
    )
)


def _is_tile(value: Any) -> bool:
    return isinstance(value, Tile | Untiled)


def _result_format(name: str, dtype: Any, *tiles: Tensor) -> Format:
    if dtype is not None:
        return bool_ if dtype is bool else format_of(dtype, position=0)
    return bool_ if name in COMPARISONS else common(tiles[0], tiles[-1])


# --- two operands ---------------------------------------------------------------------------------


def _binary(name: str) -> Operation:
    def lowered(x: Any, y: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Any:
        check_keywords(kwargs, name=name)
        if not _is_tile(x) and not _is_tile(y):
            return _host(name, x, y)
        flush()
        if not _is_tile(y):
            x = tile(x, "x")
            return isa.tensor_scalar(
                x, operator, y, dtype=_result_format(name, dtype, x), mask=mask
            )
        if not _is_tile(x):
            y = tile(y, "y")
            form = _result_format(name, dtype, y)
            return isa.tensor_scalar(y, operator, x, reverse0=True, dtype=form, mask=mask)
        a, b = tile(x, "x"), tile(y, "y")
        return _of_tiles(operator, a, b, _result_format(name, dtype, a, b), mask)

    operator = Operation(name, lowered, f"x {name} y: tensor_tensor or tensor_scalar.")
    return _of_bools(operator) if name in COMPARISONS else operator


def _of_bools(comparison: Operation) -> Operation:
    """A function whose dtype is bool if none is given, and says so in its signature."""
    parameters = comparison.__signature__.parameters.values()
    said = [p.replace(default=bool) if p.name == "dtype" else p for p in parameters]
    comparison.__signature__ = comparison.__signature__.replace(parameters=said)
    return comparison


def _host(name: str, *numbers: Any) -> Any:
    """The function of numbers that are known while the kernel is traced."""
    function = getattr(np, name, None)
    if function is None:
        raise SignatureError(f"nl.{name} of {numbers[0]!r:.60}", argument="x", expected="a tile")
    value = function(*numbers)
    return value.item() if isinstance(value, np.generic) else value


def _of_tiles(operator: Operation, x: Tensor, y: Tensor, form: Format, mask: Any) -> Tensor:
    x, y = _same_rank(x, y)
    if x.free_size > 1 and _is_column(y, x):
        return isa.tensor_scalar(x, operator, y, dtype=form, mask=mask)
    if y.free_size > 1 and _is_column(x, y):
        return isa.tensor_scalar(y, operator, x, reverse0=True, dtype=form, mask=mask)
    x, y = _same_partitions(x, y), _same_partitions(y, x)
    if x.region is PSUM and y.region is PSUM:
        x = isa.tensor_copy(x)
        flush()
    return isa.tensor_tensor(x, y, operator, dtype=form, mask=mask)


def _same_rank(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Axes of size 1 put behind the partition of the one with fewer axes."""
    for _ in range(len(x.shape) - len(y.shape)):
        y = y.expand_dims(1)
    for _ in range(len(y.shape) - len(x.shape)):
        x = x.expand_dims(1)
    return x, y


def _is_column(x: Tensor, other: Tensor) -> bool:
    """Whether x can be the number that each partition of the other is combined with."""
    return x.free_size == 1 and x.shape[0] == other.shape[0] and x.dtype is float32


def _same_partitions(x: Tensor, other: Tensor) -> Tensor:
    if x.shape[0] == other.shape[0] or x.shape[0] != 1:
        return x
    return broadcast_to(x, shape=(other.shape[0], *x.shape[1:]))


add = _binary("add")
subtract = _binary("subtract")
multiply = _binary("multiply")
maximum = _binary("maximum")
minimum = _binary("minimum")
power = _binary("power")
equal = _binary("equal")
not_equal = _binary("not_equal")
greater = _binary("greater")
greater_equal = _binary("greater_equal")
less = _binary("less")
less_equal = _binary("less_equal")
logical_and = _binary("logical_and")
logical_or = _binary("logical_or")
logical_xor = _binary("logical_xor")
bitwise_and = _binary("bitwise_and")
bitwise_or = _binary("bitwise_or")
bitwise_xor = _binary("bitwise_xor")
left_shift = _binary("left_shift")
right_shift = _binary("right_shift")


def divide(x: Any, y: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Any:
    """x / y, as x times 1 / y: reciprocal, and tensor_tensor or tensor_scalar."""
    check_keywords(kwargs)
    if not _is_tile(y):
        if not _is_tile(x):
            return x / y
        inverse: Any = float(np.divide(1.0, y))
    else:
        inverse = isa.reciprocal(y, dtype=float32, mask=mask)
        flush()
    form = common(x, y)
    # nl.floor(rows / width) of nki-samples' resize would otherwise floor what was rounded before
    fraction = float32 if form.is_integer else form
    return multiply(x, inverse, dtype=dtype or fraction, mask=mask)


# --- one operand ----------------------------------------------------------------------------------


def _activated(name: str) -> Operation:
    def lowered(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Any:
        check_keywords(kwargs, name=name)
        if not _is_tile(x):
            return _host(name, x)
        return isa.activation(operator, x, dtype=dtype, mask=mask)

    operator = Operation(name, lowered, f"{name} of each element: activation.")
    return operator


exp = _activated("exp")
log = _activated("log")
sqrt = _activated("sqrt")
rsqrt = _activated("rsqrt")
tanh = _activated("tanh")
sigmoid = _activated("sigmoid")
relu = _activated("relu")
gelu = _activated("gelu")
gelu_dx = _activated("gelu_dx")
gelu_apprx_tanh = _activated("gelu_apprx_tanh")
gelu_apprx_sigmoid = _activated("gelu_apprx_sigmoid")
silu = _activated("silu")
silu_dx = _activated("silu_dx")
softplus = _activated("softplus")
mish = _activated("mish")
erf = _activated("erf")
erf_dx = _activated("erf_dx")
square = _activated("square")
sign = _activated("sign")
arctan = _activated("arctan")


def _by_scalar(name: str, doc: str, number: float | None, through: str = "") -> Operation:
    """x <op> number, where the operator may be another than the function's name."""

    def lowered(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Any:
        check_keywords(kwargs, name=name)
        flush()
        form = _result_format(name, dtype, tile(x, "x"))
        operator = getattr(newer, through or name)
        return isa.tensor_scalar(x, operator, number, dtype=form, mask=mask)

    return Operation(name, lowered, f"{doc}: tensor_scalar.")


abs = _by_scalar("abs", "|x|", None)
invert = _by_scalar("invert", "Every bit of x the other way", None)
logical_not = _of_bools(_by_scalar("logical_not", "1 where x is 0", 0.0, "equal"))
negative = _by_scalar("negative", "-x", -1.0, "multiply")


def _reciprocal(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tensor:
    check_keywords(kwargs, name="reciprocal")
    return isa.reciprocal(x, dtype=dtype, mask=mask)


def _copy(src: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> Tensor:
    check_keywords(kwargs, name="copy")
    return isa.tensor_copy(src, mask=mask, dtype=dtype)


reciprocal = Operation("reciprocal", _reciprocal, "1 / x: reciprocal.")
copy = Operation("copy", _copy, "x in SBUF: tensor_copy.")


# --- functions that are several instructions ------------------------------------------------------


def _composed(name: str) -> Callable[..., Any]:
    function = getattr(newer, name)

    def lowered(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Any:
        check_keywords(kwargs, name=name)
        return composed(function, mask, x, dtype=dtype) if _is_tile(x) else _host(name, x)

    lowered.__name__ = lowered.__qualname__ = name
    lowered.__doc__ = function.__doc__
    return lowered


floor = _composed("floor")
ceil = _composed("ceil")
trunc = _composed("trunc")
cos = _composed("cos")
tan = _composed("tan")
sin = Operation("sin", _composed("sin"), "sin x, of any number.")


def where(
    condition: Any, x: Any, y: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any
) -> Tensor:
    """x where the condition isn't 0, else y; both tiles or numbers."""
    check_keywords(kwargs)
    flush()
    given = [tile(v) for v in (x, y) if _is_tile(v)]
    form = dtype or (common(x, y) if given else float32)
    shapes = [v.shape for v in (tile(condition, "condition"), *given)]
    rank = max(map(len, shapes))
    spread = [(s[0], *(1,) * (rank - len(s)), *s[1:]) for s in shapes]
    shape = tuple(map(max, zip(*spread, strict=True)))

    def whole_tile(value: Any) -> Tensor:
        if _is_tile(value):
            return broadcast_to(value, shape=shape)
        made = isa.memset(shape, value, form)
        flush()
        return made

    return composed(newer.where, mask, *map(whole_tile, (condition, x, y)), dtype=form)


def _remainder(x: Any, y: Any, like: Any, step: Any, dtype: Any, mask: Any) -> Any:
    """x - y * round(x / y), and a step more where that has not the sign of `like`. The quotient is
    rounded to the nearest integer, for it may be just below the one that it should be."""
    single = {"dtype": float32, "mask": mask}
    rest = subtract(x, multiply(divide(x, y, dtype=int32, mask=mask), y, **single), **single)
    wrong = less(multiply(rest, like, **single), 0.0, **single)
    form = dtype or common(x, y)
    return add(rest, multiply(wrong, step, **single), dtype=form, mask=mask)


def mod(x: Any, y: Any, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Any:
    """The remainder of x / y, with the sign of y: nl.divide and six more."""
    check_keywords(kwargs)
    if not _is_tile(x) and not _is_tile(y):
        return _host("mod", x, y)
    return _remainder(x, y, y, y, dtype, mask)


def fmod(x: Any, y: Any, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Any:
    """The remainder of x / y, with the sign of x: nl.divide and nine more."""
    check_keywords(kwargs)
    if not _is_tile(x) and not _is_tile(y):
        return _host("fmod", x, y)
    size = abs(y, dtype=float32, mask=mask) if _is_tile(y) else _host("abs", y)
    step = multiply(sign(x, dtype=float32, mask=mask) if _is_tile(x) else _host("sign", x), size)
    return _remainder(x, y, x, step, dtype, mask)


def broadcast_to(src: Any, *, shape: Any, **kwargs: Any) -> Tensor:
    """src repeated along axes of size 1; across partitions by a product with ones, of other formats
    than float32 by nc_stream_shuffle."""
    check_keywords(kwargs)
    flush()
    x, sizes = tile(src, "src"), tuple(int(n) for n in shape)
    while len(x.shape) < len(sizes):
        x = x.expand_dims(1)
    fits = len(x.shape) == len(sizes)
    if not fits or any(n not in (1, m) for n, m in zip(x.shape, sizes, strict=True)):
        raise ShapeError(
            f"{x.shape} can't be broadcast to {sizes}",
            argument="shape",
            expected="sizes that are equal, or 1 in what is broadcast",
        )
    if x.shape == sizes:
        return x
    if x.shape[0] == sizes[0]:
        return x.stretched(sizes)
    if x.dtype is float32:
        return across_partitions(x, sizes[0]).stretched(sizes)
    return as_older(newer.broadcast_to(as_newer(x), (sizes[0], *x.shape[1:]))).stretched(sizes)


def static_cast(input_data: Any, dtype: Any) -> Any:
    """Another format: of a tile by tensor_copy, of an array by numpy."""
    if not _is_tile(input_data):
        return np.asarray(input_data).astype(format_of(dtype, position=1).numpy)
    return isa.tensor_copy(input_data, dtype=dtype)
