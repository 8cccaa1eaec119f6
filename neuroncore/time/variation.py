"""What if: how a schedule differs from what its program says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.structs import dataclass
from neuroncore.machine import Machine
from neuroncore.machine.world import World
from neuroncore.record.program import Order, Program
from neuroncore.time.compiled import Compiled, compiled
from neuroncore.time.loops.dependencies import Accesses
from neuroncore.time.loops.work import Work
from neuroncore.time.prepare import Prepared, prepared
from neuroncore.time.schedule import Timeline, timed

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Variation:
    """`times[i]` multiplies all times of instruction i: in its queue, on DMA engines, and until its
    result is there. A `loose` instruction waits for no data, and none waits for its data. With
    `renamed` every result has separate space: only its readers wait."""

    times: Array | None = None
    loose: Array | None = None
    renamed: bool = False


AS_IT_IS = Variation()


def schedule_varied(
    programs: Sequence[Program],
    machine: Machine,
    order: Order,
    variations: Sequence[Variation],
    world: World,
) -> list[Timeline]:
    """Time the programs of the cores of a world, each with its variation."""
    shared, both = machine.beside(world.cores), zip(programs, variations, strict=True)
    works = [_prepared(compiled(own, shared, order), shared, each) for own, each in both]
    return timed(works, machine, world)


def _prepared(form: Compiled, machine: Machine, variation: Variation) -> Prepared:
    if variation.renamed:
        first, needs = _flow_of_data(form.flow.first, form.flow.needs, form.accesses)
        nobody = np.full_like(form.flow.previous, -1)
        form = replace(form, flow=form.flow._replace(first=first, needs=needs, previous=nobody))
    made = prepared(form, machine)
    return replace(made, work=_varied(made.work, variation))


def _varied(work: Work, variation: Variation) -> Work:
    """The work with other times and fewer waits; `renamed` is not its matter."""
    times, loose = variation.times, variation.loose
    if times is not None:
        work = work._replace(
            busy=work.busy * times, latency=work.latency * times, lane_ns=work.lane_ns * times
        )
    if loose is not None:
        bound = ~np.append(loose, False)  # the last one for -1, nothing
        kept = bound[work.needs] & np.repeat(bound[:-1], np.diff(work.first))
        first, needs = _kept(work.first, work.needs, kept)
        previous = np.where(bound[work.previous] & bound[:-1, None], work.previous, np.int32(-1))
        work = work._replace(first=first, needs=needs, previous=previous)
    return work


def _flow_of_data(first: Array, needs: Array, accesses: Accesses) -> tuple[Array, Array]:
    """The dependencies of each instruction on writers of its inputs, and on earlier writers of the
    same bytes that were not read since: it adds to their result."""
    waiting = np.repeat(np.arange(len(first) - 1), np.diff(first))
    reads = _read_of(accesses, waiting, needs)
    overwrites = _read_of(accesses, needs, waiting) & ~reads
    latest = np.full(len(first) - 1, -1, needs.dtype)
    np.maximum.at(latest, waiting[overwrites], needs[overwrites])
    return _kept(first, needs, reads | (~overwrites & (needs > latest[waiting])))


def _read_of(accesses: Accesses, reader: Array, writer: Array) -> Array:
    """True for each `reader` that reads bytes of the `writer` at the same index."""
    start, operands, reads, near, near_start = accesses
    inputs, outputs = reads[reader], (np.diff(start) - reads)[writer]
    count = inputs * outputs
    pair = np.repeat(np.arange(len(reader)), count)
    k = np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count)
    read = operands[start[reader[pair]] + k // outputs[pair]]
    written = operands[(start[:-1] + reads)[writer[pair]] + k % outputs[pair]]
    boxes = len(near_start) - 1
    both = np.repeat(np.arange(boxes), np.diff(near_start)) * boxes + near
    touches = np.isin(read * boxes + written, both)
    found: Array = np.bincount(pair[touches], minlength=len(reader)) > 0
    return found


def _kept(first: Array, needs: Array, kept: Array) -> tuple[Array, Array]:
    """`first` and `needs` of what is still waited for."""
    count = np.concatenate([[0], np.cumsum(kept)])
    return count[first], needs[kept]
