"""The memories of one core: HBM, SBUF and PSUM, and the storage in them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from math import prod
from types import CodeType
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.enums import ON_CHIP, MemoryRegion
from neuroncore.errors import (
    CapacityError,
    NotEmulated,
    OutOfBoundsError,
    PartitionLimitError,
    ShapeError,
    SignatureError,
    StartPartitionError,
)
from neuroncore.machine import Machine, Psum, Sbuf
from neuroncore.memory import geometry
from neuroncore.memory.access import Dims
from neuroncore.memory.gaps import Gaps
from neuroncore.memory.geometry import Layout
from neuroncore.native import buffers
from neuroncore.numerics import codec
from neuroncore.numerics.formats import Format, float32

Array = npt.NDArray[Any]
Rounding = Callable[..., Array]  # of a format, values, and where to put the codes, if anywhere
Born = tuple[CodeType, int] | None  # code object and bytecode offset of the line that allocated it


class Storage:
    """One allocation. On chip it is rows of `row_bytes`, one per partition; in HBM it is one row.

    `data` has an element's bytes `spread` times as far apart as the chip has them, rows `pitch`
    bytes apart. Elements are in it as codes of `held`, which is `dtype` unless narrow formats are
    held as float32 (Options.storage).
    """

    __slots__ = (
        *("id", "region", "shape", "dtype", "name", "born", "on_chip", "partitions", "row_bytes"),
        *("pitch", "data", "origin", "partition0", "byte0", "placed", "gaps", "image", "foreign"),
        *("launch", "version", "scope", "held", "spread", "double", "_layout", "__weakref__"),
    )

    def __init__(
        self, identity: int, region: MemoryRegion, shape: tuple[int, ...], dtype: Format, name: str
    ) -> None:
        self.id = identity
        self.region, self.shape, self.dtype, self.name = region, shape, dtype, name
        self.born: Born = None
        self.on_chip = region in ON_CHIP
        self.partitions = shape[0] if self.on_chip else 1
        self.row_bytes = prod(shape[1:] if self.on_chip else shape) * dtype.itemsize
        self.held, self.spread = dtype, 1
        self.pitch = self.row_bytes
        self.data: Array
        self.origin = 0  # of the first byte, in `data`
        self.partition0 = 0  # of the first row, on the chip
        self.byte0 = 0  # of the first column, within its partition
        self.placed = False  # at an address that the kernel chose
        self.gaps: Gaps | None = None
        self.image: Image | None = None  # what an address refers to
        self.version = 0  # counts the instructions that have written to it
        self.scope: Any = None  # the loop iteration it was made in, in a dialect that has those
        self.launch: Hbm | None = None  # whose it is: a tensor ends with the launch that made it
        self.double: Any = None  # the elements in float64, if they differ (`precision`)
        self.foreign: Gaps | None = None  # PSUM: flags what others than the Tensor engine wrote
        self._layout: Layout | None = None

    @property
    def nbytes(self) -> int:
        """On the chip."""
        return self.partitions * self.row_bytes

    @property
    def layout(self) -> Layout:
        """What it has in common with others. Its place and format are settled before it is asked
        for, which tiles do."""
        if self._layout is None:
            self._layout = geometry.layout(
                *(self.region, self.shape, self.dtype, self.spread, self.pitch),
                *((self.partition0, self.byte0), self.placed),
            )
        return self._layout

    def held_as(self, dtype: Format) -> Format:
        """The format that elements of another format are held in, where they are viewed so."""
        return dtype if self.launch is None else self.launch.held(dtype)

    def hold(self, held: Format) -> None:
        """Keep the elements as codes of a format that is a whole number of times as wide."""
        self.held, self.spread = held, held.itemsize // self.dtype.itemsize
        self.pitch = self.row_bytes * self.spread


class Image:
    """The bytes of SBUF or PSUM themselves, for storage at addresses that the kernel chose, each
    `spread` times as wide as on the chip."""

    def __init__(self, identity: int, size: Sbuf | Psum, spread: int) -> None:
        self.id = identity
        self.rows, self.row_bytes, self.spread = size.partitions, size.partition_bytes, spread
        # 192, 224 or 256 KiB apart, all rows would share the same few sets of a cache
        self.pitch = size.partition_bytes * spread + buffers.CACHE_LINE
        self.data = buffers.fresh(self.rows * self.pitch)
        self.gaps = Gaps(self.data.nbytes, 1)


def _described(storage: Storage) -> str:
    named = f"tensor {storage.name!r}" if storage.name else "the tensor"
    return f"{named} ({' x '.join(map(str, storage.shape))})"


class Hbm:
    """The main memory that the cores of one launch have in common.

    A kernel is one program for all its cores, so what it allocates in shared HBM is one tensor: the
    n-th of a name that one core allocates is the n-th that another does. `rounding` makes codes of
    float32 values, as all engines of the launch do when they write results. With `wide`, floats
    narrower than float32 are held as float32, in every memory.
    """

    def __init__(self, rounding: Rounding = codec.encode, wide: bool = False) -> None:
        self.rounding, self.wide = rounding, wide
        self.lasting = 0  # bytes of arguments and of what outlives the kernel
        self.ids = itertools.count()
        self.tensors: dict[tuple[str, int], Storage] = {}

    def held(self, dtype: Format) -> Format:
        """The format that elements of `dtype` are held in."""
        return float32 if self.wide and dtype.is_float else dtype


class Memory:
    """Hands out the storage of one core.

    What the kernel lets the system place gets bytes of its own, recycled by size; what it places
    itself, by `address=(partition, byte)`, is a window on the physical image, where overlaps
    behave as on the chip.
    """

    def __init__(self, machine: Machine, hbm: Hbm) -> None:
        self.machine, self.hbm = machine, hbm
        self._ids = hbm.ids
        self._shared: Counter[str] = Counter()  # tensors allocated in shared HBM, by name
        self._images: dict[MemoryRegion, Image] = {}
        # of tensors that fit onto the chip, and that the system places
        self._layouts: dict[tuple[MemoryRegion, Dims, Format], Layout] = {}

    def begin_program(self) -> None:
        """Another program of the launch grid begins on this core; it shares HBM with the last."""
        self._shared.clear()

    def allocate(
        self,
        region: MemoryRegion,
        shape: tuple[int, ...],
        dtype: Format,
        name: str = "",
        address: tuple[int, int] | None = None,
    ) -> Storage:
        """Storage that nothing has written yet.

        Raises PartitionLimitError, CapacityError, or with an address StartPartitionError,
        OutOfBoundsError and SignatureError; ShapeError if another core has allocated this tensor
        otherwise.
        """
        if region is MemoryRegion.shared_hbm:
            return self._share(shape, dtype, name)
        return self._new(region, shape, dtype, name, address)

    def _share(self, shape: tuple[int, ...], dtype: Format, name: str) -> Storage:
        key = name, self._shared[name]
        self._shared[name] += 1
        found = self.hbm.tensors.get(key)
        if found is None:
            found = self.hbm.tensors[key] = self._new(MemoryRegion.shared_hbm, shape, dtype, name)
        elif (found.shape, found.dtype) != (shape, dtype):
            raise ShapeError(
                f"the cores differ about tensor {name!r} in shared hbm",
                argument="shape",
                position=0,
                expected=f"{found.shape} {found.dtype}, as another core has allocated it",
                got=f"{shape} {dtype}",
                because="a kernel is compiled once for its cores: what it shares is one tensor",
                hint="use buffer=nl.private_hbm for what one core has for itself",
            )
        return found

    def _new(
        self,
        region: MemoryRegion,
        shape: tuple[int, ...],
        dtype: Format,
        name: str,
        address: tuple[int, int] | None = None,
    ) -> Storage:
        storage = Storage(next(self._ids), region, shape, dtype, name)
        storage.launch = self.hbm
        kind = region, shape, dtype
        known = self._layouts.get(kind)
        if storage.on_chip and known is None:
            self._check_fits(storage)
        elif not storage.on_chip:
            self._check_room(storage, lasts=region is MemoryRegion.shared_hbm)
        if address is not None and storage.on_chip:
            self._place(storage, *address)
            return storage
        storage.gaps = Gaps(storage.nbytes, dtype.itemsize)
        storage.hold(self.hbm.held(dtype))
        if storage.on_chip:
            storage._layout = known or self._layouts.setdefault(kind, storage.layout)
        try:
            storage.data = buffers.take(storage.nbytes * storage.spread)
        except MemoryError:
            raise NotEmulated(
                f"{_described(storage)} needs more memory than this computer gives"
            ) from None
        return storage

    def adopt(self, region: MemoryRegion, array: Array, dtype: Format, name: str = "") -> Storage:
        """Storage whose bytes are those of a C-contiguous array, which it keeps alive: codes of
        `Hbm.held(dtype)`."""
        storage = Storage(next(self._ids), region, array.shape or (1,), dtype, name)
        self._check_room(storage, lasts=True)
        storage.launch = self.hbm
        storage.hold(self.hbm.held(dtype))
        storage.data = array.reshape(-1).view(np.uint8)
        return storage

    def constant(self, array: Array, dtype: Format) -> Storage:
        """A tensor in shared HBM with the elements of a C-contiguous array of the format."""
        return self.adopt(MemoryRegion.shared_hbm, self.widened(array, dtype), dtype)

    def widened(self, array: Array, dtype: Format) -> Array:
        """The elements of an array of a format as memory holds them: the array itself if it can
        be."""
        if self.hbm.held(dtype) is dtype:
            return array
        return np.array(codec.decode(dtype, array.view(dtype.storage)))

    def _check_room(self, storage: Storage, lasts: bool) -> None:
        """Refuse a tensor that HBM can't hold, beside those that are there as long as it is. What
        ends with the kernel may use a place in turn."""
        others = self.hbm.lasting if lasts else 0
        needed, room = others + storage.nbytes, self.machine.hbm.stack_bytes
        if lasts:
            self.hbm.lasting = needed
        if needed <= room:
            return
        beside = f", beside {others} that are taken" if others else ""
        raise CapacityError(
            f"{_described(storage)} of {storage.dtype} needs {storage.nbytes} bytes of hbm"
            f"{beside}; {self.machine.name} has {room}",
            argument="shape",
            position=0,
            expected=f"at most {room - others} bytes",
            got=f"{storage.nbytes} bytes",
            because=f"a stack of HBM holds {room} bytes; {self.machine.hbm.cores_per_stack} of the "
            "chip's cores share one",
            hint="are the sizes right? Else work on parts, one launch after the other",
        )

    def _check_fits(self, storage: Storage) -> None:
        size = self._size(storage.region)
        if storage.partitions > size.partitions:
            raise PartitionLimitError(
                f"{_described(storage)} has {storage.partitions} partitions; "
                f"{storage.region.value} has {size.partitions}",
                argument="shape",
                position=0,
                expected=f"shape[0] <= {size.partitions}",
                got=f"shape[0] = {storage.partitions}",
                because=f"axis 0 of an on-chip tensor is the partition: {size.partitions} lanes",
                hint=f"loop over pieces of {size.partitions} rows (nl.tile_size.pmax)",
                also="err_num_partition_exceed_arch_limit",
            )
        if storage.row_bytes > size.partition_bytes:
            raise CapacityError(
                f"{_described(storage)} of {storage.dtype} needs {storage.row_bytes} bytes per "
                f"partition; {self.machine.name} has {size.partition_bytes}",
                argument="shape",
                position=0,
                expected=f"at most {size.partition_bytes} bytes per partition",
                got=f"{storage.row_bytes} bytes per partition",
                because=f"{storage.region.value} is {size.partitions} partitions of "
                f"{size.partition_bytes} bytes",
                hint="split the free dimension into several tiles",
                also="GCA035 (SBUF), NLA001 (PSUM)",
            )

    def _size(self, region: MemoryRegion) -> Sbuf | Psum:
        return self.machine.sbuf if region is MemoryRegion.sbuf else self.machine.psum

    def _place(self, storage: Storage, partition: int, byte: int) -> None:
        size = self._size(storage.region)
        image = self._images.get(storage.region)
        if image is None:
            spread = float32.itemsize if self.hbm.wide else 1  # room for four bytes in place of one
            image = self._images[storage.region] = Image(next(self._ids), size, spread)
        if partition not in self.machine.starts(storage.partitions):
            raise StartPartitionError(
                f"the tensor starts at partition {partition}",
                argument="address",
                expected=f"one of {list(self.machine.starts(storage.partitions))} "
                f"for {storage.partitions} partitions",
                got=f"partition {partition}",
                because="engines address partitions in groups of 32, 64 or 128",
                also="TEN404",
            )
        if byte < 0 or byte + storage.row_bytes > image.row_bytes:
            raise OutOfBoundsError(
                f"the tensor's bytes {byte} to {byte + storage.row_bytes} leave the partition",
                argument="address",
                expected=f"0 <= byte, byte + {storage.row_bytes} <= {image.row_bytes}",
                got=f"byte {byte}",
                also="NLA001 (allocated memory out of bound)",
            )
        if byte % size.min_align_bytes:
            raise SignatureError(
                f"the tensor starts at byte {byte} of its partitions",
                argument="address",
                expected=f"a multiple of {size.min_align_bytes}",
                got=f"byte {byte}",
                because=f"addresses in {storage.region.value} are aligned "
                f"(nl.tile_size.{storage.region.value}_min_align)",
            )
        storage.placed, storage.image = True, image
        storage.partition0, storage.byte0 = partition, byte
        storage.held, storage.spread = self.hbm.held(storage.dtype), image.spread
        storage.data, storage.pitch = image.data, image.pitch
        storage.origin = partition * image.pitch + byte * image.spread
        storage.gaps = Gaps(storage.nbytes, storage.dtype.itemsize)
