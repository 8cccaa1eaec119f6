"""Index expressions of the older API, and the masks that compare them.

An expression is an affine function of the axes of a tile: `start + sum(steps[k] * i_k)`, where i_k
is from 0 to `shape[k]` - 1. Access patterns have the same form, so indexing adds expressions."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base import source, syntax
from neuroncore.base.errors import DynamicControlError, ShapeError, SignatureError
from neuroncore.frontend.neuronxcc.nki import refusals
from neuroncore.memory.geometry import make_room
from neuroncore.memory.parts import Affine, IndexForm, form
from neuroncore.memory.tile import Tile

Dims = tuple[int, ...]
Box = tuple[tuple[int, int], ...]  # (first, count) of each axis
Array = npt.NDArray[Any]


class Index(Affine):
    """An affine index expression. Comparing two expressions gives a Mask."""

    __slots__ = ()
    __array_ufunc__ = None  # numpy's numbers leave arithmetic to this class
    __hash__ = object.__hash__

    def __init__(self, shape: Dims, steps: Dims, start: int) -> None:
        self.form, self.start = form(shape, steps), start

    @property
    def shape(self) -> Dims:
        return self.form.shape

    @property
    def steps(self) -> Dims:
        return self.form.steps

    @property
    def ndim(self) -> int:
        return len(self.form.shape)

    @staticmethod
    def _of(form: IndexForm, start: int) -> Index:
        index = Index.__new__(Index)
        index.form, index.start = form, start
        return index

    def begun(self, start: int) -> Index:
        """Return the same expression with another start value, `start`."""
        return self._of(self.form, start)

    def __getitem__(self, key: Any) -> Index:
        """Return the expression with new axes for None, and parts of axes for slices and ints, as
        in numpy."""
        news = 0b101 if key == COLUMN else 0b110 if key == ROW else _new_axes(key)
        if not news:
            return self._part(key)
        known = _placed.get((self.form, news))
        if known is None:
            part = self._part(key)
            make_room(_placed)
            known = _placed[self.form, news] = part.begun(0)
        return known if self.start == 0 else self._of(known.form, self.start)

    def _part(self, key: Any) -> Index:
        keys = list(key) if isinstance(key, tuple) else [key]
        used = sum(k is not None and k is not Ellipsis for k in keys)
        rest = len(self.shape) - used
        if Ellipsis in keys:
            at = keys.index(Ellipsis)
            keys[at : at + 1] = [slice(None)] * rest
        else:
            keys += [slice(None)] * rest
        shape: list[int] = []
        steps: list[int] = []
        start, axis = self.start, 0
        for k in keys:
            if k is None:
                shape.append(1)
                steps.append(0)
                continue
            size, step = self.shape[axis], self.steps[axis]
            axis += 1
            if isinstance(k, slice):
                first, stop, by = k.indices(size)
                shape.append(len(range(first, stop, by)))
                steps.append(step * by)
                start += first * step
            else:
                start += range(size)[operator.index(k)] * step
        return Index(tuple(shape), tuple(steps), start)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise refusals.assigned_index(self)

    def extent(self) -> tuple[int, int]:
        """Return the smallest and the largest value of the expression."""
        return self.start + self.form.low, self.start + self.form.high

    def values(self) -> Array:
        """Return the values of the expression as an array of integers."""
        total = np.full(self.shape, self.start, np.int64)
        for axis, (size, step) in enumerate(zip(self.shape, self.steps, strict=True)):
            column = [1] * len(self.shape)
            column[axis] = size
            total += (np.arange(size) * step).reshape(column)
        return total

    def over(self, shape: Dims) -> Index:
        """Return the expression over the axes of a tile of shape `shape`. The expression may have
        size 1 along an axis of the tile, and may lack the last axes."""
        if self.shape == shape:
            return self
        rest = len(shape) - len(self.shape)
        sizes, steps = (*self.shape, *(1,) * rest), (*self.steps, *(0,) * rest)
        fits = len(sizes) == len(shape)
        if not fits or any(m not in (1, n) for m, n in zip(sizes, shape, strict=True)):
            raise ShapeError(
                f"the index expression has the shape {self.shape}, but the tile has {shape}",
                argument="mask",
                expected="each size must equal the size of the tile, or be 1",
            )
        return Index(shape, steps, self.start)

    def permuted(self, order: Sequence[int]) -> Index:
        """Return the expression with permuted axes: axis k of the result is axis `order[k]`."""
        return Index(
            tuple(self.shape[a] for a in order), tuple(self.steps[a] for a in order), self.start
        )

    # --- arithmetic ------------------------------------------------------------------------------

    def _plus(self, other: Any, sign: int) -> Any:
        if isinstance(other, Index):
            shape, mine, theirs = _together(self, other)
            steps = tuple(a + sign * b for a, b in zip(mine, theirs, strict=True))
            return Index(shape, steps, self.start + sign * other.start)
        number = _integer(other)
        if number is None:
            return NotImplemented
        return self.begun(self.start + sign * number)

    def __add__(self, other: Any) -> Any:
        return self._plus(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._plus(other, -1)

    def __rsub__(self, other: Any) -> Any:
        return (-self)._plus(other, 1)

    def __neg__(self) -> Index:
        return self._of(self.form.negative, -self.start)

    def __mul__(self, other: Any) -> Any:
        number = _integer(other)
        if number is None:
            if isinstance(other, Index):
                raise _not_affine("*")
            return NotImplemented
        return Index(self.shape, tuple(s * number for s in self.steps), self.start * number)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return self._divided(other, "//")[0]

    def __mod__(self, other: Any) -> Any:
        return self._divided(other, "%")[1]

    def _divided(self, other: Any, symbol: str) -> tuple[Index, Index]:
        """Return (quotient, remainder) of this expression by `other`.

        Raises SignatureError unless both are affine: the start, plus all terms with steps that are
        no multiples of the divisor, must stay between two adjacent multiples."""
        number = _integer(other)
        if number is None or number < 1:
            raise _not_affine(symbol)
        rest = Index(self.shape, tuple(s if s % number else 0 for s in self.steps), self.start)
        low, high = rest.extent()
        if low // number != high // number:
            raise _not_affine(symbol)
        whole = tuple(0 if s % number else s // number for s in self.steps)
        quotient = Index(self.shape, whole, low // number)
        return quotient, self - quotient * number

    # --- comparisons -----------------------------------------------------------------------------

    def __ge__(self, other: Any) -> Any:
        return self._above(other, 0)

    def __gt__(self, other: Any) -> Any:
        return self._above(other, 1)

    def __le__(self, other: Any) -> Any:
        return self._below(other, 0)

    def __lt__(self, other: Any) -> Any:
        return self._below(other, 1)

    def _above(self, other: Any, margin: int) -> Any:
        """Return the mask of the elements where this expression exceeds `other` by at least
        `margin`."""
        number = _integer(other)
        if number is None:
            return _compared(self - other - margin)
        return _compared(self._of(self.form, self.start - number - margin))

    def _below(self, other: Any, margin: int) -> Any:
        """Return the mask of the elements where `other` exceeds this expression by at least
        `margin`."""
        number = _integer(other)
        if number is None:
            return _compared(-(self - other) - margin)
        return _compared(self._of(self.form.negative, number - self.start - margin))

    def __eq__(self, other: object) -> Any:
        return False if other is None else _compared(self - other, "==")

    def __ne__(self, other: object) -> Any:
        return True if other is None else _compared(self - other, "!=")

    def __bool__(self) -> bool:
        raise DynamicControlError(
            "an index expression has no truth value",
            because="an index expression represents all elements of a tile at once",
            hint="compare loop variables, which are integers, or use a mask",
            also="err_control_flow_condition_depending_on_arange",
        )

    def __repr__(self) -> str:
        terms = [str(self.start)] if self.start or not any(self.steps) else []
        terms += [f"{s} * i{k}" for k, s in enumerate(self.steps) if s]
        return f"{' + '.join(terms)} over {self.shape}"


# Cached expressions that start at 0, by their form and their key of `_new_axes`.
_placed: dict[tuple[IndexForm, int], Index] = {}
COLUMN, ROW = (slice(None), None), (None, slice(None))  # the most frequent keys, tested first


def _new_axes(key: Any) -> int:
    """Return a code for a subscript of None and `:` only, or 0. In binary: a leading 1, and then 1
    for None and 0 for `:`."""
    bits = 1
    for k in key if type(key) is tuple else (key,):
        if k is None:
            bits += bits + 1
        elif type(k) is slice and k.start is k.stop is k.step is None:
            bits += bits
        else:
            return 0
    return bits


def _integer(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _not_affine(symbol: str) -> SignatureError:
    return SignatureError(
        f"the operator {symbol} makes this index expression nonlinear",
        expected="an affine expression: sums, products with integers, and // and % by an integer "
        "if the result still has one stride per axis",
        because="an access pattern is a start and one stride per axis",
        hint="split the axis: use one nl.arange for each part, times the stride of the part",
    )


def _together(a: Index, b: Index) -> tuple[Dims, Dims, Dims]:
    """Return the common shape of two expressions, and the steps of each along its axes. Raises
    ShapeError if sizes differ and neither is 1."""
    if a.shape == b.shape:
        return a.shape, a.steps, b.steps
    rank = max(len(a.shape), len(b.shape))
    missing_a, missing_b = rank - len(a.shape), rank - len(b.shape)
    mine, theirs = (1,) * missing_a + a.shape, (1,) * missing_b + b.shape
    shape = tuple(n if m == 1 else m for m, n in zip(mine, theirs, strict=True))
    if any(n not in (1, size) for n, size in zip(theirs, shape, strict=True)):
        raise ShapeError(
            f"index expressions of shapes {a.shape} and {b.shape} do not match",
            expected="along each axis, the sizes must be equal, or one must be 1",
            hint="give each axis a separate position: nl.arange(n)[:, None], nl.arange(m)[None, :]",
        )
    return shape, (0,) * missing_a + a.steps, (0,) * missing_b + b.steps


def together(indices: Sequence[Index]) -> tuple[Dims, list[Dims]]:
    """Return the common shape of expressions, and the steps of each along its axes."""
    first = indices[0].shape
    if all(index.shape == first for index in indices):
        return first, [index.steps for index in indices]
    common = Index((1,) * len(first), (0,) * len(first), 0)
    for index in indices:
        shape = _together(common, index)[0]
        common = Index(shape, (0,) * len(shape), 0)
    rank = len(common.shape)
    return common.shape, [(0,) * (rank - index.ndim) + index.steps for index in indices]


def filled(
    sizes: list[int], strides: list[int], ranges: Sequence[tuple[int, int, int]]
) -> tuple[list[int], list[int]]:
    """Add an axis for each slice of a subscript to `sizes` and `strides`, and return them. `ranges`
    lists (first, count, stride) of each slice. New axes are last, but a single slice replaces the
    last of two axes if that has size 1."""
    for _, count, stride in ranges:
        if len(sizes) == 2 and sizes[-1] == 1 and len(ranges) == 1:
            sizes[-1], strides[-1] = count, stride
        else:
            sizes.append(count)
            strides.append(stride)
    return sizes, strides


# --- masks ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Mask:
    """Comparisons of index expressions, joined by `&`. A term is (expression, operator): the
    expression is compared with 0 by ">=", "==" or "!="."""

    terms: tuple[tuple[Index, str], ...]

    def __and__(self, other: Any) -> Any:
        if isinstance(other, Mask):
            return Mask(self.terms + other.terms)
        if isinstance(other, bool | np.bool_):
            return self if other else False
        return NotImplemented

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        raise _unsupported("|")

    __ror__ = __or__

    def __invert__(self) -> Any:
        raise _unsupported("~")

    def __bool__(self) -> bool:
        """Return the mask's value if it is the same for all elements. Otherwise raise
        DynamicControlError.

        Older kernels join masks by `and`. In this case the mask gets the comparisons of all
        operands. The result is False, so that Python takes this mask as the value of the `and`."""
        decided = [_decided(index, how) for index, how in self.terms]
        if all(decided):
            return True
        if False in decided:
            return False
        frame = source.user_frame()
        joined = syntax.conjuncts(frame) if frame else []
        if joined:
            if not all(value for value in joined if not isinstance(value, Mask)):
                return True  # so that Python evaluates the next operand
            terms = [term for value in joined if isinstance(value, Mask) for term in value.terms]
            object.__setattr__(self, "terms", tuple(terms))
            return False
        raise DynamicControlError(
            "a mask has no truth value: its value differs from element to element",
            hint="combine masks with `&`, and pass them as mask=",
            also="err_control_flow_condition_depending_on_arange",
        )

    def __getitem__(self, key: Any) -> Mask:
        """Return the mask with each of its expressions indexed by `key` (`Index.__getitem__`)."""
        fitted = [(index.over(self.shape), how) for index, how in self.terms]
        return Mask(tuple((index[key], how) for index, how in fitted))

    @property
    def shape(self) -> Dims:
        return together([index for index, _ in self.terms])[0]

    def flags(self, shape: Dims) -> Array:
        """Return an array of bools of shape `shape`: True where the mask chooses the element of a
        tile. Axis k of the mask is axis k of the tile."""
        chosen = np.ones(shape, np.bool_)
        for index, how in self.terms:
            if _decided(index, how):
                continue
            values = index.over(shape).values()
            chosen &= values >= 0 if how == ">=" else values == 0 if how == "==" else values != 0
        return chosen

    def permuted(self, shape: Dims, order: Sequence[int]) -> Mask:
        """Return the mask for a tile with permuted axes: axis k of the result is axis `order[k]`.
        `shape` is the shape of the tile before the permutation."""
        fitted = [(index.over(shape), how) for index, how in self.terms]
        return Mask(tuple((index.permuted(order), how) for index, how in fitted))

    def boxes(self, shape: Dims) -> list[Box]:
        """Return the elements that the mask chooses in a tile of shape `shape`, as disjoint
        rectangles."""
        bounds = [(0, size) for size in shape]
        for index, how in self.terms:
            # the shape of a comparison that always holds need not fit the tile (nki-llama)
            decided = _decided(index, how)
            if decided is False:
                return []
            if decided:
                continue
            axis, step = _moving(index, shape)
            if not step or how != ">=":
                return list(rectangles(self.flags(shape)))
            first, end = bounds[axis]
            if step > 0:
                first = max(first, -(index.start // step))
            else:
                end = min(end, index.start // -step + 1)
            bounds[axis] = first, end
        if any([end <= first for first, end in bounds]):
            return []
        return [tuple([(first, end - first) for first, end in bounds])]


_axes: dict[tuple[IndexForm, Dims], tuple[int, int]] = {}


def _moving(index: Index, shape: Dims) -> tuple[int, int]:
    """Return (axis, step) of an index that changes along one axis of a tile of this shape,
    otherwise (0, 0)."""
    known = _axes.get((index.form, shape))
    if known is None:
        steps = [(axis, step) for axis, step in enumerate(index.over(shape).steps) if step]
        make_room(_axes)
        known = _axes[index.form, shape] = steps[0] if len(steps) == 1 else (0, 0)
    return known


def _unsupported(symbol: str) -> SignatureError:
    return SignatureError(
        f"masks have no operator {symbol}",
        expected="comparisons combined with &",
        because="a mask shortens the access pattern, which is one range per axis",
        also="err_unsupported_expression_in_mask",
    )


def _compared(difference: Any, how: str = ">=") -> Any:
    return Mask(((difference, how),)) if isinstance(difference, Index) else NotImplemented


def _decided(index: Index, how: str) -> bool | None:
    """Return True if an expression compares with 0 (`how`: ">=", "==" or "!=") for all elements,
    False if for none, else None."""
    low, high = index.extent()
    if how == ">=":
        return True if low >= 0 else False if high < 0 else None
    outside = low > 0 or high < 0
    same = low == high == 0
    return (
        (True if same else False if outside else None)
        if how == "=="
        else (True if outside else False if same else None)
    )


def rectangles(chosen: Array) -> Iterator[Box]:
    """Yield disjoint rectangles that cover the True flags. Along each axis, adjacent indices with
    equal flags are joined."""
    shape = chosen.shape
    if len(shape) == 1:
        edges = np.flatnonzero(np.diff(np.concatenate(([0], chosen.view(np.int8), [0]))))
        for first, end in edges.reshape(-1, 2).tolist():
            yield ((first, end - first),)
        return
    rows = chosen.reshape(shape[0], prod(shape[1:]))
    starts = [0, *(np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1)) + 1).tolist(), shape[0]]
    for first, end in pairwise(starts):
        for box in rectangles(chosen[first]):
            yield ((first, end - first), *box)


@dataclass(frozen=True)
class Shifted:
    """An index expression that starts at the number in a tile of one element: `start[0, k] + i`."""

    start: Tile
    index: Index
