"""The queues of a core: what takes instructions in an order of its own.

The first DMA ring takes loads, the second one stores; where one generator writes the descriptors of
both (`Policy.has_one_ring`), the first one takes all.
"""

from __future__ import annotations

from neuroncore.base.enums import engine
from neuroncore.clause.instruction import Call

QUEUES = ("Tensor", "Vector", "Scalar", "GpSimd", "Sync", "DMA ring 1", "DMA ring 2")
TENSOR, VECTOR, SCALAR, GPSIMD, SYNC, LOADS, STORES = range(len(QUEUES))
QUEUE_OF = {engine[name.lower()]: queue for queue, name in enumerate(QUEUES[:LOADS])}


def is_transfer(call: Call, queue: int) -> bool:
    """Whether a queue moves by DMA what it is given; trn1's Tensor engine runs dma_transpose."""
    return call.engine is engine.dma and queue in (GPSIMD, LOADS, STORES)
