"""Products, transposes and broadcasts of whole tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import ShapeError
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

__all__ = ["broadcast_to", "expand_dims", "matmul", "transpose"]

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
