"""The queues of a core. Each queue issues its instructions in its own order.

DMA ring 1 takes loads, DMA ring 2 takes stores. If the older API's compiler leaves descriptors to
the device (`Policy.generates`), engines issue the transfers: GpSimd the transfers of the kernel's
arguments and results, Sync all other loads, and Scalar all other stores.
"""

from __future__ import annotations

from neuroncore.base.enums import engine
from neuroncore.clause.instruction import Call

QUEUES = ("Tensor", "Vector", "Scalar", "GpSimd", "Sync", "DMA ring 1", "DMA ring 2")
TENSOR, VECTOR, SCALAR, GPSIMD, SYNC, LOADS, STORES = range(len(QUEUES))
QUEUE_OF = {engine[name.lower()]: queue for queue, name in enumerate(QUEUES[:LOADS])}


def is_transfer(call: Call, queue: int) -> bool:
    """Return whether a call on this queue moves data by DMA. On trn1, dma_transpose does not,
    because the Tensor engine runs it.

    `queue`: an index of QUEUES"""
    return call.engine is engine.dma and queue in (SCALAR, GPSIMD, LOADS, STORES)
