"""The meaning of `tensor[...]`: integers, slices with steps, `...`, nl.ds, registers; and what
Python's operators mean: nothing."""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import EllipsisType
from typing import Any, TypeVar

from neuroncore.base.errors import (
    DynamicControlError,
    OutOfBoundsError,
    SignatureError,
    ViewError,
)
from neuroncore.frontend import misuse
from neuroncore.frontend.bounds import beyond
from neuroncore.frontend.seen import Seen
from neuroncore.frontend.slices import DynamicSlice
from neuroncore.frontend.unread import Unread, asserted, is_there, truth_value
from neuroncore.memory.parts import Parted
from neuroncore.memory.register import VirtualRegister
from neuroncore.memory.tile import Dynamic, Tile

T = TypeVar("T", bound="Indexed")


DROPPED = -1  # the count of an axis that an integer takes away
RAGGED = "shorten the last slice: min(start + size, total)"


class Indexed(Seen, Unread, Parted):
    """A tile with indexing."""

    __slots__ = ()

    def __bool__(self) -> bool:
        """Return True: kernels test this way whether an argument is a tensor or None. For a tile on
        the chip an `assert` tests that no element is 0, as documents check results, and other tests
        give a warning. Raises DynamicControlError if only the contents of the tile can be meant."""
        if self.storage.on_chip and asserted():
            return bool(self.resolved().values().all())
        if self.storage.on_chip and not is_there(self):
            raise truth_value(self)
        return True

    def by_keys(self: T, keys: tuple[Any, ...]) -> T:
        """A view by integers, slices with steps, `...`, nl.ds and registers.

        An integer drops its axis; on the chip axis 0 stays, with size 1, and so does the last
        axis where fewer than two would be left. A view may be empty.
        """
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
        """Keys for every axis: `...` and missing keys mean whole axes."""
        kinds = [type(k) for k in keys]
        given = len(keys) - kinds.count(EllipsisType)
        if len(keys) - given > 1:
            raise SignatureError("an index can have only one `...`", got=repr(keys))
        if given > rank:
            raise OutOfBoundsError(
                f"{len(keys)} indices for a tensor with {rank} axes",
                got=f"shape {self.shape}",
            )
        fill = (slice(None),) * (rank - given)
        if given == len(keys):
            return (*keys, *fill)
        at = kinds.index(EllipsisType)
        return (*keys[:at], *fill, *keys[at + 1 :])

    def _integer(self, index: int, axis: int) -> int:
        size = self.shape[axis]
        if not -size <= index < size:
            raise self._outside(f"index {index}", axis)
        return index % size

    def _bounds(self, k: slice, axis: int) -> tuple[int, int, int]:
        """First element, count and step of a slice; all of it must exist, but it may be empty."""
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
                expected="ints",
                got=repr(value),
                because="elements are counted",
                hint="n // size is an int where n / size is a float",
            ) from None

    def _other(self, k: Any, axis: int) -> tuple[int, int, int, tuple[Dynamic, ...]]:
        """Index kinds other than plain slices and ints."""
        size = self.shape[axis]
        keep = 1 if self.storage.on_chip and axis == 0 else DROPPED
        if isinstance(k, DynamicSlice):
            count = self._bound(k.size, axis)
            if not 0 <= count <= size:
                raise self._outside(f"a window of {count}", axis)
            if isinstance(k.start, VirtualRegister):
                return 0, count, 1, (self._moved(k.start, axis, size - count),)
            start = self._bound(k.start, axis)
            if not 0 <= start <= size - count:
                raise self._past(start, start + count - 1, axis)
            return start, count, 1, ()
        if isinstance(k, VirtualRegister | Tile):
            return 0, keep, 1, (self._moved(k, axis, size - 1),)
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
        if self.storage.on_chip and axis == 0:
            raise self._fixed_partition()
        if any(d.vector for d in self.dynamic) or (isinstance(index, Tile) and self.dynamic):
            raise self._chosen_at_run_time(axis)
        return Dynamic(index, self.strides[axis], limit)

    def _fixed_partition(self) -> DynamicControlError:
        return DynamicControlError(
            "the partition can't be chosen at run time",
            got=str(self),
            because="an instruction's start partition is part of its encoding",
            hint="move the indexed axis to the free axes, or go through HBM",
        )

    def _past(self, first: int, last: int, axis: int) -> OutOfBoundsError:
        error = self._outside(f"index range [{first}, {last}]", axis)
        error.hint = beyond(first, last, axis, self.shape, RAGGED)
        return error

    def _outside(self, what: str, axis: int) -> OutOfBoundsError:
        return OutOfBoundsError(
            f"{what} exceeds axis {axis} of size {self.shape[axis]}",
            expected=f"within [0, {self.shape[axis] - 1}]",
            got=what,
            because="the access would reach the memory of another tensor",
            hint=RAGGED,
            also="err_tensor_access_out_of_bound",
        )

    def _chosen_at_run_time(self, axis: int) -> ViewError:
        return ViewError(
            f"axis {axis} of an indirect view can't be indexed again",
            got=str(self),
            because="an instruction holds one run-time offset",
            hint="slice first, then make the view indirect",
        )

    def __array_ufunc__(self, ufunc: Any, *_: Any, **__: Any) -> Any:
        raise misuse.refused_ufunc(ufunc.__name__, self)


def _refusing(symbol: str, function: str) -> Callable[[Indexed, Any], Any]:
    def method(self: Indexed, other: Any = None) -> Any:
        raise SignatureError(
            f"{self} has no operator {symbol}",
            because="this API has only functions, each of which is an instruction",
            hint=f"use nl.{function}",
        )

    return method


for _method, _symbol, _name in (
    *(("add", "+", "add"), ("sub", "-", "subtract"), ("mul", "*", "multiply")),
    *(("truediv", "/", "divide"), ("pow", "**", "power"), ("matmul", "@", "matmul")),
    *(("mod", "%", "mod"), ("and", "&", "bitwise_and"), ("or", "|", "bitwise_or")),
):
    setattr(Indexed, f"__{_method}__", _refusing(_symbol, _name))
    setattr(Indexed, f"__r{_method}__", _refusing(_symbol, _name))
for _method, _symbol, _name in (
    *(("lt", "<", "less"), ("le", "<=", "less_equal")),
    *(("gt", ">", "greater"), ("ge", ">=", "greater_equal")),
):
    setattr(Indexed, f"__{_method}__", _refusing(_symbol, _name))
