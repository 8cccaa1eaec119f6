"""Products, transposes, broadcasts and gathers of whole tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import NotEmulated, ShapeError
from neuroncore.frontend import integers
from neuroncore.frontend.nki import isa
from neuroncore.frontend.nki.language.creation import ndarray
from neuroncore.frontend.nki.language.elementwise import (
    checked,
    copy,
    in_partitions,
    in_sbuf,
    repeated,
)
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.numerics.formats import float32

__all__ = [
    "broadcast_to", "expand_dims", "gather_flattened", "load_transpose2d", "matmul", "transpose",
]  # fmt: skip


PSUM = MemoryRegion.psum


def transpose(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """The transpose of a 2-D tile, in PSUM: nc_transpose on the Tensor engine, which moves bits;
    tensor_copy to SBUF for another format, and from PSUM if x is there."""
    out = ndarray((checked(x).free_size, x.shape[0]), x.dtype, PSUM)
    isa.nc_transpose(out, in_sbuf(x))
    return out if dtype in (None, x.dtype) else copy(out, dtype)


def matmul(x: NkiTensor, y: NkiTensor, transpose_x: bool = False) -> NkiTensor:
    """x @ y, or x.T @ y, as a float32 tile in PSUM: nc_matmul, after nc_transpose and tensor_copy
    if needed."""
    stationary = x if transpose_x else copy(transpose(x))
    out = ndarray((stationary.free_size, y.free_size), float32, PSUM)
    isa.nc_matmul(out, stationary, y)
    return out


def expand_dims(x: NkiTensor, axis: int) -> NkiTensor:
    """A view with a new axis of size 1; no instruction."""
    (at,) = integers.axes(axis)
    wider: NkiTensor = checked(x).expand_dim(at)
    return wider


def broadcast_to(x: NkiTensor, shape: Sequence[int], dtype: Any = None) -> NkiTensor:
    """x repeated along axes of size 1: tensor_copy along free axes, nc_stream_shuffle across
    partitions, one per group of 32."""
    sizes = tuple(shape)
    if len(sizes) != x.ndim or any(a not in (1, b) for a, b in zip(x.shape, sizes, strict=False)):
        raise ShapeError(
            f"{x.shape} can't be broadcast to {sizes}",
            argument="shape",
            position=1,
            expected="the same number of axes, each equal or 1",
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
    """A tile of SBUF with the transpose of an HBM tensor of two axes: dma_transpose, and
    tensor_copy for another format.

    Axes of size 1 behind the second don't count: so published kernels have it from the vendor's
    simulator (trnsparse, 0.3).
    """
    if len(src.shape) < 2 or max(src.shape[2:], default=1) > 1:
        raise ShapeError(
            f"load_transpose2d: src has {len(src.shape)} axes",
            argument="src",
            position=0,
            expected="two axes, and further ones of size 1",
            got=str(src),
            hint="nisa.dma_transpose takes up to four",
        )
    rows, columns = src.shape[:2]
    out = ndarray((columns, rows), src.dtype)
    isa.dma_transpose(out, src if len(src.shape) == 2 else src.reshape((rows, columns)))
    return out if dtype in (None, src.dtype) else copy(out, dtype)


def gather_flattened(
    data: NkiTensor, indices: NkiTensor, axis: int = 0, dtype: Any = None
) -> NkiTensor:
    """out[p, f] = data[p, indices[p, f]], the free axes of data as one: nc_n_gather, and
    tensor_copy for another format and for what is in PSUM."""
    if axis != 0:
        raise NotEmulated(f"gather_flattened along axis {axis}, whose meaning is not published")
    out = ndarray(indices.shape, data.dtype)
    isa.nc_n_gather(out, in_sbuf(data), in_sbuf(indices))
    return out if dtype in (None, data.dtype) else copy(out, dtype)
