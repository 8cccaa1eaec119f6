"""SBUF and PSUM as space that a tile waits for: it takes over what has been free the longest. What
the older API's compiler can't fit it spills.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.enums import MemoryRegion
from neuroncore.lazy import Lazy
from neuroncore.machine import Machine
from neuroncore.program import Columns, Program
from neuroncore.schedule.timeline import QUEUES
from neuroncore.spills import traffic

Array = npt.NDArray[Any]
native: Any = Lazy("neuroncore.native.schedule")


def take_over(
    program: Program, columns: Columns, queue: Array, previous: Array, region: MemoryRegion,
    capacity: int,
) -> int:  # fmt: skip
    """Let tiles that the system places in one memory wait for space; the peak bytes per partition.

    Tiles at addresses of the kernel's choosing overlap as it chose, and are counted by their end.
    """
    boxes = program.boxes
    area = np.array([b[0] for b in boxes], np.int64)[columns.operands]
    ids = [a for a, info in program.areas.items() if info.region is region and not info.placed]
    placed = [a for a, info in program.areas.items() if info.region is region and info.placed]
    fixed = max((b.byte_end for b in boxes if b.area in placed), default=0)
    if not ids:
        return fixed
    number = np.full(int(max(program.areas)) + 1, -1, np.int64)
    number[ids] = np.arange(len(ids))
    users = np.repeat(np.arange(len(queue)), np.diff(columns.start))
    tile = number[area]
    users, tile = users[tile >= 0], tile[tile >= 0]
    birth = np.full(len(ids), len(queue), np.int64)
    np.minimum.at(birth, tile, users)
    last_user = np.full((len(ids), len(QUEUES)), -1, np.int32)
    np.maximum.at(last_user, (tile, queue[users]), users.astype(np.int32))
    size = np.array([program.areas[a].row_bytes for a in ids], np.int64)
    live = np.zeros(len(queue) + 1, np.int64)
    peak: int = native.reuse_of_space(
        queue, np.argsort(birth, kind="stable"), birth,
        np.argsort(last_user.max(axis=1), kind="stable"), last_user, size, capacity, previous, live,
    )  # fmt: skip
    return max(peak, fixed)


def spill_ns(program: Program, machine: Machine) -> float:
    """How long spilled tiles are on their way to HBM and back, at the full rate of all DMA engines.

    Published mamba kernels that spill take longer by just that: nothing runs beside it.
    """
    spilled = traffic(program, machine.sbuf.usable_bytes)
    per_engine = machine.hbm.stack_gigabytes_per_s / machine.dma.engines
    rate = min(machine.dma.gigabytes_per_s_per_engine, per_engine) * machine.dma.engines
    return (spilled.spill_save_bytes + spilled.spill_reload_bytes) / rate
