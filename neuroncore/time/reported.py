"""Loads that wait for their turn: two rules, which the values `single` and `limited` of
`Options.loads` turn on. One source reports each rule; no other source confirms it yet.

`single`: a load for a product waits until the tile that the previous load of the same line wrote
has been read for the last time. Each product then takes as long as a whole transfer by DMA.
Products of rows that were normalized before take 3.6 to 4.1 us each on trn2 (AccelOpt's
add_rmsnorm_matmul and matmul_add_rmsnorm, as kda-for-trainium and voyager-compiler measured them).

`limited`: every load waits in this way if the tiles that DMA writes take more than `ahead_bytes` of
a partition at one time (88 KiB). Streaming is then four times slower on trn1 with NKI 0.6, because
the compiler places such tiles in one half of SBUF (aws-samples/sample-spectral-dns-on-aws-neuron,
docs/neuron-rules.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.enums import MemoryRegion
from neuroncore.record.program import Program
from neuroncore.time.loops.dependencies import Accesses, Flow

Array = npt.NDArray[Any]


def in_turn(program: Program, accesses: Accesses, flow: Flow, ahead_bytes: int) -> Array:
    """Return, for each instruction, whether it is a load that waits for its turn (see the module).
    Tiles that DMA writes may take `ahead_bytes` of a partition before the rule `limited` applies.
    `flow` must have reaching definitions: the instruction that wrote what each operand reads."""
    loads = _loads(program)
    if program.loads == "single":
        uses, flags = _uses(accesses, flow, loads), np.zeros_like(loads)
        multiplies = np.array([c.instruction.traits.multiplies for c in program.calls], np.bool_)
        by_product = multiplies[program.columns().call[accesses.user[uses]]]
        flags[flow.reaching[uses[by_product]]] = True
        return flags
    full = program.loads == "limited" and _peak(program, accesses, loads) > ahead_bytes
    return loads if full else np.zeros_like(loads)


def waits(program: Program, accesses: Accesses, flow: Flow, turns: Array) -> Array:
    """Return pairs: a load that waits for its turn, and the instruction that the load waits for.
    That instruction is the last reader of the tile that the previous load of the same source line
    has loaded. `turns` flags the loads that wait for their turn."""
    uses = _uses(accesses, flow, turns)
    last = np.full(len(turns), -1, np.int64)
    np.maximum.at(last, flow.reaching[uses], accesses.user[uses])
    line = program.columns().line
    loads = np.flatnonzero(turns)
    loads = loads[np.argsort(line[loads], kind="stable")]
    follows = line[loads[1:]] == line[loads[:-1]]
    load, reader = loads[1:][follows], last[loads[:-1]][follows]
    kept = (reader >= 0) & (reader < load)
    return np.column_stack((load[kept], reader[kept]))


def _uses(accesses: Accesses, flow: Flow, flags: Array) -> Array:
    """Return the indices of the operands that read a result of the instructions that `flags`
    marks."""
    operands: Array = np.flatnonzero(accesses.is_read & (flow.reaching >= 0) & flags[flow.reaching])
    return operands


def _loads(program: Program) -> Array:
    """Return, for each instruction, whether it loads a tile from HBM to SBUF."""
    is_load = np.zeros(len(program.calls), np.bool_)
    for number, call in enumerate(program.calls):
        reads, writes = call.views(*call.reads), call.views(*call.writes)
        fills = [view.region is MemoryRegion.sbuf for view in writes]
        is_load[number] = bool(fills) and all(fills) and not any(view.on_chip for view in reads)
        is_load[number] &= bool(reads)
    loads: Array = is_load[program.columns().call]
    return loads


def _peak(program: Program, accesses: Accesses, loads: Array) -> int:
    """Return the largest number of bytes per partition that loaded tiles take at one time, in
    program order."""
    areas = program.boxes().areas
    area = areas.of_box[accesses.operands]
    first, last = np.full(len(areas.kind), len(loads)), np.full(len(areas.kind), -1)
    np.maximum.at(last, area, accesses.user)
    written = loads[accesses.user] & ~accesses.is_read
    np.minimum.at(first, area[written], accesses.user[written])
    size = np.array([kind.row_bytes for kind in areas.kinds], np.int64)[areas.kind]
    areas_used = np.flatnonzero(last >= first)
    change = np.zeros(len(loads) + 1, np.int64)
    np.add.at(change, first[areas_used], size[areas_used])
    np.add.at(change, last[areas_used] + 1, -size[areas_used])
    return int(np.cumsum(change).max(initial=0))
