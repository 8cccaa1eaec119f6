"""Parts of tiles, which indices select.

The shape and strides of a part depend only on the index and the layout, and are computed once. In a
loop, only the position of the first element is computed again."""

from __future__ import annotations

from typing import Any, TypeVar

from neuroncore.memory.access import Dims
from neuroncore.memory.geometry import make_room
from neuroncore.memory.tile import Tile


class IndexForm:
    """The elements that an affine index selects, relative to the first.

    `shape`, `steps`: the sizes of axes, and the distances between elements
    `low`, `high`: the least and the greatest position"""

    __slots__ = ("_negative", "high", "low", "shape", "steps")

    def __init__(self, shape: Dims, steps: Dims) -> None:
        self.shape, self.steps = shape, steps
        self._negative: IndexForm | None = None
        reach = [(n - 1) * s for n, s in zip(shape, steps, strict=True)]
        self.low = sum(r for r in reach if r < 0)
        self.high = sum(r for r in reach if r > 0)

    @property
    def negative(self) -> IndexForm:
        """Return the form with the opposite steps."""
        if self._negative is None:
            self._negative = form(self.shape, tuple(-s for s in self.steps))
        return self._negative


_forms: dict[tuple[Dims, Dims], IndexForm] = {}


def form(shape: Dims, steps: Dims) -> IndexForm:
    """Return the IndexForm with these sizes and steps."""
    known = _forms.get((shape, steps))
    if known is None:
        make_room(_forms)
        known = _forms.setdefault((shape, steps), IndexForm(shape, steps))
    return known


class Affine:
    """An index along one axis of a tensor: an affine function of the position in a tile. Its value
    is `start` at the first element. `form` lists its steps along the axes of the tile."""

    __slots__ = ("form", "start")
    form: IndexForm
    start: int


T = TypeVar("T", bound="Parted")
new = object.__new__


class Parted(Tile):
    """A tile that can be indexed. Each API defines which indices are supported."""

    __slots__ = ()

    def by_keys(self: T, keys: tuple[Any, ...], /) -> T:
        """Return the part that the indices of the axes select. Raises a KernelError for an illegal
        index."""
        raise NotImplementedError

    def __getitem__(self: T, key: Any) -> T:
        """Return the part that an index selects. For integers, slices without a step and Affines,
        `by_keys` makes the part once for equal layouts; then only its position is computed. Other
        indices, and indices out of bounds, always call `by_keys`."""
        keys, shape = key if isinstance(key, tuple) else (key,), self.shape
        if self.dynamic or self.fault is not None or len(keys) > len(shape):
            return self.by_keys(keys)
        common: list[Any] = []  # the properties of the indices without their first elements
        offset, axis, sliced = self.offset, 0, True
        for k in keys:
            size = shape[axis]
            if type(k) is slice and k.step is None:
                start, stop = k.start, k.stop
                if start is None:
                    if stop is None:
                        common.append(size)
                        axis += 1
                        continue
                    start = 0
                elif stop is None:
                    stop = size
                if not (isinstance(start, int) and isinstance(stop, int)):  # a register
                    return self.by_keys(keys)
                if not 0 <= start < stop <= size:
                    return self.by_keys(keys)
                common.append(stop - start)
            elif isinstance(k, Affine):
                start, sliced = k.start, False
                if start + k.form.low < 0 or start + k.form.high >= size:
                    return self.by_keys(keys)
                common.append(k.form)
            elif isinstance(k, int) and type(k) is not bool and 0 <= k < size:
                start, sliced = k, False
                common.append(0)  # an integer removes its axis
            elif k is ... and len(keys) == 1:
                break
            else:
                return self.by_keys(keys)
            if start:
                offset += start * self.strides[axis]
            axis += 1
        alike, geometry = tuple(common), self.geometry
        known = geometry.parts.get(alike)
        if known is None:
            part = self.by_keys(keys)
            geometry.note_part(alike, part.geometry)
            return part
        # faster than calling `Tile.__init__`: kernels make most of their tiles here
        tile = new(type(self))
        tile.storage, tile.offset, tile.dynamic, tile.fault = self.storage, offset, (), None
        tile.geometry, tile.shape, tile.strides = known, known.shape, known.strides
        tile.dtype, tile.held = self.dtype, self.held
        tile._signature = known.views.get(offset // known.apart)
        tile._array = None
        if sliced:
            array = self.codes() if self._array is None and geometry.fills else self._array
            if array is not None:
                tile._array = array[key]  # faster than making a new array
        return tile
