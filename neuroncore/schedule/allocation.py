"""SBUF and PSUM as space that a tile waits for: it takes over what has been free the longest. What
the older API's compiler can't fit it spills, to make room for results but not for what transfers
bring: published kernels that spill (conv1d, swiglu, lora, mamba) run no slower in between.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.enums import MemoryRegion
from neuroncore.machine import Machine
from neuroncore.native.lazy import Lazy
from neuroncore.record.boxes import Box
from neuroncore.record.program import Columns, Program
from neuroncore.schedule.spills import traffic
from neuroncore.schedule.timeline import QUEUES

Array = npt.NDArray[Any]
native: Any = Lazy("neuroncore.native.allocation")
BYTE_END = Box._fields.index("byte_end")


def allocate(
    program: Program, boxes: Array, columns: Columns, queue: Array, waits: Array, previous: Array,
    region: MemoryRegion, capacity: int,
) -> int:  # fmt: skip
    """Let tiles that the system places in one memory wait for space; the peak bytes per partition.

    Tiles at addresses of the kernel's choosing overlap as it chose, and are counted by their end.
    waits[i] says that a tile whose first user is instruction i waits even where something has to be
    spilled.
    """
    area, kinds, kind = program.area_kinds()
    own = np.array([k.region is region for k in kinds], np.bool_)
    placed = np.array([k.placed for k in kinds], np.bool_)
    fixed_areas = area[(own & placed)[kind]]
    fixed = int(boxes[np.isin(boxes[:, 0], fixed_areas), BYTE_END].max(initial=0))
    free = (own & ~placed)[kind]
    ids, size = area[free], np.array([k.row_bytes for k in kinds], np.int64)[kind[free]]
    if not len(ids):
        return fixed
    number = np.full(int(max(program.areas)) + 1, -1, np.int32)
    number[ids] = np.arange(len(ids))
    users = np.repeat(np.arange(len(queue), dtype=np.int32), np.diff(columns.start))
    tile = number[boxes[:, 0]][columns.operands]
    users, tile = users[tile >= 0], tile[tile >= 0]
    birth = np.full(len(ids), len(queue), np.int32)
    np.minimum.at(birth, tile, users)
    last_user = np.full((len(ids), len(QUEUES)), -1, np.int32)
    np.maximum.at(last_user, (tile, queue[users]), users)
    waits = np.append(waits, True)[birth]
    tiles = native.Tiles(
        born=np.argsort(birth, kind="stable"),
        birth=birth,
        deaths=np.argsort(last_user.max(axis=1), kind="stable"),
        last_user=last_user,
        size=size,
        waits=waits,
    )
    peak: int = native.reuse_of_space.over(len(users))(tiles, capacity, users, tile, previous)
    return max(peak, fixed)


def spill_ns(program: Program, machine: Machine) -> float:
    """How long spilled tiles are on their way to HBM and back, at the full rate of all DMA engines.

    Published mamba kernels that spill take longer by just that: nothing runs beside it.
    """
    spilled = traffic(program, machine.sbuf.usable_bytes)
    per_engine = machine.hbm.stack_gigabytes_per_s / machine.dma.engines
    rate = min(machine.dma.gigabytes_per_s_per_engine, per_engine) * machine.dma.engines
    return (spilled.spill_save_bytes + spilled.spill_reload_bytes) / rate
