"""Tensors rearranged on the way: transposed loads and gathers."""

from __future__ import annotations

from typing import Any

from neuroncore.base.errors import NotEmulated, ShapeError
from neuroncore.frontend.nki import isa
from neuroncore.frontend.nki.language.creation import ndarray
from neuroncore.frontend.nki.language.elementwise import copy, in_sbuf
from neuroncore.frontend.nki.tensor import NkiTensor

__all__ = ["gather_flattened", "load_transpose2d"]


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
