"""Explicit access patterns, [stride, count] per axis: `tensor.ap`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Self

from neuroncore.base.errors import (
    OutOfBoundsError,
    ShapeError,
    SignatureError,
    ViewError,
)
from neuroncore.frontend import integers
from neuroncore.frontend.formats import format_of
from neuroncore.frontend.nki.indexing import Indexed
from neuroncore.memory import access
from neuroncore.memory.access import Dims
from neuroncore.memory.register import VirtualRegister
from neuroncore.memory.tile import Dynamic, Tile
from neuroncore.numerics.formats import Format


class Patterned(Indexed):
    """A tile with indexing and access patterns."""

    __slots__ = ()

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def get_pattern(self) -> list[list[int]]:
        """[stride, count] of each axis, as `ap` takes them."""
        return [[s, n] for s, n in zip(self.strides, self.shape, strict=True)]

    def _axis(self, dim: int, last: int | None = None) -> int:
        """An axis number, counted from the end if negative."""
        (dim,) = integers.axes(dim, "dim", position=0)
        count = self.ndim if last is None else last
        if not -count <= dim < count:
            raise OutOfBoundsError(f"there is no axis {dim}", got=f"shape {self.shape}")
        return dim % count

    def ap(
        self,
        pattern: Sequence[Sequence[int]],
        offset: int | None = None,
        scalar_offset: Tile | VirtualRegister | None = None,
        vector_offset: Tile | None = None,
        indirect_dim: int = 0,
        dtype: Any = None,
    ) -> Self:
        """An explicit access pattern, [stride, count] per axis, on the storage under this view.

        `offset` counts elements from the start of the storage; None keeps this view's, also if it
        is known only at run time. A scalar offset moves the start along axis `indirect_dim` of this
        tensor; a vector offset gives each partition its own row of axis 0. A pattern that leaves
        the storage is refused where an instruction uses it.
        """
        form = self.dtype if dtype is None else format_of(dtype, position=5)
        try:
            shape = tuple(int(count) for _, count in pattern)
            strides = tuple(int(stride) for stride, _ in pattern)
        except (TypeError, ValueError):
            raise SignatureError(
                f"{pattern!r} is not an access pattern",
                argument="pattern",
                position=0,
                expected="[[stride, count], ...], outermost axis first",
            ) from None
        plain = self._pattern(shape, strides, offset, form)
        if scalar_offset is not None and vector_offset is not None:
            raise SignatureError(
                "scalar_offset and vector_offset exclude each other", argument="vector_offset"
            )
        plain._check_pattern(vector_offset is not None)
        if self.dynamic:
            free = offset is None and scalar_offset is None and vector_offset is None
            return plain.window(shape, strides, plain.offset, dynamic=self._kept(plain, free))
        if scalar_offset is None and vector_offset is None:
            return plain
        step = self._step(indirect_dim, form)
        if vector_offset is not None:
            return plain._gathering(vector_offset, indirect_dim, step)
        assert scalar_offset is not None
        if self.storage.on_chip and self._axis(indirect_dim) == 0:
            raise self._fixed_partition()
        moved = Dynamic(scalar_offset, step, plain._last_index(step))
        return plain.window(shape, strides, plain.offset, dynamic=(moved,))

    def _kept(self, plain: Self, free: bool) -> tuple[Dynamic, ...]:
        """This view's run-time offset, for a pattern that counts from where it is."""
        own, *others = self.dynamic
        step, rest = divmod(own.step * self.dtype.itemsize, plain.dtype.itemsize)
        if not free or others or own.vector or own.picks or rest:
            raise ViewError(
                f"{self} is at a run-time offset, and a pattern on it can't have another",
                argument="pattern",
                position=0,
                hint="take the pattern of the whole tensor, with scalar_offset=",
            )
        return (Dynamic(own.index, step, plain._last_index(step)),)

    def _pattern(self, shape: Dims, strides: Dims, offset: int | None, form: Format) -> Self:
        """The window of an access pattern, without run-time offsets.

        Documents say that partitions are a row of the storage apart. Published kernels also step
        by the row of the view that they have (nki-library, TensorView of a slice); then the
        pattern counts from that view.
        """
        base = self.offset * self.dtype.itemsize // form.itemsize
        first = base if offset is None else int(offset)
        if self.storage.on_chip and len(strides) > 1:
            row = self.storage.row_bytes // form.itemsize
            own = prod(self.shape[1:]) * self.dtype.itemsize // form.itemsize
            if strides[0] == own != row:
                strides = (row, *strides[1:])
                first += base if offset is not None else 0
        return self.window(shape, strides, first, form, dynamic=())

    def _last_index(self, step: int, first_axis: int = 0) -> int:
        """The largest run-time index that keeps the pattern, from an axis on, in its storage, on
        the chip in each partition."""
        room, offset = self.storage.nbytes // self.dtype.itemsize, self.offset
        if self.storage.on_chip:
            first_axis, room = 1, self.row_elements
            offset %= room
        reach = access.extent(self.shape[first_axis:], self.strides[first_axis:])[1] + offset
        return (room - 1 - reach) // step

    def _step(self, dim: int, form: Format) -> int:
        """Elements of `form` from one index of an axis of this tensor to the next."""
        step = self.strides[self._axis(dim)] * self.dtype.itemsize // form.itemsize
        if step < 1:
            raise ViewError(
                f"axis {dim} of {self} repeats one element; an offset along it moves nothing",
                argument="indirect_dim",
                got=f"strides {self.strides}",
            )
        return step

    def _gathering(self, index: Tile, axis: int, step: int) -> Self:
        if axis != 0 or self.storage.on_chip:
            raise ViewError(
                "a vector offset selects rows of axis 0 of a tensor in hbm",
                argument="indirect_dim",
                got=f"axis {axis} of {self}",
            )
        rows = Dynamic(index, step, self._last_index(step, first_axis=1), vector=True)
        return self.window(self.shape, (step, *self.strides[1:]), self.offset, dynamic=(rows,))

    def _check_pattern(self, indirect: bool) -> None:
        """The pattern stays inside its storage, on the chip inside each partition."""
        if not self.shape or min(self.shape) < 1:
            raise ShapeError(f"the pattern counts {self.shape}", argument="pattern", position=0)
        storage, first = self.storage, int(self.storage.on_chip)
        row = self.row_elements if storage.on_chip else storage.nbytes // self.dtype.itemsize
        if row < 1:
            raise ViewError(
                f"{'a partition of ' * first}the tensor has less than one {self.dtype}",
                argument="dtype",
                position=5,
                got=f"{storage.row_bytes} bytes",
            )
        if storage.on_chip and self.shape[0] > 1 and self.strides[0] != row:
            raise ViewError(
                f"the partition axis steps by {self.strides[0]}",
                argument="pattern",
                position=0,
                expected=f"{row}, the elements of one partition of the tensor",
                because="an access takes every partition from its first to its last",
            )
        skip = 1 if indirect else first
        low, high = access.extent(self.shape[skip:], self.strides[skip:])
        start = self.offset % row if storage.on_chip else self.offset
        end_row = self.offset // row + self.shape[0] if storage.on_chip else 0
        beyond = self.offset < 0 or end_row > storage.partitions * first
        if beyond or start + low < 0 or start + high >= row:
            # published kernels make such patterns, and then don't use them
            self.fault = OutOfBoundsError(
                f"the pattern reaches elements {start + low} to {start + high}",
                argument="pattern",
                position=0,
                expected=f"0 to {row - 1}" + (" of each partition" if storage.on_chip else ""),
                got=f"offset {self.offset}, {self.get_pattern()}",
                because="the access would reach the memory of another tensor",
            )
