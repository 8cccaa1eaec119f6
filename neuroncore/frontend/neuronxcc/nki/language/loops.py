"""Loops, launch grids, and index expressions of the older API."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from neuroncore.base import source
from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import SignatureError
from neuroncore.base.units import plural
from neuroncore.core.core import current
from neuroncore.frontend import limits
from neuroncore.frontend.neuronxcc.nki.boxes import chosen, follow
from neuroncore.frontend.neuronxcc.nki.expressions import Index
from neuroncore.frontend.neuronxcc.nki.isa.arguments import begin
from neuroncore.frontend.neuronxcc.nki.keywords import check_keywords, token
from neuroncore.frontend.neuronxcc.nki.results import PSUM, delayed, fill, hold, issue, new, tile
from neuroncore.frontend.neuronxcc.nki.scopes import Loop, LoopIndex, enclosing_iteration, running
from neuroncore.frontend.neuronxcc.nki.templates import TracedLoop
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.frontend.operators import format_of
from neuroncore.memory.geometry import make_room
from neuroncore.numerics.formats import Format

__all__ = [
    "affine_range", "loop_reduce", "nc", "num_programs", "program_id", "program_ndim",
    "sequential_range", "spmd_dim", "static_range",
]  # fmt: skip


def affine_range(*args: int, **kwargs: Any) -> Loop:
    """Return a loop over the integers of Python's range. Its iterations don't depend on each
    other."""
    check_keywords(kwargs)
    return TracedLoop(limits.loop(*args), parallel=True)


def sequential_range(*args: int, **kwargs: Any) -> Loop:
    """Return a loop over the integers of Python's range. Its iterations run one after another."""
    check_keywords(kwargs)
    return TracedLoop(limits.loop(*args))


def static_range(*args: int) -> range:
    """Return Python's range. The loop is unrolled when the kernel is compiled."""
    return limits.loop(*args)


def loop_reduce(
    x: Any, op: Any, loop_indices: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any
) -> Tensor:
    """Return x reduced by `op` over all iterations of the loops with the variables loop_indices.
    The first iteration copies x to the result. Each later iteration computes result = result <op>
    x."""
    begin(kwargs)
    data, combine = tile(x, "x"), token(op)
    indices = loop_indices if isinstance(loop_indices, list | tuple) else (loop_indices,)
    loops = [index for index in indices if isinstance(index, LoopIndex)]
    first = all(i.is_first if isinstance(i, LoopIndex) else i == 0 for i in indices)
    _note_iteration(loops, first)
    form: Format = format_of(dtype or data.dtype, position=2)
    boxes = chosen(mask, data.shape)

    def run(dst: Tensor, _: dict[str, Any]) -> None:
        if dst is total and loops and (trace := running().trace) is not None:
            trace.fault()  # each run of the loops has a separate tile
        with running().accumulating():
            reduce_into(dst)

    def reduce_into(dst: Tensor) -> None:
        for box in boxes:
            piece = follow(data, box, data.shape)
            out = dst.within(box) if box else dst
            if first:
                issue("tensor_copy", dst=out, src=piece)
            else:
                fill(out)
                issue("tensor_tensor", dst=out, data1=out, data2=piece, op=combine)

    total = _sum_so_far(loops, data, form) if loops else new(data.shape, form)
    return hold(total, run, boxes, (MemoryRegion.sbuf, PSUM))


def _note_iteration(loops: list[LoopIndex], first: bool) -> None:
    """Add guards to the trace of the iteration (`tracing`), because the instructions of a
    loop_reduce depend on whether its `loops` are in their first iterations. If all are (`first`),
    each loop gets a guard. Otherwise one guard is enough, for the last loop that is not."""
    if (trace := running().trace) is not None:
        not_first = [index for index in loops if not index.is_first]
        for index in loops if first else not_first[-1:]:
            trace.iteration(index, index.loop.values)


def _sum_so_far(loops: list[LoopIndex], data: Tensor, form: Format) -> Tensor:
    """Return the tile of format `form` in which a loop_reduce over `loops` accumulates if its
    result isn't assigned. Each call in the source has one. Other loops around the call start a new
    tile in each iteration."""
    core = current()
    site = core.birthplace()
    reduced = {id(index.loop) for index in loops}
    outer = tuple(int(i) for i in running().loops if id(i.loop) not in reduced)
    key = (site and source.key_of(site), outer)
    sums: dict[Any, Tensor] = loops[0].loop.sums
    if key not in sums:
        scope = enclosing_iteration(running().loops, [index.loop for index in loops])
        sizes = data.shape if len(data.shape) > 1 else (*data.shape, 1)
        sums[key] = delayed(core, scope, MemoryRegion.sbuf, sizes, form)
    return sums[key]


# --- launch grids ---------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class nc:
    """A number of physical NeuronCores in a launch grid: `kernel[nl.nc(2) * 2, 4]`."""

    count: int

    def __post_init__(self) -> None:
        limits.grid_size(self.count, "a number of cores", 1, "nl.nc(n) with a positive int")

    def __repr__(self) -> str:
        return f"nl.nc({self.count})"

    def __mul__(self, programs: int) -> spmd_dim:
        return spmd_dim(self, programs)

    def __rmul__(self, programs: int) -> spmd_dim:
        return spmd_dim(programs, self)


class spmd_dim:
    """A grid axis that is spread over cores. spmd_dim(nc, n) gives each core n adjacent programs.
    spmd_dim(n, nc) gives core k the programs k, k + nc, k + 2 nc, ..."""

    def __init__(self, outer: int | nc, inner: int | nc) -> None:
        pieces = (outer, inner)
        if sum(isinstance(p, nc) for p in pieces) != 1:
            raise SignatureError(
                f"spmd_dim can't take ({outer!r}, {inner!r})",
                expected="one nl.nc(n), and one integer",
            )
        self.cores_first = isinstance(outer, nc)
        self.cores = next(int(p.count) for p in pieces if isinstance(p, nc))  # nl.nc(True) is 1
        programs = next(p for p in pieces if not isinstance(p, nc))
        self.programs = limits.grid_size(programs, "a number of programs", 0, "a positive int")
        if not self.programs:
            # nki-helpers' nki_matmul_spmd.py is launched in this way for one tile, and its results
            # are right on a device. So a size of 0 means one program: a second program would read
            # past the rows of its operand.
            self.cores = self.programs = 1

    def __repr__(self) -> str:
        cores, programs = repr(nc(self.cores)), str(self.programs)
        pieces = (cores, programs) if self.cores_first else (programs, cores)
        return f"nl.spmd_dim({', '.join(pieces)})"

    def __len__(self) -> int:
        return self.cores * self.programs

    def core_of(self, index: int) -> int:
        """Return the core that runs the program at an index of the axis."""
        return index // self.programs if self.cores_first else index % self.cores


def program_id(axis: int) -> int:
    """Return the index of this program along an axis of the launch grid, or 0 for an axis that the
    grid lacks."""
    core = current()
    (at,), grid = limits.axes(axis, position=0), core.grid or (1,)
    if not 0 <= at < len(grid):
        return 0
    return int(np.unravel_index(core.program_id, grid)[at])


def num_programs(axes: int | tuple[int, ...] | None = None) -> int:
    """Return the number of programs in the launch grid along `axes`, or along all axes if `axes` is
    None. Axes that the grid does not have count as 1."""
    grid = current().grid or (1,)
    if axes is None:
        return prod(grid)
    numbers = limits.axes(axes, "axes", position=0)
    return prod(grid[a] for a in numbers if a < len(grid))


def program_ndim() -> int:
    """Return the number of axes of the launch grid, or 0 without a grid."""
    return len(current().grid)


def arange(*args: int) -> Index:
    """Return an index expression with one axis and the values of np.arange. They begin at `start`
    (default 0) and end before `stop`, in steps of `step` (default 1)."""
    only_stop = len(args) == 1 and type(args[0]) is int
    if only_stop and (known := _counted.get(args[0])) is not None:
        return known
    values = range(*args)
    index = Index((len(values),), (values.step,), values.start)
    if only_stop:
        make_room(_counted)
        _counted[args[0]] = index
    return index


_counted: dict[int, Index] = {}  # expressions that start at 0, by their number of elements


class Grid(tuple[Index, ...]):
    """The expressions of nl.mgrid, as a tuple. The attributes `p`, `x`, `y`, `z`, ... are the
    expressions of its axes."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Index:
        names = "pxyzw"
        if len(name) == 1 and name in names[: len(self)]:
            return self[names.index(name)]
        axes = plural(len(self), "axis", "axes")
        raise AttributeError(f"a grid of {axes} has no attribute {name!r}")


class _MeshGrid:
    """`nl.mgrid[0:128, 0:512]`: a Grid of one index expression for each slice. The expression of
    axis k has the slice's size along axis k, and size 1 along the other axes."""

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
    """Return the range of a slice in nl.mgrid. Raises SignatureError for another key."""
    if not isinstance(key, slice) or key.stop is None:
        raise SignatureError(
            f"nl.mgrid takes slices, not {key!r}", expected="nl.mgrid[0:128, 0:512]"
        )
    parts = (key.start or 0, key.stop, 1 if key.step is None else key.step)
    return range(*map(operator.index, parts))


mgrid = _MeshGrid()
