"""Broadcast of a partition to all partitions, in the older API: a product with a row of ones, as
its pages state ("Trainium/Inferentia2 Architecture", Tensor engine).
"""

from __future__ import annotations

from neuroncore.base.enums import MemoryRegion
from neuroncore.core.core import current
from neuroncore.frontend.neuronxcc.nki.isa.arguments import in_sbuf
from neuroncore.frontend.neuronxcc.nki.results import issue, new
from neuroncore.frontend.neuronxcc.nki.scopes import carry, running
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.numerics.formats import Format, float32

PSUM = MemoryRegion.psum


def across_partitions(row: Tensor, count: int) -> Tensor:
    """Return the float32 row [1, F...] in `count` partitions.

    A row that fits into a bank stays in PSUM, where instructions read it; a wider row goes to SBUF
    piece by piece.
    """
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
    """Return a row of ones, which a kernel makes once."""
    kept = running().ones
    if count not in kept:
        ones = kept[count] = new((1, count), dtype)
        ones.storage.scope = None
        carry(ones.storage)
        issue("memset", dst=ones, value=1.0)
    row: Tensor = kept[count]
    return row
