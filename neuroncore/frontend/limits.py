"""The machine of the running kernel, and its limits in nl.tile_size. Outside a kernel this is the
machine of the settings.

The module also checks integers that must be known when a kernel is compiled: numbers of axes,
bounds of loops, sizes of launch grids, and indices."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from neuroncore.base.enums import Version
from neuroncore.base.errors import SignatureError
from neuroncore.base.units import plural
from neuroncore.core.core import running
from neuroncore.frontend.settings import target_machine
from neuroncore.machine import Machine, api_number, api_versions
from neuroncore.memory.register import VirtualRegister
from neuroncore.memory.tile import Tile


def size(number: Any) -> int:
    """Return the size of an axis as an int. Whole floats are accepted, because a published kernel
    that ran on the device computes 256 * 256 / 128. Raises TypeError for other values."""
    fraction = isinstance(number, float | np.floating)
    whole: Any = int(number) if fraction and number.is_integer() else number
    return operator.index(whole)


def axes(axis: Any, argument: str = "axis", position: int = 1) -> tuple[int, ...]:
    """Return the numbers of one or several axes as a tuple. Raises SignatureError for other
    values."""
    numbers = tuple(axis) if isinstance(axis, Iterable) else (axis,)
    try:
        return tuple(map(operator.index, numbers))
    except TypeError:
        raise SignatureError(
            f"{argument}={axis!r} is not an axis",
            argument=argument,
            position=position,
            expected="an int, or a tuple of ints",
            got=f"{axis!r} ({type(axis).__name__})",
            because="axes are numbered from 0, or from the last axis, which is -1",
            hint="axis 1 is the first free axis of a tile, and axis -1 the last",
        ) from None


def loop(*bounds: Any) -> range:
    """Return Python's range for a loop. Raises SignatureError for bounds that range refuses."""
    try:
        return range(*map(operator.index, bounds))
    except (TypeError, ValueError) as error:
        raise SignatureError(
            f"a loop can't have the bounds {', '.join(map(repr, bounds))}: {error}",
            expected="ints, as in range(stop) or range(start, stop, step), and a step other than 0",
            got=", ".join(f"{bound!r} ({type(bound).__name__})" for bound in bounds),
            because="the number of iterations is needed when the kernel is compiled",
            hint="use n // size, which is an int; n / size is a float",
        ) from None


def grid_axes(grid: Any, expected: str) -> tuple[Any, ...]:
    """Return the values in the brackets of a launch, one for each axis. Raises SignatureError for
    empty brackets."""
    sizes = grid if isinstance(grid, tuple) else (grid,)
    if not sizes:
        raise SignatureError(
            "() is not a launch grid",
            expected=expected,
            because="a grid lists the number of programs along each axis, and has at least one "
            "axis",
            hint="call the kernel without brackets to run one program",
        )
    return sizes


def grid_size(value: Any, what: str, least: int, expected: str) -> int:
    """Return `value` as an int. Raises SignatureError if the value is not an integer, or is less
    than `least`. The message says that the value is not `what`, and names `expected`."""
    try:
        count = operator.index(value)
    except TypeError:
        count = least - 1
    if count < least:
        raise SignatureError(
            f"{value!r} is not {what}",
            expected=expected,
            got=f"{value!r} ({type(value).__name__})",
            because="a launch has a whole number of programs",
        )
    return count


class PartitionSize(int):
    """A size that `par_dim` marks as the size of the partition axis."""


@dataclass(frozen=True)
class DynamicSlice:
    """The result of nl.ds: an index of `size` elements from `start`, which may be a register."""

    start: int | VirtualRegister
    size: int


def ds(start: int | VirtualRegister, size: int) -> DynamicSlice:
    """Return an index of `size` elements from `start`, which may be a register."""
    return DynamicSlice(start, size)


def beyond(first: int, last: int, axis: int, shape: Sequence[int], ragged: str) -> str:
    """Return a hint for an access to the elements `first` to `last` of an axis with fewer elements.

    The first of these cases decides:

    * If `first` or the size is no multiple of the access's length, the hint is `ragged`.
    * If the access fits on another axis, the hint asks whether indices are swapped.
    * Otherwise a loop probably reads one piece too many: the hint states the number of pieces."""
    count, size = last - first + 1, shape[axis]
    if count < 2 or first < 0 or first % count or size % count:
        return ragged
    pieces = f"axis {axis} has {plural(size // count, 'piece')} of {count}"
    if any(last < n and not n % count for other, n in enumerate(shape) if other != axis):
        return f"check whether the indices are swapped: {pieces}"
    return f"end the loop earlier: {pieces}"


T = TypeVar("T", bound=Tile)
_enumeration: Any = Version  # Any, because type checkers accept no enumeration made at run time
nc_version = _enumeration("nc_version", {v: api_number(v) for v in api_versions()}, module=__name__)


def machine() -> Machine:
    core = running()
    return core.machine if core else target_machine()


def get_nc_version() -> Version:
    """Return the generation of the machine that the kernel runs on: a member of nc_version."""
    version: Version = nc_version[machine().api_version]
    return version


def get_nc_sub_version() -> int:
    """Return the silicon revision within a generation. Revision 0 is emulated."""
    return 0


def rows_of(size: int) -> tuple[int, int]:
    """Return (rows, columns) of a matrix with `size` elements and at most one row per partition:
    `rows` is the largest possible divisor of `size`. A matrix without elements has one row."""
    most = max(1, min(machine().limits.partitions, size))
    rows = next(n for n in range(most, 0, -1) if size % n == 0)
    return rows, size // rows


def fitting(tensor: T, itemsize: int = 0) -> Iterator[T]:
    """Split a tensor into parts that fit into SBUF in the layout of `rows_of`, by halving the first
    axis with several elements. `itemsize`: bytes of an element in SBUF, if wider there."""
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
    """The constants of nl.tile_size, in elements, partitions or banks. total_available_sbuf_size,
    and names that end in "bytes" or "align", are in bytes."""

    @property
    def psum_min_align(self) -> int:
        """The alignment of addresses in PSUM, in bytes."""
        return machine().psum.min_align_bytes

    @property
    def sbuf_min_align(self) -> int:
        """The alignment of addresses in SBUF, in bytes."""
        return machine().sbuf.min_align_bytes

    @property
    def pmax(self) -> int:
        """The largest number of partitions of a tile."""
        return machine().limits.partitions

    @property
    def gemm_stationary_fmax(self) -> int:
        """The largest number of columns of the stationary tile of a matmul."""
        return machine().limits.stationary_free

    @property
    def gemm_moving_fmax(self) -> int:
        """The largest number of columns of a matmul's moving tile. As float32 numbers, they fill
        one PSUM bank."""
        return self.psum_bank_fmax

    @property
    def bn_stats_fmax(self) -> int:
        """The largest number of elements per partition for bn_stats."""
        return self.psum_bank_fmax

    @property
    def psum_bank_fmax(self) -> int:
        """The number of float32 elements per partition in one PSUM bank."""
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
        """The bytes of SBUF, of all partitions together."""
        return machine().sbuf.partition_bytes * machine().sbuf.partitions

    @property
    def sbuf_fmax_bytes(self) -> int:
        """The bytes per partition of SBUF that kernels may use."""
        return machine().sbuf.usable_bytes

    @property
    def sbuf_fmax(self) -> int:
        """The number of float32 elements per partition of SBUF that kernels may use."""
        return self.sbuf_fmax_bytes // 4

    total_available_sbuf_size = sbuf_fmax_bytes


tile_size = TileSize()
