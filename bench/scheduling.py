"""The lines of `speed.py` about the schedule of a long record: its memory and its CPU time.

A separate process records nested loops of ten million instructions, and schedules them. Recording
takes some minutes. The memory is the greatest memory during the schedule, without the memory before
it. The CPU time per instruction is given as a multiple of the time of np.add of two [128, 1]
arrays.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from measure import alone, seconds, status

if __name__ == "__main__":
    alone()

import neuroncore

neuroncore.activate()

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
from issuing import Line, yardstick

from neuroncore.base.options import Options
from neuroncore.hosts.api import Run
from neuroncore.time.schedule import Timeline, schedule_cores

COUNT = 10_000_000
ADDS = 20_000
TILES, INNER = 64, 5  # tiles in a row of the nest, and instructions for each tile
GIGABYTES, LIMIT = 1.0, 4.0  # of memory, and np.adds per instruction


@nki.jit
def nest(x, turns):
    """Add 1 to the tiles of a row and double them, for each of `turns`."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for _ in range(turns):
        for j in range(0, x.shape[1], 4):
            tile, more, double = (nl.ndarray((4, 4), x.dtype, buffer=nl.sbuf) for _ in range(3))
            nisa.dma_copy(dst=tile, src=x[0:4, j : j + 4])
            nisa.tensor_scalar(dst=more, data=tile, op0=nl.add, operand0=1.0)
            nisa.tensor_tensor(dst=double, data1=more, data2=more, op=nl.add)
            nisa.tensor_copy(dst=double, src=double)
            nisa.dma_copy(dst=out[0:4, j : j + 4], src=double)
    return out


def recorded(count: int) -> Run:
    """Return a run of `count` instructions."""
    x = np.zeros((4, 4 * TILES), np.float32)
    options = Options(record_limit=count)
    return neuroncore.run(nest, x, count // (TILES * INNER), options=options)


def lines() -> Iterator[Line]:
    done = subprocess.run([sys.executable, __file__], check=True, capture_output=True, text=True)
    added, spent, add = map(float, done.stdout.split())
    yield "memory of a schedule of 10^7 instructions, GB", added / 1e9, GIGABYTES, ""
    per_instruction = spent / COUNT
    remark = f"{spent:.1f} s; {per_instruction * 1e6:.2f} us per instruction"
    yield "schedule of 10^7 instructions, np.adds each", per_instruction / add, LIMIT, remark


def scheduled(run: Run) -> list[Timeline]:
    return schedule_cores(run.record.programs, run.machine, None, run.world)


def main() -> None:
    """Print the bytes that a schedule adds, its seconds of CPU, and the seconds of an np.add."""
    scheduled(recorded(50_000))  # loops are compiled
    run = recorded(COUNT)
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM is counted from now on (Linux)
    held = status("VmRSS")
    spent = seconds(lambda: scheduled(run))
    peak = status("VmHWM")
    add = min(seconds(yardstick(ADDS)) for _ in range(5)) / ADDS
    print(peak - held, spent, add)


if __name__ == "__main__":
    main()
