"""Tiles that don't fit: the first of them, and the tiles that are alive at that point."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.enums import MemoryRegion
from neuroncore.base.findings import Finding
from neuroncore.base.units import size
from neuroncore.checks.uses import Uses
from neuroncore.machine import Machine
from neuroncore.record.program import Program
from neuroncore.record.storages import Area
from neuroncore.time.schedule import Timeline

Array = npt.NDArray[Any]
SHOWN = 6  # lines whose tiles are listed


class Alive(NamedTuple):
    """The tiles that are alive where a tile is made that doesn't fit, and the kind of that tile."""

    culprit: Area
    bytes_needed: int
    kinds: Counter[Area]


def findings(timeline: Timeline) -> Iterator[Finding]:
    """Return a finding for each memory whose tiles don't fit at some point of the program, at the
    line that makes the first tile that doesn't fit."""
    machine, program = timeline.machine, timeline.program
    for region, peak, also in (
        (MemoryRegion.sbuf, timeline.peak_sbuf, "GCA035"),
        (MemoryRegion.psum, timeline.peak_psum, "NLA001"),
    ):
        room = _room(machine, region)
        alive = _first_beyond(program, region, room) if peak > room else None
        if alive is not None:
            message = (
                f"the tiles that are alive at one point need {peak} bytes of {region.value} per "
                f"partition; {machine.name} has {room}: the device's compiler would spill or "
                f"refuse them ({also}). {_described(alive.culprit)} is the first that does not "
                f"fit; alive with it are {_listed(program, alive.kinds)}"
            )
            line = alive.culprit.line
            yield Finding("CAPACITY", message, program.place(line) if line >= 0 else None)


def _room(machine: Machine, region: MemoryRegion) -> int:
    memory = machine.sbuf if region is MemoryRegion.sbuf else machine.psum
    return memory.partition_bytes


def _first_beyond(program: Program, region: MemoryRegion, room: int) -> Alive | None:
    """Return the first tile that the system cannot place, and the tiles that are alive then. A tile
    lives from its first use to its last."""
    uses = Uses(program)
    areas, kinds = uses.areas, program.kinds
    free = np.array([k.region is region and not k.placed for k in kinds], np.bool_)[areas.kind]
    birth = np.full(len(free), len(uses.columns.call), np.int64)
    death = np.full(len(free), -1, np.int64)
    np.minimum.at(birth, uses.area, uses.user)
    np.maximum.at(death, uses.area, uses.user)
    placed = np.flatnonzero(free & (death >= 0))
    taken = np.array([kind.row_bytes for kind in kinds], np.int64)[areas.kind[placed]]
    born, died = np.argsort(birth[placed], kind="stable"), np.argsort(death[placed], kind="stable")
    given_back = np.concatenate([[0], np.cumsum(taken[died])])
    gone = np.searchsorted(death[placed][died], birth[placed][born])
    alive = np.cumsum(taken[born]) - given_back[gone]
    beyond = np.flatnonzero(alive > room)
    if not len(beyond):
        return None
    first = placed[born[beyond[0]]]
    when = birth[first]
    among = placed[(birth[placed] <= when) & (death[placed] >= when)]
    counted = Counter(kinds[kind] for kind in areas.kind[among].tolist())
    return Alive(kinds[int(areas.kind[first])], int(alive[beyond[0]]), counted)


def _listed(program: Program, kinds: Counter[Area]) -> str:
    """Return the kinds as text, the largest first."""
    most = sorted(kinds.items(), key=lambda item: -item[0].row_bytes * item[1])
    parts = []
    for kind, count in most[:SHOWN]:
        where = f" of {program.place(kind.line).short}" if kind.line >= 0 else ""
        times = f"{count} times " if count > 1 else ""
        parts.append(f"{times}{_described(kind)}{where}")
    rest = sum(kind.row_bytes * count for kind, count in most[SHOWN:])
    return "; ".join([*parts, *([f"others of {size(rest)}"] if rest else [])])


def _described(kind: Area) -> str:
    return f"{kind.name or 'a tile'} ({size(kind.row_bytes)} per partition)"
