"""Random views of tensors, with given numbers of partitions and elements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bench.programs.draws import Draws
from bench.programs.views import SIZES, STARTS, View, key_text


class How(NamedTuple):
    """The properties that a view may have. Only a view that `reads` may repeat elements. With
    `anywhere`, it may begin at any partition. With `flat`, it has two axes, [partitions, elements].
    With `moves`, registers may determine its position. With `apart`, its elements are not
    contiguous, if there is room."""

    reads: bool = False
    anywhere: bool = False
    flat: bool = False
    moves: bool = False
    apart: bool = False


class Windows(Draws, ABC):
    """Random draws of views."""

    @abstractmethod
    def register(self, high: int) -> tuple[str, int]:
        """Return the name of a register, and its number, which is at most `high`."""

    @abstractmethod
    def known(self, lanes: int, free: int, high: int, form: str, kind: str = "known") -> Any:
        """Return a tile of integers from 0 to `high`, and their values, which are known."""

    def _offset(self, high: int) -> tuple[str, int]:
        """Return the name and the value of a run-time offset: a register, or a tile with one
        number."""
        if self.chance(0.7):
            return self.register(high)
        tile, numbers = self.known(1, 1, high, self.choose(("int32", "uint32", "int16")))
        return tile.text, int(numbers[0, 0])

    def window(self, base: View, lanes: int, free: int, how: How = How()) -> View:  # noqa: B008
        """Return a random view of a whole tensor `base`, with `lanes` partitions and `free`
        elements per partition."""
        starts = range(base.lanes - lanes + 1) if how.anywhere else _starts(base.lanes, lanes)
        first = 0 if self.chance(0.6) else self.choose(starts)
        rows = slice(None) if lanes == base.lanes else slice(first, first + lanes)
        if how.anywhere and base.lanes > lanes and self.chance(0.3):
            rows = self._stepped_rows(base, lanes)
        if lanes == base.lanes and free == base.free and self.chance(0.3):
            return self._flat(base) if how.flat else base
        styles = self.APART if how.apart else self.STYLES
        moves = how.moves and self.chance(0.7 if _is_narrower(base) else 0.4)
        style = Windows._dynamic if moves else self.choose(styles)
        found = style(self, base, rows, free, how.reads)
        if found is not None and how.flat:
            dense = len(found.shape) == 2 or (not found.moved and found.is_dense())
            found = self._flat(found) if dense else None
        if found is None or not (how.reads or found.is_unique()):
            found = self._in_a_row(base, rows, free, how.reads)
        may = not how.flat and not found.moved
        return self._reshaped(found) if may and self.chance(0.25) else found

    def _stepped_rows(self, base: View, lanes: int) -> slice:
        """Return the slice of every second or third partition, if there are enough."""
        step = min(self.between(2, 3), (base.lanes - 1) // max(1, lanes - 1))
        span = step * (lanes - 1) + 1
        first = self.between(0, base.lanes - span)
        return slice(first, first + span, step)

    def _reshaped(self, view: View) -> View:
        """Return the same elements in the same order, with other axes."""
        if not 1 < len(view.shape) < 4:
            return view
        axis = self.between(1, len(view.shape) - 1)
        ones = [i for i, n in enumerate(view.shape) if i and n == 1]
        if len(view.shape) > 2 and ones and self.chance(0.7):
            return view.squeeze_dim(ones[0])
        if self.chance(0.3):
            return view.expand_dim(self.between(1, len(view.shape)))
        if self.chance(0.3) and view.is_dense():
            return view.reshape(view.lanes, *self.parts(view.free))
        return view.reshape_dim(axis, self.parts(view.shape[axis]))

    def _flat(self, base: View) -> View:
        """Return a dense view in the shape [partitions, elements]."""
        if len(base.shape) == 2:
            return base
        if self.chance(0.5) or len(base.shape) == 1:
            return base.reshape(base.lanes, base.free)
        return base.flatten_dims(1, len(base.shape) - 1)

    def _in_a_row(self, base: View, rows: slice, free: int, reads: bool) -> View:
        """Return contiguous elements."""
        flat = self._flat(base)
        first = 0 if self.chance(0.4) else self.between(0, flat.free - free)
        if self.chance(0.3) and first + free == flat.free:
            return self._cut(flat, rows, slice(first, None))
        return self._cut(flat, rows, slice(first, first + free))

    def _stepped(self, base: View, rows: slice, free: int, reads: bool) -> View | None:
        """Return every second, third or fourth element, or None if there are too few elements."""
        step = self.between(2, 4)
        span = step * (free - 1) + 1
        if span > base.free:
            return None
        first = self.between(0, base.free - span)
        last = min(base.free, first + span + self.between(0, step - 1))
        return self._cut(self._flat(base), rows, slice(first, last, step))

    def _block(self, base: View, rows: slice, free: int, reads: bool) -> View | None:
        """Return a block of elements: those of a partition are seen as a matrix, of which the block
        has some rows and columns. Return None if the block does not fit."""
        height, width = self.parts(free)
        tall, wide = self.parts(base.free)
        if tall < height or wide < width:
            return None
        top, left = self.between(0, tall - height), self.between(0, wide - width)
        whole = base if base.shape[1:] == (tall, wide) else base.reshape(base.lanes, tall, wide)
        down, across = self._keys(top, height, tall), self._keys(left, width, wide)
        found = self._cut(whole, rows, down, across)
        return found.permute((0, 2, 1)) if len(found.shape) > 2 and self.chance(0.3) else found

    def _cut(self, view: View, *keys: slice | int) -> View:
        """Return the view at an index of integers and slices, which the kernel writes in a random
        way."""
        said = [self._said(key, size) for key, size in zip(keys, view.shape, strict=True)]
        if said[-1] == ":" and self.chance(0.5):
            said = said[:-1] + ["..."] * self.chance(0.5)
        return view.index(*keys, said=said)

    def _said(self, key: slice | int, size: int) -> str:
        """Return a random text of a slice: as usual, with numbers that count from the end, or as
        nl.ds."""
        if isinstance(key, int) or key == slice(None) or self.chance(0.6):
            return key_text(key)
        first, end, step = key.indices(size)
        if (first, end, step) == (0, size, 1) and self.chance(0.5):
            return ":"
        if step == 1 and self.chance(0.5):
            return f"nl.ds({first}, {end - first})"
        return key_text(slice(first - size, end - size or None, key.step))

    def _keys(self, first: int, count: int, size: int) -> slice | int:
        """Return the index of `count` elements of an axis. For one element it may be a number,
        which may count from the end."""
        if count == 1 and self.chance(0.5):
            return first - size * self.chance(0.3)
        return slice(first, first + count)

    def _repeated(self, base: View, rows: slice, free: int, reads: bool) -> View | None:
        """Return elements that occur several times, or None if the view may be written."""
        times, others = self.parts(free)
        if not reads or times == 1:
            return None
        found = self._in_a_row(base, rows, others, reads)
        axis = self.between(1, 2)
        return found.expand_dim(axis).broadcast(axis, times)

    def _pattern(self, base: View, rows: slice, free: int, reads: bool) -> View | None:
        """Return an access pattern with random strides, or None if it does not fit."""
        if rows.step not in (None, 1):
            return None
        counts = [free] if self.chance(0.4) else [*self.parts(free)]
        low = 0 if reads else 1
        steps = [self.between(low, max(2, base.free // count)) for count in counts]
        steps = [-s if self.chance(0.1) else s for s in steps]
        ends = [s * (n - 1) for s, n in zip(steps, counts)]
        least, most = (sum(f(0, end) for end in ends) for f in (min, max))
        if most - least >= base.free:
            return None
        lanes = range(base.lanes)[rows]
        offset = lanes.start * base.free + self.between(-least, base.free - 1 - most)
        pattern = [[base.free, len(lanes)], *([s, n] for s, n in zip(steps, counts))]
        return base.tensor.whole().ap(pattern, offset, base.form)

    def _dynamic(self, base: View, rows: slice, free: int, reads: bool) -> View | None:
        """Return elements whose position registers determine: contiguous elements, one of the parts
        into which the elements of a partition are divided, or a block."""
        share = 0.6 if _is_narrower(base) else 0.2
        if self.chance(share) and (there := self._pattern_there(base, rows, free)) is not None:
            return there
        if self.chance(0.25) and (block := self._dynamic_block(base, rows, free)) is not None:
            return block
        if base.free % free == 0 and self.chance(0.3):
            count = base.free // free
            name, number = self._offset(count - 1)
            split = base.reshape(base.lanes, count, free).index(rows)
            return split.with_register(f".select(1, {name})", split.at[:, number])
        flat = self._flat(base).index(rows)
        if self.chance(0.2) and rows == slice(None):
            name, number = self._offset(base.free - free)
            pattern = [[base.free, base.lanes], [1, free]]
            text = f".ap({pattern}, offset=0, scalar_offset={name}, indirect_dim=1)"
            return self._flat(base).with_register(text, flat.at[:, number : number + free])
        name, number = self.register(base.free - free)
        text = f"[:, nl.ds({name}, {free})]"
        return flat.with_register(text, flat.at[:, number : number + free])

    def _pattern_there(self, base: View, rows: slice, free: int) -> View | None:
        """Return an access pattern that begins at an offset in a register. It may count elements of
        another format than the tensor's. Return None if it does not fit."""
        whole = self._flat(base.tensor.whole())
        ratio = whole.size // base.size
        if not ratio or free % ratio or rows.step not in (None, 1):
            return None
        name, number = self.register(whole.free - free // ratio)
        flat = whole.index(rows)
        at = flat.at[:, number : number + free // ratio]
        there = flat.with_register(f"[:, nl.ds({name}, {free // ratio})]", at)
        outer, inner = self.parts(free)
        pattern = [[whole.free * ratio, there.lanes], [inner, outer], [1, inner]]
        return there.ap_from_here(pattern, base.form)

    def _dynamic_block(self, base: View, rows: slice, free: int) -> View | None:
        height, width = self.parts(free)
        tall, wide = self.parts(base.free)
        if tall < height or wide < width:
            return None
        (top, first), (left, second) = self.register(tall - height), self.register(wide - width)
        split = base.reshape(base.lanes, tall, wide).index(rows)
        text = f"[:, nl.ds({top}, {height}), nl.ds({left}, {width})]"
        at = split.at[:, first : first + height, second : second + width]
        return split.with_register(text, at)

    STYLES: Sequence[Callable[[Windows, View, slice, int, bool], View | None]] = (
        *(_in_a_row, _in_a_row, _in_a_row, _stepped, _block, _block, _repeated, _pattern),
    )
    APART = _stepped, _stepped, _pattern


def _is_narrower(base: View) -> bool:
    """Return whether a view has a narrower format than its tensor."""
    return base.size < SIZES[base.tensor.form]


def _starts(height: int, lanes: int) -> list[int]:
    """Return the partitions at which an access to `lanes` partitions may start, in a tensor with
    `height` partitions."""
    return [s for s, most in STARTS.items() if lanes <= most and s + lanes <= height]
