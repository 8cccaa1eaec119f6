"""Functions of the older API: reductions along free axes of a tile, products, transposes and random
numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod as product
from typing import Any

import ml_dtypes
import numpy as np

from neuroncore.base.errors import NotEmulated, ShapeError, SignatureError
from neuroncore.frontend import limits
from neuroncore.frontend.neuronxcc.nki import isa
from neuroncore.frontend.neuronxcc.nki.boxes import chosen
from neuroncore.frontend.neuronxcc.nki.isa.arguments import begin, in_sbuf
from neuroncore.frontend.neuronxcc.nki.keywords import check_keywords
from neuroncore.frontend.neuronxcc.nki.language.elementwise import (
    Axis,
    broadcast_to,
    composed,
    copy,
    lanes,
)
from neuroncore.frontend.neuronxcc.nki.results import flush, issue, new, tile
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.frontend.nki import language as newer
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.frontend.operators import format_of
from neuroncore.numerics.formats import bool_, float32, uint32

__all__ = [
    "all", "all_reduce", "atomic_rmw", "device_print", "dropout", "expand_dims", "finfo",
    "gather_flattened", "gemm_grid", "gemm_stationary_grid", "matmul", "max", "mean", "min",
    "prod", "rand", "random_seed", "rms_norm", "softmax", "sum", "transpose", "var",
]  # fmt: skip


def _fold(name: str, operator: Any) -> Callable[..., Any]:
    """Return the function `name`, which reduces a tile by an operator along free axes."""

    def fold(
        x: Any, axis: Axis, *, dtype: Any = None, mask: Any = None, keepdims: bool = False,
        **kwargs: Any,
    ) -> Tensor:  # fmt: skip
        check_keywords(kwargs, name=name)
        return isa.tensor_reduce(operator, x, axis, dtype=dtype, mask=mask, keepdims=keepdims)

    fold.__name__ = fold.__qualname__ = name
    fold.__doc__ = f"Return the {name} along free axes. Issues tensor_reduce."
    return fold


sum = _fold("sum", newer.add)
prod = _fold("prod", newer.multiply)
max = _fold("max", newer.maximum)
min = _fold("min", newer.minimum)


def all(x: Any, axis: Axis, *, dtype: Any = bool, mask: Any = None, **kwargs: Any) -> Tensor:
    """Return 1 where all elements along the free axes `axis` differ from 0, else 0.

    Issues tensor_reduce, which does not change a single element. So if there may be only one
    element, tensor_scalar first compares the elements with 0."""
    check_keywords(kwargs)
    form, data = bool_ if dtype is bool else dtype, tile(x, "x")
    if mask is not None or product(data.shape[a] for a in limits.axes(axis)) == 1:
        data = isa.tensor_scalar(data, newer.not_equal, 0.0, dtype=bool_, mask=mask)
        flush()
    return isa.tensor_reduce(newer.logical_and, data, axis, dtype=form, mask=mask)


def mean(
    x: Any, axis: Axis, *, dtype: Any = None, mask: Any = None, keepdims: bool = False,
    **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Return the mean along free axes of the elements that a mask chooses. Issues tensor_reduce in
    float32, then tensor_scalar."""
    begin(kwargs)
    data = tile(x, "x")
    form = dtype or (float32 if data.dtype.is_integer else data.dtype)
    if chosen(mask, data.shape) != [()]:
        mean_of_part = partial(newer.mean, keepdims=True, dtype=form)
        return composed(mean_of_part, mask, data, axis=axis, folds=True, keepdims=keepdims)
    total = sum(data, axis, dtype=float32, keepdims=keepdims)
    flush()
    count = product(data.shape[a] for a in limits.axes(axis))
    return isa.tensor_scalar(total, newer.multiply, 1.0 / count, dtype=form)


def var(x: Any, axis: Axis, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tensor:
    """Return the variance (of the population) along free axes."""
    check_keywords(kwargs)
    return composed(newer.var, mask, x, axis=axis, folds=True, dtype=dtype)


def softmax(
    x: Any, axis: Axis, *, dtype: Any = None, compute_dtype: Any = None, mask: Any = None,
    **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Return e^(x - max) divided by its sum, along free axes."""
    check_keywords(kwargs)
    return composed(newer.softmax, mask, x, axis=axis, dtype=dtype or compute_dtype)


def rms_norm(
    x: Any, w: Any, axis: Axis, n: int, epsilon: float = 1e-6, *, dtype: Any = None,
    compute_dtype: Any = None, mask: Any = None, **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Return x / sqrt(sum(x^2) / n + epsilon) * w, with the sum along free axes. `w` has the shape
    of x, or size 1 along some axes."""
    begin(kwargs)
    data = tile(x, "x")
    weights = broadcast_to(w, shape=data.shape)
    more = {"axis": axis, "n": n, "epsilon": epsilon, "dtype": dtype or compute_dtype}
    return composed(newer.rms_norm, mask, data, weights, **more)


# --- products and transposes ----------------------------------------------------------------------


def transpose(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tensor:
    """Return the transpose of a 2-D tile. Issues nc_transpose."""
    begin(kwargs)
    data = tile(x, "x")
    if len(data.shape) > 2:
        raise ShapeError(
            f"transpose: {data} has {len(data.shape)} axes",
            argument="x",
            expected="pass a tile with a partition axis and one free axis",
            because="the free axis becomes the partition axis, and a tile has only one",
            hint="transpose pieces of two axes in a loop",
            also="err_exceed_max_supported_dimension",
        )
    return isa.nc_transpose(data, dtype=dtype, mask=mask)


def matmul(x: Any, y: Any, *, transpose_x: bool = False, mask: Any = None, **kwargs: Any) -> Tensor:
    """Return x @ y, or x.T @ y with `transpose_x`, in PSUM. Issues nc_matmul, after tensor_copy for
    operands in PSUM, and after nc_transpose of x for x @ y."""
    check_keywords(kwargs)
    stationary = in_sbuf(x, "x")
    if not transpose_x:
        cut = stationary.cut
        stationary = in_sbuf(isa.nc_transpose(stationary, engine=isa.tensor_engine), "x")
        stationary.was_cut(cut and cut.transposed)
    return isa.nc_matmul(stationary, in_sbuf(y, "y"), mask=mask)


def expand_dims(data: Any, axis: int | Sequence[int]) -> Tensor:
    """Return a view with new axes of size 1. Issues no instruction."""
    return tile(data).expand_dims(axis)


def gather_flattened(
    data: Any, indices: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any
) -> Tensor:
    """Return data[p, indices[p, f]] for each p and f. Issues nc_n_gather. An index counts the
    elements of a partition of `data` in row-major order. A mask is over the axes of `indices`."""
    begin(kwargs)
    x, places = tile(data), tile(indices, "indices")
    if places.dtype is not uint32:
        places = copy(places, dtype=uint32)
    form = dtype or x.dtype

    def gathered(index: NkiTensor, values: NkiTensor, dtype: Any) -> NkiTensor:
        return newer.gather_flattened(values, index, dtype=dtype)

    return composed(gathered, mask, places, x, cut=lanes, dtype=form)


def atomic_rmw(dst: Any, value: Any, op: Any, *, mask: Any = None, **kwargs: Any) -> None:
    """Add `value`, a tile or a number, to `dst` in HBM. Issues dma_compute. A tile may index the
    rows of `dst`. Raises OperatorError if `op` is not np.add or nl.add."""
    check_keywords(kwargs)
    if isinstance(value, int | float | np.number):
        value = isa.memset(dst.shape, value, dst.dtype)
        flush()
    isa.dma_copy(dst=dst, src=value, dst_rmw_op=op, mask=mask)


def all_reduce(
    x: Any, op: Any, program_axes: Any, *, dtype: Any = None, mask: Any = None,
    parallel_reduce: bool = True, asynchronous: bool = False, **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Not emulated, because neuroncore runs the programs of a grid one after another."""
    check_keywords(kwargs)
    raise NotEmulated(
        "all_reduce is not emulated: neuroncore runs the programs of a grid one after another"
    )


# --- random numbers and the host ------------------------------------------------------------------


def rand(shape: Sequence[int], dtype: Any = np.float32, **kwargs: Any) -> Tensor:
    """Return a new tile of uniform random numbers in [0, 1)."""
    begin(kwargs)
    return Tensor.like(newer.rand(tuple(shape), format_of(dtype, position=1)))


def _seed(value: Any) -> int:
    """Return a seed as an int. Raises SignatureError for a value that is not a number."""
    try:
        return int(value)
    except (TypeError, ValueError):
        raise SignatureError(
            f"{value!r} is not a seed",
            argument="seed",
            position=0,
            expected="an int, or a [1, 1] tile",
            got=f"{value!r:.60} ({type(value).__name__})",
            because="random numbers repeat only from a known seed",
            hint="omit the call to continue from the current state",
        ) from None


def random_seed(seed: Any, *, mask: Any = None, **kwargs: Any) -> None:
    """Restart the random numbers from a seed: a number or a [1, 1] tile."""
    begin(kwargs)
    if not isinstance(seed, Tensor):
        number = new((1, 1), uint32)
        issue("memset", dst=number, value=_seed(seed))
        seed = number
    tile(seed)
    if seed.dtype.itemsize == 4:
        newer.random_seed(NkiTensor.like(seed.view(uint32)))


def dropout(x: Any, rate: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tensor:
    """Return x with randomly chosen elements set to 0. `rate` is the probability of 0 for an
    element."""
    check_keywords(kwargs)
    return isa.dropout(x, rate, dtype=dtype, mask=mask)


def device_print(prefix: str, x: Any, *, mask: Any = None, **kwargs: Any) -> None:
    """Print a prefix and the values of a tensor."""
    begin(kwargs)
    print(prefix, tile(x).resolved().numpy() if isinstance(x, Tensor) else x)


def finfo(dtype: Any) -> Any:
    """Return numpy's limits of a float format."""
    return ml_dtypes.finfo(format_of(dtype, position=0).numpy)  # type: ignore[no-untyped-call]


def gemm_grid() -> Any:
    raise NotEmulated("gemm_grid is not emulated: its results were never documented")


gemm_stationary_grid = gemm_grid
