"""The machine of the running kernel, or of a launch from here: its generation, and nl.tile_size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from neuroncore.base.enums import Version
from neuroncore.core.core import running
from neuroncore.frontend.settings import target_machine
from neuroncore.machine import Machine, api_number, api_versions
from neuroncore.memory.tile import Tile

T = TypeVar("T", bound=Tile)
_enumeration: Any = Version  # type checkers accept no enumeration made at run time
nc_version = _enumeration("nc_version", {v: api_number(v) for v in api_versions()}, module=__name__)


def machine() -> Machine:
    core = running()
    return core.machine if core else target_machine()


def get_nc_version() -> Version:
    """Return the generation of the machine that the kernel runs on, a member of nc_version."""
    version: Version = nc_version[machine().api_version]
    return version


def get_nc_sub_version() -> int:
    """Return the silicon revision within a generation: 0, the first one, is emulated."""
    return 0


def rows_of(size: int) -> tuple[int, int]:
    """Return the shape of `size` elements as rows, one per partition, on the largest number of
    partitions that divides `size`; one row for no elements."""
    most = max(1, min(machine().limits.partitions, size))
    rows = next(n for n in range(most, 0, -1) if size % n == 0)
    return rows, size // rows


def fitting(tensor: T, itemsize: int = 0) -> Iterator[T]:
    """Split a tensor into parts that fit into SBUF in the layout of `rows_of`, by repeated halving
    along the first axis that can be halved. `itemsize` is the bytes of an element in SBUF, if it is
    wider there.
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
    """Sizes in elements, or in bytes if the name says so."""

    @property
    def psum_min_align(self) -> int:
        """The alignment of an address in PSUM, in bytes."""
        return machine().psum.min_align_bytes

    @property
    def sbuf_min_align(self) -> int:
        """The alignment of an address in SBUF, in bytes."""
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
        """The bytes of all partitions of SBUF together."""
        return machine().sbuf.partition_bytes * machine().sbuf.partitions

    @property
    def sbuf_fmax_bytes(self) -> int:
        """The bytes of one partition of SBUF that kernels may use."""
        return machine().sbuf.usable_bytes

    @property
    def sbuf_fmax(self) -> int:
        """float32 elements of one partition of SBUF."""
        return self.sbuf_fmax_bytes // 4

    total_available_sbuf_size = sbuf_fmax_bytes


tile_size = TileSize()
