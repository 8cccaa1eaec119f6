"""Indexing of tensors, and explicit access patterns (`tensor.ap`).

`tensor[...]` accepts integers, slices with steps, `...`, nl.ds and registers. Python's operators on
tensors raise errors."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from neuroncore.base.errors import (
    DynamicControlError,
    OutOfBoundsError,
    ShapeError,
    SignatureError,
    ViewError,
)
from neuroncore.base.lazy import Lazy
from neuroncore.base.units import plural
from neuroncore.core.core import running
from neuroncore.frontend import limits
from neuroncore.frontend.limits import DynamicSlice, beyond
from neuroncore.frontend.operators import format_of
from neuroncore.frontend.tensors import Seen, Unread, asserted, is_there, question, truth_value
from neuroncore.memory import access
from neuroncore.memory.access import Dims
from neuroncore.memory.parts import Parted
from neuroncore.memory.register import VirtualRegister
from neuroncore.memory.tile import Dynamic, Tile
from neuroncore.numerics.formats import Format

if TYPE_CHECKING:
    from neuroncore.frontend import misuse
else:
    misuse = Lazy("neuroncore.frontend.misuse")


T = TypeVar("T", bound="Indexed")


DROPPED = -1  # the count of an axis that an integer removes
RAGGED = "end the slice at the end of the axis; in a loop: min(start + size, size of the axis)"


class Indexed(Seen, Unread, Parted):
    """A tile with indexing."""

    __slots__ = ()

    def __bool__(self) -> bool:
        """Return True, because kernels write `if tensor` to distinguish a tensor from None.

        In an `assert` of a tile on the chip, return whether no element is 0, as the documentation
        does. Other conditions give a warning. Raises DynamicControlError if only the contents can
        be meant."""
        if self.storage.on_chip and asserted():
            return bool(self.resolved().values().all())
        if self.storage.on_chip and not is_there(self):
            raise truth_value(self)
        return True

    def by_keys(self: T, keys: tuple[Any, ...]) -> T:
        """Return the view that `keys` select: integers, slices with steps, `...`, nl.ds and
        registers.

        An integer removes its axis. A tile on the chip keeps axis 0, with size 1. It also keeps at
        least two axes: if only one would be left, an axis of size 1 is added at the end. A view may
        be empty."""
        shape, strides = self.shape, self.strides
        rank = len(shape)
        if len(keys) != rank or EllipsisType in map(type, keys):
            keys = self._expanded(keys, rank)
        on_chip = self.storage.on_chip
        new_shape: list[int] = []
        new_strides: list[int] = []
        offset = self.offset
        dynamic: tuple[Dynamic, ...] = self.dynamic
        for axis, k in enumerate(keys):
            size, stride = shape[axis], strides[axis]
            if type(k) is slice:
                if k.start is None and k.stop is None and k.step is None:
                    new_shape.append(size)
                    new_strides.append(stride)
                    continue
                start, count, step = self._bounds(k, axis)
            elif type(k) is int:
                start, step = self._integer(k, axis), 1
                count = 1 if on_chip and axis == 0 else DROPPED
            else:
                start, count, step, moved = self._other(k, axis)
                dynamic = (*dynamic, *moved)
            if axis == 0 and dynamic and dynamic[0].vector and (start or count != size):
                raise self._chosen_at_run_time(axis)
            offset += start * stride
            if count == DROPPED:
                continue
            new_shape.append(count)
            new_strides.append(stride * step)
        if len(new_shape) < (2 if on_chip else 1):
            new_shape.append(1)
            new_strides.append(1)
        return self.window(tuple(new_shape), tuple(new_strides), offset, dynamic=dynamic)

    def _expanded(self, keys: tuple[Any, ...], rank: int) -> tuple[Any, ...]:
        """Return a key for every axis: `...` and missing keys mean whole axes."""
        kinds = [type(k) for k in keys]
        axes = len(keys) - kinds.count(EllipsisType)
        if len(keys) - axes > 1:
            raise SignatureError("an index can have only one `...`", got=repr(keys))
        if axes > rank:
            raise OutOfBoundsError(
                f"the tensor has {plural(rank, 'axis', 'axes')}, but the index has "
                f"{plural(axes, 'item')}",
                got=f"a tensor of shape {self.shape}",
            )
        fill = (slice(None),) * (rank - axes)
        if axes == len(keys):
            return (*keys, *fill)
        at = kinds.index(EllipsisType)
        return (*keys[:at], *fill, *keys[at + 1 :])

    def _integer(self, index: int, axis: int) -> int:
        """Return the index of an element, counted from 0. Raises OutOfBoundsError."""
        size = self.shape[axis]
        if not -size <= index < size:
            raise self._outside(f"index {index}", axis)
        return index % size

    def _bounds(self, k: slice, axis: int) -> tuple[int, int, int]:
        """Return the first element, the count and the step of a slice. All elements of the slice
        must exist. The slice may be empty."""
        size = self.shape[axis]
        start = 0 if k.start is None else self._bound(k.start, axis)
        stop = size if k.stop is None else self._bound(k.stop, axis)
        step = 1 if k.step is None else self._bound(k.step, axis)
        if step < 1:
            raise SignatureError(
                f"the slice of axis {axis} steps by {step}",
                expected="a step of at least 1",
                because="a slice selects elements in increasing order, each once",
                hint="tensor.ap accepts any stride: 0 repeats an element, a negative stride goes "
                "backward",
            )
        start, stop = start + size * (start < 0), stop + size * (stop < 0)
        if not 0 <= start <= stop <= size:
            raise self._past(start, stop - 1, axis)
        return start, -(-(stop - start) // step), step

    def _bound(self, value: Any, axis: int) -> int:
        """Return the start, stop, step or size of an axis's slice as an int. Raises
        DynamicControlError for a register, and SignatureError for other values."""
        if isinstance(value, VirtualRegister):
            raise DynamicControlError(
                f"a register bounds the slice of axis {axis}",
                because="the number of elements must be known when the kernel is compiled",
                hint="nl.ds(register, size) has a dynamic start and a constant size",
            )
        try:
            return operator.index(value)
        except TypeError:
            raise SignatureError(
                f"axis {axis} can't be sliced with {type(value).__name__}",
                expected="integers",
                got=repr(value),
                because="the bounds of a slice are numbers of elements",
                hint="use n // size, which is an int; n / size is a float",
            ) from None

    def _other(self, k: Any, axis: int) -> tuple[int, int, int, tuple[Dynamic, ...]]:
        """Return (first element, count, step, run-time offsets) for an index. The count DROPPED
        removes the axis. The index is nl.ds, a register, a tile, a range or another object with
        __index__."""
        size = self.shape[axis]
        keep = 1 if self.storage.on_chip and axis == 0 else DROPPED
        if isinstance(k, DynamicSlice):
            count = self._bound(k.size, axis)
            if not 0 <= count <= size:
                raise self._outside(f"a range of {plural(count, 'element')}", axis)
            if isinstance(k.start, VirtualRegister):
                return 0, count, 1, (self._moved(k.start, axis, size - count),)
            start = self._bound(k.start, axis)
            if not 0 <= start <= size - count:
                raise self._past(start, start + count - 1, axis)
            return start, count, 1, ()
        if isinstance(k, VirtualRegister | Tile):
            return 0, keep, 1, (self._moved(k, axis, size - 1),)
        if isinstance(k, range):  # nl.affine_range as an index: aws-neuron/nkipy, simple_nki_kernel
            return (*self._bounds(slice(k.start, k.stop, k.step), axis), ())
        number: Any = None if isinstance(k, bool) else k
        try:
            index = operator.index(number)
        except TypeError:
            raise SignatureError(
                f"axis {axis} can't be indexed with {type(k).__name__}",
                expected="an int, a slice, ..., nl.ds(start, size) or a register",
                got=repr(k),
            ) from None
        return self._integer(index, axis), keep, 1, ()

    def _moved(self, index: VirtualRegister | Tile, axis: int, limit: int) -> Dynamic:
        """Return a run-time offset of `index` elements along an axis. The value of `index` may be
        from 0 to `limit`. Raises DynamicControlError for the partition axis. Raises ViewError if
        the view already has a run-time offset that can't be combined with the new one."""
        if self.storage.on_chip and axis == 0:
            raise self._fixed_partition()
        if any(d.vector for d in self.dynamic) or (isinstance(index, Tile) and self.dynamic):
            raise self._chosen_at_run_time(axis)
        return Dynamic(index, self.strides[axis], limit)

    def _fixed_partition(self) -> DynamicControlError:
        return DynamicControlError(
            "an index whose value is known only at run time can't choose a partition",
            got=str(self),
            because="the first partition of an operand is fixed when the kernel is compiled",
            hint="move the indexed axis to the free axes, or copy the data through HBM",
        )

    def _past(self, first: int, last: int, axis: int) -> OutOfBoundsError:
        error = self._outside(f"index range [{first}, {last}]", axis)
        error.hint = beyond(first, last, axis, self.shape, RAGGED)
        return error

    def _outside(self, what: str, axis: int) -> OutOfBoundsError:
        return OutOfBoundsError(
            f"{what} exceeds axis {axis} of size {self.shape[axis]}",
            expected=f"use indices from 0 to {self.shape[axis] - 1}",
            got=what,
            because="the access would reach the memory of another tensor",
            hint=RAGGED,
            also="err_tensor_access_out_of_bound",
        )

    def _chosen_at_run_time(self, axis: int) -> ViewError:
        return ViewError(
            f"axis {axis} of an indirect view can't be indexed again",
            got=str(self),
            because="an instruction can have only one offset that is known only at run time",
            hint="first slice the tensor, then make the view indirect",
        )

    def __array_ufunc__(self, ufunc: Any, *_: Any, **__: Any) -> Any:
        raise misuse.refused_ufunc(ufunc.__name__, self)


def _refusing(symbol: str, function: str) -> Callable[[Indexed, Any], Any]:
    def method(self: Indexed, other: Any = None) -> Any:
        if symbol in ("<", "<=", ">", ">=") and question().tests_truth:
            raise truth_value(self)
        raise SignatureError(
            f"{self} has no operator {symbol}",
            because="in this API tensors have no operators: every operation is a function",
            hint=f"use nl.{function}",
        )

    return method


for _method, _symbol, _name in (
    *(("add", "+", "add"), ("sub", "-", "subtract"), ("mul", "*", "multiply")),
    *(("truediv", "/", "divide"), ("pow", "**", "power"), ("matmul", "@", "matmul")),
    *(("mod", "%", "mod"), ("and", "&", "bitwise_and"), ("or", "|", "bitwise_or")),
    *(("xor", "^", "bitwise_xor"), ("lshift", "<<", "left_shift"), ("rshift", ">>", "right_shift")),
    ("floordiv", "//", "floor(nl.divide(x, y))"),
):
    setattr(Indexed, f"__{_method}__", _refusing(_symbol, _name))
    setattr(Indexed, f"__r{_method}__", _refusing(_symbol, _name))
for _method, _symbol, _name in (
    *(("lt", "<", "less"), ("le", "<=", "less_equal")),
    *(("gt", ">", "greater"), ("ge", ">=", "greater_equal")),
    *(("neg", "-", "negative"), ("invert", "~", "invert"), ("abs", "abs()", "abs")),
):
    setattr(Indexed, f"__{_method}__", _refusing(_symbol, _name))


class Patterned(Indexed):
    """A tile with indexing and access patterns."""

    __slots__ = ()

    def get_pattern(self) -> list[list[int]]:
        """Return [stride, count] of each axis, the form that `ap` takes."""
        return [[s, n] for s, n in zip(self.strides, self.shape, strict=True)]

    def _axis(self, dim: int, last: int | None = None) -> int:
        """Return the number of the axis `dim`, counted from 0. A negative `dim` counts from the
        end. `last` is the number of axes to choose from, by default all."""
        (dim,) = limits.axes(dim, "dim", position=0)
        count = self.ndim if last is None else last
        if not -count <= dim < count:
            raise OutOfBoundsError(
                f"the tensor has no axis {dim}",
                expected=f"use an axis from {-count} to {count - 1}",
                got=f"a tensor of shape {self.shape}",
            )
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
        """Return a view on the same storage with an access pattern: [stride, count] per axis.

        `offset` counts elements from the start of the storage. None keeps the offset of this view,
        even if the offset is known only at run time. `scalar_offset` moves the start: it is an
        index along axis `indirect_dim` of this tensor. `vector_offset` contains, for each
        partition, the index of a row of axis 0. A pattern that leaves the storage is refused when
        an instruction uses it."""
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
                "ap takes scalar_offset or vector_offset, but not both", argument="vector_offset"
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
        """Return the run-time offset of this view for `plain`, the view that `ap` makes. Raises
        ViewError in three cases:

        * `ap` was passed an offset (`free` is False).
        * This view has several offsets, or an index that selects rows or elements.
        * The step of the offset is not a whole number of elements of `plain`."""
        move, *others = self.dynamic
        step, rest = divmod(move.step * self.dtype.itemsize, plain.dtype.itemsize)
        hint = "call ap on the whole tensor, and pass the run-time offset of the view to it"
        if not free:
            why = f"{self} has a run-time offset, so ap can't add another offset"
        elif others or move.vector or move.picks:
            why = f"{self} has several run-time offsets or an index, so ap can't change its pattern"
        elif rest:
            why = (
                f"the run-time offset of {self} moves it by multiples of "
                f"{move.step * self.dtype.itemsize:,} bytes, which are not whole elements of "
                f"{plain.dtype}"
            )
        else:
            return (Dynamic(move.index, step, plain._last_index(step)),)
        raise ViewError(why, argument="pattern", position=0, hint=hint)

    def _pattern(self, shape: Dims, strides: Dims, offset: int | None, form: Format) -> Self:
        """Return the view of an access pattern, without run-time offsets.

        According to the documentation, the step between partitions is a row of the storage.
        Published kernels pass the length of a row of this view instead (nki-library, TensorView of
        a slice); then the storage's row is used, and `offset` counts from the start of this
        view."""
        base = self.offset * self.dtype.itemsize // form.itemsize
        first = base if offset is None else int(offset)
        if self.storage.on_chip and len(strides) > 1:
            row = self.storage.row_bytes // form.itemsize
            view_row = prod(self.shape[1:]) * self.dtype.itemsize // form.itemsize
            if strides[0] == view_row != row:
                strides = (row, *strides[1:])
                first, offset = base + int(offset or 0), None
        if offset is not None and base and (core := running()) is not None:
            core.report(
                "OFFSET_OF_VIEW",
                f"ap: offset={offset} counts from the start of the tensor's memory, not from the "
                f"start of this view ({self}), which is element {base}",
            )
        return self.window(shape, strides, first, form, dynamic=())

    def _last_index(self, step: int, first_axis: int = 0) -> int:
        """Return the largest run-time index that keeps the pattern inside its storage, and on the
        chip inside each partition. An index of 1 moves the pattern by `step` elements. Axes before
        `first_axis` are ignored."""
        room, offset = self.storage.nbytes // self.dtype.itemsize, self.offset
        if self.storage.on_chip:
            first_axis, room = 1, self.row_elements
            offset %= room
        reach = access.extent(self.shape[first_axis:], self.strides[first_axis:])[1] + offset
        return (room - 1 - reach) // step

    def _step(self, dim: int, form: Format) -> int:
        """Return the distance between consecutive elements of an axis, in elements of the format
        `form`."""
        step = self.strides[self._axis(dim)] * self.dtype.itemsize // form.itemsize
        if step < 1:
            raise ViewError(
                f"axis {dim} of {self} repeats one element; an offset along the axis moves nothing",
                argument="indirect_dim",
                got=f"strides {self.strides}",
            )
        return step

    def _gathering(self, index: Tile, axis: int, step: int) -> Self:
        """Return this view with rows of axis 0 that `index` selects at run time. Row i begins after
        i * `step` elements. Raises ViewError for another axis and for tiles on the chip."""
        if axis != 0 or self.storage.on_chip:
            raise ViewError(
                "a vector offset can only select rows of axis 0 of a tensor in hbm",
                argument="indirect_dim",
                got=f"axis {axis} of {self}",
            )
        rows = Dynamic(index, step, self._last_index(step, first_axis=1), vector=True)
        return self.window(self.shape, (step, *self.strides[1:]), self.offset, dynamic=(rows,))

    def _check_pattern(self, indirect: bool) -> None:
        """Check a view that `ap` made. If its pattern leaves the storage, or on the chip the
        partition, store an error in the view. Raises ShapeError and ViewError for patterns that no
        access can have."""
        if not self.shape or min(self.shape) < 1:
            raise ShapeError(
                f"the pattern's counts are {self.shape}; each must be at least 1",
                argument="pattern",
                position=0,
            )
        storage, first = self.storage, int(self.storage.on_chip)
        row = self.row_elements if storage.on_chip else storage.nbytes // self.dtype.itemsize
        if row < 1:
            raise ViewError(
                f"{'a partition of ' * first}the tensor is smaller than one {self.dtype} element",
                argument="dtype",
                position=5,
                got=f"{storage.row_bytes:,} bytes",
            )
        if storage.on_chip and self.shape[0] > 1 and self.strides[0] != row:
            raise ViewError(
                f"the partition axis steps by {self.strides[0]}",
                argument="pattern",
                position=0,
                expected=f"{row}: a partition of the tensor has {row} elements",
                because="an access takes consecutive partitions",
            )
        skip = 1 if indirect else first
        low, high = access.extent(self.shape[skip:], self.strides[skip:])
        start = self.offset % row if storage.on_chip else self.offset
        end_row = self.offset // row + self.shape[0] if storage.on_chip else 0
        beyond = self.offset < 0 or end_row > storage.partitions * first
        if beyond or start + low < 0 or start + high >= row:
            # stored and not raised, because published kernels make such patterns without using them
            self.fault = OutOfBoundsError(
                f"the pattern reaches elements {start + low} to {start + high}",
                argument="pattern",
                position=0,
                expected=f"use elements 0 to {row - 1}"
                + (" of each partition" if storage.on_chip else ""),
                got=f"offset {self.offset}, {self.get_pattern()}",
                because="the access would reach the memory of another tensor",
            )
