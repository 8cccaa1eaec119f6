"""Functions that issue several instructions: rounding, trigonometry, random tensors, reductions
along free axes, and products, transposes, broadcasts and gathers of whole tiles.

The Scalar engine computes sines only from -pi to pi. All random tensors use the generators of the
Vector engine, which `random_seed` seeds. A device before Trainium3 may use the generators of
another engine."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from math import prod as product
from typing import Any

from neuroncore.base.enums import ON_CHIP, MemoryRegion, reduce_cmd
from neuroncore.base.errors import NotEmulated, ShapeError, SignatureError
from neuroncore.core.core import current
from neuroncore.frontend import limits
from neuroncore.frontend.limits import fitting
from neuroncore.frontend.nki import isa
from neuroncore.frontend.nki.language.creation import in_rows, ndarray
from neuroncore.frontend.nki.language.elementwise import abs as absolute
from neuroncore.frontend.nki.language.elementwise import (
    add,
    checked,
    copy,
    divide,
    exp,
    greater,
    in_partitions,
    in_sbuf,
    less,
    logical_and,
    maximum,
    minimum,
    multiply,
    not_equal,
    repeated,
    result,
    right_shift,
    rsqrt,
    sign,
    square,
    subtract,
)
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.frontend.operators import Operation
from neuroncore.numerics.formats import float32, int32, uint8, uint32

__all__ = [
    "all", "broadcast_to", "ceil", "cos", "dropout", "expand_dims", "floor", "gather_flattened",
    "load_transpose2d", "matmul", "max", "mean", "min", "prod", "rand", "random_seed",
    "rms_norm", "sin", "softmax", "sum", "tan", "transpose", "trunc", "var",
]  # fmt: skip


def _rounded(x: NkiTensor) -> NkiTensor:
    """Return x rounded to the nearest integer, as float32. NaN is kept. Numbers whose magnitude is
    at least 2^23 have no fraction, and are kept too."""
    whole, nearest = ndarray(x.shape, int32), ndarray(x.shape, float32)
    isa.tensor_copy(whole, x)
    isa.tensor_copy(nearest, whole)
    small, magnitude = ndarray(x.shape, uint8), ndarray(x.shape, float32)
    isa.tensor_scalar(magnitude, x, absolute, None)
    isa.tensor_scalar(small, magnitude, less, float(2**23))
    exact = x if x.dtype is float32 else copy(x, float32)
    isa.tensor_copy_predicated(nearest, exact, small, reverse_pred=True)
    return nearest


def _stepped(x: NkiTensor, comparison: Operation, step: float, dtype: Any) -> NkiTensor:
    """Return x rounded to the nearest integer, plus `step` where `comparison(nearest, x)` is true.
    An x in an integer format is only copied."""
    if x.dtype.is_integer:
        return copy(x, dtype)  # type: ignore[no-any-return]
    nearest, wrong, out = _rounded(x), ndarray(x.shape, float32), result(x, dtype)
    isa.tensor_tensor(wrong, nearest, x, comparison)
    isa.scalar_tensor_tensor(out, wrong, multiply, step, add, nearest)
    return out


def floor(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Return the greatest integer not above x.

    tensor_copy to int32 and back rounds to the nearest integer. tensor_scalar and
    tensor_copy_predicated keep numbers that are too large for int32. tensor_tensor and
    scalar_tensor_tensor subtract 1 if x was rounded up."""
    return _stepped(x, greater, -1.0, dtype)


def ceil(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Return the least integer not below x. Issues the same instructions as nl.floor."""
    return _stepped(x, less, 1.0, dtype)


def trunc(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Return x without its fraction. tensor_scalar and nl.floor round |x| down. Then activation and
    tensor_tensor restore the sign."""
    if x.dtype.is_integer:
        return copy(x, dtype)  # type: ignore[no-any-return]
    magnitude, signs, out = ndarray(x.shape, float32), ndarray(x.shape, float32), result(x, dtype)
    isa.tensor_scalar(magnitude, x, absolute, None)
    isa.activation(signs, sign, x)
    isa.tensor_tensor(out, floor(magnitude), signs, multiply)
    return out


# 2 pi as a sum of two float32 numbers. The first number has so few bits that small multiples of it
# are exact.
TURN = (6.28125, 0.0019353071795864769)


def _sine(x: NkiTensor, out: NkiTensor, shift: float) -> None:
    """Write sin(x + shift) to `out`. The nearest multiple of 2 pi is subtracted first. Then
    activation computes the sine."""
    turns, whole, rest = (
        ndarray(x.shape, int32),
        ndarray(x.shape, float32),
        ndarray(x.shape, float32),
    )
    isa.tensor_scalar(turns, x, multiply, 1 / (2 * pi), op1=add, operand1=shift / (2 * pi))
    isa.tensor_copy(whole, turns)
    isa.scalar_tensor_tensor(rest, whole, multiply, -TURN[0], add, x)
    isa.scalar_tensor_tensor(rest, whole, multiply, -TURN[1], add, rest)
    isa.tensor_scalar(rest, rest, add, shift, op1=minimum, operand1=pi)
    isa.tensor_scalar(rest, rest, maximum, -pi)
    isa.activation(out, sin, rest)


def _sin(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    out = result(x, dtype)
    _sine(x, out, 0.0)
    return out


sin = Operation(
    "sin",
    _sin,
    "Return the sine of x. tensor_scalar, tensor_copy and scalar_tensor_tensor subtract multiples "
    "of 2 pi, so that x is from -pi to pi, and activation computes the sine.",
)


def cos(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Return the cosine of x, as sin(x + pi/2). Issues the same instructions as nl.sin."""
    out = result(x, dtype)
    _sine(x, out, pi / 2)
    return out


def tan(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Return the tangent of x, as sin x / cos x. Issues the instructions of nl.sin, nl.cos and
    nl.divide."""
    return divide(_sin(x, float32), cos(x, float32), dtype or x.dtype)  # type: ignore[no-any-return]


def rand(
    shape: Sequence[int], dtype: Any, buffer: MemoryRegion = MemoryRegion.sbuf, name: str = ""
) -> NkiTensor:
    """Return a new tensor of uniform random numbers in [0, 1): multiples of 2^-24, rounded to
    `dtype`. NeuronCore-v4 and later issue rand2. Earlier NeuronCores issue rng, and tensor_scalar
    twice. For a tensor in HBM, dma_copy follows."""
    tensor = ndarray(shape, dtype, buffer, name)
    if buffer in ON_CHIP:
        _fill_at_random(tensor)
        return tensor
    for part in fitting(tensor, uint32.itemsize):
        rows = in_rows(part)
        tile = ndarray(rows.shape, dtype)
        _fill_at_random(tile)
        isa.dma_copy(rows, tile)
    return tensor


def _fill_at_random(tile: NkiTensor) -> None:
    """Write uniform random numbers in [0, 1) to a tile on the chip."""
    if current().machine.has("uniform_random"):
        isa.rand2(tile, 0.0, 1.0)
        return
    bits = ndarray(tile.shape, uint32)
    isa.rng(bits)
    isa.tensor_scalar(bits, bits, right_shift, 8)
    isa.tensor_scalar(tile, bits, multiply, 2.0**-24)


def random_seed(seed: NkiTensor) -> None:
    """Restart the random numbers from a seed, a [1, 1] tile of 32 bits. Issues set_rng_seed."""
    if not isinstance(seed, NkiTensor):
        raise SignatureError(
            f"the seed {seed!r} is not a tensor",
            argument="seed",
            position=0,
            expected="a [1, 1] tile of uint32 or int32",
            got=f"{seed!r:.60} ({type(seed).__name__})",
            because="the engine's generators read their seed from memory",
            hint="nl.full((1, 1), 7, nl.uint32) is a tile with the seed 7",
        )
    core = current()
    if not core.machine.has("uniform_random"):
        core.report(
            "SEED_OF_ANOTHER_ENGINE",
            f"nl.rand on {core.machine.name} uses nisa.rng, which may run on a different engine "
            "than random_seed; the seed may have no effect on nl.rand",
        )
    isa.set_rng_seed(seed)


def dropout(x: NkiTensor, rate: Any, dtype: Any = None) -> NkiTensor:
    """Return x with randomly chosen elements set to 0. The other elements are not scaled. `rate` is
    the probability of 0 for an element: a number or a [P, 1] tile. Issues dropout, and tensor_copy
    if `dtype` differs from the format of x."""
    out = result(x)
    isa.dropout(out, x, rate)
    return out if dtype in (None, x.dtype) else copy(out, dtype)


Axis = int | Sequence[int]


def _axes(x: NkiTensor, axis: Axis) -> tuple[int, ...]:
    """Return the axes to reduce as negative numbers: -1 is the last axis. Raises ShapeError for the
    partition axis. Raises SignatureError if `axis` is not an axis of x, or if x is not a tile."""
    axes = tuple(sorted(checked(x)._axis(a) - x.ndim for a in limits.axes(axis)))
    if -x.ndim in axes:
        raise ShapeError(
            f"axis 0 of {x} can't be reduced",
            argument="axis",
            position=1,
            expected="reduce only the last free axes",
            got=repr(axis),
            because="axis 0 is the partition axis, and each partition is reduced separately",
            hint="apply nl.transpose first; for a sum, nl.matmul with a tile of ones also works",
        )
    return axes


def _reduced_shape(x: NkiTensor, axis: Axis, keepdims: bool) -> tuple[int, ...]:
    """Return the shape of a reduction of x along `axis`. The reduced axes have size 1 if
    `keepdims`, else they are removed. The shape has at least two axes."""
    axes = [a + x.ndim for a in _axes(x, axis)]
    sizes = [1 if i in axes else n for i, n in enumerate(x.shape) if keepdims or i not in axes]
    return tuple(sizes) if len(sizes) > 1 else (*sizes, 1)


def _reduced(x: NkiTensor, op: Operation, axis: Axis, dtype: Any, keepdims: bool) -> NkiTensor:
    out = ndarray(_reduced_shape(x, axis, keepdims), dtype or x.dtype)
    isa.tensor_reduce(out, op, x, _axes(x, axis))
    return out


def sum(x: NkiTensor, axis: Axis, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Return the sum along the last axes. Issues tensor_reduce."""
    return _reduced(x, add, axis, dtype, keepdims)


def prod(x: NkiTensor, axis: Axis, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Return the product along the last axes. Issues tensor_reduce."""
    return _reduced(x, multiply, axis, dtype, keepdims)


def _max(x: NkiTensor, axis: Axis, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    return _reduced(x, maximum, axis, dtype, keepdims)


def _min(x: NkiTensor, axis: Axis, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    return _reduced(x, minimum, axis, dtype, keepdims)


# max and min are operators too: the page of tensor_scalar_reduce lists them, and the vendor's
# library passes them to reductions.
max = Operation(
    "max", _max, "Return the greatest element along the last axes. Issues tensor_reduce.", "maximum"
)
min = Operation(
    "min", _min, "Return the least element along the last axes. Issues tensor_reduce.", "minimum"
)


def all(x: NkiTensor, axis: Axis, dtype: Any = None) -> NkiTensor:
    """Return 1 where all elements along the last axes differ from 0, else 0. Issues tensor_reduce,
    or tensor_scalar if the axes have a single element."""
    if _count(x, axis) > 1:
        return _reduced(x, logical_and, axis, dtype, False)
    out = ndarray(_reduced_shape(x, axis, False), dtype or x.dtype)
    isa.tensor_scalar(out, x, not_equal, 0.0)
    return out


def _count(x: NkiTensor, axis: Axis) -> int:
    """Return the number of elements that a reduction along `axis` combines into one."""
    return product(x.shape[a] for a in _axes(x, axis))


def _takes_all(x: NkiTensor, axis: Axis) -> bool:
    """Return whether `axis` lists all free axes. Then an instruction can accumulate the result for
    each partition."""
    return len(_axes(x, axis)) == x.ndim - 1


def _with_columns(x: NkiTensor, op: Operation, columns: NkiTensor, dtype: Any) -> NkiTensor:
    """Return x <op> columns, by tensor_tensor. `columns` has the shape of x, or size 1 along some
    free axes."""
    out = result(x, dtype)
    isa.tensor_tensor(out, x, repeated(columns, x.shape), op)
    return out


def mean(x: NkiTensor, axis: Axis, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Return the mean along the last axes. Issues tensor_reduce in float32, then tensor_scalar."""
    total = _reduced(x, add, axis, float32, keepdims)
    out = result(total, dtype or x.dtype)
    isa.tensor_scalar(out, total, multiply, 1.0 / _count(x, axis))
    return out


def var(x: NkiTensor, axis: Axis, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Return the variance (of the population) along the last axes.

    tensor_reduce and tensor_scalar compute the mean. Then activation and tensor_scalar compute the
    mean of the squared differences. If `axis` omits some free axes, tensor_tensor computes the
    squared differences, and the instructions of nl.mean compute their mean.

    The reduced axes are kept with size 1, whatever `keepdims` is."""
    if not _takes_all(x, axis):
        squares = _with_columns(x, subtract, mean(x, axis, float32, keepdims=True), float32)
        isa.tensor_tensor(squares, squares, squares, multiply)
        return mean(squares, axis, dtype or x.dtype, keepdims=True)
    shift, total = ndarray((x.shape[0], 1), float32), ndarray((x.shape[0], 1), float32)
    squares, out = result(x, float32), ndarray(_reduced_shape(x, axis, True), dtype or x.dtype)
    isa.tensor_reduce(shift, add, x, _axes(x, axis), negate=True)
    isa.tensor_scalar(shift, shift, multiply, 1.0 / _count(x, axis))
    isa.activation(
        squares, square, x, bias=shift, reduce_op=add, reduce_res=total,
        reduce_cmd=reduce_cmd.reset_reduce,
    )  # fmt: skip
    isa.tensor_scalar(out, total, multiply, 1.0 / _count(x, axis))
    return out


def softmax(x: NkiTensor, axis: Axis = -1, dtype: Any = None) -> NkiTensor:
    """Return e^(x - max) divided by its sum, along the last axes. Issues tensor_reduce, activation,
    reciprocal and tensor_scalar. If `axis` omits some free axes, tensor_tensor subtracts the
    maximum and multiplies, and a second tensor_reduce adds."""
    if not _takes_all(x, axis):
        powers = _with_columns(x, subtract, _reduced(x, maximum, axis, float32, True), float32)
        isa.activation(powers, exp, powers)
        total = _reduced(powers, add, axis, float32, True)
        isa.reciprocal(total, total)
        return _with_columns(powers, multiply, total, dtype or x.dtype)
    column = (x.shape[0], 1)
    shift, total, scale = (ndarray(column, float32) for _ in range(3))
    powers, out = result(x, float32), result(x, dtype)
    isa.tensor_reduce(shift, maximum, x, _axes(x, axis), negate=True)
    isa.activation(
        powers, exp, x, bias=shift, reduce_op=add, reduce_res=total,
        reduce_cmd=reduce_cmd.reset_reduce,
    )  # fmt: skip
    isa.reciprocal(scale, total)
    isa.tensor_scalar(out, powers, multiply, scale)
    return out


def rms_norm(
    x: NkiTensor,
    w: NkiTensor,
    axis: Axis,
    n: int,
    epsilon: float = 1e-6,
    dtype: Any = None,
    compute_dtype: Any = None,
) -> NkiTensor:
    """Return x / sqrt(sum(x^2) / n + epsilon) * w, with the sum along the last axes. Issues
    activation, tensor_scalar and tensor_tensor. If `axis` omits some free axes, tensor_reduce
    computes the sum."""
    inner = compute_dtype or float32
    squares, out = result(x, inner), result(x, dtype)
    if _takes_all(x, axis):
        total, scaled = ndarray((x.shape[0], 1), float32), result(x, inner)
        isa.activation(
            squares, square, x, reduce_op=add, reduce_res=total, reduce_cmd=reduce_cmd.reset_reduce
        )
        isa.tensor_scalar(scaled, x, multiply, _inverse_root(total, n, epsilon))
    else:
        isa.activation(squares, square, x)
        total = _reduced(squares, add, axis, float32, True)
        scaled = _with_columns(x, multiply, _inverse_root(total, n, epsilon), inner)
    isa.tensor_tensor(out, scaled, w, multiply)
    return out


def _inverse_root(total: NkiTensor, n: int, epsilon: float) -> NkiTensor:
    """Return 1 / sqrt(total / n + epsilon) as a new tile. The contents of `total` change."""
    scale = result(total)
    isa.tensor_scalar(total, total, multiply, 1.0 / n, op1=add, operand1=epsilon)
    isa.activation(scale, rsqrt, total)
    return scale


PSUM = MemoryRegion.psum


def transpose(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Return the transpose of a 2-D tile, as a new tile in PSUM. nc_transpose on the Tensor engine
    writes the tile without changing bits.

    If x is in PSUM, tensor_copy first copies x to SBUF. If `dtype` differs from the format of x,
    tensor_copy converts the result to a tile in SBUF."""
    out = ndarray((checked(x).free_size, x.shape[0]), x.dtype, PSUM)
    isa.nc_transpose(out, in_sbuf(x))
    return out if dtype in (None, x.dtype) else copy(out, dtype)


def matmul(x: NkiTensor, y: NkiTensor, transpose_x: bool = False) -> NkiTensor:
    """Return x @ y, or x.T @ y with `transpose_x`, as a float32 tile in PSUM. Issues nc_matmul. For
    x @ y, nc_transpose and tensor_copy first transpose x."""
    stationary = x if transpose_x else copy(transpose(x))
    out = ndarray((stationary.free_size, y.free_size), float32, PSUM)
    isa.nc_matmul(out, stationary, y)
    return out


def expand_dims(x: NkiTensor, axis: int) -> NkiTensor:
    """Return a view with a new axis of size 1. Issues no instruction."""
    (at,) = limits.axes(axis)
    wider: NkiTensor = checked(x).expand_dim(at)
    return wider


def broadcast_to(x: NkiTensor, shape: Sequence[int], dtype: Any = None) -> NkiTensor:
    """Return x with axes of size 1 repeated. Issues tensor_copy for free axes, or nc_stream_shuffle
    for the partition axis, once per group of 32 partitions."""
    sizes = tuple(shape)
    if len(sizes) != x.ndim or any(a not in (1, b) for a, b in zip(x.shape, sizes, strict=False)):
        raise ShapeError(
            f"{x.shape} can't be broadcast to {sizes}",
            argument="shape",
            position=1,
            expected="keep the number of axes, and change only axes of size 1",
        )
    if x.shape == sizes:
        return x if dtype in (None, x.dtype) else copy(x, dtype)
    wide = repeated(x, sizes)
    if x.shape[0] == sizes[0]:
        out = ndarray(sizes, dtype or x.dtype)
        isa.tensor_copy(out, wide)
        return out
    out = in_partitions(wide, sizes[0])
    return out if dtype in (None, x.dtype) else copy(out, dtype)


def load_transpose2d(src: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Return a tile in SBUF with the transpose of a 2-D tensor in HBM. Issues dma_transpose, and
    tensor_copy if `dtype` differs from the format of `src`.

    Axes of size 1 after the second axis are dropped. The vendor's simulator drops them too, and
    published kernels depend on this (trnsparse, 0.3)."""
    if len(src.shape) < 2 or any(n > 1 for n in src.shape[2:]):
        raise ShapeError(
            f"load_transpose2d: src has {len(src.shape)} axes",
            argument="src",
            position=0,
            expected="pass two axes; further axes must have size 1",
            got=str(src),
            hint="nisa.dma_transpose takes up to four axes",
        )
    rows, columns = src.shape[:2]
    out = ndarray((columns, rows), src.dtype)
    isa.dma_transpose(out, src if len(src.shape) == 2 else src.reshape((rows, columns)))
    return out if dtype in (None, src.dtype) else copy(out, dtype)


def gather_flattened(
    data: NkiTensor, indices: NkiTensor, axis: int = 0, dtype: Any = None
) -> NkiTensor:
    """Return data[p, indices[p, f]] for each p and f. The free axes of `data` count as one axis.

    Issues nc_n_gather. tensor_copy copies tiles from PSUM, and converts indices of integer formats
    other than uint32. tensor_copy also converts the result if `dtype` differs from the format of
    `data`."""
    if axis != 0:
        raise NotEmulated(f"gather_flattened has no published meaning for axis {axis}, only for 0")
    out = ndarray(indices.shape, data.dtype)
    converted = indices.dtype.is_integer and indices.dtype is not uint32
    places = copy(indices, uint32) if converted else indices
    isa.nc_n_gather(out, in_sbuf(data), in_sbuf(places))
    return out if dtype in (None, data.dtype) else copy(out, dtype)
