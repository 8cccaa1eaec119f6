"""The tensor object of the current API: a tile, and the ways to make other views of it.

No view moves data. On-chip tensors keep their partition at axis 0 and at least two axes (NKI
language guide, "View primitives"); that is why most methods refuse axis 0 of them.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

from neuroncore import access
from neuroncore.access import Dims
from neuroncore.enums import MemoryRegion
from neuroncore.errors import (
    OutOfBoundsError,
    ShapeError,
    SignatureError,
    UsageError,
    ViewError,
)
from neuroncore.formats import Format, lookup
from neuroncore.frontend.nki.indexing import Indexed
from neuroncore.register import VirtualRegister
from neuroncore.tile import Dynamic, Tile


class NkiTensor(Indexed):
    """A tensor in HBM, SBUF or PSUM. `strides` and `offset` count elements."""

    __slots__ = ()

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def buffer(self) -> MemoryRegion:
        return self.storage.region

    @property
    def name(self) -> str:
        return self.storage.name

    @property
    def base_tensor(self) -> NkiTensor:
        """The whole tensor that this is a view of, as it was made."""
        storage = self.storage
        strides = access.dense(storage.shape)
        return type(self)(storage, storage.shape, strides, 0, storage.dtype)

    @property
    def address(self) -> tuple[int, int] | None:
        """(partition, byte within it) that the kernel placed its storage at; None where the system
        finds the place."""
        storage = self.storage
        return (storage.partition0, storage.byte0) if storage.placed else None

    # --- questions -------------------------------------------------------------------------------

    def is_contiguous(self) -> bool:
        """Whether the elements are dense and in row-major order (on the chip: of a partition)."""
        first = 1 if self.storage.on_chip else 0
        return access.is_dense(self.shape[first:], self.strides[first:])

    def is_indirect(self) -> bool:
        """Whether an offset is known only at run time."""
        return bool(self.dynamic)

    def get_pattern(self) -> list[list[int]]:
        """[stride, count] of each axis, as `ap` takes them."""
        return [[s, n] for s, n in zip(self.strides, self.shape, strict=True)]

    # --- views -----------------------------------------------------------------------------------

    def _axis(self, dim: int, last: int | None = None) -> int:
        """An axis number, counted from the end if negative."""
        count = self.ndim if last is None else last
        if not -count <= dim < count:
            raise OutOfBoundsError(f"there is no axis {dim}", got=f"shape {self.shape}")
        return dim % count

    def _free_axis(self, dim: int, what: str, last: int | None = None) -> int:
        """An axis that may be changed: not the partition, not one chosen at run time."""
        axis = self._axis(dim, last)
        if axis == 0 and (self.storage.on_chip or any(d.vector for d in self.dynamic)):
            raise ViewError(
                f"{what} can't change axis 0 of {self!r}",
                because="axis 0 is the partition: its elements lie in different memories",
                hint="move data between partitions with nisa.nc_transpose or nisa.dma_copy",
            )
        return axis

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> NkiTensor:
        """Elements start, start + step, ... below `end` of one axis."""
        keys: list[Any] = [slice(None)] * self.ndim
        keys[self._axis(dim)] = slice(start, end, step)
        return self[tuple(keys)]

    def select(self, dim: int, index: int | Tile | VirtualRegister) -> NkiTensor:
        """One element of an axis, which goes away; the index may be a register or a [1, 1] tile."""
        axis = self._axis(dim)
        if isinstance(index, Tile | VirtualRegister):
            start, dynamic = 0, (*self.dynamic, self._moved(index, axis, self.shape[axis] - 1))
        else:
            start, dynamic = self._other(index, axis)[0], self.dynamic
            if axis == 0 and any(d.vector for d in dynamic):
                raise self._chosen_at_run_time(axis)
        if self.storage.on_chip and axis == 0:
            return self.slice(0, start, start + 1)
        shape, strides = _without(self.shape, axis), _without(self.strides, axis)
        offset = self.offset + start * self.strides[axis]
        return self._at_least(shape, strides, offset, dynamic)

    def _at_least(
        self, shape: Dims, strides: Dims, offset: int, dynamic: tuple[Dynamic, ...] | None = None
    ) -> NkiTensor:
        """A window that keeps the axes every tensor has: two on the chip, one in HBM."""
        if len(shape) < (2 if self.storage.on_chip else 1):
            shape, strides = (*shape, 1), (*strides, 1)
        return self.window(shape, strides, offset, dynamic=dynamic)

    def vector_select(self, dim: int, vector_offset: Tile) -> NkiTensor:
        """Row `vector_offset[p]` of axis 0 for each partition p; HBM only."""
        if dim != 0 or self.storage.on_chip:
            raise ViewError(
                "vector_select chooses along axis 0 of a tensor in hbm",
                argument="dim",
                got=f"axis {dim} of {self!r}",
                because="the DMA that gathers takes one row address per partition",
            )
        if self.dynamic:
            raise self._chosen_at_run_time(dim)
        chosen = Dynamic(vector_offset, self.strides[0], self.shape[0] - 1, vector=True)
        shape = (vector_offset.shape[0], *self.shape[1:])
        return self.window(shape, self.strides, self.offset, dynamic=(chosen,))

    def indirect(self, index: Tile, num_elem: int | None = None) -> NkiTensor:
        """The elements [P, num_elem] of each partition whose offsets along the free axes are in
        `index`, a tile [P, K] in SBUF: gathered where they are read, scattered where written.

        A group of 16 partitions (32 for the Tensor engine) shares its offsets: offset i is in row
        i % 16 and column i // 16 of those rows of the index.
        """
        if self.dynamic:
            raise self._chosen_at_run_time(self.ndim - 1)
        if not self.storage.on_chip or not self.is_contiguous():
            raise ViewError(
                f"{self!r} can't be picked from",
                got=f"strides {self.strides}",
                because="offsets count the elements of a partition of sbuf or psum, one after "
                "the other",
            )
        chosen = Dynamic(index, 1, prod(self.shape[1:]) - 1, picks=True)
        if len(index.shape) != 2 or index.shape[0] != self.shape[0] or index.dynamic:
            raise ShapeError(
                f"the index of {self!r} is {index!r}",
                argument="index",
                position=0,
                expected=f"shape ({self.shape[0]}, K)",
                got=f"shape {index.shape}",
                because="each partition of the tensor has a row of the index",
            )
        count = index.size if num_elem is None else num_elem
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ShapeError(
                f"{num_elem!r} is not a number of offsets",
                argument="num_elem",
                position=1,
                expected="a positive integer",
            )
        strides = (self.strides[0], 1)
        return self.window((self.shape[0], count), strides, self.offset, dynamic=(chosen,))

    def permute(self, dims: Sequence[int]) -> NkiTensor:
        """Axis i of the result is axis dims[i]."""
        order = tuple(self._axis(d) for d in dims)
        if sorted(order) != list(range(self.ndim)):
            raise ShapeError(
                f"{tuple(dims)} is not an order of the axes",
                argument="dims",
                expected=f"a permutation of {tuple(range(self.ndim))}",
            )
        if order[0] != 0:
            self._free_axis(0, "permute")
        return self.window(
            tuple(self.shape[d] for d in order), tuple(self.strides[d] for d in order), self.offset
        )

    def broadcast(self, dim: int, size: int) -> NkiTensor:
        """An axis of size 1 repeated `size` times."""
        axis = self._free_axis(dim, "broadcast")
        if self.shape[axis] != 1:
            raise ShapeError(
                f"axis {axis} has {self.shape[axis]} elements; only one can be repeated",
                argument="dim",
                expected="size 1",
                got=f"shape {self.shape}",
            )
        if size < 1:
            raise ShapeError(
                f"an axis can't be repeated {size} times",
                argument="size",
                position=1,
                expected="a positive number",
                got=str(size),
            )
        return self.window(_with(self.shape, axis, size), _with(self.strides, axis, 0), self.offset)

    def expand_dim(self, dim: int) -> NkiTensor:
        """A new axis of size 1 at position `dim`."""
        axis = self._free_axis(dim, "expand_dim", self.ndim + 1)
        return self.window(
            (*self.shape[:axis], 1, *self.shape[axis:]),
            (*self.strides[:axis], 1, *self.strides[axis:]),
            self.offset,
        )

    def squeeze_dim(self, dim: int) -> NkiTensor:
        """The same without an axis of size 1."""
        axis = self._free_axis(dim, "squeeze_dim")
        if self.shape[axis] != 1:
            raise ShapeError(
                f"axis {axis} has {self.shape[axis]} elements",
                argument="dim",
                expected="size 1",
                got=f"shape {self.shape}",
            )
        shape, strides = _without(self.shape, axis), _without(self.strides, axis)
        return self._at_least(shape, strides, self.offset)

    def reshape_dim(self, dim: int, shape: Sequence[int]) -> NkiTensor:
        """One axis split into several; one of the sizes may be -1."""
        axis = self._axis(dim)
        if len(shape) > 1:
            self._free_axis(dim, "reshape_dim")
        sizes = access.inferred(_integers(shape), self.shape[axis])
        if sizes is None:
            raise ShapeError(
                f"axis {axis} of size {self.shape[axis]} can't become {tuple(shape)}",
                argument="shape",
                expected=f"sizes that multiply to {self.shape[axis]}",
            )
        inner = tuple(s * self.strides[axis] for s in access.dense(sizes))
        return self.window(
            (*self.shape[:axis], *sizes, *self.shape[axis + 1 :]),
            (*self.strides[:axis], *inner, *self.strides[axis + 1 :]),
            self.offset,
        )

    def flatten_dims(self, start_dim: int, end_dim: int) -> NkiTensor:
        """Axes start_dim to end_dim, inclusive, as one."""
        first, last = self._free_axis(start_dim, "flatten_dims"), self._axis(end_dim)
        if first > last:
            raise ShapeError(f"axis {start_dim} comes after axis {end_dim}", argument="end_dim")
        merged = prod(self.shape[first : last + 1])
        shape = (*self.shape[:first], merged, *self.shape[last + 1 :])
        inner = access.reshaped(
            self.shape[first : last + 1], self.strides[first : last + 1], (merged,)
        )
        if inner is None:
            raise self._not_a_view(shape)
        strides = (*self.strides[:first], *inner, *self.strides[last + 1 :])
        return self.window(shape, strides, self.offset)

    def reshape(self, shape: Sequence[int]) -> NkiTensor:
        """The same elements in row-major order in another shape; one size may be -1."""
        sizes = access.inferred(_integers(shape), self.size)
        if sizes is None:
            raise ShapeError(
                f"{self.shape} has {self.size} elements, {tuple(shape)} doesn't",
                argument="shape",
                position=0,
                expected=f"sizes that multiply to {self.size}",
                got=str(tuple(shape)),
            )
        first = 0
        if self.storage.on_chip or any(d.vector for d in self.dynamic):
            first = 1
            if sizes[0] != self.shape[0]:
                self._free_axis(0, "reshape")
        strides = access.reshaped(self.shape[first:], self.strides[first:], sizes[first:])
        if strides is None:
            raise self._not_a_view(sizes)
        return self._at_least(sizes, (*self.strides[:first], *strides), self.offset)

    def _not_a_view(self, shape: Dims) -> ViewError:
        return ViewError(
            f"{self!r} can't be seen as {shape}",
            got=f"strides {self.strides}",
            because="the elements are not contiguous where axes would merge",
            hint="copy it into a fresh tile with nisa.tensor_copy first",
        )

    def rearrange(
        self,
        src_pattern: Sequence[Any],
        dst_pattern: Sequence[Any],
        fixed_sizes: dict[str, int] | None = None,
    ) -> NkiTensor:
        """Split, reorder and merge named axes: ('b', ('h', 'w')) to ('b', 'w', 'h')."""
        if len(src_pattern) != self.ndim:
            raise ShapeError(
                f"{src_pattern} names {len(src_pattern)} axes of {self.shape}",
                argument="src_pattern",
            )
        split: NkiTensor = self
        names: list[str] = []
        for group in src_pattern:
            parts = (group,) if isinstance(group, str) else tuple(group)
            sizes = tuple((fixed_sizes or {}).get(name, -1) for name in parts)
            if len(parts) > 1 or sizes[0] != -1:
                split = split.reshape_dim(len(names), sizes)
            names += parts
        order = [name for g in dst_pattern for name in ((g,) if isinstance(g, str) else g)]
        if sorted(order) != sorted(names) or len(set(names)) != len(names):
            raise ShapeError(
                f"{dst_pattern} doesn't name the axes of {src_pattern}",
                argument="dst_pattern",
            )
        moved = split.permute([names.index(name) for name in order])
        for axis, group in enumerate(dst_pattern):
            if not isinstance(group, str) and len(group) > 1:
                moved = moved.flatten_dims(axis, axis + len(group) - 1)
        return moved

    def view(self, dtype: Any) -> NkiTensor:
        """The bits as another format; the last axis grows or shrinks by the ratio of the sizes."""
        form = format_of(dtype, position=0)
        old, new = self.dtype.itemsize, form.itemsize
        *outer, last = self.shape
        *steps, step = self.strides
        if self.dynamic or (last != 1 and step != 1 and old != new):
            raise ViewError(
                f"{self!r} can't be viewed as {form}",
                got=f"strides {self.strides}",
                because="the last axis must be contiguous and known when the kernel is compiled",
            )
        sizes = (self.offset, *steps, last)
        if any(size * old % new for size in sizes):
            raise ShapeError(
                f"{last} elements of {self.dtype} are not a whole number of {form}",
                argument="dtype",
                position=0,
                got=repr(self),
            )
        offset, *steps, last = (size * old // new for size in sizes)
        return self.window((*outer, last), (*steps, 1 if old != new else step), offset, form)

    reinterpret_cast = view

    def ap(
        self,
        pattern: Sequence[Sequence[int]],
        offset: int | None = None,
        scalar_offset: Tile | VirtualRegister | None = None,
        vector_offset: Tile | None = None,
        indirect_dim: int = 0,
        dtype: Any = None,
    ) -> NkiTensor:
        """An explicit access pattern, [stride, count] per axis, on the storage under this view.

        `offset` counts elements from the start of the storage; None keeps this view's. A scalar
        offset moves the start along axis `indirect_dim` of this tensor; a vector offset gives each
        partition its own row of axis 0. A pattern that leaves the storage is refused where an
        instruction uses it.
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

    def _pattern(self, shape: Dims, strides: Dims, offset: int | None, form: Format) -> NkiTensor:
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
                f"axis {dim} of {self!r} repeats one element; an offset along it moves nothing",
                argument="indirect_dim",
                got=f"strides {self.strides}",
            )
        return step

    def _gathering(self, index: Tile, axis: int, step: int) -> NkiTensor:
        if axis != 0 or self.storage.on_chip:
            raise ViewError(
                "a vector offset chooses rows of axis 0 of a tensor in hbm",
                argument="indirect_dim",
                got=f"axis {axis} of {self!r}",
            )
        rows = Dynamic(index, step, self._last_index(step, first_axis=1), vector=True)
        return self.window(self.shape, (step, *self.strides[1:]), self.offset, dynamic=(rows,))

    def _check_pattern(self, indirect: bool) -> None:
        """The pattern stays inside its storage, on the chip inside each partition."""
        if not self.shape or min(self.shape) < 1:
            raise ShapeError(f"the pattern counts {self.shape}", argument="pattern", position=0)
        storage, first = self.storage, int(self.storage.on_chip)
        row = self.row_elements if storage.on_chip else storage.nbytes // self.dtype.itemsize
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
                because="the access would reach a neighbour's memory",
            )


def format_of(dtype: Any, position: int) -> Format:
    """The format that an argument called `dtype` names."""
    try:
        return lookup(dtype)
    except UsageError as error:
        raise SignatureError(str(error), argument="dtype", position=position) from None


def _integers(shape: Sequence[Any]) -> Dims:
    try:
        return tuple(operator.index(size) for size in shape)
    except TypeError:
        raise SignatureError(
            f"{shape!r} is not a shape",
            argument="shape",
            expected="integers, of which one may be -1",
        ) from None


def _without(items: Dims, axis: int) -> Dims:
    return (*items[:axis], *items[axis + 1 :])


def _with(items: Dims, axis: int, value: int) -> Dims:
    return (*items[:axis], value, *items[axis + 1 :])
