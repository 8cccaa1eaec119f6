"""Accumulator registers: one a lane and engine, which an instruction leaves to the next one."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuroncore.clause import arithmetic
from neuroncore.clause.arithmetic import Operator
from neuroncore.core.core import CLOBBERED, Core
from neuroncore.enums import engine, reduce_cmd
from neuroncore.memory.tile import Tile


def accumulators(core: Core, unit: engine, data: Tile, count: int | None = None) -> Any:
    """The accumulator registers of the lanes that `data` streams through: one per partition of
    the input (ISA, activation_reduce), or the first `count` from there on."""
    first = data.start_partition
    return core.accumulators[unit][first : first + (count or data.shape[0])]


def accumulate(
    registers: Any, op: Operator, values: Any, command: reduce_cmd, initial: Any = None
) -> Any:
    """Run values [P, F] through accumulator registers; they come back as they are afterwards. An
    idle instruction may clobber them (ISA): they are poisoned."""
    preset(registers, op, command, initial)
    if command not in (reduce_cmd.idle, reduce_cmd.reset):
        arithmetic.fold(op, values.reshape(values.shape[0], -1), registers)
    return registers


def preset(registers: Any, op: Operator, command: reduce_cmd, initial: Any = None) -> None:
    """What accumulator registers hold before the first element comes by."""
    if command is reduce_cmd.idle:
        registers[:] = CLOBBERED
    elif command in (reduce_cmd.reset, reduce_cmd.reset_reduce):
        registers[:] = op.identity
    elif command is reduce_cmd.load_reduce:
        registers[:] = initial.values().reshape(-1) if isinstance(initial, Tile) else initial


def read_out(core: Core, reduce_res: Tile | None, registers: Any, negate: bool = False) -> None:
    """Write accumulator registers to reduce_res, if that is given; NaN and a finding where no
    command has preset them."""
    if reduce_res is None:
        return
    codes = registers.astype(np.float32, copy=False).view(np.uint32)
    clobbered = codes == CLOBBERED.view(np.uint32)
    if clobbered.any():
        core.report(
            "UNINIT_READ",
            f"reduce_res reads {int(clobbered.sum())} accumulator registers that nothing has "
            "preset: leftovers on the device, NaN here; begin with reduce_cmd.reset_reduce",
        )
    total = np.where(clobbered, np.float32(np.nan), registers)
    reduce_res.store(np.negative(total) if negate else total)
