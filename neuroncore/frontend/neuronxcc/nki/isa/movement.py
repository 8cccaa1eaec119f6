"""Instructions of the DMA engines, and local_gather, in the older API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neuroncore.base.errors import OperatorError
from neuroncore.core.core import current
from neuroncore.frontend.neuronxcc.nki import refusals
from neuroncore.frontend.neuronxcc.nki.isa import constants
from neuroncore.frontend.neuronxcc.nki.isa.arguments import (
    begin,
    cast,
    write,
)
from neuroncore.frontend.neuronxcc.nki.isa.constants import dge_mode, oob_mode
from neuroncore.frontend.neuronxcc.nki.results import flush, produce, tile
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.frontend.neuronxcc.nki.tokens import token
from neuroncore.frontend.nki import language as newer
from neuroncore.memory.tile import Dynamic
from neuroncore.numerics.formats import float32

__all__ = ["dma_copy", "dma_transpose", "local_gather"]


def dma_copy(
    *,
    dst: Any,
    src: Any,
    mask: Any = None,
    dst_rmw_op: Any = None,
    oob_mode: Any = oob_mode.error,
    dge_mode: Any = dge_mode.unknown,
) -> None:
    """dst = src, or dst <op>= src, by DMA."""
    modes = {
        "oob_mode": constants.member(constants.oob_mode, oob_mode),
        "dge_mode": constants.descriptors(dge_mode),
    }
    source = tile(src, "src")
    if tile(dst, "dst").storage.on_chip and source.shape[0] > 1 and source.strides[0] == 0:
        raise refusals.repeated_by_dma(source)
    if dst_rmw_op is None:
        write("dma_copy", dst, mask, src=source, **modes)
        return
    op = token(dst_rmw_op)
    if getattr(op, "operator", None) is not newer.add.operator:  # the dialect has a separate nl.add
        raise OperatorError(f"dma_copy can't combine by {op!r}", expected="np.add, or None")
    dst = _picked_row(dst)
    sums = {"srcs": [source, dst], "reduce_op": op, "oob_mode": modes["oob_mode"]}
    # its compiler lets sums of the same row wait for each other (SDK 2.26, nki.isa.dma_copy)
    write("dma_compute", dst, mask, **sums, unique_indices=False)


def _picked_row(dst: Tensor) -> Tensor:
    """A tensor of one row whose place a tile of one number holds, as a tensor whose rows an index
    picks: sums take no other place that is known at run time."""
    if len(dst.dynamic) != 1 or dst.dynamic[0].vector or dst.shape[0] != 1:
        return dst
    offset = dst.dynamic[0]
    if not isinstance(offset.index, Tensor):
        return dst
    rows = Dynamic(offset.index, offset.step, offset.limit, vector=True)
    strides = (offset.step, *dst.strides[1:])
    return dst.window(dst.shape, strides, dst.offset, dynamic=(rows,))


def _tiled_offloaded_memcpy(*, dst: Any, src: Any) -> None:
    """dst = src, by DMA. AWS's contributed kernels call it (nki-samples' ring attention)."""
    dma_copy(dst=dst, src=src)


def dma_transpose(
    src: Any,
    *,
    axes: Sequence[int] | None = None,
    mask: Any = None,
    dtype: Any = None,
    dge_mode: Any = dge_mode.unknown,
    **kwargs: Any,
) -> Tensor:
    """The transpose of a tensor of HBM or SBUF, in SBUF; by default with the axes reversed.

    A mask is over the axes of `src`, as in nc_transpose (NeuronMM's load_tensor_block_T).
    """
    begin(kwargs)
    x = tile(src, "src")
    if x.dynamic:
        raise refusals.transposed_indirectly(x)
    by_dma = x.storage.on_chip and current().machine.has("dma_transpose")
    if by_dma and x.dtype is float32:
        raise refusals.transposed_wide(x)
    order = tuple(axes) if axes else tuple(range(len(x.shape)))[::-1]
    shape = [x.shape[a] for a in order]
    transposed = produce(
        "dma_transpose",
        (shape, x.dtype),
        mask,
        space=x.shape,
        part=lambda dst, box: dst.within(tuple(box[axis] for axis in order)),
        src=x,
        axes=order,
        dge_mode=constants.descriptors(dge_mode),
    )
    return cast(transposed, dtype)


def local_gather(
    src_buffer: Any,
    index: Any,
    num_elem_per_idx: int = 1,
    num_valid_indices: int | None = None,
    *,
    mask: Any = None,
) -> Tensor:
    """Runs of elements at indices that 16 partitions share: (P, indices / 16, 16,
    num_elem_per_idx); (P, indices, num_elem_per_idx) if the indices don't fill 16 partitions.
    """
    flush()
    x, places = tile(src_buffer, "src_buffer"), tile(index, "index")
    each = current().machine.limits.gpsimd_core_partitions
    count = places.free_size * each if num_valid_indices is None else num_valid_indices
    chosen = (count,) if count % each else (count // each, each)
    return produce(
        "local_gather",
        ((x.shape[0], *chosen, num_elem_per_idx), x.dtype),
        mask,
        src_buffer=x.shaped((x.shape[0], x.free_size)) if len(x.shape) == 2 else x,
        index=places,
        num_elem_per_idx=num_elem_per_idx,
        num_valid_indices=num_valid_indices,
    )
