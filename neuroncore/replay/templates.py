"""Templates, with which compiled code (`neuroncore.replay.loops`) executes instructions without
Python.

The Run of an instruction is the function that executes it. A template is a table of the steps
of a Run (`neuroncore.clause.alu`). It calls the same loops on the same operands as the Run: numpy's
loops, and those of `neuroncore.numerics.loops`. So the results have the same bits."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from neuroncore.base.lazy import Lazy
from neuroncore.clause import alu
from neuroncore.clause.alu import PREVIOUS, Fold, Loop, compiled_loop
from neuroncore.memory import access
from neuroncore.memory.access import Dims
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics import codec
from neuroncore.numerics.formats import Format, bfloat16, float32
from neuroncore.numerics.loops import codec as codecs
from neuroncore.numerics.loops import fold as folds

if TYPE_CHECKING:
    from neuroncore.replay import loops
else:
    loops = Lazy("neuroncore.replay.loops")

FLOAT = np.dtype(np.float32)
AXES = 3  # the number of axes of a step

# Some functions are not loops themselves. For these, the function that is a loop, and its inputs.
_Form = Callable[..., tuple[Any, tuple[Any, ...]]]
FORMS: dict[Any, _Form] = {
    **dict.fromkeys((alu.absolute, alu.magnitude), lambda a, _=None: (np.absolute, (a,))),
    **dict.fromkeys((alu.square, alu.squared), lambda a, _=None: (np.multiply, (a, a))),
    **dict.fromkeys((alu.reciprocal, alu.inverse), lambda a, _=None: (np.divide, (1.0, a))),
    **dict.fromkeys((alu.relu, alu.rectified), lambda a, _=None: (alu.maximum, (a, 0.0))),
    **dict.fromkeys((alu.bypass, alu.copy), lambda a, _=None: (np.copyto, (a,))),
}
MATRICES = {alu.maximum: folds.elementwise_maximum, alu.minimum: folds.elementwise_minimum}


class NoTemplate(Exception):
    """Raised if the compiled code can't execute a step."""


class Operand(NamedTuple):
    """The elements of an operand.

    `place`: the position of its window in the instruction, or ~n for the fixed array n (a constant,
        or memory for intermediate results)
    `distances`: between elements along the axes of the result, in bytes
    `item`: the size of an element in bytes"""

    place: int
    distances: Dims
    item: int


class Templates:
    """The templates of a program, with common constants and memory for intermediate results.

    `steps`: the steps of all templates, as rows of the table in `neuroncore.replay.loops`
    `begins`: the first step of each template, and then the number of all steps"""

    def __init__(self) -> None:
        self.steps: list[list[int]] = []
        self.begins = [0]
        self._fixed: list[Array | int] = []  # constants, and sizes of intermediate results
        self._scratch: list[int] = []  # the fixed arrays that are memory for intermediate results
        self._used = 0  # the entries of `_scratch` that the current template uses
        self._windows: Mapping[int, int] = {}
        self._row: Sequence[int] = ()
        self._result = Operand(-1, (), 0)  # the result of the previous step

    def memory(self) -> tuple[Array, list[Array]]:
        """Return the addresses of the fixed arrays, and the arrays. Arrays for intermediate results
        are new."""
        arrays = [np.empty(a, np.uint8) if isinstance(a, int) else a for a in self._fixed]
        return np.array([*map(_address, arrays)], np.int64), arrays

    def add(
        self,
        dst: Tile,
        steps: Sequence[Loop | Fold],
        windows: Mapping[int, int],
        row: Sequence[int],
    ) -> int:
        """Add a template with these steps. Return its number, or -1 if compiled code can't execute
        a step. `windows` maps the `id` of each tile to the tile's position in the instruction.
        `row` is one of the instructions that use the template. Only the time of the steps depends
        on it."""
        self._windows, self._row, self._used = windows, row, 0
        count = len(self.steps)
        try:
            self._add(dst, steps)
        except NoTemplate:
            del self.steps[count:]
            return -1
        self.begins.append(len(self.steps))
        return len(self.begins) - 2

    def _add(self, dst: Tile, steps: Sequence[Loop | Fold]) -> None:
        tiles = [v for s in steps for v in (s.inputs if isinstance(s, Loop) else (s.data,))]
        tiles = [dst, *(value for value in tiles if isinstance(value, Tile))]
        if not steps or not all(map(_is_simple, tiles)) or _overlaps(dst):
            raise NoTemplate
        for number, step in enumerate(steps):
            last = number == len(steps) - 1
            if isinstance(step, Fold):
                self._result = self._folded(step, dst.shape)
            elif step.function is np.copyto and last and self._moves(dst, *step.inputs):
                return
            else:
                self._result = self._step(step, dst, last)
        if self._result.place != self._windows[id(dst)]:
            self._store(dst, self._result)

    # --- steps -----------------------------------------------------------------------------------

    def _moves(self, dst: Tile, value: Any) -> bool:
        """Add a step that copies `value` to `dst`. Return False if `value` needs a conversion, or
        is the previous result."""
        if isinstance(value, Tile):
            if value.held is not dst.held:
                return False
            source = _aligned(self._codes(value), value.shape, dst.shape)
        elif value is PREVIOUS:
            return False
        else:
            code = np.array(value, dst.held.storage)
            source = Operand(self._constant(code), (0,) * len(dst.shape), code.itemsize)
        self._emit(loops.COPY, dst.shape, source, self._codes(dst), data=dst.held.itemsize)
        return True

    def _step(self, step: Loop, dst: Tile, last: bool) -> Operand:
        """Add rows for `step` and its conversions. Return the operand with its result."""
        function, inputs, shape = step.function, step.inputs, dst.shape
        while (form := FORMS.get(function)) is not None:
            function, inputs = form(*inputs)
        values = [self._values(value, shape) for value in inputs]
        if function is np.copyto:
            return values[0]
        if isinstance(function, np.ufunc):
            return self._by_numpy(function, values, dst, last)
        last = last and not self._replaces(dst, inputs)
        if (loop := MATRICES.get(function)) is not None:
            return self._by_rows(loop, values, dst, last)
        if (elementary := compiled_loop(function)) is None:
            raise NoTemplate
        source, result = self._dense(values[0], shape), self._floats(dst, last, dense=True)
        code = _code(elementary, loops.VECTOR, loops.VECTOR)
        self._emit(loops.VECTORS, (prod(shape),), *_flat(source, result), function=code)
        return result

    def _replaces(self, dst: Tile, inputs: Sequence[Any]) -> bool:
        """Return whether a large result (`alu.LARGE`) replaces one of the inputs of a step."""
        tiles = (value for value in inputs if isinstance(value, Tile))
        at, large = self._windows[id(dst)], prod(dst.shape) >= alu.LARGE
        return large and any(self._row[self._windows[id(t)]] == self._row[at] for t in tiles)

    def _by_numpy(
        self, function: np.ufunc, values: list[Operand], dst: Tile, last: bool
    ) -> Operand:
        kind = loops.UNARY if len(values) == 1 else loops.BINARY
        result = self._floats(dst, last)
        signature = "f" * len(values) + "->f"
        if signature not in function.types:  # the results are flags
            if not (last and dst.held.is_integer and dst.held.itemsize == 1):
                raise NoTemplate
            signature, result = "ff->?", self._codes(dst)
        loop, data = _loop_of_numpy(function, signature)
        self._emit(kind, dst.shape, *values, result, function=loop, data=data)
        return result

    def _by_rows(self, loop: Any, values: list[Operand], dst: Tile, last: bool) -> Operand:
        lanes, columns = dst.shape[0], prod(dst.shape[1:])
        result = self._floats(dst, last, dense=True)
        first = self._dense(values[0], dst.shape)
        if any(values[1].distances[1:]) and columns > 1:
            second, count = self._dense(values[1], dst.shape), columns
        else:
            column = Operand(values[1].place, values[1].distances[:1], FLOAT.itemsize)
            second, count = self._dense(column, (lanes,)), 1
        code = _code(loop, *[loops.MATRIX] * 3)
        sizes = (lanes, columns)
        operands = [operand._replace(distances=(0, 0)) for operand in (first, second, result)]
        self._append(loops.MATRICES, sizes, operands, code, count)
        return result

    def _folded(self, step: Fold, shape: Dims) -> Operand:
        data = step.data.shape
        rows = prod(data[: len(data) - step.axes])
        if rows != prod(shape):
            raise NoTemplate
        columns = prod(data) // rows
        source = self._dense(self._values(step.data, data), data)
        state = self._temporary((rows,), FLOAT.itemsize)
        start = Operand(self._constant(np.float32(step.start)), (0,), FLOAT.itemsize)
        self._emit(loops.COPY, (rows,), start, state, data=FLOAT.itemsize)
        code = _code(compiled_loop(step.fold), loops.MATRIX, loops.VECTOR)
        operands = [source._replace(distances=(0, 0)), state._replace(distances=(0, 0))]
        self._append(loops.FOLD, (rows, columns), operands, code, 0)
        return state._replace(distances=_dense_steps(shape, FLOAT.itemsize))

    def _store(self, dst: Tile, values: Operand) -> None:
        """Add steps that round float32 values and write them to a tile."""
        into, form, shape = self._codes(dst), dst.held, dst.shape
        if form is not float32:
            values = self._dense(values, shape)
            is_dense = _is_dense(into, shape)
            codes = into if is_dense else self._temporary(shape, form.itemsize)
            self._convert(shape, values, codes, form, encodes=True)
            if is_dense:
                return
            values = codes
        self._emit(loops.COPY, shape, values, into, data=form.itemsize)

    def _convert(
        self, shape: Dims, source: Operand, result: Operand, form: Format, encodes: bool
    ) -> None:
        """Add a step that converts values to codes of a format, or back. Operands must have no
        gaps."""
        if form.kind != "float" or form.itemsize > 2 or form.element is not None:
            raise NoTemplate
        word = loops.vector_of(form.code_type)
        kinds = [loops.VECTOR, word] if encodes else [word, loops.vector_of(float32.code_type)]
        operands, numbers = [*_flat(source, result)], None
        if form is bfloat16:
            loop: Any = codecs.wide_from if encodes else codecs.float32_from_bfloat16
        else:
            loop = codecs.narrow_from if encodes else codecs.float32_from_narrow
            numbers = codec.narrow_numbers(form) if encodes else codec.widening(form)
            kinds.append(loops.vector_of(numbers.dtype))
            constants = Operand(self._constant(numbers), (0,), numbers.itemsize)
            operands.insert(1, constants)
        code = _code(loop, *kinds)
        kind = loops.VECTORS if numbers is None else loops.CONSTANTS
        count = 0 if numbers is None else len(numbers)
        self._emit(kind, (prod(shape),), *operands, function=code, data=count)

    # --- operands --------------------------------------------------------------------------------

    def _codes(self, tile: Tile) -> Operand:
        return Operand(self._windows[id(tile)], tile.geometry.steps, tile.held.itemsize)

    def _values(self, value: Any, shape: Dims) -> Operand:
        """Return an operand with the float32 values of an input, in the shape of a result. Add
        steps to convert it if necessary."""
        if value is PREVIOUS:
            return self._result
        if not isinstance(value, Tile):
            place = self._constant(np.float32(value))
            return Operand(place, (0,) * len(shape), FLOAT.itemsize)
        operand = self._codes(value)
        if value.held is not float32:
            codes = self._dense(operand, value.shape)
            operand = self._temporary(value.shape, FLOAT.itemsize)
            self._convert(value.shape, codes, operand, value.held, encodes=False)
        return _aligned(operand, value.shape, shape)

    def _floats(self, dst: Tile, last: bool, dense: bool = False) -> Operand:
        """Return an operand for a float32 result: `dst` if this is the `last` step and memory
        stores it as float32, otherwise memory for an intermediate result. A `dense` operand has no
        gaps."""
        tile = self._codes(dst)
        if last and dst.held is float32 and not (dense and not _is_dense(tile, dst.shape)):
            return tile
        return self._temporary(dst.shape, FLOAT.itemsize)

    def _dense(self, operand: Operand, shape: Dims) -> Operand:
        """Return an operand without gaps between its elements. Add a step that copies `operand` if
        necessary."""
        if _is_dense(operand, shape):
            return operand
        copy = self._temporary(shape, operand.item)
        self._emit(loops.COPY, shape, operand, copy, data=operand.item)
        return copy

    def _temporary(self, shape: Dims, item: int) -> Operand:
        """Return memory for an intermediate result of the current template."""
        if self._used == len(self._scratch):
            self._scratch.append(len(self._fixed))
            self._fixed.append(0)
        number = self._scratch[self._used]
        self._used += 1
        self._fixed[number] = max(self._fixed[number], prod(shape) * item)
        return Operand(~number, _dense_steps(shape, item), item)

    def _constant(self, value: Any) -> int:
        self._fixed.append(np.array(value))
        return ~(len(self._fixed) - 1)

    # --- the table -------------------------------------------------------------------------------

    def _emit(
        self, kind: int, shape: Dims, *operands: Operand, function: int = 0, data: int = 0
    ) -> None:
        """Append a step that loops over a shape. Axes are merged where all operands allow it."""
        axes = [(n, [o.distances[i] for o in operands]) for i, n in enumerate(shape) if n != 1]
        merged: list[tuple[int, list[int]]] = []
        for size, steps in axes:
            if merged and merged[-1][1] == [size * step for step in steps]:
                merged[-1] = merged[-1][0] * size, steps
            else:
                merged.append((size, steps))
        if len(merged) > AXES:
            raise NoTemplate
        sizes = tuple(size for size, _ in merged)
        by_axis = [steps for _, steps in merged]
        moved = [o._replace(distances=tuple(s[i] for s in by_axis)) for i, o in enumerate(operands)]
        self._append(kind, sizes, moved, function, data)

    def _append(
        self, kind: int, sizes: Dims, operands: list[Operand], function: int, data: int
    ) -> None:
        """Append a row to the table of steps. The last operand is the result."""
        first, *middle, result = operands
        second = middle[0] if middle else Operand(first.place, (0,) * len(sizes), 0)
        row = [kind, function, data, *_last(sizes, 1)]
        for operand in (first, second, result):
            row += [operand.place, *_last(operand.distances, 0)]
        self.steps.append(row)


# --- forms of operands ----------------------------------------------------------------------------


def _last(numbers: Dims, filler: int) -> Dims:
    return (filler,) * (AXES - len(numbers)) + tuple(numbers)


def _flat(*operands: Operand) -> list[Operand]:
    """Return operands as vectors. They must have no gaps between elements."""
    return [operand._replace(distances=(operand.item,)) for operand in operands]


def _dense_steps(shape: Dims, item: int) -> Dims:
    return tuple(step * item for step in access.dense(shape))


def _is_dense(operand: Operand, shape: Dims) -> bool:
    wanted = zip(shape, operand.distances, _dense_steps(shape, operand.item), strict=True)
    return all(size == 1 or step == dense for size, step, dense in wanted)


def _aligned(operand: Operand, shape: Dims, target: Dims) -> Operand:
    """Return an operand of the shape `shape` in the shape `target`.

    Raise NoTemplate if an axis has no constant distance. An operand may have fewer elements than
    `target` if it has one for each partition: they are repeated along the free axes."""
    if shape == target:
        return operand
    lanes = target[0]
    column = prod(shape) == lanes
    if not column and prod(shape) != prod(target):
        raise NoTemplate
    distances = access.reshaped(shape, operand.distances, (lanes,) if column else target)
    if distances is None:
        raise NoTemplate
    more = (0,) * (len(target) - 1) if column else ()
    return operand._replace(distances=(*distances, *more))


def _is_simple(tile: Tile) -> bool:
    """Return whether a tile is at a constant offset, in memory that no other tensor uses."""
    placed = tile.storage.placed
    return not (tile.dynamic or placed or tile.geometry.is_empty or tile.held.itemsize > 4)


def _overlaps(tile: Tile) -> bool:
    """Return whether elements of a tile may share bytes."""
    reach = tile.held.itemsize
    axes = zip(tile.geometry.steps, tile.shape, strict=True)
    for step, size in sorted((abs(step), size) for step, size in axes if size != 1):
        if step < reach:
            return True
        reach += (size - 1) * step
    return False


# --- loops ----------------------------------------------------------------------------------------


class _Ufunc(ctypes.Structure):
    """The beginning of numpy's PyUFuncObject (numpy/ufuncobject.h)."""

    _fields_ = [
        ("head", ctypes.c_byte * object.__basicsize__),
        *[(name, ctypes.c_int) for name in ("nin", "nout", "nargs", "identity")],
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
    ]


@cache
def _loop_of_numpy(function: np.ufunc, signature: str) -> tuple[int, int]:
    """Return the addresses of numpy's loop for a signature, and of its data. Raise NoTemplate if
    this release of numpy has another structure."""
    fields = _Ufunc.from_address(id(function))
    counts = [getattr(function, name) for name in ("nin", "nout", "nargs", "ntypes")]
    if counts != [fields.nin, fields.nout, fields.nargs, fields.ntypes]:
        raise NoTemplate
    if signature not in function.types:
        raise NoTemplate
    number = function.types.index(signature)
    loop, data = fields.functions[number], fields.data[number] if fields.data else None
    if loop is None:
        raise NoTemplate
    return loop, data or 0


@cache
def _code(loop: Any, *kinds: Any) -> int:
    """Return the address of the machine code of a compiled loop for these types."""
    loop.dispatcher.compile(kinds)
    compiled = loop.dispatcher.overloads[kinds]
    address: int = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    return address


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
