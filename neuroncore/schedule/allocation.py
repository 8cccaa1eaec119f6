"""SBUF and PSUM as space that a tile waits for: it takes over what has been free the longest. What
the older API's compiler can't fit it spills, to make room for results but not for what transfers
bring: published kernels that spill (conv1d, swiglu, lora, mamba) run no slower in between.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.compiler import Compiled
from neuroncore.compiler.queues import QUEUES
from neuroncore.compiler.residency import Traffic
from neuroncore.enums import MemoryRegion
from neuroncore.machine import Machine
from neuroncore.native import buffers
from neuroncore.native.lazy import Lazy
from neuroncore.record.boxes import Box, Boxes

Array = npt.NDArray[Any]
native: Any = Lazy("neuroncore.native.allocation")
BYTE_END = Box._fields.index("byte_end")


def allocate(
    form: Compiled, waits: Array, previous: Array, region: MemoryRegion, capacity: int
) -> int:
    """Let tiles that the system places in one memory wait for space; the peak bytes per partition.

    Tiles at addresses of the kernel's choosing overlap as it chose, and are counted by their end.
    waits[i] says that a tile whose first user is instruction i waits even where something has to be
    spilled.
    """
    boxes, accesses, queue = form.program.boxes(), form.accesses, form.own_queue
    areas, fixed = boxes.areas, _end_of_placed(boxes, region)
    moved = [kind.region is region and not kind.placed for kind in areas.kinds]
    if not any(moved):
        return fixed
    free = np.array(moved, np.bool_)[areas.kind]
    count = int(np.count_nonzero(free))
    tile = np.full(len(free), -1, np.int32)
    tile[free] = np.arange(count)
    uses = native.Uses(accesses.start, accesses.operands, tile.take(areas.of_box), queue)
    lives = native.Lives(
        birth=np.full(count, len(queue), np.int32),
        last=np.full(count, -1, np.int32),
        last_user=buffers.filled((count, len(QUEUES)), -1, np.int32),
    )
    native.lives.over(len(queue))(uses, lives)
    size = np.array([kind.row_bytes for kind in areas.kinds], np.int64)[areas.kind[free]]
    tiles = native.Tiles(
        size=size,
        left=size.copy(),
        waits=np.append(waits, True).take(lives.birth),
        born=np.argsort(lives.birth, kind="stable"),
        deaths=np.argsort(lives.last, kind="stable"),
    )
    space = buffers.filled((count, len(QUEUES)), -1, np.int32)
    peak: int = native.reuse_of_space.over(len(queue))(tiles, lives, capacity, space)
    if space.max() >= 0:
        native.wait_for_space.over(len(queue))(uses, space, previous)
    return max(peak, fixed)


def _end_of_placed(boxes: Boxes, region: MemoryRegion) -> int:
    """The end, in a partition, of tiles that the kernel placed."""
    placed = [kind.region is region and kind.placed for kind in boxes.areas.kinds]
    if not any(placed):
        return 0
    return int(boxes.table[boxes.areas.each_box(placed, np.bool_), BYTE_END].max(initial=0))


def spill_ns(spilled: Traffic, machine: Machine) -> float:
    """How long spilled tiles are on their way to HBM and back, at the full rate of all DMA engines.

    Published mamba kernels that spill take longer by just that: nothing runs beside it.
    """
    per_engine = machine.hbm.stack_gigabytes_per_s / machine.dma.engines
    rate = min(machine.dma.gigabytes_per_s_per_engine, per_engine) * machine.dma.engines
    return (spilled.spill_save_bytes + spilled.spill_reload_bytes) / rate
