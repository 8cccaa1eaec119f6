"""The memories of a core that executes a compiled program, as bytes: SBUF, PSUM and tensors in HBM.

SBUF is flat: a partition begins 2^18 bytes after the previous one, as in DMA addresses.
Uninitialized memory is NaN in every float format. Codes are the bits of elements, as integers.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.errors import UsageError
from neuroncore.base.units import plural
from neuroncore.capture.encoding import PSUM, Block, DecodedOperand, our_format
from neuroncore.capture.neff import DAMAGED, STATE_BUFFER, DmaMove, Graph, Variable
from neuroncore.numerics import codec
from neuroncore.numerics.formats import Format, lookup

Array = npt.NDArray[Any]

PARTITIONS = 128
SBUF_STEP = 1 << 18  # bytes from a partition of SBUF to the next
PSUM_STEP = 1 << 14  # bytes of a partition of PSUM
UNINITIALIZED = 0xFF
LARGEST = 1 << 32  # bytes of all tensors


class DmaEnd(NamedTuple):
    """One end of a copy in a transfer.

    The end is a part of a variable. It begins at an offset in bytes. Each of its elements has a
    number of bytes and a format. For each axis, innermost first, there is a step in bytes and a
    count."""

    variable: Variable
    offset: int
    steps: Sequence[int]
    counts: Sequence[int]
    element: int
    format: Format


class ChipMemories:
    """All memories of a core, including tensors in HBM.

    At first the constants of the program are written, and everything else is uninitialized."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        total = sum(max(variable.size, 0) for variable in graph.variables.values())
        if total > LARGEST:
            raise UsageError(
                f"the tensors of the program have {total:,} bytes, more than {LARGEST:,}, the "
                "most that is accepted"
            )
        self.sbuf = np.full(PARTITIONS * SBUF_STEP, UNINITIALIZED, np.uint8)
        self.psum = np.full(PARTITIONS * PSUM_STEP, UNINITIALIZED, np.uint8)
        self.tensors = {
            variable.name: _tensor(variable, graph.constants)
            for variable in graph.variables.values()
            if variable.kind != STATE_BUFFER
        }

    def view(self, operand: DecodedOperand, form: Format) -> Array:
        """Return the elements of an operand as codes of `form`, shape [rows, ..., innermost axis].

        The array shares its memory with the core. Raise UsageError if the operand leaves its
        partitions or is empty."""
        memory, step = (self.psum, PSUM_STEP) if operand.in_psum else (self.sbuf, SBUF_STEP)
        first = operand.address & (PSUM - 1)
        reach = [each * (size - 1) for each, size in zip(operand.steps, operand.sizes, strict=True)]
        low, high = (first + form.itemsize * sum(f(each, 0) for each in reach) for f in (min, max))
        inside = low >= 0 and high + form.itemsize <= step and operand.rows <= PARTITIONS
        inside &= operand.address < 2 * PSUM and operand.free <= SBUF_STEP
        if not inside or 0 in (operand.rows, *operand.sizes):
            raise UsageError(
                f"{operand} of {plural(operand.rows, 'row')} is empty or reaches beyond its "
                "partitions"
            )
        strides = [each * form.itemsize for each in reversed(operand.steps)]
        shape = (operand.rows, *reversed(operand.sizes))
        return np.ndarray(shape, form.storage, memory, first, (step, *strides))

    def codes(self, operand: DecodedOperand) -> Array:
        return self.view(operand, form_of(operand.format)).copy()

    def values(self, operand: DecodedOperand) -> Array:
        """Return the numbers of an operand as float32."""
        return codec.decode(form_of(operand.format), self.codes(operand))

    def write(self, operand: DecodedOperand, values: Array) -> None:
        """Round float32 values to the operand's format and write them."""
        self.put(operand, codec.encode(form_of(operand.format), np.ascontiguousarray(values)))

    def put(self, operand: DecodedOperand, codes: Array, form: Format | None = None) -> None:
        """Write codes. Raise UsageError if the operand has more or fewer elements."""
        target = self.view(operand, form or form_of(operand.format))
        target[...] = fitted(codes, target.shape)

    def column(self, address: int, rows: int) -> Array:
        """Return the float32 number that each partition has at an address, [rows, 1]."""
        where = DecodedOperand("", True, address, (1,), (1,), "fp32", rows)
        return self.values(where)

    def move(self, source: DmaEnd, target: DmaEnd) -> None:
        """Copy elements from one end to the other, and convert them if formats differ.

        Raise UsageError if the ends have different counts or sizes of elements."""
        read, written = self._elements(source), self._elements(target)
        counts = [divmod(end.element, end.format.itemsize) for end in (source, target)]
        same = read.shape[:-1] == written.shape[:-1] and counts[0] == counts[1]
        if not same or counts[0][1]:
            raise UsageError(
                f"a transfer reads bytes of the shape {read.shape} and writes bytes of the shape "
                f"{written.shape}: the order of its elements is not known"
            )
        codes = read.copy().view(source.format.storage)
        codes = codec.cast(source.format, target.format, codes)
        written[...] = np.ascontiguousarray(codes).view(np.uint8)

    def _elements(self, end: DmaEnd) -> Array:
        """Return the bytes of the source or the target of a copy, as a view of the core's memory:
        [..., innermost axis, bytes of an element]. Raise UsageError if they reach beyond it."""
        inside = end.variable.kind == STATE_BUFFER
        memory = self.sbuf if inside else self.tensors[end.variable.name]
        shape = (*reversed(end.counts), end.element)
        try:
            if prod(shape) > LARGEST:
                raise ValueError
            return np.ndarray(shape, np.uint8, memory, end.offset, (*reversed(end.steps), 1))
        except (TypeError, ValueError):
            raise UsageError(
                f"a transfer reaches beyond {end.variable.name}, which has {memory.size:,} bytes"
            ) from None

    def ends_of(self, block: Block) -> DmaEnd:
        """Return the end of a transfer that `block` describes.

        Raise UsageError if the program has no such variable."""
        number = block.number
        if block.kind == "table":
            tables = [v.table for v in self.graph.variables.values() if v.table]
            listed = [entry for table in tables for entry in table]
            number = listed[number] if number < len(listed) else -1
        variable = self.graph.variable(number) if block.kind != "address" else None
        if variable is None:
            raise UsageError(f"a transfer names {block.kind} {block.number}, which does not exist")
        where = block.address, block.steps, block.counts
        return DmaEnd(variable, *where, block.element, form_of(block.format))


def parts(move: DmaMove, graph: Graph) -> tuple[DmaEnd, DmaEnd]:
    """Return the source and the target of one copy of a static block.

    The bytes along the innermost axis become one element."""
    source = move.source_sizes, move.source_steps, move.source_format
    target = move.target_sizes, move.target_steps, move.target_format
    return (
        _end(graph.variables.get(move.source), move.source_offset, *source),
        _end(graph.variables.get(move.target), move.target_offset, *target),
    )


def _end(
    variable: Variable | None, offset: int, sizes: Sequence[int], steps: Sequence[int], form: str
) -> DmaEnd:
    if variable is None or not sizes or steps[0] != 1 or len(sizes) != len(steps):
        raise UsageError("a static DMA block has an unknown variable or an unknown layout")
    return DmaEnd(variable, offset, steps[1:], sizes[1:], sizes[0], lookup(form))


def fitted(values: Array, shape: Sequence[int]) -> Array:
    """Return an array in another shape. Raise UsageError if the numbers of elements differ."""
    if values.size != prod(shape):
        raise UsageError(f"there are {values.size:,} elements where {prod(shape):,} are expected")
    return values.reshape(shape)


def form_of(name: str) -> Format:
    """Return the format with this name in the profiler."""
    return lookup(our_format(name))


def _tensor(variable: Variable, constants: Mapping[str, bytes]) -> Array:
    if variable.name not in constants:
        return np.full(max(variable.size, 0), UNINITIALIZED, np.uint8)
    try:
        constant = np.load(io.BytesIO(constants[variable.name]), allow_pickle=False)
        return np.frombuffer(constant.tobytes(), np.uint8).copy()
    except DAMAGED:
        raise UsageError(f"the constant {variable.name} is not a numpy array") from None
