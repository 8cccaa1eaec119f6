"""Findings from the record of a launch (its instructions) and from its schedule: tiles that don't
fit, and legal code that is slow. `Run.findings` lists the findings of the launch, of this module,
of `races` and of `uses`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.enums import MemoryRegion, engine
from neuroncore.base.findings import Finding
from neuroncore.base.lazy import Lazy
from neuroncore.base.source import Place
from neuroncore.base.units import plural, size
from neuroncore.checks.uses import Uses, carried_reads, overlaps, sums, unplaced
from neuroncore.clause import cost
from neuroncore.clause.instruction import Call
from neuroncore.machine import Machine
from neuroncore.machine.world import World
from neuroncore.memory.geometry import View
from neuroncore.record.columns import ANYWHERE, Area
from neuroncore.record.program import Program, Record
from neuroncore.time.schedule import Timeline

if TYPE_CHECKING:
    from neuroncore.checks import races
else:
    races = Lazy("neuroncore.checks.races")

Array = npt.NDArray[Any]
SHOWN = 4  # the most kinds of tiles that a message lists


class Alive(NamedTuple):
    """The first tile that does not fit (`culprit`), and the tiles that are alive at its first use.

    `kinds`: the number of these tiles by memory, size, name and source line"""

    culprit: Area
    kinds: Counter[Area]


def beyond_capacity(timeline: Timeline) -> Iterator[Finding]:
    """Yield a finding for each memory whose tiles don't fit, at the line of the first tile that
    doesn't."""
    machine, program = timeline.machine, timeline.program
    for region, peak, also in (
        (MemoryRegion.sbuf, timeline.peak_sbuf, "GCA035"),
        (MemoryRegion.psum, timeline.peak_psum, "NLA001"),
    ):
        room = _room(machine, region)
        alive = _first_beyond(program, region, room) if peak > room else None
        if alive is not None:
            listed = _listed(program, alive.kinds)
            message = (
                f"tiles in use at the same time need {size(peak)} of {region.value} per "
                f"partition, and {machine.name} has {size(room)}. The device's compiler would "
                f"refuse the kernel ({also}) or move tiles to HBM and back. The first tile that "
                f"does not fit is {_tile_text(program, alive.culprit)}. The tiles in use at this "
                f"point, including this tile, are: {listed}"
            )
            line = alive.culprit.line
            yield Finding("CAPACITY", message, program.place(line) if line >= 0 else None)


def spilled(timeline: Timeline) -> bool:
    """Return whether the compiler may make room for tiles that do not fit.

    Only the older API's compiler does: it spills tiles from SBUF to HBM, as the estimate includes.
    Tiles beyond PSUM are accepted too, because kernels with such tiles have published times. Tiles
    of one instruction that exceed SBUF are not."""
    if not timeline.compiled.policy.rewrites:
        return False
    return _most_at_once(timeline.program) <= _room(timeline.machine, MemoryRegion.sbuf)


def _most_at_once(program: Program) -> int:
    """Return the largest size of the tiles of one instruction in SBUF, in bytes per partition."""
    uses = Uses(program)
    used, area = np.unique(np.stack([uses.user, uses.area]), axis=1)
    kinds = uses.areas.kinds
    widths = [kind.row_bytes if kind.region is MemoryRegion.sbuf else 0 for kind in kinds]
    bytes_used = np.array(widths, np.int64)[uses.areas.kind[area]]
    return int(np.bincount(used, bytes_used).max(initial=0))


def _room(machine: Machine, region: MemoryRegion) -> int:
    memory = machine.sbuf if region is MemoryRegion.sbuf else machine.psum
    return memory.partition_bytes


def _first_beyond(program: Program, region: MemoryRegion, room: int) -> Alive | None:
    """Return the first tile without an address that does not fit, and the tiles that are alive
    then; None if all fit.

    `room`: the bytes per partition that living tiles may take

    A tile is alive from its first use to its last."""
    uses = Uses(program)
    areas, kinds = uses.areas, program.kinds
    free = np.array([k.region is region and not k.placed for k in kinds], np.bool_)[areas.kind]
    birth = np.full(len(free), len(uses.columns.call), np.int64)
    death = np.full(len(free), -1, np.int64)
    np.minimum.at(birth, uses.area, uses.user)
    np.maximum.at(death, uses.area, uses.user)
    placed = np.flatnonzero(free & (death >= 0))
    bytes_of_tile = np.array([kind.row_bytes for kind in kinds], np.int64)[areas.kind[placed]]
    born, died = np.argsort(birth[placed], kind="stable"), np.argsort(death[placed], kind="stable")
    bytes_of_dead = np.concatenate([[0], np.cumsum(bytes_of_tile[died])])
    dead_before = np.searchsorted(death[placed][died], birth[placed][born])
    alive = np.cumsum(bytes_of_tile[born]) - bytes_of_dead[dead_before]
    beyond = np.flatnonzero(alive > room)
    if not len(beyond):
        return None
    first = placed[born[beyond[0]]]
    when = birth[first]
    alive_then = placed[(birth[placed] <= when) & (death[placed] >= when)]
    count_by_kind = Counter(kinds[kind] for kind in areas.kind[alive_then].tolist())
    return Alive(kinds[int(areas.kind[first])], count_by_kind)


def _listed(program: Program, kinds: Counter[Area]) -> str:
    """Return the kinds of tiles as text. Kinds whose tiles take the most bytes come first."""
    most = sorted(kinds.items(), key=lambda item: -item[0].row_bytes * item[1])
    parts = []
    for kind, count in most[:SHOWN]:
        times = f"{count} x " if count > 1 else ""
        parts.append(f"{times}{_tile_text(program, kind)}")
    rest = sum(kind.row_bytes * count for kind, count in most[SHOWN:])
    return "; ".join([*parts, *([f"others, {size(rest)} in total"] if rest else [])])


def _tile_text(program: Program, kind: Area) -> str:
    where = f" of {program.place(kind.line).short}" if kind.line >= 0 else ""
    return f"{kind.name or 'the tile'}{where} ({size(kind.row_bytes)} per partition)"


# A line gets advice if its slow instructions take more than the share LEAST of the busy time of
# their engine (or of DMA), and more than the share LEAST_OF_ALL of the whole time.
LEAST, LEAST_OF_ALL = 0.1, 0.01
FEW_LANES = 0.25  # an instruction on at most this share of the lanes is slow


class Slow(NamedTuple):
    """A reason why calls are slow.

    `code`: the code of the finding
    `why`: returns the message for a call that is slow for this reason, and None for any other
        call"""

    code: str
    why: Callable[[Call, Machine], str | None]
    of_dma: bool = False  # True if the time is compared with the time of DMA, not of an engine


class LineAdvice(NamedTuple):
    """The advice for a line on one core.

    `share`: the part of the busy time of its engine (or of DMA) that its slow instructions take"""

    finding: Finding
    share: float


def advice(timelines: Sequence[Timeline], world: World) -> Iterator[Finding]:
    """Yield advice for lines with slow instructions.

    It states their share of the busy time of their engine (or of DMA), on the core with the largest
    share. With several ranks, it lists all cores to which it applies."""
    by_line: dict[tuple[str, Place | None], dict[int, LineAdvice]] = {}
    for number, timeline in enumerate(timelines):
        for line_advice in _of_a_core(timeline):
            key = line_advice.finding.code, line_advice.finding.place
            by_line.setdefault(key, {})[number] = line_advice
    for by_core in by_line.values():
        finding = max(by_core.values(), key=lambda line_advice: line_advice.share).finding
        if world.ranks > 1:
            message = f"{finding.message}, on {world.all_named(by_core)}"
            finding = replace(finding, message=message)
        yield finding


def _of_a_core(timeline: Timeline) -> Iterator[LineAdvice]:
    for slow in SLOW:
        calls = timeline.program.calls
        reasons = [slow.why(call, timeline.machine) for call in calls]
        affected = np.array([text is not None for text in reasons], np.bool_)[timeline.columns.call]
        durations = _of_dma(timeline) if slow.of_dma else timeline.busy
        for line in np.flatnonzero(np.bincount(timeline.columns.line[affected])).tolist():
            slow_rows = np.flatnonzero(affected & (timeline.columns.line == line))
            slow_ns, total_ns = float(durations[slow_rows].sum()), float(durations.sum())
            if not slow.of_dma:
                on_queues = np.isin(timeline.queue, timeline.queue[slow_rows])
                total_ns = float(durations[on_queues].sum())
            if slow_ns <= max(LEAST * total_ns, LEAST_OF_ALL * timeline.total_ns):
                continue
            worst = reasons[timeline.columns.call[slow_rows[np.argmax(durations[slow_rows])]]]
            times = plural(len(slow_rows), "call")
            who = "DMA" if slow.of_dma else "its engine's"
            message = f"{worst} ({times}, {slow_ns / total_ns:.0%} of {who} time)"
            place = timeline.program.place(line)
            yield LineAdvice(Finding(slow.code, message, place), slow_ns / total_ns)


def _of_dma(timeline: Timeline) -> Any:
    """Return the nanoseconds of each instruction's DMA transfer if all DMA engines take part."""
    return timeline.transfer_ns * timeline.engines_used / timeline.machine.dma.engines


# --- DMA ------------------------------------------------------------------------------------------


def _ends(call: Call) -> list[View]:
    """Return the views of a DMA transfer's source and destination; an empty list for other
    calls."""
    if call.engine is not engine.dma or not call.instruction.traits.computes:
        return []
    return [view for view in call.views(*call.reads, *call.writes) if view.size]


def _small_elements(call: Call, machine: Machine) -> str | None:
    ends = _ends(call)
    if not ends or _transposes(call, ends):
        return None
    least = min(cost.contiguous(view) * view.dtype.itemsize for view in ends)
    if least >= min(machine.dma.efficient_bytes, *(v.size * v.dtype.itemsize for v in ends)):
        return None
    return (
        f"{call.name} moves runs of {plural(least, 'contiguous byte')}; each run has a fixed cost, "
        f"so runs of less than {machine.dma.efficient_bytes:,} bytes waste time"
    )


def _transposes(call: Call, ends: list[View]) -> bool:
    """Return whether a DMA transfer turns rows of the source into columns, element by element.

    `ends`: the views of source and destination"""
    if call.instruction.traits.transposes:
        return True
    apart = any(cost.contiguous(v) == 1 and _steps(v) and v.free_size > 1 for v in ends)
    return apart and any(not v.on_chip and v.strides[0] == 1 for v in ends if v.shape[0] > 1)


def _steps(view: View) -> bool:
    return any(n > 1 and s > 1 for n, s in zip(view.shape[1:], view.strides[1:], strict=True))


def _transposing(call: Call, machine: Machine) -> str | None:
    ends = _ends(call)
    if not ends or not _transposes(call, ends):
        return None
    least = min(view.dtype.itemsize for view in ends)
    return f"{call.name} transposes by DMA, which moves single elements of {plural(least, 'byte')}"


def _stays_on_chip(call: Call, machine: Machine) -> str | None:
    ends = _ends(call)
    if call.instruction.traits.exchanges or not ends or not all(view.on_chip for view in ends):
        return None
    return f"{call.name} moves data from SBUF to SBUF by DMA, which takes microseconds"


def overlapping_copies(uses: Uses) -> Iterator[Finding]:
    """Yield a finding for each line with a DMA that moves elements within a tensor, from bytes that
    partly overlap its destination.

    There is none if an index of the kernel decides which bytes the DMA reads or writes, or if the
    DMA reads elements repeatedly: they may be copied onto themselves and to other places."""
    columns, bounds = uses.columns, uses.program.box_table()[:, 1:5]
    storage = uses.program.windows().storage[uses.window]
    copies = np.array([_copies_by_dma(call) for call in uses.program.calls], np.bool_)
    operands = np.flatnonzero(copies[columns.call[uses.user]])
    written = operands[uses.writes[operands]]
    result = np.zeros(len(columns.call), np.int64)  # the operand that each copy writes
    result[uses.user[written]] = written
    read = operands[~uses.writes[operands]]
    write = result[uses.user[read]]
    source, target = bounds[uses.box[read]], bounds[uses.box[write]]
    before_end = (source[:, ::2] < target[:, 1::2]) & (target[:, ::2] < source[:, 1::2])
    differs = (source != target).any(axis=1) & before_end.all(axis=1)
    moved = differs & (storage[read] == storage[write])
    overlap = cache(partial(_overlap, uses.program))
    reported: set[int] = set()
    for k, written_to in zip(read[moved].tolist(), write[moved].tolist(), strict=True):
        row = int(uses.user[k])
        line = int(columns.line[row])
        if line not in reported and overlap(int(uses.window[k]), int(uses.window[written_to])):
            reported.add(line)
            yield Finding(
                "OVERLAPPING_COPY",
                f"{uses.call(row).name} writes to bytes that it also reads, at another position",
                uses.line(row),
            )


MOST_WORK = 10_000  # how many solutions of an equation of addresses are tried


def _overlap(program: Program, source: int, target: int) -> bool:
    """Return whether two windows of one tensor certainly share bytes. `Boxes.near` also has pairs
    of windows that only may share bytes."""
    windows = program.windows()
    geometries = [program.geometries[windows.geometry[w]] for w in (source, target)]
    memory = np.empty(geometries[0].layout.nbytes, np.uint8)  # only its addresses are used
    arrays = []
    for w, geometry in zip((source, target), geometries, strict=True):
        offset, (shape, steps) = int(windows.offset[w]), (geometry.shape, geometry.bytes_apart)
        if offset == ANYWHERE or any(n > 1 and not s for n, s in zip(shape, steps, strict=True)):
            return False
        item = geometry.dtype.itemsize
        arrays.append(np.ndarray(shape, f"V{item}", memory, offset * item, steps))
    first, second = arrays
    try:
        return np.shares_memory(first, second, MOST_WORK)  # type: ignore[arg-type]  # numpy's stub
    except np.exceptions.TooHardError:
        return False


def _copies_by_dma(call: Call) -> bool:
    """Return whether a call is a DMA with one result, without an index for each element or
    partition."""
    traits = call.instruction.traits
    moves = call.engine is engine.dma and traits.computes and not traits.exchanges
    is_fixed = all(view.dynamic <= 1 for view in call.views())
    return moves and is_fixed and len(call.writes) == 1


# --- engines --------------------------------------------------------------------------------------


def _few_lanes(call: Call, machine: Machine) -> str | None:
    if call.engine is engine.dma or not (call.reads or call.writes) or _multiplies(call):
        return None
    if all(partitions.letter is None for partitions, _ in call.instruction.shapes.values()):
        return None  # the instruction accepts only operands of one partition
    lanes = max((view.partitions for view in call.views() if view.on_chip), default=0)
    every = machine.limits.partitions
    if not 0 < lanes <= every * FEW_LANES:
        return None
    return f"{call.name} works on {lanes} of {every:,} partitions; the other lanes are idle"


def _multiplies(call: Call) -> bool:
    traits = call.instruction.traits
    return traits.multiplies or (traits.transposes and call.engine is engine.tensor)


def _float32_products(call: Call, machine: Machine) -> str | None:
    if not call.instruction.traits.multiplies or call.transposes:
        return None
    if not any(view.dtype == "float32" for view in call.views(*call.reads)):
        return None
    passes = machine.fixed.float32_passes
    return (
        f"{call.name} multiplies float32: the engine loads the weights {passes} times, and streams "
        "the columns at a lower rate"
    )


SLOW = (
    Slow("SMALL_DMA_ELEMENTS", _small_elements, of_dma=True),
    Slow("TRANSPOSING_DMA", _transposing, of_dma=True),
    Slow("DMA_WITHIN_SBUF", _stays_on_chip, of_dma=True),
    Slow("FEW_LANES", _few_lanes),
    Slow("FLOAT32_PRODUCTS", _float32_products),
)


def recorded(record: Record, timelines: Sequence[Timeline]) -> list[Finding]:
    """Return the findings of a finished launch. Nothing is executed.

    `record`: the program of each core, and the settings of the launch
    `timelines`: the schedule of each core"""
    findings = [finding for timeline in timelines for finding in beyond_capacity(timeline)]
    world = record.setting.world if record.setting else World(cores=len(record.programs))
    used = [*map(Uses, record.programs)]
    threads = sum(max(1, len(program.data.programs) // 2) for program in record.programs)
    if threads > world.ranks:  # if each rank has one thread, no HBM is shared
        findings += races.findings(used, world)
    for uses in used:
        for rule in (overlaps, overlapping_copies, unplaced, sums, carried_reads):
            findings += rule(uses)
    findings += advice(timelines, world)
    return list(dict.fromkeys(findings))
