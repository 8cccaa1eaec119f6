"""The tensor object of today's API: a tile, its views, and assignment. `tensor[...] = value` issues
the instruction that writes to the tensor's memory.

Views do not move data. On-chip tensors have the partition as axis 0, and at least two axes (NKI
language guide, "View primitives"). Therefore most methods refuse to change axis 0 of such
tensors."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import BufferKindError, ShapeError, SignatureError, ViewError
from neuroncore.base.units import plural
from neuroncore.core.core import current
from neuroncore.frontend.limits import fitting, rows_of
from neuroncore.frontend.nki import isa
from neuroncore.frontend.nki.indexing import Patterned
from neuroncore.frontend.operators import format_of
from neuroncore.memory import access
from neuroncore.memory.access import Dims
from neuroncore.memory.register import VirtualRegister
from neuroncore.memory.tile import Dynamic, Tile


class Assigned(Patterned):
    """A tile with indexing, access patterns and assignment."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write a part of the tensor.

        On the chip, tensor_copy writes a tile, as in the vendor's migration guide. In HBM, dma_copy
        writes a tile or a tensor; memset first writes a number to a tile. Kernels for the vendor's
        simulator of 0.3 store results in this way (trnrand).

        Raises SignatureError for other values. In HBM, raises BufferKindError for a tile in PSUM,
        and ShapeError if shapes differ in more than axes of size 1."""
        slot = self[key]
        if not slot.storage.on_chip:
            _store(slot, value)
        elif isinstance(value, Tile) and value.storage.on_chip:
            isa.tensor_copy(slot, value)
        else:
            raise _not_copied(slot, value)


def _store(slot: Assigned, value: Any) -> None:
    """Write a value to `slot`, a view of a tensor in HBM, as `Assigned.__setitem__` describes."""
    if isinstance(value, int | float | np.number):
        for part in fitting(slot):
            tile = _tile_like(part)
            isa.memset(tile, value)
            isa.dma_copy(part, tile)
        return
    if not isinstance(value, Tile):
        raise SignatureError(
            f"{type(value).__name__} can't be assigned to {slot}",
            expected="a tile in sbuf, a tensor in hbm or a number",
            got=f"{value!r:.60}",
            hint="pass numpy arrays to the kernel as arguments, or by nl.shared_constant; "
            "nisa.register_store writes a register",
        )
    check_not_in_psum(value, "assignment")
    if _long_axes(slot.shape) != _long_axes(value.shape):
        raise ShapeError(
            f"a tile of shape {value.shape} can't be assigned to {slot}",
            expected=str(slot.shape),
            got=str(value.shape),
            because="a DMA writes as many elements as it reads, and repeats none",
            hint="nl.broadcast_to(tile, shape) repeats a tile",
        )
    isa.dma_copy(slot, value)


def _not_copied(slot: Assigned, value: Any) -> SignatureError:
    """Return the error for a `value` that no instruction can copy to `slot`, a tile on the chip.
    The error's hint names an alternative."""
    if isinstance(value, Tile):
        hint = (
            "nisa.dma_copy(dst=t[...], src=tensor) copies a tensor from hbm to sbuf, like nl.load"
        )
    elif isinstance(value, int | float | np.number):
        hint = "to write a number use nisa.memset(dst=t[...], value=number)"
    else:
        hint = "pass numpy arrays to the kernel as arguments, or by nl.shared_constant"
    return SignatureError(
        f"{type(value).__name__} can't be assigned to {slot}: only instructions write to tiles "
        "on the chip",
        expected="a tile in sbuf or psum",
        got=f"{value!r:.60}",
        hint=hint,
    )


def check_not_in_psum(value: Tile, what: str) -> None:
    """Raise BufferKindError if `value` is in PSUM, because a DMA can't read PSUM. The message
    begins with `what`."""
    if value.region is MemoryRegion.psum:
        raise BufferKindError(
            f"{what}: the value is in psum",
            argument="value",
            position=1,
            expected="sbuf",
            got=repr(value),
            because="DMA engines can't access PSUM",
            hint="nl.copy(value) copies it to SBUF",
        )


def _tile_like(tensor: Assigned) -> Assigned:
    """Return a new tile in SBUF with the size and the format of `tensor`."""
    shape = rows_of(tensor.size)
    storage = current().allocate(MemoryRegion.sbuf, shape, tensor.dtype)
    return type(tensor).of(storage)


def _long_axes(shape: Dims) -> list[int]:
    return [size for size in shape if size != 1]


def identity(n: int, dtype: Any) -> Any:
    """Return an n x n identity matrix as a numpy array, for nl.shared_constant. Releases before 0.3
    had this function in this module."""
    return np.identity(n).astype(format_of(dtype, position=1).numpy)


class NkiTensor(Assigned):
    """A tensor in HBM, SBUF or PSUM. `strides` and `offset` count elements."""

    __slots__ = ()

    @property
    def base_tensor(self) -> NkiTensor:
        """The whole tensor of which this one is a view."""
        return type(self).of(self.storage)

    @property
    def address(self) -> tuple[int, int] | None:
        """The (partition, byte within the partition) at which the kernel placed the storage. None
        if the system chooses the address."""
        storage = self.storage
        return (storage.partition0, storage.byte0) if storage.placed else None

    # --- questions -------------------------------------------------------------------------------

    def is_contiguous(self) -> bool:
        """Return whether the elements are contiguous and in row-major order. On the chip, this is
        about the elements of each partition."""
        first = 1 if self.storage.on_chip else 0
        return access.is_dense(self.shape[first:], self.strides[first:])

    def is_indirect(self) -> bool:
        """Return whether an offset is known only at run time."""
        return bool(self.dynamic)

    # --- views -----------------------------------------------------------------------------------

    def _free_axis(self, dim: int, what: str, last: int | None = None) -> int:
        """Return the number of the axis `dim`, counted from 0. `last` is the number of axes to
        choose from, by default all. Raises ViewError for axes that the method `what` can't change:
        the partition axis, and an axis 0 whose rows are selected at run time."""
        axis = self._axis(dim, last)
        if axis == 0 and (self.storage.on_chip or any(d.vector for d in self.dynamic)):
            raise ViewError(
                f"{what} can't change axis 0 of {self}",
                because="axis 0 is the partition axis, and a view moves no data",
                hint="move data between partitions with nisa.nc_transpose or nisa.dma_copy",
            )
        return axis

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> NkiTensor:
        """Return a view of the elements start, start + step, ... below `end` of one axis."""
        keys: list[Any] = [slice(None)] * self.ndim
        keys[self._axis(dim)] = slice(start, end, step)
        return self[tuple(keys)]

    def select(self, dim: int, index: int | Tile | VirtualRegister) -> NkiTensor:
        """Return a view of one element of an axis, without this axis. The index may be a register
        or a [1, 1] tile."""
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
        """Return a view on the storage. If `shape` has fewer axes than a tensor must have (two on
        the chip, one in HBM), an axis of size 1 is added at the end."""
        if len(shape) < (2 if self.storage.on_chip else 1):
            shape, strides = (*shape, 1), (*strides, 1)
        return self.window(shape, strides, offset, dynamic=dynamic)

    def vector_select(self, dim: int, vector_offset: Tile) -> NkiTensor:
        """Return a view of a tensor in HBM: for each partition p, row `vector_offset[p]` of axis
        0."""
        if dim != 0 or self.storage.on_chip:
            raise ViewError(
                "vector_select can only select along axis 0 of a tensor in hbm",
                argument="dim",
                got=f"axis {dim} of {self}",
                because="the DMA that gathers takes one row address per partition",
            )
        if self.dynamic:
            raise self._chosen_at_run_time(dim)
        chosen = Dynamic(vector_offset, self.strides[0], self.shape[0] - 1, vector=True)
        shape = (vector_offset.shape[0], *self.shape[1:])
        return self.window(shape, self.strides, self.offset, dynamic=(chosen,))

    def indirect(self, index: Tile, num_elem: int | None = None) -> NkiTensor:
        """Return a view [P, num_elem] of elements along the free axes. A read of the view gathers
        these elements, and a write scatters to them.

        `index`: a tile [P, K] in SBUF with the offsets of the elements. Each group of G = 16
            consecutive partitions (32 for the Tensor engine) shares its offsets: offset i is in row
            i % G of the group, column i // G."""
        if self.dynamic:
            raise self._chosen_at_run_time(self.ndim - 1)
        if not self.storage.on_chip or not self.is_contiguous():
            raise ViewError(
                f"{self} can't be indexed indirectly",
                got=f"strides {self.strides}",
                because="an offset is the number of an element in its partition, so the tensor "
                "must be in sbuf or psum, and contiguous within each partition",
            )
        chosen = Dynamic(index, 1, prod(self.shape[1:]) - 1, picks=True)
        if len(index.shape) != 2 or index.shape[0] != self.shape[0]:
            raise ShapeError(
                f"{index} can't be the index of {self}",
                argument="index",
                position=0,
                expected=f"shape ({self.shape[0]}, columns)",
                got=f"shape {index.shape}",
                because="the index needs a row for each partition of the tensor",
            )
        count = index.size if num_elem is None else num_elem
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ShapeError(
                f"num_elem is {num_elem!r}; it must be the number of offsets, a positive integer",
                argument="num_elem",
                position=1,
                expected="a positive integer",
            )
        strides = (self.strides[0], 1)
        return self.window((self.shape[0], count), strides, self.offset, dynamic=(chosen,))

    def permute(self, dims: Sequence[int]) -> NkiTensor:
        """Reorder the axes: axis i of the result is axis dims[i]."""
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

    def _single(self, dim: int, method: str, change: str) -> int:
        """Return the number of the axis `dim`. Raises ShapeError unless the axis has size 1.

        `method`, `change`: the method's name and what it does to the axis, for the message"""
        axis = self._free_axis(dim, method)
        if self.shape[axis] != 1:
            raise ShapeError(
                f"axis {axis} has {self.shape[axis]:,} elements; only an axis of one element can "
                f"be {change}",
                argument="dim",
                expected="choose an axis of size 1",
                got=f"shape {self.shape}",
            )
        return axis

    def broadcast(self, dim: int, size: int) -> NkiTensor:
        """Repeat an axis of size 1 `size` times."""
        axis = self._single(dim, "broadcast", "repeated")
        if size < 1:
            raise ShapeError(
                f"an axis can't be repeated {size} times",
                argument="size",
                position=1,
                expected="a positive number",
                got=str(size),
            )
        stride = 0 if size > 1 else self.strides[axis]
        shape, strides = _with(self.shape, axis, size), _with(self.strides, axis, stride)
        return self.window(shape, strides, self.offset)

    def expand_dim(self, dim: int) -> NkiTensor:
        """Insert a new axis of size 1 at position `dim`."""
        axis = self._free_axis(dim, "expand_dim", self.ndim + 1)
        stride = access.span(self.shape[axis:], self.strides[axis:])
        return self.window(
            (*self.shape[:axis], 1, *self.shape[axis:]),
            (*self.strides[:axis], stride, *self.strides[axis:]),
            self.offset,
        )

    def squeeze_dim(self, dim: int) -> NkiTensor:
        """Return the same elements without an axis of size 1."""
        axis = self._single(dim, "squeeze_dim", "removed")
        shape, strides = _without(self.shape, axis), _without(self.strides, axis)
        return self._at_least(shape, strides, self.offset)

    def reshape_dim(self, dim: int, shape: Sequence[int]) -> NkiTensor:
        """Return a view with one axis split into axes of the sizes `shape`. One size may be -1: it
        follows from the other sizes."""
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
        """Merge axes start_dim to end_dim, inclusive, into one."""
        first, last = self._free_axis(start_dim, "flatten_dims"), self._axis(end_dim)
        if first > last:
            raise ShapeError(
                f"end_dim (axis {end_dim}) is before start_dim (axis {start_dim})",
                argument="end_dim",
                expected=f"axis {start_dim} or a later axis",
            )
        merged = prod(self.shape[first : last + 1])
        shape = (*self.shape[:first], merged, *self.shape[last + 1 :])
        inner: Dims | None = (self.strides[last],)
        if merged > 1:
            axes = slice(first, last + 1)
            inner = access.reshaped(self.shape[axes], self.strides[axes], (merged,))
        if inner is None:
            raise self._not_a_view(shape)
        strides = (*self.strides[:first], *inner, *self.strides[last + 1 :])
        return self.window(shape, strides, self.offset)

    def reshape(self, shape: Sequence[int]) -> NkiTensor:
        """Return a view of the same elements, in row-major order, in another shape. One size may be
        -1: it follows from the other sizes."""
        sizes = access.inferred(_integers(shape), self.size)
        if sizes is None:
            raise ShapeError(
                f"{tuple(shape)} does not have the {self.size:,} elements of {self.shape}",
                argument="shape",
                position=0,
                expected=f"sizes that multiply to {self.size:,}",
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
            f"{self} can't be viewed as {shape}",
            got=f"strides {self.strides}",
            because="the elements are not contiguous where axes would merge",
            hint="first copy the tensor into a new tile with nisa.tensor_copy",
        )

    def rearrange(
        self,
        src_pattern: Sequence[Any],
        dst_pattern: Sequence[Any],
        fixed_sizes: dict[str, int] | None = None,
    ) -> NkiTensor:
        """Split, reorder and merge axes.

        `src_pattern` names the axes; a tuple in it splits an axis. A tuple in `dst_pattern` merges
        axes. For example, ('b', ('h', 'w')) and ('b', 'w', 'h') split axis 1 into h and w, and swap
        h and w. `fixed_sizes` maps names of axes to sizes."""
        if len(src_pattern) != self.ndim:
            raise ShapeError(
                f"{src_pattern} has names for {plural(len(src_pattern), 'axis', 'axes')}, but the "
                f"tensor has {self.ndim}",
                argument="src_pattern",
                expected="for each axis of the tensor, a name, or a tuple of names to split it",
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
                f"{dst_pattern} doesn't have the names of {src_pattern}",
                argument="dst_pattern",
                expected="use each name of src_pattern once",
            )
        moved = split.permute([names.index(name) for name in order])
        for axis, group in enumerate(dst_pattern):
            if not isinstance(group, str) and len(group) > 1:
                moved = moved.flatten_dims(axis, axis + len(group) - 1)
        return moved

    def view(self, dtype: Any) -> NkiTensor:
        """Return a view of the same bits as elements of another format. The size of the last axis
        changes by the factor (old element size / new element size)."""
        form = format_of(dtype, position=0)
        old, new = self.dtype.itemsize, form.itemsize
        *outer, last = self.shape
        *steps, step = self.strides
        if self.dynamic or (last != 1 and step != 1 and old != new):
            raise ViewError(
                f"{self} can't be viewed as {form}",
                got=f"strides {self.strides}",
                because="the last axis must be contiguous and known when the kernel is compiled",
            )
        outer_steps = access.recounted(outer, steps, old, new)
        if outer_steps is None or self.offset * old % new or last * old % new:
            raise ShapeError(
                f"{last:,} elements of {self.dtype} are not a whole number of {form} elements",
                argument="dtype",
                position=0,
                got=str(self),
            )
        shape = (*outer, last * old // new)
        strides = (*outer_steps, 1 if old != new else step)
        return self.window(shape, strides, self.offset * old // new, form)

    reinterpret_cast = view


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
