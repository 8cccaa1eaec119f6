"""nl.arange and nl.mgrid of the older API, which make index expressions."""

from __future__ import annotations

import operator
from typing import Any

from neuroncore.base.errors import SignatureError
from neuroncore.frontend.neuronxcc.nki.expressions import Index
from neuroncore.memory.geometry import make_room


def arange(*args: int) -> Index:
    """Return `start` (0) to `stop` by `step` (1) as an expression with one axis, as np.arange."""
    counted = len(args) == 1 and type(args[0]) is int
    if counted and (known := _counted.get(args[0])) is not None:
        return known
    values = range(*args)
    index = Index((len(values),), (values.step,), values.start)
    if counted:
        make_room(_counted)
        _counted[args[0]] = index
    return index


_counted: dict[int, Index] = {}  # by their number, from 0 on


class Grid(tuple[Index, ...]):
    """The expressions of nl.mgrid: a tuple, and `p`, `x`, `y`, `z`, ... of its axes."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Index:
        names = "pxyzw"
        if len(name) == 1 and name in names[: len(self)]:
            return self[names.index(name)]
        raise AttributeError(f"a grid of {len(self)} axes has no {name!r}")


class _MeshGrid:
    """`nl.mgrid[0:128, 0:512]`: an expression for each axis, all over the same axes."""

    def __getitem__(self, key: slice | tuple[slice, ...]) -> Grid:
        ranges = [_span(k) for k in (key if isinstance(key, tuple) else (key,))]
        shape = tuple(map(len, ranges))
        rank = len(shape)
        return Grid(
            Index(
                (*(1,) * axis, shape[axis], *(1,) * (rank - axis - 1)),
                (*(0,) * axis, r.step, *(0,) * (rank - axis - 1)),
                r.start,
            )
            for axis, r in enumerate(ranges)
        )


def _span(key: Any) -> range:
    if not isinstance(key, slice) or key.stop is None:
        raise SignatureError(
            f"nl.mgrid takes slices, not {key!r}", expected="nl.mgrid[0:128, 0:512]"
        )
    parts = (key.start or 0, key.stop, 1 if key.step is None else key.step)
    return range(*map(operator.index, parts))


mgrid = _MeshGrid()
