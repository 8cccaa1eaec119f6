"""Tensors: creating them, and moving them between HBM and SBUF."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from neuroncore.base.enums import ON_CHIP, MemoryRegion
from neuroncore.base.errors import DynamicControlError, SignatureError
from neuroncore.core.core import current
from neuroncore.frontend.limits import PartitionSize, fitting, rows_of
from neuroncore.frontend.nki import isa
from neuroncore.frontend.nki.tensor import NkiTensor, check_not_in_psum
from neuroncore.frontend.operators import format_of
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import Format, uint8

__all__ = [
    "empty_like", "full", "is_hbm", "is_on_chip", "is_psum", "is_sbuf", "load", "ndarray", "ones",
    "par_dim", "shared_constant", "shared_identity_matrix", "store", "zeros", "zeros_like",
]  # fmt: skip

HBM = (MemoryRegion.private_hbm, MemoryRegion.shared_hbm)


def par_dim(size: int) -> int:
    """Mark the size of the partition axis, as kernels of the older API do. In today's API the mark
    changes nothing: the first axis of a tensor is always its partition axis."""
    return PartitionSize(operator.index(size))


@dataclass(frozen=True)
class MemoryName:
    """The object behind the names sbuf, psum and hbm in kernels of NKI 0.1 and 0.2. Such kernels
    write `sbuf.view(dtype, shape)` for a new tensor in SBUF, and `buffer=sbuf` in other
    functions."""

    region: MemoryRegion

    def view(self, dtype: Any, shape: Sequence[int]) -> NkiTensor:
        return ndarray(shape, dtype, self.region)


def ndarray(
    shape: Sequence[int],
    dtype: Any,
    buffer: MemoryRegion | MemoryName = MemoryRegion.sbuf,
    name: str = "",
    address: tuple[int, int] | None = None,
) -> NkiTensor:
    """Return a new tensor. Its contents are undefined until an instruction writes them. A tensor
    may have no elements.

    `address` is (first partition, byte within the partition) in SBUF or PSUM. Tensors at the same
    place share memory. Without an address the system allocates separate memory."""
    if isinstance(buffer, MemoryName):
        buffer = buffer.region
    if not isinstance(buffer, MemoryRegion):
        raise SignatureError(
            f"{buffer!r} is not a memory",
            argument="buffer",
            expected="nl.sbuf, nl.psum, nl.hbm, nl.shared_hbm or nl.private_hbm",
        )
    sizes = _sizes(shape, buffer)
    if address is not None:
        address = _place(address)
    form = dtype if type(dtype) is Format else _format(dtype)
    return NkiTensor.of(current().allocate(buffer, sizes, form, name, address))


def _sizes(shape: Sequence[int], buffer: MemoryRegion) -> tuple[int, ...]:
    """Return a shape as a tuple of ints, with at least two axes for a tensor on the chip. Raises
    SignatureError if `shape` is not a shape."""
    if type(shape) is tuple and len(shape) > 1 and _are_plain(shape):
        return shape
    axes = shape if type(shape) is tuple or isinstance(shape, Sequence) else (shape,)
    try:
        sizes = tuple(map(operator.index, axes))
    except DynamicControlError:  # a size is a register, but must be a constant
        raise
    except TypeError:
        sizes = ()
    if PartitionSize in map(type, axes[1:]):
        raise SignatureError(
            f"{tuple(sizes)!r} has block axes before the partition axis",
            argument="shape",
            position=0,
            because="the first axis of a tensor is its partition axis, and par_dim does not change "
            "that",
            hint="move the blocks into the free axes, or use a list of tensors",
        )
    if not sizes or min(sizes) < 0:
        raise SignatureError(
            f"{shape!r} is not a shape",
            argument="shape",
            position=0,
            expected="a tuple of ints that are 0 or more",
        )
    return (*sizes, 1) if len(sizes) == 1 and buffer in ON_CHIP else sizes


def _are_plain(sizes: tuple[Any, ...]) -> bool:
    for n in sizes:  # noqa: SIM110 - all(...) would take twice as long
        if type(n) is not int or n < 0:
            return False
    return True


def _place(address: Sequence[int]) -> tuple[int, int]:
    try:
        partition, byte = map(operator.index, address)
    except (TypeError, ValueError):
        raise SignatureError(
            f"{address!r} is not an address",
            argument="address",
            expected="(partition, byte within the partition)",
        ) from None
    return partition, byte


def _format(dtype: Any) -> Format:
    return format_of(dtype, position=1)


def full(
    shape: Sequence[int],
    fill_value: float,
    dtype: Any,
    buffer: MemoryRegion = MemoryRegion.sbuf,
    name: str = "",
) -> NkiTensor:
    """Return a new tensor filled with a number. Issues memset, and dma_copy for HBM."""
    tensor = ndarray(shape, dtype, buffer, name)
    if buffer in ON_CHIP:
        isa.memset(tensor, fill_value)
        return tensor
    for part in fitting(tensor):
        rows = in_rows(part)
        tile = ndarray(rows.shape, dtype)
        isa.memset(tile, fill_value)
        isa.dma_copy(rows, tile)
    return tensor


def in_rows(tensor: NkiTensor) -> NkiTensor:
    """Return a tensor in HBM as a matrix with one row per partition. The number of rows is the
    largest divisor of the tensor's size that is at most the number of partitions."""
    return tensor.reshape(rows_of(tensor.size))


def zeros(
    shape: Sequence[int], dtype: Any, buffer: MemoryRegion = MemoryRegion.sbuf, name: str = ""
) -> NkiTensor:
    """Return a new tensor of zeros. Issues memset, and dma_copy for HBM."""
    return full(shape, 0, dtype, buffer, name)


def ones(
    shape: Sequence[int], dtype: Any, buffer: MemoryRegion = MemoryRegion.sbuf, name: str = ""
) -> NkiTensor:
    """Return a new tensor of ones. Issues memset, and dma_copy for HBM."""
    return full(shape, 1, dtype, buffer, name)


def zeros_like(
    x: NkiTensor, dtype: Any = None, buffer: MemoryRegion | None = None, name: str = ""
) -> NkiTensor:
    """Return a new tensor of zeros with the shape of x. Issues memset, and dma_copy for HBM."""
    return zeros(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def empty_like(
    x: NkiTensor, dtype: Any = None, buffer: MemoryRegion | None = None, name: str = ""
) -> NkiTensor:
    """Return a new tensor with the shape of x and undefined contents. Issues no instruction."""
    return ndarray(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def load(src: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Return a tile in SBUF with the values of a tensor in HBM. Issues dma_copy."""
    tile = ndarray(src.shape, dtype or src.dtype)
    isa.dma_copy(tile, src)
    return tile


def store(dst: NkiTensor, value: NkiTensor) -> None:
    """Write a tile in SBUF to a tensor in HBM. Issues dma_copy."""
    if isinstance(value, Tile):
        check_not_in_psum(value, "store")
    isa.dma_copy(dst, value)


def shared_constant(constant: Any) -> NkiTensor:
    """Return a tensor in HBM with the contents of a numpy array or a .npy file."""
    array = np.load(constant) if isinstance(constant, str | Path) else np.asarray(constant)
    array = np.array(array, order="C", ndmin=1)
    storage = current().constant(array, _format(array.dtype))
    return NkiTensor.of(storage)


def shared_identity_matrix(n: int, dtype: Any = uint8, dst: NkiTensor | None = None) -> NkiTensor:
    """Return an n x n identity matrix in SBUF. The matrix is a constant of the program in HBM;
    dma_copy copies it to SBUF."""
    shape, form = _sizes((n, n), MemoryRegion.sbuf), _format(dtype)
    tile = ndarray(shape, form) if dst is None else dst
    isa.dma_copy(tile, shared_constant(np.eye(shape[0]).astype(form.numpy)))
    return tile


def is_hbm(buffer: Any) -> bool:
    return getattr(buffer, "buffer", buffer) in HBM


def is_on_chip(buffer: Any) -> bool:
    return getattr(buffer, "buffer", buffer) in ON_CHIP


def is_psum(buffer: Any) -> bool:
    return getattr(buffer, "buffer", buffer) is MemoryRegion.psum


def is_sbuf(buffer: Any) -> bool:
    return getattr(buffer, "buffer", buffer) is MemoryRegion.sbuf
