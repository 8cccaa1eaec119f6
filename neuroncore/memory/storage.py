"""The memories of one core: HBM, SBUF and PSUM, and the storage in them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any, NoReturn, Protocol
from weakref import ref

import numpy as np
import numpy.typing as npt

from neuroncore.base import buffers
from neuroncore.base.enums import ON_CHIP, MemoryRegion
from neuroncore.base.errors import (
    CapacityError,
    NotEmulated,
    OutOfBoundsError,
    PartitionLimitError,
    ShapeError,
    SignatureError,
    StartPartitionError,
)
from neuroncore.base.source import Site
from neuroncore.base.units import dimensions, either, plural
from neuroncore.machine import Machine, Psum, Sbuf
from neuroncore.memory import geometry
from neuroncore.memory.access import Dims, Flags, Gaps, footprint
from neuroncore.memory.geometry import Layout
from neuroncore.numerics import codec
from neuroncore.numerics.formats import Format, float32

Array = npt.NDArray[Any]
Rounding = Callable[..., Array]  # takes a format, values, and an array for the codes or None
RANK_IDS = 1 << 32  # the distance between the first storage numbers of consecutive ranks
# a rank has three ranges of storage numbers, each of this size: for storages that its cores share,
# for those of core 0, and for those of core 1
CORE_IDS = 1 << 30
Born = Site | None  # a place in the user's code, if it is known


ENDED: Any = None  # the version of a storage whose launch has ended


def _refuse() -> NoReturn:
    raise TypeError("the launch of this storage has ended")


class DeferredWork(Protocol):
    """Deferred work that writes to a storage."""

    def finish(self) -> None:
        """Do the work, and remove it from the storage."""
        ...


class Storage:
    """One allocation: its contents, and their state.

    `data`, `origin`: the contents begin at byte `origin` of this array, arranged as in `layout`
    `held`: the format of the stored codes (bit patterns): `dtype`, or float32 for narrow formats
        (Options.storage)"""

    __slots__ = (
        *("id", "layout", "held", "name", "region", "shape", "dtype", "on_chip", "data", "origin"),
        *("born", "gaps", "image", "version", "scope", "launch", "float64", "greatest", "ending"),
        *("other_engine", "before_write", "pending", "__weakref__"),
    )
    data: Array
    born: Born
    gaps: Gaps | None  # flags of the bytes that were written; None if all were
    image: Image | None  # the image that contains the storage, if the kernel chose its address
    scope: Any  # the loop iteration in which it was allocated, in a dialect that tracks this
    ending: Any  # the loop iteration after which no name refers to it, if known
    launch: HbmMemory | None  # the HBM of its launch, with which the tensor ends
    float64: Any  # the same elements in float64, if `precision` computes them
    other_engine: Flags | None  # in PSUM: flags of elements last written by another engine than
    # Tensor; None if there never were any
    # a version of the storage, and the greatest magnitude that its integers may have in this
    # version (`precision`)
    greatest: tuple[int, int] | None

    pending: DeferredWork | None  # deferred work that will write to the storage
    before_write: Callable[[], None] | None  # called before each instruction that writes to it

    def __init__(self, identity: int, layout: Layout, held: Format, name: str = "") -> None:
        self.id, self.layout, self.held, self.name = identity, layout, held, name
        self.region, self.shape, self.dtype = layout.region, layout.shape, layout.dtype
        self.on_chip = layout.on_chip
        self.origin = 0  # position of the first byte in `data`
        # increased by each instruction that writes to the storage, and by each write of a
        # collective
        self.version = 0
        self.born = self.gaps = self.image = self.scope = self.ending = None
        self.launch = self.float64 = self.greatest = self.other_engine = self.before_write = None
        self.pending = None

    @property
    def settled(self) -> Array:
        """The array `data`, after all deferred work has been done."""
        if self.pending is not None:
            self.pending.finish()
        return self.data

    def changed_since(self, before: Array) -> Array:
        """Return flags of the elements whose bits differ from `before`, a C-contiguous array of the
        same type."""
        bits = f"u{self.held.itemsize}"
        flags: Array = self.settled.view(bits) != before.reshape(-1).view(bits)
        return flags.reshape(self.shape)

    @property
    def partitions(self) -> int:
        return self.layout.partitions

    @property
    def row_bytes(self) -> int:
        """Bytes per partition on the chip; in HBM bytes of the whole tensor."""
        return self.layout.row_bytes

    @property
    def nbytes(self) -> int:
        """The size on the chip in bytes."""
        return self.layout.nbytes

    @property
    def spread(self) -> int:
        """The distance between elements in `data` divided by the distance on the chip."""
        return self.layout.spread

    @property
    def partition0(self) -> int:
        """The partition of the first row, for a storage on the chip."""
        return self.layout.partition0

    @property
    def byte0(self) -> int:
        """The position in bytes of the first column in each partition, on the chip."""
        return self.layout.byte0

    @property
    def placed(self) -> bool:
        """True if the kernel chose the address."""
        return self.layout.placed

    def end(self) -> None:
        """End the storage, so that instructions refuse it: a read checks the storage, because it
        has gaps now, and a write can't increase the version, which is None now. The contents do not
        change."""
        if self.gaps is None:
            self.gaps = Gaps(self.nbytes)
            self.gaps.write(0, footprint((self.nbytes,), (1,), 1))
        self.version, self.before_write = ENDED, _refuse

    def held_as(self, dtype: Format) -> Format:
        """Return the format in which this storage would hold elements of format `dtype`."""
        return dtype if self.launch is None else self.launch.held(dtype)


class Image:
    """The bytes of the whole SBUF or PSUM, with storages at addresses that the kernel chose. Each
    byte takes `spread` bytes."""

    def __init__(self, identity: int, size: Sbuf | Psum, spread: int) -> None:
        self.id = identity
        self.rows, self.row_bytes, self.spread = size.partitions, size.partition_bytes, spread
        # If rows were 192, 224 or 256 KiB apart, all would compete for the same few sets of a
        # cache.
        self.pitch = size.partition_bytes * spread + buffers.CACHE_LINE
        self.data = buffers.fresh(self.rows * self.pitch)
        self.gaps = Gaps(self.data.nbytes)


def _described(shape: Dims, name: str) -> str:
    named = f"tensor {name!r}" if name else "the tensor"
    return f"{named} ({dimensions(shape)})"


class HbmMemory:
    """The main memory that the cores of one rank share.

    All cores execute the same program. So the n-th allocation of a name in shared HBM returns the
    same tensor on all cores.

    `rounding`: converts float32 results of all engines to codes
    `wide`: whether floats narrower than float32 are stored as float32, in every memory"""

    def __init__(
        self, rounding: Rounding = codec.encode, wide: bool = False, rank: int = 0
    ) -> None:
        self.rounding, self.wide = rounding, wide
        self.lasting = 0  # bytes of arguments, and of tensors that outlive the kernel
        self.first_id = rank * RANK_IDS
        self.ids = itertools.count(self.first_id)
        self.tensors: dict[tuple[str, int], Storage] = {}
        self.arguments: set[int] = set()  # numbers of the storages that were passed to the kernel
        # storages that ranks have exchanged: number -> the place of the exchange
        self.exchanged: dict[int, Born | None] = {}
        # the storages of the launch, of which some no longer exist, and how many to list before
        # those are removed
        self._storages: list[ref[Storage]] = []
        self._room = 1 << 12

    def own(self, storage: Storage) -> None:
        """Make a new storage part of the launch, with which it ends."""
        storage.launch = self
        self._storages.append(ref(storage))
        if len(self._storages) > self._room:
            self._storages = [one for one in self._storages if one() is not None]
            self._room = max(self._room, 2 * len(self._storages))

    def end(self) -> None:
        """End the launch. Instructions of later launches refuse its storages."""
        for one in self._storages:
            if (storage := one()) is not None:
                storage.end()
        self._storages.clear()

    def held(self, dtype: Format) -> Format:
        """Return the format in which elements of `dtype` are stored."""
        return float32 if self.wide and dtype.is_float else dtype


class Memory:
    """Allocates the storage of one core.

    Storages are numbered per core, and in shared HBM per rank: the order of cores does not matter.

    Without an address, a tensor gets separate bytes, which later tensors of the same size reuse.
    With `address=(partition, byte)`, it is a window on the whole memory (`Image`), where tensors
    overlap as on the chip."""

    def __init__(self, machine: Machine, hbm: HbmMemory, core: int = 0) -> None:
        self.machine, self.hbm = machine, hbm
        self._ids = itertools.count(hbm.first_id + (core + 1) * CORE_IDS)
        self._shared: Counter[str] = Counter()  # tensors allocated in shared HBM, by name
        self.images: dict[MemoryRegion, Image] = {}
        # layouts of tensors that the system places, and that fit onto the chip
        self._layouts: dict[tuple[MemoryRegion, Dims, Format], Layout] = {}

    def begin_program(self) -> None:
        """Start another program of the launch grid with the same HBM."""
        self._shared.clear()

    def allocate(
        self,
        region: MemoryRegion,
        shape: tuple[int, ...],
        dtype: Format,
        name: str = "",
        address: tuple[int, int] | None = None,
    ) -> Storage:
        """Allocate uninitialized storage.

        Raises PartitionLimitError and CapacityError; with an address also StartPartitionError,
        OutOfBoundsError and SignatureError. Raises ShapeError if another core has allocated the
        tensor differently in shared HBM."""
        if region is MemoryRegion.shared_hbm:
            return self._share(shape, dtype, name)
        if address is not None and region in ON_CHIP:
            return self._placed(region, shape, dtype, name, address)
        return self._new(region, shape, dtype, name)

    def _share(self, shape: tuple[int, ...], dtype: Format, name: str) -> Storage:
        key = name, self._shared[name]
        self._shared[name] += 1
        storage = self.hbm.tensors.get(key)
        if storage is None:
            storage = self.hbm.tensors[key] = self._new(MemoryRegion.shared_hbm, shape, dtype, name)
        elif (storage.shape, storage.dtype) != (shape, dtype):
            raise ShapeError(
                f"cores allocate tensor {name!r} in shared hbm with different shapes or formats",
                argument="shape",
                position=0,
                expected=f"{storage.shape} {storage.dtype}, as another core allocated it",
                got=f"{shape} {dtype}",
                because="a kernel is compiled once for all cores, so a shared tensor exists only "
                "once",
                hint="use buffer=nl.private_hbm for data of a single core",
            )
        return storage

    def _new(
        self,
        region: MemoryRegion,
        shape: tuple[int, ...],
        dtype: Format,
        name: str,
    ) -> Storage:
        layout = self.layout(region, shape, dtype, name)
        if not layout.on_chip:
            self._check_room(layout, name, lasts=region is MemoryRegion.shared_hbm)
        return self.new(layout, self.hbm.held(dtype) if self.hbm.wide else dtype, name)

    def new(self, layout: Layout, held: Format, name: str) -> Storage:
        """Allocate storage with a layout that fits. Raises NotEmulated if the computer has too
        little memory."""
        shared = layout.region is MemoryRegion.shared_hbm
        storage = self.unnumbered(layout, held, name)
        storage.id = next(self.hbm.ids if shared else self._ids)
        storage.gaps = layout.untouched
        return storage

    def renew(self, storage: Storage, name: str) -> None:
        """Allocate the memory of an existing on-chip Storage again.

        It must be unreferenced, or a result of `unnumbered`. Its version increases, so that cached
        results for the old contents are not used."""
        if storage.pending is not None:
            storage.pending.finish()
        storage.id, storage.name, storage.version = next(self._ids), name, storage.version + 1
        storage.gaps = storage.layout.untouched
        storage.other_engine = storage.float64 = storage.greatest = None

    def unnumbered(self, layout: Layout, held: Format, name: str = "") -> Storage:
        """Return storage with memory, but without a number. `renew` allocates it."""
        storage = Storage(-1, layout, held, name)
        self.hbm.own(storage)
        try:
            storage.data = buffers.take(layout.nbytes * layout.spread)
        except MemoryError:
            raise NotEmulated(
                f"{_described(layout.shape, name)} needs more memory than this computer has"
            ) from None
        return storage

    def layout(self, region: MemoryRegion, shape: Dims, dtype: Format, name: str = "") -> Layout:
        """Return the layout of a tensor without an address. Raises PartitionLimitError and
        CapacityError."""
        known = self._layouts.get((region, shape, dtype))
        if known is not None:
            return known
        layout = geometry.unplaced(region, shape, dtype, self.hbm.held(dtype))
        if layout.on_chip:
            self._check_fits(layout, name)
        return self._layouts.setdefault((region, shape, dtype), layout)

    def adopt(self, region: MemoryRegion, array: Array, dtype: Format, name: str = "") -> Storage:
        """Return a storage that uses and keeps the bytes of a C-contiguous array, codes of
        `HbmMemory.held(dtype)`."""
        held = self.hbm.held(dtype)
        layout = geometry.unplaced(region, array.shape or (1,), dtype, held)
        storage = Storage(next(self.hbm.ids), layout, held, name)
        self._check_room(layout, name, lasts=True)
        self.hbm.own(storage)
        storage.data = array.reshape(-1).view(np.uint8)
        return storage

    def widened(self, array: Array, dtype: Format) -> Array:
        """Return the elements of an array as memory stores them; the array itself if nothing
        changes."""
        if self.hbm.held(dtype) is dtype:
            return array
        return np.array(codec.decode(dtype, array.view(dtype.storage)))

    def _check_room(self, layout: Layout, name: str, lasts: bool) -> None:
        """Raise CapacityError if a tensor does not fit into HBM.

        With `lasts`, it outlives the kernel, and must fit together with all others that do. Other
        tensors may reuse bytes, so each must only fit by itself."""
        others = self.hbm.lasting if lasts else 0
        needed, room = others + layout.nbytes, self.machine.hbm.stack_bytes
        if lasts:
            self.hbm.lasting = needed
        if needed <= room:
            return
        more = f", in addition to {others:,} bytes of other tensors" if others else ""
        raise CapacityError(
            f"{_described(layout.shape, name)} of {layout.dtype} needs {layout.nbytes:,} bytes of "
            f"hbm{more}; {self.machine.name} has {room:,}",
            argument="shape",
            position=0,
            expected=f"at most {room - others:,} bytes",
            got=f"{layout.nbytes:,} bytes",
            because=f"a stack of HBM has {room:,} bytes, and {self.machine.hbm.cores_per_stack} of "
            "the chip's cores share a stack",
            hint="check the sizes, or process the data in several launches",
        )

    def _check_fits(self, layout: Layout, name: str) -> None:
        size = self._size(layout.region)
        if layout.partitions > size.partitions:
            raise PartitionLimitError(
                f"{_described(layout.shape, name)} has {layout.partitions:,} partitions; "
                f"{layout.region.value} has {size.partitions:,}",
                argument="shape",
                position=0,
                expected=f"shape[0] is at most {size.partitions}",
                got=f"shape[0] is {layout.partitions}",
                because=f"axis 0 is the partition axis, and {layout.region.value} has "
                f"{size.partitions:,} partitions",
                hint=f"loop over pieces of {size.partitions:,} rows (nl.tile_size.pmax)",
                also="err_num_partition_exceed_arch_limit",
            )
        if layout.row_bytes > size.partition_bytes:
            raise CapacityError(
                f"{_described(layout.shape, name)} of {layout.dtype} needs {layout.row_bytes:,} "
                f"bytes per partition; {self.machine.name} has {size.partition_bytes:,}",
                argument="shape",
                position=0,
                expected=f"at most {size.partition_bytes:,} bytes per partition",
                got=f"{layout.row_bytes:,} bytes per partition",
                because=f"{layout.region.value} has {size.partitions:,} partitions of "
                f"{size.partition_bytes:,} bytes",
                hint="use several tiles with fewer columns",
                also="GCA035" if layout.region is MemoryRegion.sbuf else "NLA001",
            )

    def _size(self, region: MemoryRegion) -> Sbuf | Psum:
        return self.machine.sbuf if region is MemoryRegion.sbuf else self.machine.psum

    def _placed(
        self,
        region: MemoryRegion,
        shape: Dims,
        dtype: Format,
        name: str,
        address: tuple[int, int],
    ) -> Storage:
        """Allocate storage at an address of the kernel: a window on the image of the memory. Raises
        the errors of `allocate`."""
        identity, image = next(self._ids), self._image(region)
        arguments = region, shape, dtype, image.spread, image.pitch
        layout = geometry.layout(*arguments, address, True)
        self._check_fits(layout, name)
        self._check_address(layout)
        storage = Storage(identity, layout, self.hbm.held(dtype), name)
        self.hbm.own(storage)
        storage.image, storage.data = image, image.data
        storage.origin = layout.partition0 * image.pitch + layout.byte0 * image.spread
        storage.gaps = layout.untouched
        return storage

    def _image(self, region: MemoryRegion) -> Image:
        image = self.images.get(region)
        if image is None:
            # room for float32 in place of one byte
            spread = float32.itemsize if self.hbm.wide else 1
            image = Image(next(self._ids), self._size(region), spread)
            self.images[region] = image
        return image

    def _check_address(self, layout: Layout) -> None:
        partition, byte, size = layout.partition0, layout.byte0, self._size(layout.region)
        row_bytes = size.partition_bytes
        if partition not in self.machine.starts(layout.partitions):
            starts = either(self.machine.starts(layout.partitions))
            count = plural(layout.partitions, "partition")
            raise StartPartitionError(
                f"the tensor starts at partition {partition}, but {count} must start at {starts}",
                argument="address",
                expected=f"a first partition of {starts}, because the tensor has {count}",
                got=f"partition {partition}",
                because="engines address partitions in groups of 32, 64 or 128",
                also="TEN404",
            )
        if byte < 0 or byte + layout.row_bytes > row_bytes:
            raise OutOfBoundsError(
                f"the tensor has bytes {byte:,} to {byte + layout.row_bytes - 1:,} of each "
                f"partition, but a partition has bytes 0 to {row_bytes - 1:,}",
                argument="address",
                expected=f"a first byte from 0 to {row_bytes - layout.row_bytes:,}",
                got=f"byte {byte:,}",
                also="NLA001 (allocated memory out of bound)",
            )
        align, why = size.min_align_bytes, f"nl.tile_size.{layout.region.value}_min_align"
        # the bank rule: NKI migration guide, 0.1 to 0.2, "Improved allocation API"
        if isinstance(size, Psum):
            align, why = size.bank_bytes, f"a tensor starts at one of {size.banks} banks"
        if byte % align:
            raise SignatureError(
                f"the tensor starts at byte {byte} of its partitions",
                argument="address",
                expected=f"a multiple of {align}",
                got=f"byte {byte:,}",
                because=f"addresses in {layout.region.value} must be aligned ({why})",
            )
