"""Tensors of the older API: creating them, and moving them between HBM and SBUF."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from neuroncore.base import source
from neuroncore.base.enums import ON_CHIP, MemoryRegion
from neuroncore.base.errors import BufferKindError, ShapeError, SignatureError
from neuroncore.clause.operand import HBM
from neuroncore.core.core import current
from neuroncore.frontend import limits
from neuroncore.frontend.neuronxcc.nki import isa
from neuroncore.frontend.neuronxcc.nki.blocks import Allocation, Blocks
from neuroncore.frontend.neuronxcc.nki.boxes import chosen, follow
from neuroncore.frontend.neuronxcc.nki.isa.arguments import begin
from neuroncore.frontend.neuronxcc.nki.keywords import check_keywords
from neuroncore.frontend.neuronxcc.nki.lifetimes import numbering
from neuroncore.frontend.neuronxcc.nki.results import flush, issue, produce, tile
from neuroncore.frontend.neuronxcc.nki.scopes import LoopIndex, check_shared, running
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor, Untiled
from neuroncore.frontend.operators import format_of
from neuroncore.memory.storage import Storage
from neuroncore.numerics.formats import Format, uint8

__all__ = [
    "empty_like", "full", "load", "load_transpose2d", "ndarray", "ones", "par_dim",
    "shared_constant", "shared_identity_matrix", "store", "zeros", "zeros_like",
]  # fmt: skip

SBUF = MemoryRegion.sbuf
ANYWHERE = {region: Allocation(region) for region in MemoryRegion}


def par_dim(size: int) -> int:
    """Mark a size as the size of the partition axis. The axes before it are block axes: each
    combination of their indices has a separate tile."""
    return limits.PartitionSize(operator.index(size))


def ndarray(
    shape: Sequence[int] | int, dtype: Any, *, buffer: Any = None, name: str = "", **kwargs: Any
) -> Any:
    """Return a new tensor. Its contents are undefined until an instruction writes them.

    `buffer` is a memory (by default SBUF) or an allocation of neuronxcc.nki.compiler. The axes
    before the axis that `par_dim` marks are block axes: each combination of their indices has a
    separate tile."""
    if kwargs:
        check_keywords(kwargs)
    on_chip = type(dtype) is Format and (buffer is None or buffer in ON_CHIP)
    if not (on_chip and type(shape) is tuple and len(shape) > 1 and _are_plain(shape)):
        return _new_tensor(shape, dtype, buffer, name, None)
    # like `_new_tensor`, but in a frame whose line `Core.allocate` knows
    state = flush()
    storage = current().allocate(buffer or SBUF, shape, dtype, name)
    storage.scope = state.scope
    if state.trace is not None:
        state.trace.tile(storage)
    return Tensor(storage, storage.layout.whole, 0)


def full(
    shape: Sequence[int] | int, fill_value: float, dtype: Any, *, buffer: Any = None,
    name: str = "", **kwargs: Any,
) -> Any:  # fmt: skip
    """Return a new tensor filled with a number.

    In HBM, a DMA copies a filled tile at once. On the chip, the number is written later, usually by
    memset: when the tensor is first read, or when a part of the tensor is assigned. The number is
    written only to elements that the kernel has not written before."""
    check_keywords(kwargs)
    if isinstance(buffer, Allocation) and buffer.address is not None:
        raise SignatureError(
            "a tensor at an explicit address can't have an initial value",
            argument="buffer",
            hint="call nl.ndarray(...), then write tensor[...] = nisa.memset(...)",
            also="err_tensor_creation_on_scratchpad_with_init_value_not_supported",
        )
    value = fill_value.item() if isinstance(fill_value, np.generic) else fill_value
    if not isinstance(value, int | float):
        raise SignatureError(
            "fill_value must be a number",
            argument="fill_value",
            position=1,
            got=f"{type(value).__name__} {value!r:.60}",
        )
    if buffer not in HBM:
        return _new_tensor(shape, dtype, buffer, name, value)
    tensor = _new_tensor(shape, dtype, buffer, name, None)
    current().report("HBM_FILL", f"{tensor} is in HBM, but has the initial value {value}")
    tensor[...] = value
    return tensor


def zeros(
    shape: Sequence[int] | int, dtype: Any, *, buffer: Any = None, name: str = "", **kwargs: Any
) -> Any:
    """Return a new tensor of zeros, made as by `full`. If it is in PSUM, += can add matrix
    products."""
    check_keywords(kwargs)
    return full(shape, 0, dtype, buffer=buffer, name=name)


def ones(
    shape: Sequence[int] | int, dtype: Any, *, buffer: Any = None, name: str = "", **kwargs: Any
) -> Any:
    """Return a new tensor of ones, made as by `full`."""
    check_keywords(kwargs)
    return full(shape, 1, dtype, buffer=buffer, name=name)


def zeros_like(
    a: Any, dtype: Any = None, *, buffer: Any = None, name: str = "", **kwargs: Any
) -> Any:
    """Return a new tensor of zeros with the shape of a. Its format is `dtype`, by default the
    format of a."""
    check_keywords(kwargs)
    return zeros(a.shape, dtype or a.dtype, buffer=buffer, name=name)


def empty_like(
    a: Any, dtype: Any = None, *, buffer: Any = None, name: str = "", **kwargs: Any
) -> Any:
    """Return a new tensor with the shape of a and undefined contents. Its format is `dtype`, by
    default the format of a."""
    check_keywords(kwargs)
    return ndarray(a.shape, dtype or a.dtype, buffer=buffer, name=name)


def _new_tensor(shape: Any, dtype: Any, buffer: Any, name: str, value: float | None) -> Any:
    """Return a new tensor, with the initial number `value` in all elements if `value` is given. If
    the tensor has block axes, its tiles are allocated later."""
    flush()
    plain = type(shape) is tuple and _are_plain(shape)
    sizes, axis = (shape, 0) if plain else _sizes(shape)
    form = dtype if type(dtype) is Format else _format(dtype)
    allocation = buffer if isinstance(buffer, Allocation) else ANYWHERE[_region(buffer)]
    region = allocation.region
    state = running()
    check_shared(region, state)
    scope = state.scope
    if region not in ON_CHIP:
        return Tensor.of(_allocated(scope, region, sizes, form, name, None, None))
    tile_shape = sizes[axis:] if len(sizes) - axis > 1 else (*sizes[axis:], 1)
    place = allocation.placer(tile_shape, form)
    if axis == 0:
        storage = _allocated(scope, region, tile_shape, form, name, place and place(()), value)
        if state.trace is not None:
            state.trace.tile(storage, value)
        return Tensor.of(storage)

    def make(block: tuple[int, ...]) -> Storage:
        return _allocated(scope, region, tile_shape, form, name, place and place(block), value)

    numbered = numbering(source.user_frame())
    return Blocks((*sizes[:axis], *tile_shape), axis, form, region, make, name, numbered)


def _allocated(
    scope: LoopIndex | None, region: MemoryRegion, shape: tuple[int, ...], form: Format, name: str,
    address: tuple[int, int] | None, value: float | None,
) -> Storage:  # fmt: skip
    """Return a new storage, made in the iteration `scope`, with the initial number `value`."""
    core = current()
    storage = core.allocate(region, shape, form, name, address)
    storage.scope = scope
    if value is not None:
        running(core).fills[storage.id] = value
    return storage


def _are_plain(sizes: tuple[Any, ...]) -> bool:
    for n in sizes:
        if type(n) is not int or n < 1:
            return False
    return bool(sizes)


def _sizes(shape: Any) -> tuple[tuple[int, ...], int]:
    """Return the shape as plain integers, and the index of the partition axis: the axis that
    par_dim marks, or 0."""
    axes = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    marked = [axis for axis, size in enumerate(axes) if isinstance(size, limits.PartitionSize)]
    try:
        sizes = tuple(map(limits.size, axes))
    except TypeError:
        sizes = ()
    if not sizes or min(sizes) < 1 or len(marked) > 1:
        raise SignatureError(
            f"{axes!r} is not a shape",
            argument="shape",
            position=0,
            expected="positive ints, at most one of them nl.par_dim(size)",
        )
    return tuple(int(n) for n in sizes), marked[0] if marked else 0


def _region(buffer: Any) -> MemoryRegion:
    if buffer is None:
        return SBUF
    if isinstance(buffer, MemoryRegion):
        return buffer
    raise SignatureError(
        f"{buffer!r} is not a memory",
        argument="buffer",
        expected="nl.sbuf, nl.psum, nl.hbm, nl.shared_hbm, nl.private_hbm or an allocation",
    )


def _format(dtype: Any) -> Format:
    return format_of(dtype, position=1)


# --- HBM and SBUF ---------------------------------------------------------------------------------


def load(src: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> Tensor:
    """Return a tile in SBUF with the values of a tensor in HBM. Issues dma_copy."""
    if kwargs:
        check_keywords(kwargs, "mode", "oob_mode")
    flush()
    x = _in_hbm(src, "src")
    if len(x.shape) == 1:
        x = x.expand_dims(1)
    form = x.dtype if dtype is None else _format(dtype or x.dtype)
    mode = _bounds_mode(kwargs, "oob_mode", "mode") if kwargs else isa.oob_mode.error
    return produce("dma_copy", (x.shape, form), mask, src=x, oob_mode=mode)


def _bounds_mode(kwargs: dict[str, Any], *names: str) -> Any:
    """Return a DMA's mode for accesses out of bounds: the value of the first keyword among `names`
    that was passed, or oob_mode.error if none was passed."""
    modes = [kwargs[name] for name in names if name in kwargs]
    return isa.constants.member(isa.oob_mode, modes[0]) if modes else isa.oob_mode.error


def _in_hbm(value: Any, name: str) -> Tensor:
    x = tile(value, name)
    if x.storage.on_chip:
        raise BufferKindError(
            f"{name} must be in hbm, not in {x.region.value}",
            argument=name,
            expected="hbm",
            got=str(x),
            hint="the tile is already on the chip: use it, or copy it by nl.copy",
            also="err_unsupported_memory",
        )
    return x


def store(dst: Any, value: Any, *, mask: Any = None, **kwargs: Any) -> None:
    """Write a tile or a number to a tensor in HBM. Issues dma_copy, after tensor_copy if the tile
    is in PSUM. A number is first written to a tile of the shape of dst, by memset."""
    if kwargs:
        check_keywords(kwargs, "mode")
    flush()
    if not isinstance(dst, Tensor):
        raise _not_written_to(dst)
    if dst.storage.on_chip:
        raise BufferKindError(
            f"dst must be in hbm, not in {dst.region.value}",
            argument="dst",
            position=0,
            expected="hbm",
            got=str(dst),
            hint="assign to a tensor on the chip: tensor[...] = value",
            also="err_unsupported_memory",
        )
    if not isinstance(value, Tensor) and isinstance(value, int | float | np.number | np.bool_):
        value = isa.memset(dst.shape, value, dst.dtype)
        flush()
    x = tile(value, "value")
    place = dst if dst.shape == x.shape else _shaped(dst, x)
    boxes = [()] if mask is None else chosen(mask, x.shape)
    if x.storage.region is MemoryRegion.psum and boxes:
        x = isa.tensor_copy(x, mask=mask)
        flush()
    mode = _bounds_mode(kwargs, "mode") if kwargs else isa.oob_mode.error
    for box in boxes:
        into, part = (place.within(box), follow(x, box, x.shape)) if box else (place, x)
        issue("dma_copy", dst=into, src=part, oob_mode=mode)


def _not_written_to(dst: Any) -> SignatureError:
    if isinstance(dst, Untiled):
        return dst.not_a_tile("dst")
    return SignatureError(
        f"dst is not a tensor: {dst!r:.60}", argument="dst", position=0, expected="a tensor in hbm"
    )


def _shaped(dst: Tensor, value: Tensor) -> Tensor:
    try:
        return dst.shaped(value.shape)
    except ShapeError:
        raise ShapeError(
            f"store: the value has shape {value.shape}, but dst has {dst.shape}",
            argument="value",
            position=1,
            expected=str(dst.shape),
            got=str(value.shape),
            also="err_store_dst_shape_smaller_than_other_shape",
        ) from None


def load_transpose2d(src: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> Tensor:
    """Return a tile in SBUF with the transpose of a 2-D tensor in HBM. Issues dma_transpose."""
    begin(kwargs)
    return isa.dma_transpose(_in_hbm(src, "src"), mask=mask, dtype=dtype)


def shared_constant(constant: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
    """Return a tensor in HBM with the contents of an array."""
    check_keywords(kwargs)
    array = np.array(constant, order="C", ndmin=1)
    if dtype is not None:
        array = array.astype(_format(dtype).numpy)
    return Tensor.of(current().constant(array, _format(array.dtype)))


def shared_identity_matrix(n: int, dtype: Any = uint8, **kwargs: Any) -> Tensor:
    """Return a tensor in HBM with an n x n identity matrix."""
    check_keywords(kwargs)
    (rows, _), _ = _sizes((n, n))
    return shared_constant(np.identity(rows), dtype)
