"""Functions with which clauses (the definitions of instructions in isa/) compute: arrays for
results, chains of operators, folds.

Arrays are [P, F...]; every function writes its result into `out` or into its tile. A Run is the
function that executes a call; it takes the arguments that vary between uses of the instruction
(`neuroncore.clause.instruction`). Codes are the bits of elements as memory stores them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base import buffers
from neuroncore.clause.alu import Operator, as_matrix, chained, copied, elementwise, in_steps
from neuroncore.clause.instruction import Run
from neuroncore.memory.tile import Tile
from neuroncore.numerics import codec
from neuroncore.numerics.formats import Format, float32, float64
from neuroncore.numerics.loops import elements
from neuroncore.numerics.loops import fold as folds

Array = npt.NDArray[Any]
Step = tuple[Operator, Any, bool]  # an operator, its operand, and whether the operand comes first
FLOAT, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


def floats(dst: Tile, shape: tuple[int, ...] | None = None) -> Array:
    """Return an uninitialized array for results of `dst`, by default in its shape: float32, or
    float64 in the shadow computation of `neuroncore.core.precision`."""
    return buffers.array(dst.shape if shape is None else shape, _type(dst.held))


def _type(held: Format) -> np.dtype[Any]:
    """Return the type in which values for a tile of this format are computed."""
    return DOUBLE if held is float64 else FLOAT


def target(dst: Tile, *sources: Tile, later: Any = None) -> Array:
    """Return an array in the shape of `dst` for a float32 result, to be passed to `finish`.

    It is the memory of `dst` if this can't change a source before it is read.

    `sources`: tiles that are read element by element, while `dst` is written
    `later`: a tile that is read after all of `dst` has been written"""
    shared = isinstance(later, Tile) and later.storage.data is dst.storage.data
    if (dst.held is float32 or dst.held is float64) and not shared:
        for source in sources:
            if source.storage is dst.storage and not same_window(source, dst):
                break
            if source.storage.image is not None and dst.storage.image is source.storage.image:
                break
        else:
            return dst.codes()
    return floats(dst)


def same_window(a: Tile, b: Tile) -> bool:
    """Return whether two tiles have the same elements in the same order."""
    if a.offset != b.offset or a.dtype is not b.dtype:
        return False
    return a.shape == b.shape and a.strides == b.strides


def finish(dst: Tile, result: Array) -> None:
    """Write a result to `dst`, rounded to its format. `result` is an array from `target`."""
    if result is not dst.codes():
        dst.store(result)


def shaped(values: Array, shape: tuple[int, ...]) -> Array:
    """Return the array with its free axes in another shape. The shape must have as many elements as
    the free axes."""
    return values if values.shape == shape else values.reshape(shape)


def rows(tile: Tile) -> Array:
    """Return the values of a tile as a matrix: one row for each partition."""
    return as_matrix(tile.values(), tile.shape[0])


def scalar(operand: Any, like: Array) -> Any:
    """Return an operand in a form that broadcasts to `like`. The operand is a constant, or a tile
    that has one element per partition, or as many elements as `like`."""
    if not isinstance(operand, Tile):
        return like.dtype.type(operand)
    values, lanes = operand.values(), len(like)
    if values.size == lanes:
        return values.reshape(lanes, *[1] * (like.ndim - 1))
    return shaped(values, like.shape)


def per_lane(operand: Any, like: Array) -> Array:
    """Return a constant or a [P, 1] tile as a new vector with a number for each partition of
    `like`, in its type."""
    numbers = np.empty(like.shape[0], like.dtype)
    numbers[:] = operand.values().reshape(-1) if isinstance(operand, Tile) else operand
    return numbers


def mask(predicate: Tile, dst: Tile, reverse: bool) -> Array:
    """Return flags in the shape of `dst`: whether the predicate is not 0. `reverse` inverts
    them."""
    compare = np.equal if reverse else np.not_equal
    chosen: Array = compare(predicate.codes(), 0)
    return shaped(chosen, dst.shape)


def move(dst: Tile, src: Tile) -> Run:
    """Return a Run that copies bits between equal formats, and converts values between others."""
    if dst.dtype is not src.dtype:
        return convert
    shape = dst.shape

    def run(dst: Tile, src: Tile) -> None:
        dst.codes()[...] = shaped(src.codes(), shape)

    return in_steps(run, copied)


def convert(dst: Tile, src: Tile) -> None:
    """dst = src, converted through float32."""
    if not decoded(dst, src):
        dst.store(src.values())


in_steps(convert, copied)


def decoded(dst: Tile, src: Tile) -> bool:
    """Convert src to float32 in the memory of `dst`. Return False if that is impossible: `dst` is
    not float32 or has gaps, src is float32, or they share memory."""
    into, codes = dst.codes(), src.codes()
    if dst.held is not float32 or src.held is float32 or not into.flags.c_contiguous:
        return False
    if np.may_share_memory(into, codes):
        return False
    codec.decode(src.held, codes, into.reshape(codes.shape))
    return True


def put(dst: Tile, chosen: Array, codes: Any) -> None:
    """Write codes to the elements of `dst` that `chosen` flags.

    `chosen`: shape [P] or [P, F...]
    `codes`: a single code, or one for each chosen element, or one for each element of `dst`"""
    if chosen.shape == dst.shape and np.shape(codes) in ((), dst.shape):
        choose(chosen, codes, dst.codes())
    else:
        dst.codes()[chosen] = codes
    if dst.storage.gaps is not None:
        shape = *chosen.shape, *[1] * (len(dst.shape) - chosen.ndim)
        dst.mark_written(np.broadcast_to(chosen.reshape(shape), dst.shape))


def choose(chosen: Array, codes: Any, out: Array) -> None:
    """Copy the chosen elements of `codes`, or a single code, to `out`. The arrays have one type,
    and may overlap."""
    if out.size < codec.LEAST or out.itemsize not in codec.WORDS:
        np.copyto(out, codes, where=chosen)
        return
    whole = out if out.flags.c_contiguous else np.array(out, order="C")
    source = flat(np.broadcast_to(np.asarray(codes, out.dtype), out.shape))
    if np.may_share_memory(source, whole):
        source = source.copy()
    word = codec.WORDS[out.itemsize]
    elements.choose(flat(chosen), source.view(word), whole.reshape(-1).view(word))
    if whole is not out:
        np.copyto(out, whole)


def where(chosen: Array, values: Array, others: Any) -> Array:
    """Return a new array: `values` where `chosen` is true, else `others`. np.where is slower."""
    result = np.array(np.broadcast_to(others, values.shape), values.dtype, order="C")
    choose(chosen, values, result)
    return result


def write(dst: Tile, numbers: Array) -> None:
    """dst = numbers, without rounding, because the format of dst can represent all of these
    numbers."""
    dst.codes()[...] = shaped(numbers.astype(dst.dtype.storage), dst.shape)


def tiles(*operands: Any) -> tuple[Tile, ...]:
    """Return the operands that are tiles, not numbers or None."""
    return tuple(operand for operand in operands if isinstance(operand, Tile))


def reader(tile: Tile, shape: tuple[int, ...]) -> Callable[[Tile], Array]:
    """Return a function that reads the values of tiles like `tile`, in a shape with equally many
    elements per partition."""
    if tile.held is float32 or tile.held is float64:
        read: Callable[[Tile], Array] = Tile.codes
    else:
        read = type(tile).values
    if tile.shape == shape:
        return read
    return lambda tile: read(tile).reshape(shape)


def operand_reader(operand: Any, dst: Tile) -> Callable[[Any], Any]:
    """Return a function that reads operands like `operand`, in a form that broadcasts to `dst`. A
    tile has one element per partition, or as many as `dst`."""
    if not isinstance(operand, Tile):
        return _type(dst.held).type
    lanes = dst.shape[0]
    column = lanes, *[1] * (len(dst.shape) - 1)
    return reader(operand, column if operand.size == lanes else dst.shape)


def unary(dst: Tile, function: Callable[[Array, Array], Any], data: Tile) -> Run:
    """Return a Run that executes dst[p, f] = function(data[p, f]) on values."""
    read = reader(data, dst.shape)

    def run(dst: Tile, data: Tile) -> None:
        out = target(dst, data)
        function(read(data), out)
        finish(dst, out)

    return in_steps(run, elementwise(function))


def binary(dst: Tile, function: Callable[..., Any], data1: Tile, data2: Tile) -> Run:
    """Return a Run that executes dst[p, f] = function(data1[p, f], data2[p, f]) on values."""
    read1, read2 = reader(data1, dst.shape), reader(data2, dst.shape)
    steps = elementwise(function)
    if (written := direct(dst, function)) is not None:
        return in_steps(
            lambda dst, data1, data2: function(read1(data1), read2(data2), written(dst)), steps
        )

    def run(dst: Tile, data1: Tile, data2: Tile) -> None:
        out = target(dst, data1, data2)
        function(read1(data1), read2(data2), out)
        finish(dst, out)

    return in_steps(run, steps)


def direct(dst: Tile, function: Callable[..., Any]) -> Callable[[Tile], Array] | None:
    """Return a function that returns the memory of tiles like `dst` for results of `function`, or
    None.

    `function` must be numpy's, because numpy's functions behave as if arrays did not overlap
    (numpy.ufunc). `dst` must be float32 or float64, or for a comparison (0 or 1) an integer format
    of one byte."""
    if not isinstance(function, np.ufunc):
        return None
    if dst.held is float32 or dst.held is float64:
        return Tile.codes
    compares = "ff->?" in function.types
    return flags if compares and dst.held.is_integer and dst.held.itemsize == 1 else None


def flags(tile: Tile) -> Array:
    """Return a tile of bytes 0 and 1 as an array of bools in the same memory."""
    return tile.codes().view(np.bool_)


def chain(dst: Tile, data: Tile, first: Step, second: Step | None = None) -> Run:
    """Return a Run that executes dst = (data <op> operand) <op> operand. Bitvec operators work on
    bit patterns, others on values."""
    if first[0].kind == "bitvec":
        steps = [(op, reverse) for op, _, reverse in filter(None, (first, second))]
        return partial(integer_chain, steps)
    if second is None:
        return _one_step(dst, data, first)
    return _two_steps(dst, data, first, second)


def _one_step(dst: Tile, data: Tile, step: Step) -> Run:
    read, apply, read_operand = reader(data, dst.shape), applied(step), operand_reader(step[1], dst)
    steps = chained(step)
    if (written := direct(dst, step[0].apply)) is not None:  # whichever of its operands comes first
        return in_steps(
            lambda dst, data, operand, _=None: apply(
                read(data), read_operand(operand), written(dst)
            ),
            steps,
        )

    def run(dst: Tile, data: Tile, operand: Any, _: None = None) -> None:
        out = target(dst, *tiles(data, operand))
        apply(read(data), read_operand(operand), out)
        finish(dst, out)

    return in_steps(run, steps)


def _two_steps(dst: Tile, data: Tile, first: Step, second: Step) -> Run:
    read, apply0, apply1 = reader(data, dst.shape), applied(first), applied(second)
    read0, read1 = operand_reader(first[1], dst), operand_reader(second[1], dst)

    def run(dst: Tile, data: Tile, operand0: Any, operand1: Any) -> None:
        out = target(dst, *tiles(data, operand0), later=operand1)
        apply0(read(data), read0(operand0), out)
        apply1(out, read1(operand1), out)
        finish(dst, out)

    return in_steps(run, chained(first, second))


def applied(step: Step) -> Callable[[Array, Any, Array], Any]:
    """Return a function that writes a <op> b into an array, or b <op> a if the step is reversed."""
    op, operand, reverse = step
    if reverse and op.arity != 1:
        return lambda a, b, out: apply(op, a, b, out, reverse=True)
    if isinstance(operand, Tile) and op.apply in elements.by_column:
        return partial(_by_column, op.apply)
    return op.apply


WORTH = 1 << 13  # the number of elements from which a loop, with its checks, is faster than numpy


def _by_column(function: Callable[..., Any], a: Array, b: Array, out: Array) -> None:
    """out = function(a, b). A compiled loop is used if b has one element per partition, arrays are
    large, and `out` shares no memory with them. (In place, numpy is as fast.)"""
    suits = a.size >= WORTH and b.size == len(b) and a is not out and _are_matrices(a, out)
    if suits and b.dtype is FLOAT and not any([np.may_share_memory(x, out) for x in (a, b)]):
        lanes = len(b)
        loop = elements.by_column[function]()
        loop(a.reshape(lanes, -1), b.reshape(-1), out.reshape(lanes, -1))
    else:
        function(a, b, out)


def _are_matrices(*arrays: Array) -> bool:
    return all([array.dtype is FLOAT and array.flags.c_contiguous for array in arrays])


def scale_and_add(x: Array, scale: Any, terms: Array, out: Array) -> bool:
    """out = x * scale + terms, with one term per partition. Do nothing and return False if x is
    small, not float32 or has gaps.

    `out`: float32 without gaps, in separate memory"""
    lanes = len(x)
    if x.size < WORTH or not _are_matrices(x):
        return False
    elements.affine()(x.reshape(lanes, -1), scale, terms.reshape(-1), out.reshape(lanes, -1))
    return True


def stepped(dst: Tile, data: Tile, *steps: Step, out: Array | None = None) -> Array:
    """Return ((data <op> operand) <op> operand) ... in `out` or a new array. Each step rounds."""
    result = floats(dst) if out is None else out
    value = shaped(data.values(), dst.shape)
    for op, operand, reverse in steps:
        apply(op, value, scalar(operand, result), result, reverse)
        value = result
    return result


def apply(op: Operator, a: Array, b: Any, out: Array, reverse: bool = False) -> None:
    """out = a <op> b, or with `reverse` b <op> a."""
    if not reverse or op.arity == 1:
        op.apply(a, b, out)
    elif isinstance(b, np.ndarray) or isinstance(op.apply, np.ufunc):
        op.apply(np.broadcast_to(b, a.shape), a, out)
    else:
        op.apply(np.full(a.shape, b), a, out)


def constant(form: Format, value: float) -> Any:
    """Return a number as a code of a format. Integers saturate."""
    if form is float32:
        return np.float32(value)
    if form.is_integer and form.kind != "bool":
        low, high = form.range
        return form.storage.type(min(max(int(value), low), high))
    return codec.encode(form, np.array([value], _type(form)))[0]


def integer_binary(op: Operator, dst: Tile, data1: Tile, data2: Tile) -> None:
    """dst = data1 <op> data2 on the integers themselves; arithmetic wraps around."""
    a, b = shaped(data1.codes(), dst.shape), shaped(data2.codes(), dst.shape)
    integers: Callable[..., Any] | None = op.integer if op.kind == "arithmetic" else op.apply
    assert integers is not None
    mixed = op.kind == "arithmetic" and a.dtype != b.dtype  # bitvec operands have the same width
    kind = np.dtype(np.int64) if mixed else a.dtype
    result = _bits_of(dst, kind)
    integers(a.astype(kind, copy=False), b.astype(kind, copy=False), out=result)
    if result.base is None:
        np.copyto(dst.codes(), result, casting="unsafe")


def _bits_of(dst: Tile, kind: np.dtype[Any]) -> Array:
    """Return the memory of a tile as integers of type `kind`, or a new array if the widths differ.

    A function may write there only if it may overwrite its operands, like numpy's functions."""
    codes = dst.codes()
    if codes.dtype.kind in "iu" and codes.itemsize == kind.itemsize:
        return codes.view(kind)
    return np.empty(dst.shape, kind)


def integer_chain(
    steps: Iterable[tuple[Operator, bool]], dst: Tile, data: Tile, *operands: Any
) -> None:
    """Apply bitvec operators to bit patterns, one after the other. `steps` lists (operator, whether
    the operand is on the left) for each operand."""
    value = shaped(data.codes(), dst.shape)
    for (op, reverse), operand in zip(steps, operands, strict=False):
        other = _bits(operand, value)
        a, b = (np.broadcast_to(other, value.shape), value) if reverse else (value, other)
        out = np.empty(value.shape, value.dtype)
        op.apply(a, b, out)
        value = out
    dst.codes()[...] = value.view(dst.dtype.storage)


def _bits(operand: Any, like: Array) -> Any:
    """Return an operand as bit patterns of the width of `like`; None for no operand."""
    if operand is None:
        return None
    if isinstance(operand, Tile):
        codes = operand.codes().reshape(like.shape[0], *[1] * (like.ndim - 1))
        return codes.astype(np.int64).astype(like.dtype)
    width = like.dtype.itemsize * 8
    return np.array(int(operand) % (1 << width), f"uint{width}").view(like.dtype)


def flat(values: Array) -> Array:
    return buffers.contiguous(values).reshape(-1)


def activate(function: Callable[[Array, Array], Any], x: Array, out: Array) -> None:
    """out = function(x). The function gets flat arrays."""
    if out.flags.c_contiguous:
        function(flat(x), out.reshape(-1))
        return
    whole = buffers.array(out.shape, out.dtype)
    function(flat(x), whole.reshape(-1))
    np.copyto(out, whole)


def fold(op: Operator, matrix: Array, state: Array) -> Array:
    """state[p] = state[p] <op> matrix[p, 0] <op> matrix[p, 1] ..., from the left.

    Changes the vector `state` in place, and returns it. The order on the device is not published;
    here it is the order of the elements. Only the last bits of float32 results depend on it."""
    if op.fold is not None and matrix.dtype.kind == "f":
        op.fold(as_matrix(matrix, matrix.shape[0]), state)
        return state
    for j in range(matrix.shape[1]):
        op.apply(state, matrix[:, j], state)
    return state


def reduce(op: Operator, values: Array, axes: int) -> Array:
    """Return `values` with the last `axes` axes folded by `op`, from the first element on."""
    kept = values.shape[: values.ndim - axes]
    matrix = as_matrix(values, prod(kept))
    if op.neutral is not None and matrix.dtype.kind == "f":
        state = np.empty(matrix.shape[0], matrix.dtype)
        state.fill(op.neutral)
        return fold(op, matrix, state).reshape(kept)
    return fold(op, matrix[:, 1:], matrix[:, 0].copy()).reshape(kept)


def scan(
    op0: Operator, op1: Operator, first: Array, second: Array, state: Array, out: Array,
    swap0: bool, swap1: bool,
) -> None:  # fmt: skip
    """out[p, j] = r = (first[p, j] <op0> r) <op1> second[p, j], starting from r = state[p]. `swap0`
    and `swap1` exchange the operands."""
    names = folds.SCANNED
    if op0.name in names and op1.name in names:
        rows = len(state)
        folds.scan(
            as_matrix(first, rows), as_matrix(second, rows), state, out,
            names.index(op0.name), names.index(op1.name), bool(swap0), bool(swap1),
        )  # fmt: skip
        return
    for j in range(first.shape[1]):
        a, b = (state, first[:, j]) if swap0 else (first[:, j], state)
        inner = np.empty_like(state)
        op0.apply(a, b, inner)
        a, b = (second[:, j], inner) if swap1 else (inner, second[:, j])
        op1.apply(a, b, state)
        out[:, j] = state


def cumulate(op: Operator, x: Array, state: Array, out: Array) -> None:
    """out[p, j] = r = x[p, j] <op> r, starting from r = state[p]. The last r becomes state[p]."""
    if op.name in folds.SCANNED:
        folds.cumulate(x, state, out, folds.SCANNED.index(op.name))
        return
    for j in range(x.shape[1]):
        op.apply(x[:, j], state, state)
        out[:, j] = state
