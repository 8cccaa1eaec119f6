"""Accumulator registers: one a lane and engine, which an instruction leaves to the next one."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuroncore.base.enums import engine, reduce_cmd
from neuroncore.clause import arithmetic
from neuroncore.clause.alu import Operator
from neuroncore.core.core import CLOBBERED, Core
from neuroncore.memory.tile import Tile

IDLE, BEGIN, LOAD = reduce_cmd.idle, reduce_cmd.reset_reduce, reduce_cmd.load_reduce
RESET = reduce_cmd.reset
CLOBBERED_CODE = CLOBBERED.view(np.uint32)


def accumulators(core: Core, unit: engine, data: Tile, count: int) -> Any:
    """The accumulator registers of `count` lanes, from the first that `data` streams through
    (ISA, activation_reduce)."""
    first = data.start_partition
    return core.accumulators[unit][first : first + count]


def accumulate(
    core: Core,
    unit: engine,
    data: Tile,
    values: Any,
    op: Operator,
    command: reduce_cmd,
    initial: Any = None,
) -> None:
    """Run values [P, F] through the accumulator registers of the lanes of `data`. An idle
    instruction may clobber them (ISA): they are poisoned."""
    registers = accumulators(core, unit, data, len(values))
    preset(registers, op, command, initial)
    if command is not IDLE and command is not RESET:
        arithmetic.fold(op, values.reshape(len(values), -1), registers)


def cumulate(
    core: Core, data: Tile, values: Any, op: Operator, command: reduce_cmd, initial: Any
) -> None:
    """The same on the Vector engine; `values` become what its registers hold after each of them."""
    registers = accumulators(core, engine.vector, data, len(values))
    preset(registers, op, command, initial)
    rows = values.reshape(len(values), -1)
    arithmetic.cumulate(op, rows, registers, rows)


def preset(registers: Any, op: Operator, command: reduce_cmd, initial: Any = None) -> None:
    """The contents of accumulator registers before the first element."""
    if command is BEGIN or command is RESET:
        registers.fill(op.identity)
    elif command is IDLE:
        registers.fill(CLOBBERED)
    elif command is LOAD:
        registers[:] = arithmetic.per_lane(initial, registers)


def read_out(
    core: Core, unit: engine, data: Tile, reduce_res: Tile | None, negate: bool = False
) -> None:
    """Write the accumulator registers of the lanes of `data` to reduce_res, if that is given, as
    many as it holds; NaN and a finding where no command has preset them."""
    if reduce_res is None:
        return
    registers = accumulators(core, unit, data, reduce_res.shape[0])
    codes = registers.astype(np.float32, copy=False).view(np.uint32)
    clobbered = codes == CLOBBERED_CODE
    if clobbered[clobbered.argmax()]:
        core.report(
            "UNINIT_READ",
            f"reduce_res reads {int(clobbered.sum())} accumulator registers that nothing has "
            "preset: leftovers on the device, NaN here; begin with reduce_cmd.reset_reduce",
        )
        registers = np.where(clobbered, np.float32(np.nan), registers)
    reduce_res.store(np.negative(registers) if negate else registers)
