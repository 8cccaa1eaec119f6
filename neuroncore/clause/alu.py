"""The tables of ALU operators and activation functions, which isa/ fills. Also the steps of Runs.

A Run is the function that executes a call of an instruction. Its steps (`Loop` and `Fold`) describe
it as operations on whole tiles.

Arithmetic is float32 with one rounding per operation (nki.api.shared.rst, "Supported Math
Operators"). Arrays are [P, F...]; every function writes its result into `out`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from neuroncore.base import buffers
from neuroncore.numerics.loops import elementary
from neuroncore.numerics.loops import fold as folds

T = TypeVar("T")
# A compiled loop whose result overlaps a source uses no vector registers, and takes six times as
# long. For results of this many elements, writing to other memory and copying takes less time.
LARGE = 1 << 10


class IsaTable(MutableMapping[str, T]):
    """Rows by name, which the modules of isa/ add. They are loaded when an unknown row is
    requested: programs without kernels and records do not need them."""

    def __init__(self) -> None:
        self._added: dict[str, T] = {}

    @property
    def _rows(self) -> dict[str, T]:
        importlib.import_module("neuroncore.isa")
        return self._added

    def __getitem__(self, name: str) -> T:
        row = self._added.get(name)
        return self._rows[name] if row is None else row

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __setitem__(self, name: str, row: T) -> None:
        self._added[name] = row

    def __delitem__(self, name: str) -> None:
        del self._rows[name]


Array = npt.NDArray[Any]
Apply = Callable[[Array, Any, Array], Any]


@dataclass(frozen=True, eq=False)
class Operator:
    """An ALU operator.

    `apply`: apply(a, b, out) on float32 arrays, for a bitvec operator on integer arrays. `b`
        broadcasts along the free axes; a unary operator ignores it.
    `reduces`: whether reductions can use it
    `identity`: the value of an accumulator register after a reset
    `fold`: fold(x, state) folds each row of the matrix x into an element of `state`, first column
        first
    `neutral`: an initial state for `fold` that changes no element, not even -0"""

    name: str
    apply: Apply
    kind: Literal["arithmetic", "bitvec", "partition"] = "arithmetic"
    arity: int = 2
    reduces: bool = False
    identity: float | None = None
    fold: Callable[[Array, Array], Any] | None = None
    neutral: float | None = None
    predicate: bool = False  # the results are 0 for false and 1 for true
    integer: Apply | None = None  # exact, for the GpSimd engine's native 32-bit integers
    engines: tuple[str, ...] = ("vector",)
    feature: str | None = None  # the feature that a machine must have

    @property
    def operator(self) -> Operator:
        return self

    def __repr__(self) -> str:
        return f"nl.{self.name}"


@dataclass(frozen=True, eq=False)
class Function:
    """An activation function of the Scalar engine.

    `apply`: apply(x, out) on flat float32 arrays
    `valid`: the range of x in which the device's tables are valid; of |x| with `of_magnitude`
    `table`: the table of polynomials that it needs; None if every table contains it
    `adds_bias`: whether the device adds a bias to x first"""

    name: str
    apply: Callable[[Array, Array], Any]
    definition: str
    valid: tuple[float, float] = (-np.inf, np.inf)
    table: str | None = None
    of_magnitude: bool = False
    adds_bias: bool = True

    @property
    def function(self) -> Function:
        return self

    def __repr__(self) -> str:
        return f"nl.{self.name}"


OPERATORS: IsaTable[Operator] = IsaTable()
# operators that return a number if an operand is NaN; they replace operators of the same names
NUMBERS: IsaTable[Operator] = IsaTable()
# operators that no engine has (Options.simulator_operators)
SIMULATED: IsaTable[Operator] = IsaTable()
FUNCTIONS: IsaTable[Function] = IsaTable()


# --- operators that differ from those of numpy ------------------------------------------------


def maximum(a: Array, b: Any, out: Array) -> None:
    _by_rows(folds.elementwise_maximum, a, b, out)


def minimum(a: Array, b: Any, out: Array) -> None:
    _by_rows(folds.elementwise_minimum, a, b, out)


def maximum_number(a: Array, b: Any, out: Array) -> None:
    """out = the maximum of a and b. If one of them is NaN, the result is the other number."""
    maximum(np.where(np.isnan(a), b, a), np.where(np.isnan(b), a, b), out)


def minimum_number(a: Array, b: Any, out: Array) -> None:
    minimum(np.where(np.isnan(a), b, a), np.where(np.isnan(b), a, b), out)


def _by_rows(loop: Callable[..., Any], a: Array, b: Any, out: Array) -> None:
    apart = not _overlap(out, a, b)
    if apart and _is_matrix(a) and _is_matrix(b) and b.dtype == out.dtype and out.ndim == 2:
        loop(a, b, out)
        return
    rows = out.shape[0]
    other = np.asarray(b, out.dtype)
    if other.ndim == 0:
        other = np.full((rows, 1), other)
    # free axes with gaps between them can't be merged into one axis of a matrix
    whole = out.ndim <= 2 or out.flags.c_contiguous
    result = out if whole and apart else buffers.array(out.shape, out.dtype)
    loop(as_matrix(a, rows), as_matrix(other, rows), result.reshape(rows, -1))
    if result is not out:
        np.copyto(out, result)


def _overlap(out: Array, *sources: Any) -> bool:
    """Return whether a large result (LARGE) shares memory with a source."""
    if out.size < LARGE:
        return False
    return any(isinstance(x, np.ndarray) and np.may_share_memory(out, x) for x in sources)


def _is_matrix(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.ndim == 2 and values.flags.c_contiguous


def as_matrix(array: Array, rows: int) -> Array:
    """Return the array as a matrix [rows, F] with contiguous rows, if possible as a view."""
    return buffers.contiguous(array).reshape(rows, -1)


def power(a: Array, b: Any, out: Array) -> None:
    """out = a ** b in float64, rounded once to the format of `out`.

    numpy takes up to five times as long if a base is negative or 0. Then it computes the powers of
    |a| (1 for 0), and a compiled loop the result. Squares, and formats other than float32, are
    always left to numpy."""
    squares = np.ndim(b) == 0 and b == 2
    if squares or out.dtype != np.float32 or (a > 0).all():
        np.copyto(out, np.power(a, b, dtype=np.float64), casting="same_kind")
        return
    magnitudes = buffers.array(a.shape, a.dtype)
    elementary.magnitudes(buffers.contiguous(a).reshape(-1), magnitudes.reshape(-1))
    powers = as_matrix(np.power(magnitudes, b, dtype=np.float64), len(a))
    _by_rows(partial(elementary.powers, powers), a, b, out)


def rsqrt(a: Array, b: Any, out: Array) -> None:
    target = out if out.flags.c_contiguous else buffers.array(out.shape, out.dtype)
    elementary.rsqrt(buffers.contiguous(a).reshape(-1), target.reshape(-1))
    if target is not out:
        np.copyto(out, target)


def reciprocal(a: Array, b: Any, out: Array) -> None:
    np.divide(np.float32(1), a, out=out)


def absolute(a: Array, b: Any, out: Array) -> None:
    np.absolute(a, out=out)


def square(a: Array, b: Any, out: Array) -> None:
    np.multiply(a, a, out=out)


def relu(a: Array, b: Any, out: Array) -> None:
    maximum(a, np.float32(0), out)


def bypass(a: Array, b: Any, out: Array) -> None:
    np.copyto(out, a)


def larger_magnitude(a: Array, b: Any, out: Array) -> None:
    """out = a if |a| > |b|, otherwise b."""
    np.copyto(out, np.where(np.absolute(a) > np.absolute(b), a, b))


def smaller_magnitude(a: Array, b: Any, out: Array) -> None:
    np.copyto(out, np.where(np.absolute(a) < np.absolute(b), a, b))


def invert(a: Array, b: Any, out: Array) -> None:
    np.invert(a, out=out)


def left_shift(a: Array, b: Any, out: Array) -> None:
    _shift(np.left_shift, a, b, out)


def right_shift(a: Array, b: Any, out: Array) -> None:
    """out = a >> b as a logical shift: zeros come in from the left, even in signed formats."""
    _shift(np.right_shift, a, b, out)


def _shift(shift: Callable[..., Any], a: Array, b: Any, out: Array) -> None:
    """Shift bit patterns by b bits. A shift by the width or more gives 0."""
    unsigned = np.dtype(f"uint{a.dtype.itemsize * 8}")
    bits, count = a.view(unsigned), np.asarray(b).astype(np.int64) % (1 << 32)
    inside = count < a.dtype.itemsize * 8
    shifted = shift(bits, np.where(inside, count, 0).astype(unsigned))
    out.view(unsigned)[...] = np.where(inside, shifted, unsigned.type(0))


# --- activation functions that need no polynomial -------------------------------------------------


def copy(x: Array, out: Array) -> None:
    np.copyto(out, x)


def squared(x: Array, out: Array) -> None:
    np.multiply(x, x, out=out)


def rectified(x: Array, out: Array) -> None:
    relu(x.reshape(1, -1), None, out.reshape(1, -1))


def magnitude(x: Array, out: Array) -> None:
    np.absolute(x, out=out)


def sign(x: Array, out: Array) -> None:
    np.sign(x, out=out)


def root(x: Array, out: Array) -> None:
    np.sqrt(x, out=out)


def inverse(x: Array, out: Array) -> None:
    np.divide(np.float32(1), x, out=out)


# --- steps ----------------------------------------------------------------------------------------
# A Run that calls the same loops whatever the data are can list these loops as its steps. Then a
# replay can execute the instruction without Python (`neuroncore.replay.templates`). The functions
# of the steps are those that the Run calls, so that the instruction has only one meaning. A Run
# without steps can only be called.

PREVIOUS: Any = object()  # as an input: the result of the step before


class Loop(NamedTuple):
    """One step of an instruction: result = function(*inputs), element by element, in float32.

    An input is a tile, a number, or PREVIOUS (the result of the previous step). A tile has the
    result's shape, or one element per partition. The last result is rounded to the format of the
    Run's first argument."""

    function: Callable[..., Any]
    inputs: tuple[Any, ...]


class Fold(NamedTuple):
    """One step of an instruction: result[p] = data[p, ...], folded over the last `axes` axes by
    `fold`, from the number `start` on."""

    fold: Callable[..., Any]
    start: float
    data: Any
    axes: int


Steps = Callable[..., list[Loop | Fold]]
_Run = Callable[..., None]


def copied(dst: Any, value: Any) -> list[Loop | Fold]:
    """Return the step that copies a tile or a number to `dst`. Other formats are converted through
    float32."""
    return [Loop(np.copyto, (value,))]


def elementwise(function: Callable[..., Any]) -> Steps:
    """Return the steps of a Run that applies a function to all operands."""
    return lambda dst, *operands: [Loop(function, operands)]


def chained(*operations: tuple[Operator, Any, bool]) -> Steps:
    """Return the steps of a Run that combines a value with one operand after the other.

    `operations`: (operator, operand of the first use, whether it is the left operand)"""
    functions = [(op.apply, reverse and op.arity != 1) for op, _, reverse in operations]

    def steps(dst: Any, value: Any, *operands: Any) -> list[Loop | Fold]:
        listed: list[Loop | Fold] = []
        for (function, reverse), operand in zip(functions, operands, strict=False):
            listed.append(Loop(function, (operand, value) if reverse else (value, operand)))
            value = PREVIOUS
        return listed

    return steps


def in_steps(run: _Run, steps: Steps) -> _Run:
    """Attach `steps` to a Run, and return the Run.

    `steps(*arguments)` returns the steps for the varying arguments of a use, without the core. It
    raises KernelError if the Run would."""
    run.steps = steps  # type: ignore[attr-defined]
    return run


def steps_of(run: _Run, *arguments: Any) -> list[Loop | Fold] | None:
    """Return the steps of a Run for these arguments, or None if the Run never has steps."""
    steps: Steps | None = getattr(run, "steps", None)
    return None if steps is None else steps(*arguments)


def named_loop(module: ModuleType, name: str) -> Callable[..., Any]:
    """Return a function that calls a compiled loop of a module, which is loaded at the first
    call."""

    def call(values: Array, out: Array) -> None:
        if _overlap(out, values):
            copy = buffers.scratch("in place", values.shape, values.dtype)
            np.copyto(copy, values)
            values = copy
        getattr(module, name)(values, out)

    call.loop = partial(getattr, module, name)  # type: ignore[attr-defined]
    return call


def compiled_loop(function: Callable[..., Any]) -> Any:
    """Return the compiled loop that a function of `named_loop` calls; None for other functions."""
    loop: Callable[[], Any] | None = getattr(function, "loop", None)
    return None if loop is None else loop()
