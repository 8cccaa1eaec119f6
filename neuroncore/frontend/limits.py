"""The machine that a kernel runs on, or would run on: its generation, and nl.tile_size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from neuroncore.base.enums import Version
from neuroncore.core.core import running
from neuroncore.frontend.settings import target_machine
from neuroncore.machine import Machine, api_number, api_versions
from neuroncore.memory.tile import Tile

T = TypeVar("T", bound=Tile)
_enumeration: Any = Version  # of which type checkers take no table made at run time
nc_version = _enumeration("nc_version", {v: api_number(v) for v in api_versions()}, module=__name__)


def machine() -> Machine:
    core = running()
    return core.machine if core else target_machine()


def get_nc_version() -> Version:
    """The generation of the machine that the kernel runs on, a member of nc_version."""
    version: Version = nc_version[machine().api_version]
    return version


def get_nc_sub_version() -> int:
    """The silicon revision within a generation: 0, the first, is the one emulated."""
    return 0


def rows_of(size: int) -> tuple[int, int]:
    """The shape of so many elements as one row for each of as many partitions as divide them; of
    none, one row."""
    most = max(1, min(machine().limits.partitions, size))
    rows = next(n for n in range(most, 0, -1) if size % n == 0)
    return rows, size // rows


def fitting(tensor: T, itemsize: int = 0) -> Iterator[T]:
    """A tensor in parts that fit into SBUF as `rows_of` lays them out, with elements of so many
    bytes, if they are wider there: halves, and halves of those along the first axis that has any.
    """
    row_bytes = rows_of(tensor.size)[1] * max(tensor.dtype.itemsize, itemsize)
    if row_bytes <= machine().sbuf.usable_bytes:
        yield tensor
        return
    axis = next(axis for axis, size in enumerate(tensor.shape) if size > 1)
    middle, size = tensor.shape[axis] // 2, tensor.shape[axis]
    for first, end in ((0, middle), (middle, size)):
        shape = (*tensor.shape[:axis], end - first, *tensor.shape[axis + 1 :])
        offset = tensor.offset + first * tensor.strides[axis]
        yield from fitting(tensor.window(shape, tensor.strides, offset), itemsize)


class TileSize:
    """Sizes in elements, or bytes where the name says so."""

    @property
    def psum_min_align(self) -> int:
        """Bytes that an address in PSUM is a multiple of."""
        return machine().psum.min_align_bytes

    @property
    def sbuf_min_align(self) -> int:
        """Bytes that an address in SBUF is a multiple of."""
        return machine().sbuf.min_align_bytes

    @property
    def pmax(self) -> int:
        """Partitions of a tile."""
        return machine().limits.partitions

    @property
    def gemm_stationary_fmax(self) -> int:
        """Columns of the stationary tile of a matmul."""
        return machine().limits.stationary_free

    @property
    def gemm_moving_fmax(self) -> int:
        """Columns of the moving tile of a matmul that fill one PSUM bank."""
        return self.psum_bank_fmax

    @property
    def bn_stats_fmax(self) -> int:
        """Elements per partition that bn_stats takes."""
        return self.psum_bank_fmax

    @property
    def psum_bank_fmax(self) -> int:
        """float32 elements of one PSUM bank, per partition."""
        return self.psum_bank_fmax_bytes // 4

    psum_fmax = psum_bank_fmax

    @property
    def psum_bank_fmax_bytes(self) -> int:
        return machine().psum.bank_bytes

    @property
    def psum_num_banks(self) -> int:
        return machine().psum.banks

    @property
    def sbuf_size_bytes(self) -> int:
        """Of all partitions together."""
        return machine().sbuf.partition_bytes * machine().sbuf.partitions

    @property
    def sbuf_fmax_bytes(self) -> int:
        """Of one partition, as far as kernels may use it."""
        return machine().sbuf.usable_bytes

    @property
    def sbuf_fmax(self) -> int:
        """float32 elements of one partition."""
        return self.sbuf_fmax_bytes // 4

    total_available_sbuf_size = sbuf_fmax_bytes


tile_size = TileSize()
