"""What-if changes of a launch: the same instructions are scheduled again with a change, for example
a faster engine. Some changes are neither in the program nor in the machine, such as waits that
disappear. A Variation describes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from neuroncore.machine import Machine
from neuroncore.record.program import Program
from neuroncore.time.path import PathParts
from neuroncore.time.queues import QUEUES, SYNC
from neuroncore.time.schedule import Timeline
from neuroncore.time.variation import AS_IT_IS, Bench, Variation

ENDLESS = 1 << 20  # SBUF and PSUM that are this many times as large never fill up


@dataclass(frozen=True, eq=False)
class Change:
    """A changed launch that can be scheduled.

    `what`: what changes
    `how`: how it changes, in words
    `programs`: the program of each core
    `variations`: the variation of each core
    `bench`: schedules `programs` on `machine`"""

    what: str
    how: str
    bench: Bench
    programs: Sequence[Program]
    machine: Machine
    variations: Sequence[Variation]

    def scheduled(self, core: int) -> Timeline:
        return self.timelines()[core]

    def timelines(self) -> list[Timeline]:
        """Return the timelines of all cores."""
        return self.bench.timelines(self.programs, self.machine, self.variations)

    def __str__(self) -> str:
        return f"{self.what} {self.how}"


@dataclass(frozen=True)
class Resource:
    """A resource that may limit a kernel, and a change that gives the kernel more of it.

    `how`: the change in words
    `machine`: returns a machine with more of the resource
    `saves`: returns the most nanoseconds that the change can save, from the parts of the critical
        path
    `renamed`: whether every result also gets separate space (`Variation.renamed`)"""

    name: str
    how: str
    machine: Callable[[Machine], Machine]
    saves: Callable[[PathParts], float]
    renamed: bool = False

    def change(self, base: Change) -> Change:
        """Return the change `base` with more of this resource added."""
        variations = [replace(v, renamed=self.renamed or v.renamed) for v in base.variations]
        machine = self.machine(base.machine)
        return replace(base, what=self.name, how=self.how, machine=machine, variations=variations)


def as_it_is(timeline: Timeline) -> Change:
    """Return the unchanged launch of a timeline, to which changes can be applied."""
    return Change(
        what="nothing",
        how="",
        bench=_bench(timeline),
        programs=timeline.launch,
        machine=timeline.machine,
        variations=[AS_IT_IS] * len(timeline.launch),
    )


def _bench(timeline: Timeline) -> Bench:
    forms = {timeline.core: timeline.compiled}
    return Bench(timeline.launch, timeline.machine, timeline.order, timeline.world, forms)


def _faster(engine: str, machine: Machine) -> Machine:
    unit = machine.engines[engine]
    twice = replace(unit, clock_ghz=2 * unit.clock_ghz)
    return replace(machine, engines={**machine.engines, engine: twice})


def _with_dma(machine: Machine, **numbers: Any) -> Machine:
    return replace(machine, dma=replace(machine.dma, **numbers))


def _bandwidth(machine: Machine) -> Machine:
    hbm, dma = machine.hbm, machine.dma
    stack = replace(hbm, stack_gigabytes_per_s=2 * hbm.stack_gigabytes_per_s)
    twice = 2 * dma.gigabytes_per_s_per_engine
    return replace(_with_dma(machine, gigabytes_per_s_per_engine=twice), hbm=stack)


def _rows(machine: Machine) -> Machine:
    names = ("packet_ns", "run_ns", "repeated_read_ns", "transfer_ns")
    return _with_dma(machine, **dict.fromkeys(names, 0.0))


def _issue(machine: Machine) -> Machine:
    names = ("issue_ns", "hardware_issue_ns", "software_descriptor_ns")
    more = ("gpsimd_issue_ns", "gpsimd_descriptor_ns")
    return _with_dma(machine, **dict.fromkeys((*names, *more), 0.0))


def _transfer_latency(machine: Machine) -> Machine:
    names = ("load_latency_ns", "store_latency_ns")
    more = ("gpsimd_load_latency_ns", "gpsimd_store_latency_ns")
    return _with_dma(machine, **dict.fromkeys((*names, *more), 0.0))


def _engines(machine: Machine, **numbers: Any) -> Machine:
    units = {name: replace(unit, **numbers) for name, unit in machine.engines.items()}
    return replace(machine, engines=units)


def _latency(machine: Machine) -> Machine:
    return _fixed(_engines(machine, latency_ns=0.0), semaphore_ns=0.0)


def _overhead(machine: Machine) -> Machine:
    names = ("min_interval_cycles", "overhead_cycles", "sbuf_access_cycles", "column_cycles")
    more = ("accumulator_read_cycles", "gpsimd_start_cycles", "dynamic_address_cycles")
    return _fixed(_engines(machine, **dict.fromkeys(names, 0)), **dict.fromkeys(more, 0))


def _fixed(machine: Machine, **numbers: Any) -> Machine:
    return replace(machine, fixed=replace(machine.fixed, **numbers))


def _space(machine: Machine) -> Machine:
    sbuf = replace(machine.sbuf, usable_bytes=ENDLESS * machine.sbuf.usable_bytes)
    psum = replace(machine.psum, partition_bytes=ENDLESS * machine.psum.partition_bytes)
    return replace(machine, sbuf=sbuf, psum=psum)


def _of_queue(name: str, parts: PathParts) -> float:
    return parts.work.get(name, 0.0) / 2


def _work(parts: PathParts) -> float:
    return sum(parts.work.values())


ENGINES = tuple(
    Resource(name, "twice as fast", partial(_faster, name.lower()), partial(_of_queue, name))
    for name in QUEUES[:SYNC]
)
RESOURCES = (
    *ENGINES,
    Resource("DMA bandwidth", "twice as high", _bandwidth, lambda p: p.moves),
    Resource("DMA rows", "at no cost", _rows, lambda p: p.moves),
    Resource("DMA issue", "at no cost", _issue, lambda p: p.issue + p.moves),
    Resource("DMA latency", "removed", _transfer_latency, lambda p: p.transfer_latency),
    Resource("latency", "removed", _latency, lambda p: p.latency + p.transfer_latency),
    Resource("overhead", "removed", _overhead, _work),
    Resource(
        "warm-up", "removed", partial(_fixed, clock_window_ns=0.0), partial(_of_queue, "Tensor")
    ),
    Resource(
        "activation tables", "loaded in no time", partial(_fixed, activation_table_ns=0.0),
        lambda p: p.work.get("Scalar", 0.0),
    ),
    Resource("space", "unlimited", _space, lambda p: float("inf"), renamed=True),
)  # fmt: skip
