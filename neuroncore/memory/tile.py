"""A tile: a strided window on a storage, with a number format.

`offset` and `strides` count elements of the tile's format. On the chip, axis 0 is the partition
axis; its stride is the length of a row. Codes are the bits of elements as memory stores them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import (
    BufferKindError,
    DtypeError,
    KernelError,
    OutOfBoundsError,
    ShapeError,
    SignatureError,
    ViewError,
)
from neuroncore.base.units import dimensions
from neuroncore.memory.access import Dims, Flags, Footprint, Gaps, footprint
from neuroncore.memory.geometry import Geometry, View, make_room
from neuroncore.memory.geometry import view as view_of
from neuroncore.memory.register import VirtualRegister
from neuroncore.memory.storage import Image, Storage
from neuroncore.numerics import codec
from neuroncore.numerics.formats import Format, float32

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Dynamic:
    """An offset that is known only when the instruction runs: `step` elements times an index.

    * A scalar index (a register or a [1, 1] tile) moves the whole tile.
    * A vector index (a [P, 1] tile) chooses a row along axis 0 for each partition.
    * A picking index (a [P, K] tile) chooses elements along the free axes
      (`neuroncore.core.indirection`).

    `limit` is the largest index inside the tensor."""

    index: VirtualRegister | Tile
    step: int
    limit: int
    vector: bool = False
    picks: bool = False

    def __post_init__(self) -> None:
        several = self.vector or self.picks
        index, index_name = self.index, "an index" if several else "a run-time index"
        if isinstance(index, VirtualRegister) and not several:
            return
        if not isinstance(index, Tile):
            kinds = "a tile of integers" if several else "a register or a tile"
            raise SignatureError(f"{index_name} must be {kinds}", expected=kinds, got=repr(index))
        if not index.dtype.is_integer:
            statement = f"{index_name} can't be {index.dtype}"
            raise DtypeError(statement, expected="integers", got=str(index))
        if index.region is not MemoryRegion.sbuf:
            raise BufferKindError(f"{index_name} must be in sbuf", expected="sbuf", got=str(index))
        if not several and index.size != 1:
            raise ShapeError(
                f"{index_name} must be one number", expected="the shape (1, 1)", got=str(index)
            )
        if index.dynamic:
            raise ViewError(
                f"{index_name} must have a constant address, not a run-time offset",
                got=str(index),
                hint="first copy the index to another tensor",
            )


T = TypeVar("T", bound="Tile")


class Tile:
    __slots__ = (
        *("storage", "geometry", "shape", "strides", "offset", "dtype", "dynamic"),
        *("held", "fault", "_array", "_signature"),
    )

    def __init__(
        self,
        storage: Storage,
        geometry: Geometry,
        offset: int,
        dynamic: tuple[Dynamic, ...] = (),
        fault: KernelError | None = None,
    ) -> None:
        self.storage, self.offset, self.dynamic = storage, offset, dynamic
        self.geometry = geometry  # the window without the position of its first element
        self.shape, self.strides = geometry.shape, geometry.strides
        self.dtype = dtype = geometry.dtype
        is_storage_format = dtype is storage.dtype
        self.held = (
            storage.held if is_storage_format else storage.held_as(dtype)
        )  # the format of `codes`
        self.fault = fault  # the error that an instruction raises when it uses this tile
        self._array: Array | None = None
        self._signature: View | None = None

    @classmethod
    def of(cls: type[T], storage: Storage) -> T:
        """Return the tile of a whole storage."""
        return cls(storage, storage.layout.whole, 0)

    @classmethod
    def like(cls: type[T], tile: Tile, storage: Storage | None = None) -> T:
        """Return a tile of this class with the window of `tile`, by default on the same storage."""
        if storage is None:
            return cls(tile.storage, tile.geometry, tile.offset, tile.dynamic, tile.fault)
        geometry = storage.layout.geometry(tile.shape, tile.strides, tile.dtype)
        return cls(storage, geometry, tile.offset, tile.dynamic)

    def window(
        self: T,
        shape: Dims,
        strides: Dims,
        offset: int,
        dtype: Format | None = None,
        dynamic: tuple[Dynamic, ...] | None = None,
    ) -> T:
        """Return another window on the same storage."""
        if self.dynamic and self.dynamic[0].picks:
            raise self._pick_error("is an indirect view, and can't be viewed again")
        dynamic = self.dynamic if dynamic is None else dynamic
        if dtype is not None and dtype is not self.dtype:
            self._has_bits_of(dtype)
        geometry = self.storage.layout.geometry(shape, strides, dtype or self.dtype)
        return type(self)(self.storage, geometry, offset, dynamic, self.fault)

    def at(self: T, geometry: Geometry, offset: int) -> T:
        """Return a window on the same storage at `offset`, without run-time offsets."""
        return type(self)(self.storage, geometry, offset, (), self.fault)

    def _has_bits_of(self, dtype: Format) -> None:
        """Raise ViewError unless memory stores this format and `dtype` with the bits of the
        chip."""
        formats = (self.dtype, self.held), (dtype, self.storage.held_as(dtype))
        if any(held.itemsize != form.itemsize for form, held in formats):
            because = "the bits of the narrow format do not exist"
        elif self.storage.spread > 1 and dtype.itemsize != self.dtype.itemsize:
            because = "a tensor at an explicit address has gaps between its bytes"
        else:
            return
        raise ViewError(
            f"{self} can't be viewed as {dtype}",
            because="this run stores narrow formats as float32 (Options.storage or "
            f"NKI_PRECISE_FP=0), so {because}",
            hint="run the kernel without this option",
        )

    # --- geometry --------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def free_size(self) -> int:
        """The number of elements per partition."""
        return prod(self.shape[1:])

    @property
    def region(self) -> MemoryRegion:
        return self.storage.region

    @property
    def row_elements(self) -> int:
        """The number of elements in one row of the storage, in the tile's format."""
        return self.storage.row_bytes // self.dtype.itemsize

    @property
    def byte(self) -> int:
        """The position of the first byte within its partition; in HBM within its storage."""
        return self.storage.byte0 + self.offset * self.dtype.itemsize % self.storage.row_bytes

    @property
    def start_partition(self) -> int:
        row = self.offset * self.dtype.itemsize // self.storage.row_bytes
        return self.storage.partition0 + row if self.storage.on_chip else 0

    @property
    def picks(self) -> Dynamic | None:
        """The index that chooses each element of this view, or None."""
        return self.dynamic[0] if self.dynamic and self.dynamic[0].picks else None

    @property
    def picked_from(self: T) -> T:
        """The tile [P, F] from which the elements are chosen."""
        assert self.picks is not None
        shape = (self.shape[0], self.picks.limit + 1)
        geometry = self.storage.layout.geometry(shape, self.strides, self.dtype)
        return type(self)(self.storage, geometry, self.offset)

    def _pick_error(self, problem: str) -> ViewError:
        return ViewError(
            f"{self} {problem}",
            because="an index in SBUF picks its rows or elements at run time",
            hint="first slice or reshape the tensor, then make the view indirect",
        )

    @property
    def covers_storage(self) -> bool:
        """Return whether every byte of the storage belongs to the tile."""
        return self.geometry.fills

    @property
    def is_storage(self) -> bool:
        """Return whether the tile is the whole storage, in its shape, order and format. Axes of
        size 1 do not matter."""
        whole = self.storage.layout.whole
        if self.dtype is not whole.dtype or self.shape != whole.shape or self.dynamic:
            return False
        axes = zip(self.shape, self.strides, whole.strides, strict=True)
        return self.offset == 0 and all(n == 1 or a == b for n, a, b in axes)

    def signature(self) -> View:
        """Return the View of this tile, which a Call (an instruction without data) stores.

        Raises the error in `fault`, and ShapeError if the tile has no elements."""
        if self._signature is None:
            if self.fault is not None:
                raise self.fault
            if self.geometry.is_empty:
                raise ShapeError(f"{self} has no elements", expected="one element or more")
            geometry = self.geometry
            view = geometry.views.get(self.offset // geometry.apart) or geometry.view(self.offset)
            self._signature = self._at_run_time(view) if self.dynamic else view
        return self._signature

    def _at_run_time(self, fixed: View) -> View:
        """Return the View of this tile with its run-time offset. `fixed` is the View without it."""
        kind, index = 2 if self.dynamic[0].vector else 1, None
        if self.picks is not None:
            assert isinstance(self.picks.index, Tile)
            kind, index = 3, self.picks.index.signature()
        read = sum(isinstance(d.index, Tile) for d in self.dynamic)
        return view_of(
            *(fixed.shape, fixed.strides, fixed.dtype, fixed.region, fixed.partition, fixed.byte),
            *(kind, fixed.stepped, fixed.home, index, read),
        )

    # --- contents --------------------------------------------------------------------------------

    def codes(self) -> Array:
        """Return the elements as a view of the storage, in the stored type of `held`."""
        if self.storage.pending is not None:
            self.storage.pending.finish()
        if self._array is None:
            if self.dynamic and self.dynamic[0].picks:
                raise self._pick_error("has no elements before an instruction picks them")
            storage, geometry = self.storage, self.geometry
            if geometry.is_empty:
                self._array = np.empty(self.shape, self.held.storage)
                return self._array
            moved = (
                self.offset * geometry.element if geometry.element else geometry.start(self.offset)
            )
            start = storage.origin + moved
            self._array = np.ndarray(
                self.shape, self.held.storage, storage.data, start, geometry.steps
            )
        return self._array

    def values(self) -> Array:
        """Return the elements as float32: the memory of float32 tiles, otherwise a new array."""
        codes = self.codes()
        return codes if self.held is float32 else codec.decode(self.held, codes)

    def column(self) -> Array:
        """Return the values of a [P, 1] tile, in a shape that broadcasts along the free axis."""
        return self.values().reshape(self.shape[0], 1)

    def store(self, values: Array) -> None:
        """Write float32 `values` of the tile's size, rounded as the launch requires."""
        codes = self.codes()
        if values.shape != codes.shape:
            values = values.reshape(codes.shape)
        if self.held is float32:
            codes[...] = values
        elif codes.flags.c_contiguous and not np.may_share_memory(values, codes):
            self.rounded(values, codes)
        else:
            codes[...] = self.rounded(values)

    def rounded(self, values: Array, out: Array | None = None) -> Array:
        """Return the codes of float32 values, rounded as the launch requires. `out`: an array for
        the result."""
        launch = self.storage.launch
        assert launch is not None
        return launch.rounding(self.held, values, out)

    def encoded(self, source: Tile, codes: Array) -> Array:
        """Return `codes` of the tile `source` in this tile's format, through float32 if the formats
        differ."""
        if source.held is self.held:
            return codes
        return self.rounded(codec.decode(source.held, codes))

    def numpy(self) -> Array:
        """Return a copy of the contents in the numpy type of the stored format."""
        return np.array(self.codes(), order="C").view(self.held.numpy)

    # --- uninitialized memory --------------------------------------------------------------------

    def _covered(self) -> tuple[int, Footprint]:
        """Return the bytes of this tile in the storage: (position of the first byte, Footprint)."""
        return self.offset * self.dtype.itemsize, self.geometry.footprint

    def _covered_in(self, image: Image) -> tuple[int, Footprint]:
        codes = self.codes()
        start = _address(codes) - _address(image.data)
        return start, footprint(codes.shape, codes.strides, codes.itemsize)

    def flags(self, flags: Flags) -> Array:
        """Return a view of `flags` for this tile's elements, with one more axis if elements have
        several flags."""
        return flags.elements(*self._covered())

    def unwritten(self) -> Array | None:
        """Return whether each element is unwritten since the tensor was allocated; None if none
        is."""
        gaps, geometry = self.storage.gaps, self.geometry
        if gaps is None:
            return None
        return gaps.missing(self.offset * geometry.dtype.itemsize, geometry.footprint)

    def missing(self) -> Array | None:
        """Return whether each element was never written, through any tensor at its address; None if
        none is."""
        missing, image = self.unwritten(), self.storage.image
        if missing is None or image is None:
            return missing
        never = image.gaps.missing(*self._covered_in(image))
        return None if never is None else missing & never

    @property
    def untouched(self) -> bool:
        """True if it is certain, without looking at the elements, that none was ever written."""
        storage = self.storage
        return storage.image is None and storage.gaps is not None and not storage.gaps.written

    @property
    def is_only_written(self) -> bool:
        """True if it is certain that no elements of the storage outside of this tile were
        written."""
        gaps = self.storage.gaps
        return gaps is not None and gaps.has_only(*self._covered())

    def unwritten_value(self, zeros: bool) -> Array:
        """Return the value of an uninitialized element: 0 with `zeros`, otherwise poison
        (`codec.poison`)."""
        code = 0 if zeros else codec.poison(self.held)
        return np.array(code, self.held.code_type).view(self.held.numpy)

    def poison_elements(self, missing: Array, zeros: bool) -> None:
        """Put 0 (with `zeros`) or poison into the elements with a flag in `missing`."""
        codes = self.codes()
        codes[missing] = self.unwritten_value(zeros).view(codes.dtype)

    def mark_written(self, chosen: Array | None = None) -> None:
        """Record that all elements, or only the `chosen` elements, have been written."""
        storage, geometry = self.storage, self.geometry
        gaps = storage.gaps
        if gaps is None:
            return
        if chosen is None and geometry.fills:
            storage.gaps = None
        elif chosen is None and gaps.shared:
            start = self.offset * geometry.dtype.itemsize
            storage.gaps = first_write(storage.nbytes, start, geometry.footprint)
        else:
            if gaps.shared:
                gaps = storage.gaps = Gaps(storage.nbytes)
            if gaps.write(self.offset * geometry.dtype.itemsize, geometry.footprint, chosen):
                storage.gaps = None
        if (image := storage.image) is not None:
            image.gaps.write(*self._covered_in(image), chosen)

    def mark_other_engine(self, other_engine: bool) -> None:
        """Record whether an engine other than Tensor is writing this tile, in PSUM."""
        storage = self.storage
        if storage.other_engine is None and other_engine:
            storage.other_engine = Flags(storage.nbytes)
        if storage.other_engine is not None:
            storage.other_engine.pieces(*self._covered())[...] = other_engine

    def is_from_other_engine(self) -> bool:
        """Return whether an engine other than Tensor was the last to write any of the elements."""
        flags = self.storage.other_engine
        return flags is not None and bool(flags.pieces(*self._covered()).any())

    # --- dynamic offsets -------------------------------------------------------------------------

    def resolved(self: T, name: str = "the tensor") -> T:
        """Return the tile at its current position, which registers and index tiles determine.

        Raises OutOfBoundsError if it leaves the tensor, and ViewError if an index chooses rows or
        elements."""
        if self.dynamic and (self.dynamic[0].vector or self.dynamic[0].picks):
            raise self._pick_error("has no elements before an instruction picks them")
        offset = self.offset
        for dynamic in self.dynamic:
            offset += dynamic.step * index_value(dynamic, name)
        return self.window(self.shape, self.strides, offset, dynamic=())

    def __repr__(self) -> str:
        shape = dimensions(self.shape)
        name = f" {self.storage.name!r}" if self.storage.name else ""
        return f"{type(self).__name__}{name}({shape} {self.dtype} in {self.region.value})"


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def index_value(dynamic: Dynamic, name: str) -> int:
    """Return the current index of a scalar offset. Raises OutOfBoundsError beyond its limit."""
    index = dynamic.index
    value = index.value if isinstance(index, VirtualRegister) else int(index.codes().flat[0])
    if not 0 <= value <= dynamic.limit:
        raise OutOfBoundsError(
            f"the run-time index of {name} is {value}",
            expected=f"use an index from 0 to {dynamic.limit}",
            got=str(value),
            because="the device checks run-time addresses, and stops if one is out of bounds",
            hint="clamp the index, or pass oob_mode=nisa.oob_mode.skip to a DMA",
        )
    return value


FEW = 1 << 10  # the largest number of flags of Gaps that are cached
_gaps: dict[tuple[int, int, Footprint], Gaps] = {}


def first_write(nbytes: int, start: int, covered: Footprint) -> Gaps | None:
    """Return the Gaps of a storage of `nbytes` bytes after its first write; None without gaps.
    `covered` lists the written bytes, and `start` is the byte of the first element."""
    gaps = _gaps.get((nbytes, start, covered))
    if gaps is None:
        gaps = Gaps(nbytes)
        if gaps.write(start, covered):
            return None
        if gaps.mask.size > FEW:
            return gaps
        make_room(_gaps)
        _gaps[nbytes, start, covered] = gaps
    return gaps.another()
