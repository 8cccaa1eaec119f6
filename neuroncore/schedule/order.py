"""What becomes of the order that a kernel issues instructions in, before the engines get them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.cost import Cost
from neuroncore.enums import MemoryRegion, engine
from neuroncore.instruction import Call
from neuroncore.machine import Machine
from neuroncore.program import Columns, Order

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Policy:
    """How far a compiler departs from the order of a program.

    Among the first `window` instructions that an engine has not begun (`transfers` for DMA), the
    one that can begin first does; what reads nothing, like memset, may be moved up from further
    behind, among the first `reach`. With `horizon_ns`, copies for which the kernel names no engine
    go to the one that has the least to do, which must not be behind by more than that; and what a
    loop computes again from the same operands, or loads again soon, is there already.
    """

    said: str
    window: int
    reach: int
    transfers: int
    horizon_ns: float = 0.0


POLICIES: dict[Order, Policy] = {
    "in-order": Policy("every engine in the order of the program", 1, 1, 1),
    # Kernels of today's API, whose order its compiler nearly keeps: published attention and mixture
    # of experts lie between windows of 1 and 4. Transfers are dealt to 16 rings.
    "scheduled": Policy("nearly in the order of the program", 2, 16, 16),
    # The older API's compiler orders, and shares copies out among Vector, Scalar and GpSimd:
    # profiles of kernels that name no engine show all three at work. Published stable-diffusion
    # attention needs a window of 128; a wider one changes nothing. That products of the same tiles
    # are made once shows in the Vector engine's time in published mamba kernels.
    "compiled": Policy("reordered as the older API's compiler does", 128, 128, 128, 10_000.0),
}


def variants(call: Call, policy: Policy) -> list[Call]:
    """A call on each engine that may run it: PSUM is out of GpSimd's reach."""
    if policy.horizon_ns and call.name == "dma_transpose" and call.view("src").dtype.itemsize == 4:
        return [replace(call, engine=engine.tensor)]
    if not policy.horizon_ns or call.name != "tensor_copy":
        return [call]
    if call["engine"] is not engine.unknown:
        return [call]
    in_psum = any(view.region is MemoryRegion.psum for view in call.views())
    units = [u for u in call.instruction.engines if not (in_psum and u is engine.gpsimd)]
    return [replace(call, engine=unit) for unit in units]


def cost_of(call: Call, machine: Machine) -> Cost:
    """What a call costs on the engine that it was given to.

    The older compiler loads 32-bit tiles as they are and transposes them on the Tensor engine: a
    published product that leaves transposes to loads takes as long as one that makes them itself.
    """
    if call.name != "dma_transpose" or call.engine is not engine.tensor:
        return call.instruction.cost(call, machine)  # type: ignore[no-any-return]
    unit, side = machine.engines["tensor"], machine.limits.partitions
    blocks = ceil(call.view("src").size / side**2)
    cycles = blocks * (unit.overhead_cycles + side / unit.rate["transpose_float32"])
    return Cost(cycles / unit.clock_ghz, machine.dma.load_latency_ns + unit.latency_ns)


def made_before(calls: list[Call], columns: Columns, version: Array, reach: int) -> Array:
    """The instruction before each that did the same with the same data, of loads not more than
    `reach` before; -1 where there is none.

    Besides loads it is tensor_tensor, which has no operands but tiles: what else two of their Calls
    may differ in is in the Call. version[k] is who wrote operand k last.
    """
    before = np.full(len(columns.call), -1, np.int32)
    for name, reads, most in (("tensor_tensor", 2, len(before)), ("dma_copy", 1, reach)):
        alike = np.array([_reads_alone(c, name) for c in calls], np.bool_)
        found = np.flatnonzero(alike[columns.call])
        key = columns.call[found].astype(np.uint64)
        for values in (columns.operands, version):
            for k in range(reads):
                key = (key * _MIX) ^ values[columns.start[found] + k].astype(np.uint64)
        by_key = np.argsort(key, kind="stable")
        one, next_one = by_key[:-1], by_key[1:]
        again = (key[one] == key[next_one]) & (found[next_one] - found[one] <= most)
        before[found[next_one[again]]] = found[one[again]]
    return before


def _reads_alone(call: Call, name: str) -> bool:
    """Whether a Call is of that name, and of a copy that it is a load, at a known address."""
    if call.name != name or call.dynamic:
        return False
    return name != "dma_copy" or (not call.view("src").on_chip and call.view("dst").on_chip)


_MIX = np.uint64(0x9E3779B97F4A7C15)  # spreads the bits of a 64-bit hash
