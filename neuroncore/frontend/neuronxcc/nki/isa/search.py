"""Instructions that search, gather and shuffle, in the older API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neuroncore.enums import MemoryRegion
from neuroncore.frontend.neuronxcc.nki.isa.arguments import (
    format_or,
    write,
)
from neuroncore.frontend.neuronxcc.nki.keywords import check_keywords
from neuroncore.frontend.neuronxcc.nki.results import flush, produce, tile
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.numerics.formats import uint32

SBUF, PSUM = MemoryRegion.sbuf, MemoryRegion.psum
Axis = int | Sequence[int]


def max8(*, src: Any, mask: Any = None, dtype: Any = None, **kwargs: Any) -> Tensor:
    """The 8 greatest of each partition, the greatest first."""
    check_keywords(kwargs)
    flush()
    x = tile(src, "src")
    return produce(
        "max8",
        ((x.shape[0], 8), format_or(dtype, x.dtype)),
        mask,
        space=x.shape,
        part=lambda dst, box: dst.within((box[0], (0, 8))),
        src=x,
    )


def nc_find_index8(
    *, data: Any, vals: Any, mask: Any = None, dtype: Any = None, **kwargs: Any
) -> Tensor:
    """Where in data each of 8 values is, of each partition."""
    check_keywords(kwargs)
    flush()
    x = tile(data)
    return produce(
        "nc_find_index8",
        ((x.shape[0], 8), format_or(dtype, uint32)),
        mask,
        space=x.shape,
        part=lambda dst, box: dst.within((box[0], (0, 8))),
        data=x,
        vals=tile(vals, "vals"),
    )


def nc_match_replace8(
    *,
    data: Any,
    vals: Any,
    imm: float,
    dst_idx: Any = None,
    mask: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> Tensor:
    """data with the first match of each of 8 values replaced by a number; where they were, in
    dst_idx."""
    check_keywords(kwargs)
    flush()
    x = tile(data)
    return produce(
        "nc_match_replace8",
        (x.shape, format_or(dtype, x.dtype)),
        mask,
        data=x,
        vals=tile(vals, "vals"),
        imm=imm,
        dst_idx=dst_idx,
    )


def local_gather(
    src_buffer: Any,
    index: Any,
    num_elem_per_idx: int = 1,
    num_valid_indices: int | None = None,
    *,
    mask: Any = None,
) -> Tensor:
    """Runs of elements that indices, shared by 16 partitions each, choose: (P, indices / 16, 16,
    num_elem_per_idx); of indices that don't fill 16 partitions, (P, indices, num_elem_per_idx).
    """
    flush()
    x, places = tile(src_buffer, "src_buffer"), tile(index, "index")
    count = places.free_size * 16 if num_valid_indices is None else num_valid_indices
    chosen = (count,) if count % 16 else (count // 16, 16)
    return produce(
        "local_gather",
        ((x.shape[0], *chosen, num_elem_per_idx), x.dtype),
        mask,
        src_buffer=x.shaped((x.shape[0], x.free_size)) if len(x.shape) == 2 else x,
        index=places,
        num_elem_per_idx=num_elem_per_idx,
        num_valid_indices=num_valid_indices,
    )


def sequence_bounds(*, segment_ids: Any, dtype: Any = None) -> Tensor:
    """First and last index of the segment that each element belongs to: (1, 2, F)."""
    flush()
    ids = tile(segment_ids, "segment_ids")
    out = ((1, 2, ids.free_size), format_or(dtype, ids.dtype))
    return produce("sequence_bounds", out, segment_ids=ids)


def nc_stream_shuffle(
    src: Any,
    dst: Any,
    shuffle_mask: Sequence[int],
    *,
    dtype: Any = None,
    mask: Any = None,
    **kwargs: Any,
) -> None:
    """dst[p] = src[shuffle_mask[p]] within each group of 32 partitions."""
    check_keywords(kwargs)
    write("nc_stream_shuffle", dst, mask, src=tile(src, "src"), shuffle_mask=list(shuffle_mask))
