"""Compiled code that executes instructions of a record one after the other, without Python.

The template of an instruction is a list of steps. A step is a loop over elements with two inputs
and a result: a row of the table `steps`, with the columns below. SIZES are the sizes of its three
axes. An operand has four columns. The first is the position of its window in the record of the
instruction, or ~n for the fixed address n. The others are the distances between its elements along
the axes, in bytes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types

from neuroncore.base.jit import compiled, generated, inlined
from neuroncore.numerics.loops.intrinsics import pointer

Array = npt.NDArray[Any]

KIND, FUNCTION, DATA, SIZES, FIRST, SECOND, RESULT = 0, 1, 2, 3, 6, 10, 14
WIDTH = 18
# Kinds of steps. FUNCTION is the address of a loop. For UNARY and BINARY, this is a loop of numpy,
# which takes DATA. For the other kinds, it is machine code from numba for arrays without gaps:
# vectors along the last axis, or matrices along the last two axes.
UNARY, BINARY = 0, 1  # function(first, result), function(first, second, result)
VECTORS = 2  # function(first, result)
CONSTANTS = 3  # function(first, result, second); `second` has DATA numbers
MATRICES = 4  # function(first, second, result); `second` has DATA columns
FOLD = 5  # function(first, result); `first` is a matrix
COPY = 6  # result = first; an element has DATA bytes: 1, 2 or 4
VECTOR, MATRIX = types.Array(types.f4, 1, "C"), types.Array(types.f4, 2, "C")
LOOP = ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * 4)


def vector_of(dtype: Any) -> Any:
    """Return numba's type for vectors of a numpy type without gaps between elements."""
    return types.Array(nb.from_dtype(dtype), 1, "C")


@generated
def _call_numpy(
    typingctx: Any, function: Any, operands: Any, size: Any, distances: Any, data: Any
) -> Any:
    """Call a loop of numpy at the address `function` (PyUFuncGenericFunction): void loop(char
    **operands, npy_intp *size, npy_intp *distances, void *data)."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        loop = builder.inttoptr(values[0], LOOP.as_pointer())
        builder.call(loop, values[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), generate


@generated
def _call(typingctx: Any, function: Any, arrays: Any) -> Any:
    """Call the machine code at the address `function`, compiled for the types of `arrays`."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        convention, kinds = context.call_conv, tuple(arrays)
        code = convention.get_function_type(types.none, kinds).as_pointer()
        listed = [builder.extract_value(values[1], i) for i in range(len(kinds))]
        loop = builder.inttoptr(values[0], code)
        convention.call_function(builder, loop, types.none, kinds, listed)
        return context.get_dummy_value()

    return types.void(types.int64, arrays), generate


@generated
def _elements(typingctx: Any, address: Any, like: Any) -> Any:
    """Return a pointer to the elements at an address, with the type of `like`."""
    kind = types.CPointer(like)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], context.get_value_type(kind))

    return kind(types.int64, like), generate


@inlined
def _vector(address: int, size: int) -> Any:
    return nb.carray(pointer(address), (size,))


@inlined
def _matrix(address: int, rows: int, columns: int) -> Any:
    return nb.carray(pointer(address), (rows, columns))


@inlined
def _copy(like: Any, item: int, size: int, source: int, along: int, target: int, by: int) -> None:
    """Copy `size` elements of `item` bytes, with the type of `like`, between two addresses.

    `source`, `along`: the first address, and the bytes from one element to the next
    `target`, `by`: the same for the copy"""
    elements, copies = _elements(source, like), _elements(target, like)
    if along == item and by == item:
        for k in range(size):
            copies[k] = elements[k]
    else:
        along, by = along // item, by // item
        for k in range(size):
            copies[k * by] = elements[k * along]


class Table(NamedTuple):
    """The instructions of a program, and their templates.

    `begins`, `rows`: instruction r is rows[begins[r]:begins[r + 1]]
    `template`, `steps_of`: its template t = template[r] is rows steps_of[t]:steps_of[t + 1] of
        `steps`
    `storage`, `base`, `starts`: window w begins starts[w] bytes after the address base[storage[w]]
    `fixed`: the fixed addresses"""

    rows: Array
    begins: Array
    template: Array
    steps_of: Array
    steps: Array
    storage: Array
    starts: Array
    base: Array
    fixed: Array


@compiled
def execute(table: Table, first: int, end: int) -> None:
    """Execute the instructions from `first` to `end` (exclusive)."""
    rows, begins, steps = table.rows, table.begins, table.steps
    operands, distances = np.empty(3, np.int64), np.empty(3, np.int64)
    size, address = np.empty(1, np.int64), np.empty(3, np.int64)
    for row in range(first, end):
        template = table.template[row]
        for number in range(table.steps_of[template], table.steps_of[template + 1]):
            step = steps[number]
            kind, function, data = step[KIND], step[FUNCTION], step[DATA]
            for i in range(3):
                place = step[FIRST + 4 * i]
                if place < 0:
                    address[i] = table.fixed[~place]
                else:
                    window = rows[begins[row] + place]
                    address[i] = table.base[table.storage[window]] + table.starts[window]
            planes, lines, columns = step[SIZES], step[SIZES + 1], step[SIZES + 2]
            x, y, z = address[0], address[1], address[2]
            if kind <= BINARY:
                size[0] = columns
                distances[0], distances[1] = step[FIRST + 3], step[SECOND + 3]
                distances[kind + 1] = step[RESULT + 3]
                for i in range(planes):
                    for j in range(lines):
                        operands[0] = x + i * step[FIRST + 1] + j * step[FIRST + 2]
                        operands[1] = y + i * step[SECOND + 1] + j * step[SECOND + 2]
                        operands[kind + 1] = z + i * step[RESULT + 1] + j * step[RESULT + 2]
                        _call_numpy(
                            function, operands.ctypes.data, size.ctypes.data,
                            distances.ctypes.data, data,
                        )  # fmt: skip
            elif kind == VECTORS:
                _call(function, (_vector(x, columns), _vector(z, columns)))
            elif kind == CONSTANTS:
                _call(function, (_vector(x, columns), _vector(z, columns), _vector(y, data)))
            elif kind == MATRICES:
                a, b = _matrix(x, lines, columns), _matrix(y, lines, data)
                _call(function, (a, b, _matrix(z, lines, columns)))
            elif kind == FOLD:
                _call(function, (_matrix(x, lines, columns), _vector(z, lines)))
            else:
                for i in range(planes):
                    for j in range(lines):
                        source = x + i * step[FIRST + 1] + j * step[FIRST + 2]
                        target = z + i * step[RESULT + 1] + j * step[RESULT + 2]
                        along, by = step[FIRST + 3], step[RESULT + 3]
                        if data == 1:
                            _copy(np.uint8(0), 1, columns, source, along, target, by)
                        elif data == 2:
                            _copy(np.uint16(0), 2, columns, source, along, target, by)
                        else:
                            _copy(np.uint32(0), 4, columns, source, along, target, by)


@compiled
def place(first: Array, last: Array, by_last: Array, kind: Array, size: Array, at: Array) -> int:
    """Choose positions of tensors in one block of memory. Return the size of the block in bytes.

    `first`, `last`: the first and last instructions that use each tensor; tensors are sorted by
        `first`
    `by_last`: the tensors, sorted by `last`
    `kind`, `size`: tensor i has size[kind[i]] bytes
    `at`: at[i] is set to the position of tensor i, in bytes

    A tensor reuses the position of an earlier tensor of its kind that is not used any more."""
    free = np.full(size.shape[0], -1, np.int64)  # a tensor of each kind with a free position, or -1
    following = np.empty(first.shape[0], np.int64)  # the next tensor with a free position, or -1
    total: Any = 0
    ended = 0
    for i in range(first.shape[0]):
        while last[by_last[ended]] < first[i]:
            gone = by_last[ended]
            following[gone] = free[kind[gone]]
            free[kind[gone]] = gone
            ended += 1
        reused = free[kind[i]]
        if reused >= 0:
            at[i] = at[reused]
            free[kind[i]] = following[reused]
        else:
            at[i] = total
            total += size[kind[i]]
    return int(total)
