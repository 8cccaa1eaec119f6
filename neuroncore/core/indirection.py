"""Tensor indirection: operands whose elements an index in SBUF picks along the free axes.

A group of consecutive partitions shares its offsets. They are stored in a snake through the rows
that the index has for the group: offset i is in row i % G and column i // G, G by the machine and
the engine (`group`).

While an instruction runs, such an operand is a tile of its own: what it reads is gathered before,
what it has written is scattered afterwards. Its meaning knows of nothing. Of several elements that
go to one place the last stays there (unpublished).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from neuroncore.clause.instruction import Call
from neuroncore.clause.operand import PSUM, SBUF, Operand
from neuroncore.enums import engine
from neuroncore.errors import (
    BufferKindError,
    KernelError,
    OutOfBoundsError,
    ShapeError,
    StartPartitionError,
    ViewError,
)
from neuroncore.machine import Machine
from neuroncore.memory import access
from neuroncore.memory.gaps import Gaps
from neuroncore.memory.geometry import View, unplaced
from neuroncore.memory.storage import Storage
from neuroncore.memory.tile import Array, Tile


def group(unit: engine, machine: Machine) -> int:
    """Partitions that share their offsets (ISA, `NkiTensor.indirect`)."""
    limits = machine.limits
    of_tensor = unit is engine.tensor
    return limits.indirect_partitions_tensor if of_tensor else limits.indirect_partitions


# --- legality -------------------------------------------------------------------------------------


def violations(call: Call, machine: Machine) -> Iterator[KernelError]:
    """What is wrong with the indices of a call, whatever the instruction (ISA)."""
    picked = {n: v for n, v in call.arguments.items() if isinstance(v, View) and v.picked_by}
    for name, view in picked.items():
        yield from _index_problems(name, view, call, machine)
    takers = {p.name: p.operand for p in call.instruction.operands if p.operand}
    takers = {n: operand for n, operand in takers.items() if operand.indirect}
    lead = next((n for n, operand in takers.items() if operand.reads), "")
    for name, operand in takers.items():
        if operand.index_of and (name in picked) != (operand.index_of in picked):
            yield _one_of_two(name, operand.index_of, call)
        if name not in picked or operand.index_of:
            continue
        view = picked[name]
        if operand.reads:
            yield from _starts_apart(name, name, view, "its index", view, machine)
        elif isinstance(call.arguments.get(lead), View):
            yield from _scatters(name, view, lead, call.view(lead), machine)
        if operand.writes and call.engine is engine.scalar and view.region is PSUM:
            yield BufferKindError(
                f"{call.name}: the Scalar engine can't scatter to {name} in psum",
                argument=name,
                expected="sbuf, or another engine",
                got=str(view),
            )


def _one_of_two(name: str, other: str, call: Call) -> KernelError:
    return ViewError(
        f"{call.name}: one of {other} and {name} is an indirect view",
        argument=name,
        expected="both, with the same index, or neither",
        got=f"{other}: {call.view(other)}; {name}: {call.view(name)}",
        because="numbers and their scales are one tensor in two pieces",
    )


def _index_problems(name: str, view: View, call: Call, machine: Machine) -> Iterator[KernelError]:
    index, size = view.picked_by, group(call.engine, machine)
    quadrant = machine.limits.quadrant
    assert index is not None
    if all(start % quadrant for start in _starts(index, machine)):
        yield StartPartitionError(
            f"the index of {name} starts at partition {index.partition}",
            argument=name,
            expected=f"a multiple of {quadrant}",
            got=f"partition {index.partition}",
            because="an index starts on a quadrant boundary",
        )
    if index.stepped:
        yield StartPartitionError(
            f"the index of {name} leaves out partitions",
            argument=name,
            expected="consecutive partitions",
            got=f"{index}, strides {index.strides}",
        )
    rows = (index.partitions - 1) % size + 1  # of the last group
    most = size * index.free_size if rows == size else rows
    if view.free_size > most:
        yield ShapeError(
            f"{call.name}: {name} picks {view.free_size} elements, its index has {most} for "
            + (f"each {size} partitions" if rows == size else f"the last {rows} partitions"),
            argument=name,
            expected=f"num_elem <= {most}",
            got=f"num_elem={view.free_size}, index {index}",
            because=f"offset i is in row i % {size} and column i // {size} of the {size} "
            f"partitions that share it on the {call.engine.name} engine",
            hint="pass num_elem to tensor.indirect; its default is all elements of the index",
        )


def _scatters(
    name: str, view: View, lead: str, source: View, machine: Machine
) -> Iterator[KernelError]:
    """The index of what is written begins where what is read begins, or the index of that."""
    what = f"the index of {name}"
    if source.region is SBUF:
        yield from _starts_apart(name, lead, source, what, view, machine)
    elif source.picked_by is not None:
        index_of = f"the index of {lead}"
        yield from _starts_apart(name, index_of, source.picked_by, what, view, machine)


def _starts_apart(
    argument: str, name: str, view: View, what: str, picked: View, machine: Machine
) -> Iterator[KernelError]:
    index = picked.picked_by
    assert index is not None
    if _starts(view, machine) & _starts(index, machine):
        return
    yield StartPartitionError(
        f"{name} starts at partition {view.partition}, {what} at partition {index.partition}",
        argument=argument,
        expected="the same first partition",
        got=f"partitions {view.partition} and {index.partition}",
        because="offsets are read by the lanes whose elements they pick",
        hint="give both the same first partition in `address`",
    )


def _starts(view: View, machine: Machine) -> set[int]:
    """Where it starts, or may start if the system places it."""
    bases = machine.starts(view.home) if view.home else (0,)
    return {base + view.partition for base in bases}


# --- gathering and scattering ---------------------------------------------------------------------

Check = Callable[[str, Tile, Array], None]  # told of an operand which elements are read


class Picked(Tile):
    """The elements that an index picks, in a tile of their own for as long as an instruction runs.

    They come from places [P, num_elem] along the free axis of `source`, which are the same in each
    `group` of partitions. `never` flags those that nothing has written.
    """

    __slots__ = ("group", "never", "places", "source")

    source: Tile
    places: Array
    group: int
    never: Array | None

    def missing(self) -> Array | None:
        return self.never


def places(name: str, tile: Tile, size: int, check: Check) -> Array:
    """Where along the free axis each element is, [P, num_elem]; `size` partitions share offsets.

    Raises OutOfBoundsError if that is outside the tensor.
    """
    assert tile.picks is not None
    index, limit = tile.picks.index, tile.picks.limit
    assert isinstance(index, Tile)
    partitions, count = tile.shape
    first, i = np.arange(0, partitions, size)[:, np.newaxis], np.arange(count)
    rows, columns = first + i % size, i // size
    used = np.zeros(index.shape, np.bool_)
    used[rows, columns] = True
    check(f"the index of {name}", index, used)
    offsets = index.codes()[rows, columns].astype(np.int64)
    beyond = np.argwhere((offsets < 0) | (offsets > limit))
    if len(beyond):
        g, place = beyond[0]
        last = min(first[g, 0] + size, partitions) - 1
        raise OutOfBoundsError(
            f"offset {place} of {name} for partitions {first[g, 0]} to {last} is "
            f"{offsets[g, place]}",
            argument=name,
            expected=f"0 to {limit}",
            got=f"{offsets[g, place]} in [{rows[g, place]}, {columns[place]}] of its index",
            because=f"a partition of {name} has {limit + 1} elements",
        )
    everywhere: Array = offsets[np.arange(partitions) // size]
    return everywhere


def pick(name: str, tile: Tile, chosen: Array, size: int, operand: Operand, check: Check) -> Picked:
    """Gather the elements at `chosen` places, the same for `size` partitions."""
    source = tile.picked_from
    if operand.reads and not operand.partial:
        used = np.zeros(source.shape, np.bool_)
        np.put_along_axis(used, chosen, True, 1)
        check(name, source, used)
    old = source.storage
    place = source.start_partition, source.byte
    lies = unplaced(tile.region, tile.shape, tile.dtype, source.held, place)
    storage = Storage(old.id, lies, source.held, old.name)
    storage.born, storage.launch = old.born, old.launch
    codes = np.ascontiguousarray(np.take_along_axis(source.codes(), chosen, 1))
    storage.data = codes.reshape(-1).view(np.uint8)
    made = Picked.of(storage)
    made.source, made.places, made.group, made.never = source, chosen, size, None
    if operand.partial or operand.writes:
        _copy_history(made, fresh=operand.writes and operand.partial)
    return made


def _copy_history(tile: Picked, fresh: bool) -> None:
    """Which elements have been written; `fresh` begins anew, to see which will be."""

    def at_places(flags: Array | None) -> Array | None:
        return None if flags is None else np.take_along_axis(flags, tile.places, 1)

    source, storage = tile.source, tile.storage
    tile.never = at_places(source.missing())
    unwritten = at_places(source.unwritten())
    if fresh or unwritten is not None:
        storage.gaps = Gaps(storage.nbytes)
    if not fresh and unwritten is not None:
        tile.mark_written(~unwritten)


def scatter(tile: Picked, partial: bool) -> None:
    """Write out what the instruction has left in the tile: all of it, or what it has marked."""
    source, skipped = tile.source, tile.unwritten() if partial else None
    numbers = np.arange(tile.free_size, dtype=np.int32)
    if skipped is None:  # the partitions of a group agree
        last = _last(tile.places[:: tile.group], numbers, source.free_size)
        last = np.repeat(last, tile.group, axis=0)[: len(tile.places)]
    else:
        last = _last(tile.places, np.where(skipped, np.int32(-1), numbers), source.free_size)
    written = last >= 0
    source.codes()[written] = np.take_along_axis(tile.codes(), last, 1)[written]
    source.mark_written(written)


def _last(chosen: Array, numbers: Array, size: int) -> Array:
    """Which is the last of the numbered elements that go to each of `size` places; -1 if none."""
    last = np.full((len(chosen), size), -1, np.int32)
    rows = np.arange(len(chosen))[:, np.newaxis]
    np.maximum.at(last, (rows, chosen), np.broadcast_to(numbers, chosen.shape))
    return last


def same_index(name: str, tile: Tile, other_name: str, other: Tile) -> KernelError | None:
    """An error unless one index picks from both."""

    def spot(index: Any) -> tuple[Any, ...]:
        steps = access.long_axes(index.shape, index.strides)
        return index.storage.id, index.offset, index.shape, steps, index.dtype

    if tile.picks and other.picks and spot(tile.picks.index) == spot(other.picks.index):
        return None
    return ViewError(
        f"{name} and {other_name} are picked by different indices",
        argument=name,
        expected=f"the index of {other_name}",
        because="numbers and their scales are one tensor in two pieces",
    )
