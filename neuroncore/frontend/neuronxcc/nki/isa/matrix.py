"""Instructions of the Tensor engine and of the DMA engines, and local_gather, in the older API.

A matrix product with a row of ones broadcasts one partition to all partitions, as the pages
describe ("Trainium/Inferentia2 Architecture", Tensor engine)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import FreeSizeError, OperatorError, ShapeError
from neuroncore.core.core import current
from neuroncore.frontend.neuronxcc.nki import refusals
from neuroncore.frontend.neuronxcc.nki.boxes import chosen
from neuroncore.frontend.neuronxcc.nki.expressions import Box
from neuroncore.frontend.neuronxcc.nki.isa import constants
from neuroncore.frontend.neuronxcc.nki.isa.arguments import begin, cast, in_sbuf, write
from neuroncore.frontend.neuronxcc.nki.isa.constants import dge_mode, engine, oob_mode
from neuroncore.frontend.neuronxcc.nki.keywords import check_keywords, token
from neuroncore.frontend.neuronxcc.nki.results import issue, new, produce, tile
from neuroncore.frontend.neuronxcc.nki.scopes import carry, running
from neuroncore.frontend.neuronxcc.nki.spans import Cut
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.frontend.nki import language as newer
from neuroncore.memory.access import Dims
from neuroncore.memory.tile import Dynamic
from neuroncore.numerics.formats import Format, float32

__all__ = [
    "dma_copy", "dma_transpose", "local_gather", "nc_matmul", "nc_transpose",
]  # fmt: skip


SBUF, PSUM = MemoryRegion.sbuf, MemoryRegion.psum


def nc_matmul(
    stationary: Any, moving: Any, *, is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False, is_transpose: bool = False, tile_position: Any = (),
    tile_size: Any = (), mask: Any = None, perf_mode: Any = None, **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Return psum[m, n] = sum over k of stationary[k, m] * moving[k, n]. A mask is over the axes of
    moving.

    The result is float32, but a transpose on NeuronCore-v3 and later has the format of its operand.
    Operands in PSUM are first copied to SBUF, as the compiler does for published kernels
    (nki-samples, flash_attn_bwd)."""
    begin(kwargs)
    s, x = tile(stationary, "stationary"), tile(moving, "moving")
    if PSUM in (s.storage.region, x.storage.region):
        s, x = in_sbuf(s, "stationary"), in_sbuf(x, "moving")
    doubled = perf_mode is not None and str(getattr(perf_mode, "value", perf_mode)) != "none"
    m = s.free_size
    shape: Dims = (m // 2, x.free_size // 2) if doubled else (m, *x.shape[1:])
    _check_columns(s, "stationary", "the stationary operand", 2 if doubled else 1)
    mode = constants.matmul_perf_mode.double_row if doubled else constants.matmul_perf_mode.none

    def columns(dst: Tensor, box: Box) -> Tensor:
        return dst.within(((0, dst.shape[0]), *box[1:])) if not doubled else dst

    result = produce(
        "nc_matmul",
        (shape, _transposed_format(s) if is_transpose else float32),
        mask if mask is None else _over_moving(mask, x),
        region=PSUM,
        masked="moving",
        part=columns,
        stationary=s,
        moving=x,
        is_stationary_onezero=is_stationary_onezero,
        is_moving_onezero=is_moving_onezero,
        is_transpose=is_transpose,
        tile_position=tile_position,
        tile_size=tile_size,
        perf_mode=mode,
        accumulate=False,
    )
    if s.ndim == 2 and not doubled:
        result.was_cut(_cut_of_product(s, x))
    return result


def _over_moving(mask: Any, moving: Tensor) -> list[Box]:
    """Return the boxes of `moving` that a mask chooses."""
    try:
        return chosen(mask, moving.shape)
    except ShapeError as error:
        error.hint = (
            "the mask of a product is over the axes of the moving operand; to mask the columns of "
            "the stationary operand, pass stationary[mask]"
        )
        raise


def _cut_of_product(stationary: Tensor, moving: Tensor) -> Cut | None:
    """Return the cut of a product whose operands were cut by masks; None if no operand was cut. The
    pages call such masks "operand masking" ("NKI API Masking", SDK 2.26)."""
    if stationary.cut is None and moving.cut is None:
        return None
    rows, columns = (
        t.cut or Cut(t.shape, tuple((0, n) for n in t.shape)) for t in (stationary, moving)
    )
    return Cut((*rows.whole[1:], *columns.whole[1:]), (*rows.box[1:], *columns.box[1:]))


def _transposed_format(data: Tensor) -> Format:
    """Return the format of a tile's transpose on the Tensor engine. NeuronCore-v2 multiplies by an
    identity matrix, and sums are float32. Later machines move the bits of each element."""
    return data.dtype if current().machine.has("native_transpose") else float32


def _squares(box: Box, shape: Dims, most: int) -> list[Box]:
    """Cut a box of a 2-D tile into boxes with sides of at most `most` elements. An empty box is the
    whole tile, of shape `shape`."""
    rows, columns = (
        [(at, min(most, first + count - at)) for at in range(first, first + count, most)]
        for first, count in box or tuple((0, size) for size in shape)
    )
    return [(row, column) for row in rows for column in columns]


def _check_columns(tile: Tensor, argument: str, use: str, shared: int = 1) -> None:
    """Raise FreeSizeError if a tile has too many columns for the partitions of the result, when
    each partition takes `shared` columns. `use` is what a kernel does with the tile."""
    partitions = current().machine.psum.partitions
    most = partitions * shared
    if tile.free_size > most:
        raise FreeSizeError(
            f"{tile} can't be {use}: it has {tile.free_size:,} elements per partition",
            argument=argument,
            expected=f"at most {most:,}",
            got=str(tile.free_size),
            because=f"elements of one partition become partitions, and there are only {partitions}",
            hint=f"loop over pieces of {most:,} columns",
            also="err_size_of_dimension_exceed_arch_limit",
        )


def nc_transpose(
    data: Any, *, mask: Any = None, dtype: Any = None, engine: Any = engine.unknown, **kwargs: Any
) -> Tensor:
    """Return the transpose of a 2-D tile: in PSUM by the Tensor engine, or in SBUF by the Vector
    engine.

    By default, the Vector engine transposes tiles of up to 32 x 32, the most at once. The Tensor
    engine transposes larger tiles; a tile in PSUM is first copied to SBUF.

    If the Vector engine is requested for a larger tile, it transposes squares of 32 x 32 one after
    another. The API's pages allow only one square, but kernels that were measured on trn1
    (autocomp's searches) pass 128 x 64."""
    begin(kwargs)
    x, chosen_engine = tile(data), constants.member(constants.engine, engine)
    _check_columns(x, "data", "transposed")
    most = current().machine.limits.vector_transpose
    small = max(x.shape[0], x.free_size) <= most
    requested = chosen_engine is constants.engine.vector
    on_vector = requested or (chosen_engine is constants.engine.unknown and small)
    if not on_vector and chosen_engine is constants.engine.unknown:
        x = in_sbuf(x, "data")
    if requested and not small and x.ndim == 2:
        mask = [square for box in chosen(mask, x.shape) for square in _squares(box, x.shape, most)]
    transposed = produce(
        "nc_transpose",
        ((x.free_size, x.shape[0]), x.dtype),
        mask,
        region=SBUF if on_vector else PSUM,
        regions=(SBUF, PSUM) if on_vector else (PSUM,),
        masked="data",
        part=lambda dst, box: dst.within(box[::-1]),
        data=x,
        engine=constants.engine.vector if on_vector else constants.engine.tensor,
    )
    return cast(transposed, dtype)


def across_partitions(row: Tensor, count: int) -> Tensor:
    """Return a row of shape [1, F...] repeated in `count` partitions as float32.

    If the row fits into one bank, the result stays in PSUM, where instructions read it. A larger
    row is repeated in parts of a bank, which are copied to SBUF."""
    row = in_sbuf(row, "src")
    flat = row.reshape((1, row.free_size))
    bank = current().machine.psum.bank_bytes // float32.itemsize
    if flat.free_size <= bank:
        repeated = _product(flat, count)
        running().broadcasts.add(repeated.storage.id)
        return repeated.reshape((count, *row.shape[1:]))
    repeated = new((count, flat.free_size), float32)
    for first in range(0, flat.free_size, bank):
        last = min(first + bank, flat.free_size)
        issue("tensor_copy", dst=repeated[:, first:last], src=_product(flat[:, first:last], count))
    return repeated.reshape((count, *row.shape[1:]))


def _product(row: Tensor, count: int) -> Tensor:
    """Return a row [1, F] repeated in `count` partitions of PSUM, by a product with ones."""
    product = new((count, row.free_size), float32, PSUM)
    ones = _ones(count, row.dtype)
    issue(
        "nc_matmul",
        dst=product,
        stationary=ones,
        moving=row,
        is_stationary_onezero=True,
        accumulate=False,
    )
    return product


def _ones(count: int, dtype: Format) -> Tensor:
    """Return a row of ones, of shape (1, count). A kernel makes only one row for each `count`, in
    the format `dtype` of the first call."""
    rows = running().ones
    if count not in rows:
        ones = rows[count] = new((1, count), dtype)
        ones.storage.scope = None
        carry(ones.storage)
        issue("memset", dst=ones, value=1.0)
    row: Tensor = rows[count]
    return row


def dma_copy(
    *, dst: Any, src: Any, mask: Any = None, dst_rmw_op: Any = None, oob_mode: Any = oob_mode.error,
    dge_mode: Any = dge_mode.unknown, **kwargs: Any,
) -> None:  # fmt: skip
    """Copy src to dst by DMA, or add src to dst if dst_rmw_op is np.add or nl.add. Raises
    OperatorError for another dst_rmw_op."""
    check_keywords(kwargs)
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
    if getattr(op, "operator", None) is not newer.add.operator:  # each dialect has its own nl.add
        raise OperatorError(
            f"dma_copy can't combine src with the contents of dst by {op!r}",
            argument="dst_rmw_op",
            expected="np.add, or None",
        )
    dst = _picked_row(dst)
    sums = {"srcs": [source, dst], "reduce_op": op, "oob_mode": modes["oob_mode"]}
    # in the older API, sums to the same row wait for each other (SDK 2.26, nki.isa.dma_copy)
    write("dma_compute", dst, mask, **sums, unique_indices=False)


def _picked_row(dst: Tensor) -> Tensor:
    """Return dst in a form that dma_compute accepts: if a tile moves dst, one row, the tile becomes
    an index that chooses this row."""
    if len(dst.dynamic) != 1 or dst.dynamic[0].vector or dst.shape[0] != 1:
        return dst
    offset = dst.dynamic[0]
    if not isinstance(offset.index, Tensor):
        return dst
    rows = Dynamic(offset.index, offset.step, offset.limit, vector=True)
    strides = (offset.step, *dst.strides[1:])
    return dst.window(dst.shape, strides, dst.offset, dynamic=(rows,))


def _tiled_offloaded_memcpy(*, dst: Any, src: Any) -> None:
    """Copy src to dst by DMA. AWS's contributed kernels call this function (nki-samples' ring
    attention)."""
    dma_copy(dst=dst, src=src)


def dma_transpose(
    src: Any, *, axes: Sequence[int] | None = None, mask: Any = None, dtype: Any = None,
    dge_mode: Any = dge_mode.unknown, **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Return a tile in SBUF with the reordered axes of `src`, a tensor in HBM or SBUF. Axis k of
    the result is axis axes[k] of `src`. By default the first and the last axis are exchanged.

    A mask is over the axes of `src`, as in nc_transpose (NeuronMM's load_tensor_block_T)."""
    begin(kwargs)
    x = tile(src, "src")
    if x.dynamic:
        raise refusals.transposed_indirectly(x)
    by_dma = x.storage.on_chip and current().machine.has("dma_transpose")
    if by_dma and x.dtype is float32:
        raise refusals.transposed_wide(x)
    last = len(x.shape) - 1
    order = tuple(axes) if axes else (last, *range(1, last), 0)
    shape = [x.shape[a] for a in order]
    transposed = produce(
        "dma_transpose",
        (shape, x.dtype),
        mask,
        masked="src",
        part=lambda dst, box: dst.within(tuple(box[axis] for axis in order)),
        src=x,
        axes=order,
        dge_mode=constants.descriptors(dge_mode),
    )
    return cast(transposed, dtype)


def local_gather(
    src_buffer: Any, index: Any, num_elem_per_idx: int = 1, num_valid_indices: int | None = None, *,
    mask: Any = None, **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Return runs of num_elem_per_idx adjacent elements, at indices that 16 partitions share. The
    shape is (P, indices / 16, 16, num_elem_per_idx). If the number of indices is not a multiple of
    16, it is (P, indices, num_elem_per_idx)."""
    begin(kwargs)
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
