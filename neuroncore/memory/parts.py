"""Parts of tiles: what an index means, but for where it begins, is the same of all tiles that lie
alike, and is made once. Loops only move where their parts begin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from neuroncore.memory import geometry
from neuroncore.memory.access import Dims
from neuroncore.memory.tile import Tile

T = TypeVar("T", bound=Tile)


class Form:
    """How an affine index goes on from its start: by `steps` along axes of sizes `shape`, and so
    from `low` below the start to `high` above it."""

    __slots__ = ("high", "low", "shape", "steps")

    def __init__(self, shape: Dims, steps: Dims) -> None:
        self.shape, self.steps = shape, steps
        reach = [(n - 1) * s for n, s in zip(shape, steps, strict=True)]
        self.low = sum(r for r in reach if r < 0)
        self.high = sum(r for r in reach if r > 0)


_forms: dict[tuple[Dims, Dims], Form] = {}


def form(shape: Dims, steps: Dims) -> Form:
    """The Form of these sizes and steps."""
    found = _forms.get((shape, steps))
    if found is None:
        geometry.make_room(_forms)
        found = _forms.setdefault((shape, steps), Form(shape, steps))
    return found


class Affine:
    """An index of one axis of a tensor, over the axes of a tile."""

    __slots__ = ("form", "start")
    form: Form
    start: int


def part(tile: T, keys: tuple[Any, ...], make: Callable[[tuple[Any, ...]], T]) -> T:
    """The part of a tile that an index means: as `make` makes it, once for all indices and tiles
    that are alike. An index that isn't inside, or has others than integers, slices without a step
    and Affines, is always made."""
    shape, strides, offset = tile.shape, tile.strides, tile.offset
    if tile.dynamic or tile.fault is not None or len(keys) > len(shape):
        return make(keys)
    alike: tuple[Any, ...] = ()  # with all indices that mean the same, but for where that begins
    axis, sliced = 0, True
    for k in keys:
        if type(k) is slice and k.step is None:
            start, stop = k.start, k.stop
            if start is None and stop is None:
                alike += (shape[axis],)
                axis += 1
                continue
            start = 0 if start is None else start
            stop = shape[axis] if stop is None else stop
            if not (isinstance(start, int) and isinstance(stop, int)):
                return make(keys)
            if not 0 <= start < stop <= shape[axis]:
                return make(keys)
            alike += (stop - start,)
        elif isinstance(k, Affine):
            start, sliced = k.start, False
            if start + k.form.low < 0 or start + k.form.high >= shape[axis]:
                return make(keys)
            alike += (k.form,)
        elif isinstance(k, int) and type(k) is not bool and 0 <= k < shape[axis]:
            start, sliced = k, False
            alike += (0,)  # the axis goes away
        elif k is ... and len(keys) == 1:
            break
        else:
            return make(keys)
        offset += start * strides[axis]
        axis += 1
    known = tile.geometry.parts.get(alike)
    if known is not None:
        found = type(tile)(tile.storage, known, offset)
        if sliced and tile._array is not None:
            found._array = tile._array[keys]  # takes half of what an array of its own does
        return found
    made = make(keys)
    tile.geometry.note_part(alike, made.geometry)
    return made
