"""What-if schedules: a `Variation` describes how a schedule differs from its program, and a `Bench`
prepares programs once and schedules many variations of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.lazy import Lazy
from neuroncore.machine import Machine
from neuroncore.machine.world import World
from neuroncore.record.columns import owners
from neuroncore.record.program import Order, Program
from neuroncore.time.compiled import Compiled, compiled, recosted
from neuroncore.time.loops.work import Work, idle, own_kinds
from neuroncore.time.prepare import Prepared, costed, prepared
from neuroncore.time.schedule import Timeline, timed
from neuroncore.time.syncs import place_collectives

if TYPE_CHECKING:
    from neuroncore.time import flow
else:
    flow = Lazy("neuroncore.time.flow")

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Variation:
    """How a schedule differs from its program. Fields that are None change nothing.

    `times`: times[i] multiplies all times of instruction i: in its queue, on DMA engines, and until
        its result is available
    `loose`: if loose[i] is True, instruction i waits for no data, and no instruction waits for its
        data
    `renamed`: if True, every result has separate space, so that only its readers wait for it
    `joined`: if joined[i] is not -1, instruction joined[i] also does the work of instruction i. It
        waits for everything that i waits for. Instructions that wait for i wait for joined[i]."""

    times: Array | None = None
    loose: Array | None = None
    renamed: bool = False
    joined: Array | None = None

    def ordered(self, origin: Array | None) -> Variation:
        """Return the variation for a program with permuted instructions: instruction i was
        instruction origin[i]. If `origin` is None, no instruction has moved."""
        if origin is None:
            return self
        times, loose, joined = (
            values if values is None else values[origin]
            for values in (self.times, self.loose, self.joined)
        )
        if joined is not None:
            joined = np.where(joined >= 0, np.argsort(origin)[joined], -1)
        return replace(self, times=times, loose=loose, joined=joined)


AS_IT_IS = Variation()


class Bench:
    """The programs of one launch, prepared once so that many variations can be scheduled.

    It keeps each program as compiled (`Compiled`) and as prepared (`Prepared`). For a machine with
    the same memories, only costs are replaced. But a compiler that rewrites programs
    (`Policy.rewrites`) compiles them again, because its changes depend on costs.

    `forms`: the compiled programs that are known already, by core"""

    def __init__(
        self,
        programs: Sequence[Program],
        machine: Machine,
        order: Order,
        world: World,
        forms: Mapping[int, Compiled] | None = None,
    ) -> None:
        self.programs, self.machine, self.world = programs, machine, world
        self.order: Order = order
        self._shared = machine.shared_by(world.cores)
        self._forms = dict(forms or {})
        self._known: dict[int, Prepared] = {}

    def timelines(
        self, programs: Sequence[Program], machine: Machine, variations: Sequence[Variation]
    ) -> list[Timeline]:
        """Return the timelines of a launch on a machine, by core.

        `programs`: the program of each core: that of the launch, or a changed program
        `variations`: the variation of each program"""
        same = machine is self.machine
        shared = self._shared if same else machine.shared_by(self.world.cores)
        pairs = zip(programs, variations, strict=True)
        works = [self._varied(n, *pair, shared) for n, pair in enumerate(pairs)]
        return timed(works, machine, self.world)

    def _varied(
        self, number: int, program: Program, variation: Variation, machine: Machine
    ) -> Prepared:
        if variation.renamed:
            result = prepared(_renamed(self._form(number, program, machine)), machine)
        elif program is self.programs[number]:
            result = self._on(number, machine)
        else:
            result = self._of_other(number, program, machine)
        if variation is AS_IT_IS:
            return result
        work = place_collectives(result.compiled, result.work, self.world, number, machine.name)
        variation = variation.ordered(result.compiled.program.origin)
        return replace(result, work=_varied(work, variation), collectives_placed=True)

    def _of_other(self, number: int, program: Program, machine: Machine) -> Prepared:
        """Prepare `program`, which replaces the program of core `number`, to be timed. The old one
        is reused if only costs differ."""
        known = self._on(number, machine)
        form = recosted(known.compiled, program, machine)
        if form is None:
            costs = None if known.compiled.policy.rewrites else known.compiled.table
            return prepared(compiled(program, machine, self.order, costs=costs), machine)
        return costed(known, form, machine)

    def _on(self, number: int, machine: Machine) -> Prepared:
        """Return the program of core `number`, prepared to be timed on a machine."""
        program = self.programs[number]
        if number not in self._known:
            form = self._form(number, program, self._shared)
            self._known[number] = prepared(form, self._shared)
        known = self._known[number]
        if machine is self._shared:
            return known
        form = self._form(number, program, machine)
        if form.leaves_out or not self._has_same_memories(machine):
            return prepared(form, machine)
        return costed(known, form, machine)

    def _has_same_memories(self, machine: Machine) -> bool:
        """Return whether a machine has the memories of the launch's machine."""
        return (machine.sbuf, machine.psum) == (self._shared.sbuf, self._shared.psum)

    def _form(self, number: int, program: Program, machine: Machine) -> Compiled:
        """Return the compiled program of core `number` on a machine. Another machine
        changes only its costs, unless the compiler rewrites programs."""
        if program is not self.programs[number]:
            return compiled(program, machine, self.order)
        if number not in self._forms:
            self._forms[number] = compiled(program, self._shared, self.order)
        form = self._forms[number]
        if machine is self._shared:
            return form
        if form.policy.rewrites:
            like = form if self._has_same_memories(machine) else None
            return compiled(program, machine, self.order, like)
        return form.changed(table=form.table.on(machine, form.policy))


def _renamed(form: Compiled) -> Compiled:
    """Return the compiled program in which instructions wait only for data
    (`Variation.renamed`)."""
    boxes = form.program.boxes().table
    first, needs = flow.flow_of_data(form.flow.first, form.flow.needs, form.accesses, boxes)
    nothing = {name: getattr(form.flow, name)[:0] for name in ("overwriting", "previous")}
    renamed = form.changed()
    vars(renamed)["flow"] = form.flow._replace(first=first, needs=needs, **nothing)
    return renamed


def _varied(work: Work, variation: Variation) -> Work:
    """Return the work with the times and waits of the variation. `_renamed` has applied
    `Variation.renamed` already."""
    times, loose = variation.times, variation.loose
    if times is not None:
        work = work._replace(**own_kinds(work._asdict(), np.arange(len(times))))
        each = np.ones(len(work.early))
        each[work.kind] = times
        work = work._replace(
            busy=work.busy * times,
            early=work.early * each,
            latency=work.latency * each,
            lane_ns=work.lane_ns * each,
        )
    if variation.joined is not None:
        work = _joined(work, variation.joined)
    if loose is not None:
        bound = ~np.append(loose, False)  # the last entry is for -1, no instruction
        kept = bound[work.needs] & np.repeat(bound[:-1], np.diff(work.first))
        first, needs = flow.kept_waits(work.first, work.needs, kept)
        previous = np.where(bound[work.previous] & bound[:-1, None], work.previous, np.int32(-1))
        work = work._replace(first=first, needs=needs, previous=previous)
    return work


def _joined(work: Work, joined: Array) -> Work:
    """Return the work in which instruction joined[i] also does the work of instruction i, which
    then takes no time; -1 for none."""
    count, members = len(joined), np.flatnonzero(joined >= 0)
    head = np.where(joined >= 0, joined, np.arange(count))
    waiting = owners(work.first)
    mapped = np.append(head, -1).astype(np.int32)  # the last entry is for -1, no instruction
    needs, waiter = mapped[work.needs], head[waiting]
    kept = needs < waiter  # waits for later instructions could form a cycle
    order = np.argsort(waiter[kept], kind="stable")
    first = np.zeros(count + 1, work.first.dtype)
    np.cumsum(np.bincount(waiter[kept], minlength=count), out=first[1:])
    previous = mapped[work.previous]
    earlier = np.where(previous[members] < head[members, None], previous[members], np.int32(-1))
    np.maximum.at(previous, head[members], earlier)
    previous[members] = -1
    previous[previous >= np.arange(count)[:, None]] = -1
    work = work._replace(first=first, needs=needs[kept][order], previous=previous)
    return idle(work, members)
