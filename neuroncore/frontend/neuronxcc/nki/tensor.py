"""The tensor object of the older API: a tile with index expressions and assignment."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import Any

from neuroncore.base.errors import (
    OutOfBoundsError,
    ShapeError,
    SignatureError,
    ViewError,
)
from neuroncore.core.core import running
from neuroncore.frontend import limits
from neuroncore.frontend.limits import DynamicSlice
from neuroncore.frontend.neuronxcc.nki import refusals
from neuroncore.frontend.neuronxcc.nki.expressions import (
    Box,
    Index,
    Mask,
    Shifted,
    filled,
    together,
)
from neuroncore.frontend.neuronxcc.nki.spans import Cut, Move, Span, inside, moved, split
from neuroncore.frontend.operators import format_of
from neuroncore.frontend.tensors import Seen, Unread, is_there
from neuroncore.memory import access
from neuroncore.memory.access import Dims
from neuroncore.memory.parts import Parted
from neuroncore.memory.register import VirtualRegister
from neuroncore.memory.storage import Storage
from neuroncore.memory.tile import Dynamic, Tile
from neuroncore.numerics.formats import Format


class Tensor(Seen, Unread, Parted):
    """A tensor in HBM, SBUF or PSUM, or a part of one.

    `spans`: indices that reach outside. Instructions refuse a tile with spans, but a mask may cut
        it."""

    __slots__ = ("_allocate", "_cut", "_spans")
    __array_ufunc__ = None  # numpy's numbers leave arithmetic to the operators of methods.py
    __hash__ = object.__hash__
    _spans: tuple[Span, ...]
    _allocate: Callable[[], Storage]  # allocates the memory of an Awaited tile
    _cut: Cut | None

    @property
    def spans(self) -> tuple[Span, ...]:
        return getattr(self, "_spans", ())

    @property
    def cut(self) -> Cut | None:
        """The mask that made the tile, or that cut the operands of a product; otherwise None."""
        return getattr(self, "_cut", None)

    def was_cut(self, cut: Cut | None) -> None:
        self._cut = cut

    @property
    def itemsize(self) -> int:
        """Return the bytes of an element."""
        return self.dtype.itemsize

    # --- indexing --------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Tensor:
        part = super().__getitem__(key)
        core = running()
        if core is not None and core.dialect is not None and core.dialect.trace is not None:
            keys = key if isinstance(key, tuple) else (key,)
            core.dialect.trace.part(self.shape, keys)
        return part

    def by_keys(self, keys: tuple[Any, ...]) -> Tensor:
        """Return the part of the tensor that ints, slices, `...`, nl.ds, index expressions or a
        mask select.

        With index expressions, the part has the common shape of the expressions. Slices in the same
        subscript add axes at the end."""
        if len(keys) == 1 and (type(keys[0]) is bool or isinstance(keys[0], Mask)):
            return self._masked(keys[0])
        keys = self._all_keys(keys)
        for axis, k in enumerate(keys):
            if isinstance(k, Shifted):
                return self._moved(axis, k)[(*keys[:axis], k.index, *keys[axis + 1 :])]
        if any(isinstance(k, Index | Tile) for k in keys):
            return self._by_expressions(keys)
        return self._by_ranges(keys)

    def _moved(self, axis: int, k: Shifted) -> Tensor:
        """Return the tensor, moved along an axis by the run-time number in the tile `k.start`."""
        limit = self.shape[axis] - 1 - k.index.extent()[1]
        dynamic = (*self.dynamic, Dynamic(k.start, self.strides[axis], limit))
        return self.window(self.shape, self.strides, self.offset, dynamic=dynamic)

    def _masked(self, mask: Mask | bool) -> Tensor:
        if mask is True:  # the result of comparing known numbers, such as loop variables
            return self
        boxes = [] if mask is False else mask.boxes(self.shape)
        if len(boxes) == 1:
            part = self.within(boxes[0])
            if part is not self:
                part.was_cut(Cut(self.shape, boxes[0]))
            return part
        raise SignatureError(
            f"the mask selects {len(boxes)} rectangles of {self}",
            expected="use a mask that selects one rectangle",
            because="an instruction reads one range of each axis",
            also="err_unsupported_expression_in_mask",
        )

    def _all_keys(self, keys: tuple[Any, ...]) -> tuple[Any, ...]:
        rank = len(self.shape)
        at = [i for i, k in enumerate(keys) if type(k) is EllipsisType]
        if len(keys) - len(at) > rank or len(at) > 1:
            raise refusals.too_many_indices(keys, self.shape)
        fill = (slice(None),) * (rank - len(keys) + len(at))
        if not at:
            return (*keys, *fill)
        return (*keys[: at[0]], *fill, *keys[at[0] + 1 :])

    def _by_ranges(self, keys: Sequence[Any]) -> Tensor:
        shape: list[int] = []
        strides: list[int] = []
        offset, dynamic = self.offset, self.dynamic
        on_chip = self.storage.on_chip
        moves: list[Move] = []
        outside = False
        for axis, k in enumerate(keys):
            stride = self.strides[axis]
            start = k.start if isinstance(k, DynamicSlice) else k
            if isinstance(start, VirtualRegister | Tile):
                count = k.size if isinstance(k, DynamicSlice) else 0
                limit = self.shape[axis] - max(count, 1)
                dynamic = (*dynamic, Dynamic(start, stride, limit))
                first, step = 0, 1
            else:
                first, count, step = self._range(k, axis, masked=True)
                outside |= first + (count - 1) * step >= self.shape[axis]
            offset += first * stride
            moves.append((first, (*(0,) * len(shape), step) if count else ()))
            if count or (on_chip and axis == 0):
                shape.append(count or 1)
                strides.append(stride * step)
        part = self._part(shape, strides, offset, dynamic)
        if outside or self.spans:
            part._note_spans(self, moves)
        return part

    def _range(self, k: Any, axis: int, masked: bool = False) -> tuple[int, int, int]:
        """Return (first element, count, step) of a key; the count is 0 for an int, which drops the
        axis. If `masked`, it may go past the end, because a mask may cut it."""
        size = self.shape[axis]
        if isinstance(k, slice):
            first = 0 if k.start is None else self._number(k.start, axis)
            stop = size if k.stop is None else self._number(k.stop, axis)
            step = 1 if k.step is None else self._number(k.step, axis)
            first, stop = first + size * (first < 0), stop + size * (stop < 0)
            count = len(range(first, stop, step)) if step else 0
        elif isinstance(k, DynamicSlice):
            first, count, step = self._number(k.start, axis), self._number(k.size, axis), 1
            stop = first + count
        else:
            first, count, step = self._number(k, axis), 0, 1
            first, stop = first + size * (first < 0), first + size * (first < 0) + 1
        if step < 1 or (first >= 0 and stop <= first):
            raise OutOfBoundsError(
                f"{k!r} is not a range of axis {axis}",
                expected="select at least one element, with a positive step",
                got=f"start {first}, stop {stop}, step {step}",
                because="a slice selects elements in increasing order, each once",
                hint="to go backward use an index expression: n - 1 - nl.arange(n)[None, :]",
                also="err_tensor_access_out_of_bound",
            )
        if first < 0 or (stop > size and not (masked and count)):
            raise refusals.outside(first, stop - 1, axis, self.shape)
        return first, count, step

    def _number(self, k: Any, axis: int) -> int:
        try:
            return operator.index(k)
        except TypeError:
            raise SignatureError(
                f"axis {axis} can't be indexed with {type(k).__name__}",
                expected="an int, a slice, ..., nl.ds(start, size) or an index expression",
                got=repr(k),
                hint=refusals.NEW_AXIS if k is None else None,
            ) from None

    def _part(
        self,
        shape: Sequence[int],
        strides: Sequence[int],
        offset: int,
        dynamic: tuple[Dynamic, ...],
    ) -> Tensor:
        """Return a view of this tensor's storage. If `shape` has fewer axes than a tensor must have
        (two on the chip, one in HBM), axes of size 1 are added at the end."""
        ones = (1,) * ((2 if self.storage.on_chip else 1) - len(shape))
        return self.window((*shape, *ones), (*strides, *ones), offset, dynamic=dynamic)

    def _by_expressions(self, keys: Sequence[Any]) -> Tensor:
        expressions = [k for k in keys if isinstance(k, Index)]
        chosen = [axis for axis, k in enumerate(keys) if isinstance(k, Tile)]
        if len(chosen) > 1 or (chosen and self.dynamic):
            raise ViewError(
                f"{len(chosen) + bool(self.dynamic)} axes of {self} are indexed at run time",
                because="a DMA takes only one run-time offset",
                also="err_copy_dynamic_indirect_indices_not_natively_supported",
            )
        rows = keys[chosen[0]] if chosen else None
        single = rows is not None and rows.size == 1
        if rows is not None and not single:
            rank = max([2, *(e.ndim for e in expressions)])
            expressions.append(Index((rows.shape[0], *(1,) * (rank - 1)), (0,) * rank, 0))
        shape, steps = together(expressions) if expressions else ((), [])
        self._check_rank(shape, expressions)
        if chosen and chosen[0] == len(keys) - 1 and not single and any(s[0] for s in steps):
            raise refusals.index_along_free_axis(self)
        strides, offset = [0] * len(shape), self.offset
        moves: list[Move] = []
        ranges: list[tuple[int, int, int]] = []
        dynamic, step_lists = self.dynamic, iter(steps)
        for axis, k in enumerate(keys):
            stride, size = self.strides[axis], self.shape[axis]
            if isinstance(k, Index):
                along = next(step_lists)
                offset += k.start * stride
                strides = [s + stride * a for s, a in zip(strides, along, strict=True)]
                moves.append((k.start, along))
                if axis == 0 and self.storage.on_chip:
                    self._check_partition(along)
            elif isinstance(k, Tile):
                dynamic = (*dynamic, Dynamic(k, stride, size - 1, vector=not single))
                moves.append((0, ()))
                if not single:
                    strides[0] += stride
            else:
                first, count, step = self._range(k, axis)
                offset += first * stride
                moves.append((first, (step,) if count else ()))
                if count and axis == 0 and shape[:1] == (1,):
                    shape, strides[0] = (count, *shape[1:]), stride * step
                elif count:
                    ranges.append((axis, count, stride * step))
        sizes, strides = filled(list(shape), strides, ranges)
        for at, (axis, _, _) in enumerate(ranges, len(sizes) - len(ranges)):
            start, along = moves[axis]
            moves[axis] = start, (*(0,) * at, *along)
        part = self._part(sizes, strides, offset, dynamic)
        part._note_spans(self, moves)
        return part

    def _check_rank(self, shape: Dims, expressions: Sequence[Index]) -> None:
        if len(shape) == 1 and self.ndim > 0 and expressions:
            raise ShapeError(
                "an index expression has only one axis, but a tile has at least two",
                expected="at least two axes, of which the first is the partition axis",
                got=repr(expressions[0]),
                hint="use nl.arange(n)[:, None] along the partitions and nl.arange(n)[None, :] "
                "along the free axis, or use slices",
                also="err_1d_arange_not_supported",
            )

    def _check_partition(self, along: Dims) -> None:
        if any(along[1:]):
            raise ViewError(
                f"the partition axis of {self} is indexed by a free axis of the tile",
                because="each partition is a separate memory, and only the first axis of a tile "
                "goes through partitions",
                hint="put the expression of the partition axis first: nl.arange(n)[:, None]",
                also="err_leading_dimension_of_tensor_must_be_partition",
            )

    def _note_spans(self, of: Tensor, moves: Sequence[Move]) -> None:
        """Note which indices of this part of `of` reach outside. If `of` itself does, the part may
        be inside.

        `moves`: the start and the steps of the part along each axis of `of`"""
        if of.fault is not None and not of.spans:  # a view whose indices can't be tracked
            return
        rank = len(self.shape)
        moves = [(start, (*along, *(0,) * (rank - len(along)))) for start, along in moves]
        spans = [(start, along, of.shape, axis) for axis, (start, along) in enumerate(moves)]
        spans += [moved(span, moves, rank) for span in of.spans]
        self._spans = tuple(span for span in spans if not inside(span, self.shape))
        self._check_spans()

    def _check_spans(self) -> None:
        """Store an error if indices are out of bounds. An instruction that uses the tile raises the
        error."""
        self.fault = None
        for first, along, of, axis in self.spans:
            low, high = Index(self.shape, along, first).extent()
            self.fault = refusals.outside(low, high, axis, of)

    def within(self, box: Box) -> Tensor:
        """Return the part of the tile in a box: (first, count) for each axis. Axes of size 1 are
        not cut."""
        kept = [piece if n != 1 else (0, 1) for n, piece in zip(self.shape, box, strict=True)]
        shape, offset, dynamic = tuple([count for _, count in kept]), self.offset, self.dynamic
        if shape == self.shape:
            return self
        for (first, _), stride in zip(kept, self.strides, strict=True):
            offset += first * stride
        if not (dynamic or self.spans or self.fault):
            geometry = self.storage.layout.geometry(shape, self.strides, self.dtype)
            return type(self)(self.storage, geometry, offset)
        if dynamic and dynamic[0].vector:
            first, count = kept[0]
            rows, old = dynamic[0], self.strides[0]
            assert isinstance(rows.index, Tensor)
            index = rows.index[first : first + count]
            dynamic = (Dynamic(index, rows.step, rows.limit, vector=True), *dynamic[1:])
            offset -= first * old
        part = self.window(shape, self.strides, offset, dynamic=dynamic)
        if not self.spans:  # no fault, or the fault of a view whose indices can't be tracked
            return part
        part._spans = tuple(
            span
            for start, along, of, axis in self.spans
            if not inside(
                span := (
                    start + sum(f * s for (f, _), s in zip(kept, along, strict=True)),
                    along,
                    of,
                    axis,
                ),
                part.shape,
            )
        )
        part._check_spans()
        return part

    # --- other views -----------------------------------------------------------------------------

    def assert_shape(self, shape: Sequence[int]) -> Tensor:
        """Return the tensor. Raises ShapeError if the tensor has another shape."""
        if self.shape != tuple(shape):
            raise ShapeError(
                f"{self} does not have the shape {tuple(shape)}, which assert_shape requires",
                expected=str(tuple(shape)),
                got=str(self.shape),
                also="err_annotation_shape_mismatch",
            )
        return self

    def view(self, dtype: Any) -> Tensor:
        """Return the same bits in another format. The size of the last axis changes by the factor
        (old element size / new element size)."""
        form = format_of(dtype, position=0)
        old, new = self.dtype.itemsize, form.itemsize
        *outer, last = self.shape
        *steps, step = self.strides
        outer_steps = access.recounted(outer, steps, old, new)
        whole = not self.offset * old % new and not last * old % new
        if (last != 1 and step != 1 and old != new) or outer_steps is None or not whole:
            raise ViewError(
                f"{self} can't be viewed as {form}",
                got=f"strides {self.strides}",
                because="the bytes of the last axis must be contiguous, and a whole number of "
                "elements",
            )
        shape = (*outer, last * old // new)
        strides = (*outer_steps, 1 if old != new else step)
        part = self.window(shape, strides, self.offset * old // new, form)
        return part._keep_spans(self, lambda along: along if old == new or along[-1] == 0 else None)

    def reshape(self, shape: Sequence[int]) -> Tensor:
        """Return the same elements, in row-major order, in another shape; one size may be -1."""
        sizes = access.inferred(tuple(map(limits.size, shape)), self.size)
        first = int(self.storage.on_chip)
        strides = None
        if sizes is not None and (not first or sizes[0] == self.shape[0]):
            strides = access.reshaped(self.shape[first:], self.strides[first:], sizes[first:])
        if sizes is None or strides is None:
            raise ShapeError(
                f"{self} can't be viewed as {tuple(shape)}",
                argument="shape",
                position=0,
                got=f"strides {self.strides}",
                because="a view moves no data: the sizes must multiply to the same number, the "
                "partition axis must stay, and only contiguous axes can merge",
            )
        part = self.window(sizes, (*self.strides[:first], *strides), self.offset)
        return part._keep_spans(self, lambda along: split(self.shape, along, sizes, first))

    def expand_dims(self, axis: int | Sequence[int]) -> Tensor:
        """Return the tensor with new axes of size 1 at these positions of the new shape. Raises
        ShapeError for positions that are out of range, repeated, or the partition axis."""
        given = limits.axes(axis, position=1)
        rank = len(self.shape) + len(given)
        places = sorted(n + rank if n < 0 else n for n in given)
        legal = range(int(self.storage.on_chip), rank)
        if len({*places}) != len(given) or not all(n in legal for n in places):
            raise ShapeError(
                f"{self} can't get a new axis at {axis!r}",
                argument="axis",
                position=1,
                expected=f"insert axes at positions {legal.start} to {rank - 1} of the new shape",
            )
        shape, strides = [*self.shape], [*self.strides]
        for at in places:
            strides.insert(at, access.span(shape[at:], strides[at:]))
            shape.insert(at, 1)
        part = self.window(tuple(shape), tuple(strides), self.offset)
        old = [n for n in range(rank) if n not in places]
        return part._keep_spans(
            self, lambda along: tuple(along[old.index(n)] if n in old else 0 for n in range(rank))
        )

    def permuted(self, order: Sequence[int]) -> Tensor:
        """Return the tile with permuted axes: axis k of the result is axis `order[k]`."""
        shape = tuple(self.shape[a] for a in order)
        part = self.window(shape, tuple(self.strides[a] for a in order), self.offset)
        return part._keep_spans(self, lambda along: tuple(along[a] for a in order))

    def shaped(self, shape: Dims) -> Tensor:
        """Return the tile in this shape, which may only add and remove axes of size 1. Raises
        ShapeError for other shapes, and if elements would move to other partitions."""
        if self.shape == shape:
            return self
        moved = self.storage.on_chip and self.shape[0] != shape[0]
        if moved or [n for n in self.shape if n != 1] != [n for n in shape if n != 1]:
            raise ShapeError(
                f"a result of shape {shape} does not fit into {self}",
                expected=str(self.shape),
                got=str(shape),
                because="an engine does not move data to other partitions" if moved else None,
                also="err_store_dst_shape_smaller_than_other_shape",
            )
        strides = access.reshaped(self.shape, self.strides, shape)
        assert strides is not None
        if self.storage.on_chip:
            strides = (self.strides[0], *strides[1:])
        part = self.window(shape, strides, self.offset)
        first = int(self.storage.on_chip)
        return part._keep_spans(self, lambda along: split(self.shape, along, shape, first))

    def stretched(self, shape: Dims) -> Tensor:
        """Return a view of the tile with axes of size 1 repeated to the sizes of `shape`."""
        strides = tuple(
            0 if n == 1 != m else s for n, m, s in zip(self.shape, shape, self.strides, strict=True)
        )
        part = self.window(shape, strides, self.offset)
        pairs = list(zip(self.shape, shape, strict=True))
        return part._keep_spans(
            self, lambda steps: tuple(s * (n == m) for s, (n, m) in zip(steps, pairs, strict=True))
        )

    def _keep_spans(self, of: Tensor, changed: Callable[[Dims], Dims | None]) -> Tensor:
        """Return this view of the tile `of` with its spans.

        `changed`: converts steps along the axes of the tile; if it returns None, the view has the
            fault of the tile, and no spans"""
        spans: list[Span] = []
        for first, along, shape, axis in of.spans:
            steps = changed(along)
            if steps is None:
                return self
            spans.append((first, steps, shape, axis))
        self._spans = tuple(spans)
        return self

    def __bool__(self) -> bool:
        """Return True, because kernels test in this way whether an argument is a tensor or None.
        For a tile on the chip, report a warning. Raises DynamicControlError if the test can only be
        about the contents."""
        if self.storage.on_chip and not is_there(self):
            raise refusals.truth_value(self)
        return True


class Awaited(Tensor):
    """A result that the kernel assigns next, with a shape and a format. Its memory is made at the
    first read."""

    __slots__ = ()

    def __init__(self, shape: Dims, dtype: Format, allocate: Callable[[], Storage]) -> None:
        self.shape, self.dtype, self._allocate, self._cut = shape, dtype, allocate, None

    def __getattr__(self, name: str) -> Any:
        storage = self._allocate()
        self.__class__ = Tensor  # type: ignore[assignment]
        Tensor.__init__(self, storage, storage.layout.whole, 0)
        return getattr(self, name)


class Untiled:
    """A tensor that no instruction accepts, because it has block axes and thus several tiles."""

    def not_a_tile(self, name: str) -> SignatureError:
        raise NotImplementedError
