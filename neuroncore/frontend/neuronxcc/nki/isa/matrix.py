"""Instructions of the Tensor engine, in the older API."""

from __future__ import annotations

from typing import Any

from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import FreeSizeError
from neuroncore.core.core import current
from neuroncore.frontend.neuronxcc.nki.expressions import Box
from neuroncore.frontend.neuronxcc.nki.isa import constants
from neuroncore.frontend.neuronxcc.nki.isa.arguments import (
    begin,
    cast,
    in_sbuf,
)
from neuroncore.frontend.neuronxcc.nki.isa.constants import engine
from neuroncore.frontend.neuronxcc.nki.results import chosen, produce, tile
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.memory.access import Dims
from neuroncore.numerics.formats import Format, float32

__all__ = ["nc_matmul", "nc_transpose"]

SBUF, PSUM = MemoryRegion.sbuf, MemoryRegion.psum


def nc_matmul(
    stationary: Any,
    moving: Any,
    *,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    tile_position: Any = (),
    tile_size: Any = (),
    mask: Any = None,
    perf_mode: Any = None,
    **kwargs: Any,
) -> Tensor:
    """psum[m, n] = sum_k stationary[k, m] * moving[k, n]; a mask is over moving.

    The result is float32; a transpose has the format of its operand. Operands in PSUM are copied to
    SBUF first, as the compiler does for published kernels (nki-samples, flash_attn_bwd).
    """
    begin(kwargs)
    s, x = tile(stationary, "stationary"), tile(moving, "moving")
    if PSUM in (s.storage.region, x.storage.region):
        s, x = in_sbuf(s, "stationary"), in_sbuf(x, "moving")
    doubled = perf_mode is not None and str(getattr(perf_mode, "value", perf_mode)) != "none"
    m = s.free_size
    shape: Dims = (m // 2, x.free_size // 2) if doubled else (m, *x.shape[1:])
    mode = constants.matmul_perf_mode.double_row if doubled else constants.matmul_perf_mode.none

    def columns(dst: Tensor, box: Box) -> Tensor:
        return dst.within(((0, dst.shape[0]), *box[1:])) if not doubled else dst

    return produce(
        "nc_matmul",
        (shape, _transposed_format(s) if is_transpose else float32),
        mask,
        region=PSUM,
        space=x.shape,
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


def _transposed_format(data: Tensor) -> Format:
    """Return the format of a transpose: v2 transposes by a product, whose sums are float32; later
    machines move bits."""
    return data.dtype if current().machine.has("native_transpose") else float32


def _squares(box: Box, shape: Dims, most: int) -> list[Box]:
    """Return a part of a tile of two axes, in pieces at most `most` wide."""
    rows, columns = (
        [(at, min(most, first + count - at)) for at in range(first, first + count, most)]
        for first, count in box or tuple((0, size) for size in shape)
    )
    return [(row, column) for row in rows for column in columns]


def _check_transposed(data: Tensor) -> None:
    most = current().machine.sbuf.partitions
    if data.free_size > most:
        raise FreeSizeError(
            f"{data} has {data.free_size} elements per partition to be transposed",
            argument="data",
            expected=f"at most {most}",
            got=str(data.free_size),
            because=f"they become partitions, and there are only {most}",
            hint=f"transpose pieces of {most} columns in a loop",
            also="err_size_of_dimension_exceed_arch_limit",
        )


def nc_transpose(
    data: Any, *, mask: Any = None, dtype: Any = None, engine: Any = engine.unknown, **kwargs: Any
) -> Tensor:
    """The transpose of a 2-D tile: in PSUM by the Tensor engine, or in SBUF by the Vector engine,
    which transposes up to 32 x 32 and is the default for such tiles.

    If the Vector engine is requested for a larger tile, it works in squares: the API's pages allow
    only one square, but kernels that were measured on trn1 (autocomp's searches) pass 128 x 64.
    """
    begin(kwargs)
    x, chosen_engine = tile(data), constants.member(constants.engine, engine)
    _check_transposed(x)
    most = current().machine.limits.vector_transpose
    small = max(x.shape[0], x.free_size) <= most
    asked = chosen_engine is constants.engine.vector
    on_vector = asked or (chosen_engine is constants.engine.unknown and (small or x.region is PSUM))
    if asked and not small and x.ndim == 2:
        mask = [square for box in chosen(mask, x.shape) for square in _squares(box, x.shape, most)]
    transposed = produce(
        "nc_transpose",
        ((x.free_size, x.shape[0]), x.dtype),
        mask,
        region=SBUF if on_vector else PSUM,
        regions=(SBUF, PSUM) if on_vector else (PSUM,),
        space=x.shape,
        part=lambda dst, box: dst.within(box[::-1]),
        data=x,
        engine=constants.engine.vector if on_vector else constants.engine.tensor,
    )
    return cast(transposed, dtype)
