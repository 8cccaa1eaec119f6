"""Memory as arrays of bytes, and operands as arrays of byte positions in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from neuroncore.plain.formats import Array, Coding, decode, poison

BYTE = np.uint8
# flags of n bytes that are all set
ALL_SET = {n: np.ones(n, BYTE).view(f"u{n}")[0] for n in (1, 2, 4)}


class PlainTensor:
    """The bytes of a tensor. Rows are `pitch` bytes apart on the chip. In `data` they are `spread`
    times as far apart, because `Options.storage` may widen elements. `written` has a 1 for each
    byte on the chip that was written to this tensor. If the kernel chose the address, the bytes are
    in `base`, and `ever` has a 1 for each byte there that was written to any tensor."""

    def __init__(self, layout: Any, rows: int, pitch: int, base: PlainTensor | None = None) -> None:
        self.layout, self.written = layout, np.zeros(rows * pitch, BYTE)
        self.pitch: int = base.pitch if base else pitch
        self.ever: Array = base.ever if base else self.written
        self.data: Array = base.data if base else np.zeros(rows * pitch * layout.spread, BYTE)

    def places(self, positions: Array) -> Array:
        """Return the byte positions in memory of these byte positions in the tensor."""
        layout = self.layout
        if not layout.placed:
            return positions
        begin, row = layout.partition0 * self.pitch + layout.byte0, positions // layout.row_bytes
        return begin + positions + row * (self.pitch - layout.row_bytes)

    def codes(self, positions: Array, kind: Any) -> Array:
        """Return the codes, of the numpy type `kind`, that begin at these byte positions."""
        words, at = viewed(self.data, self.places(positions) * self.layout.spread, kind)
        return words[at]

    def write(self, positions: Array, codes: Array, size: int) -> None:
        """Write codes of `size` bytes (on the chip) at these byte positions. If several codes have
        the same position, the last one stays."""
        places, whole = self.places(positions), ALL_SET[size]
        words, at = viewed(self.data, places * self.layout.spread, codes.dtype)
        words[at] = codes
        both = ((self.written, positions), (self.ever, places))
        for flags, where in both[: 1 + self.layout.placed]:  # one array without an address
            words, at = viewed(flags, where, whole.dtype)
            words[at] = whole


def viewed(data: Array, places: Array, kind: Any) -> tuple[Array, Array]:
    """Return the bytes `data` as an array of the type `kind`, and the indices in this array of the
    elements that begin at the bytes `places`, whose distances are multiples of the type's size."""
    size = np.dtype(kind).itemsize
    first = int(places.flat[0]) % size if places.size else 0
    count = (len(data) - first) // size
    return data[first : first + count * size].view(kind), places // size


def positions(shape: tuple[int, ...], strides: tuple[int, ...], size: int, first: int) -> Array:
    """Return the byte positions of elements of `size` bytes; strides count elements, and the first
    element is at byte `first`."""
    places = np.array(first)
    for count, stride in zip(shape, strides, strict=True):
        places = places[..., np.newaxis] + np.arange(count, dtype=np.int64) * (stride * size)
    return places


@dataclass(eq=False)
class Operand:
    """Elements of a tensor: their byte `positions`, their format, and `held`, the format in
    memory. If an index chooses rows, `there` flags the elements of rows that exist; None means
    that all do."""

    tensor: PlainTensor
    positions: Array
    form: Coding
    held: Coding
    first: int  # the first partition
    round: Callable[[Coding, Array], Array]
    zeros: bool  # whether uninitialized elements read as 0
    there: Array | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.positions.shape

    @property
    def lanes(self) -> int:
        return self.shape[0]

    def codes(self) -> Array:
        """Return the codes of the elements; uninitialized ones are poison, or 0 if `zeros`."""
        codes = self.tensor.codes(self.positions, self.held.codes)
        if (missing := self.missing()).any():
            codes[missing] = np.array(0 if self.zeros else poison(self.held)).astype(codes.dtype)
        return codes

    def values(self) -> Array:
        """Return the elements as float32."""
        return decode(self.held, self.codes())

    def rows(self) -> Array:
        """Return the values, [partitions, elements per partition]."""
        return self.values().reshape(self.lanes, -1)

    def bits(self) -> Array:
        """Return the codes as unsigned numbers, [partitions, elements per partition]."""
        return self.codes().view(f"u{self.held.size}").reshape(self.lanes, -1)

    def missing(self, ever: bool = True) -> Array:
        """Return, for each element, whether one of its bytes was never written to any tensor at
        this address, or without `ever`, not to this tensor."""
        tensor, at = self.tensor, self.positions
        flags, at = (tensor.ever, tensor.places(at)) if ever else (tensor.written, at)
        words, at = viewed(flags, at, ALL_SET[self.form.size].dtype)
        return words[at] != ALL_SET[self.form.size]

    def put(self, codes: Array, where: Array | None = None) -> None:
        """Write codes in the order of the elements: all, or only where `where` is true."""
        codes = np.broadcast_to(codes, self.shape) if codes.ndim == 0 else codes.reshape(self.shape)
        codes, at = codes.astype(self.held.codes, copy=False), self.positions
        if flags := [f.reshape(self.shape) for f in (where, self.there) if f is not None]:
            codes, at = (array[np.all(flags, axis=0)] for array in (codes, at))
        self.tensor.write(at, codes, self.form.size)

    def set(self, values: Any) -> None:
        """Write float32 values, rounded to the format."""
        self.put(self.round(self.held, np.asarray(values, np.float32).reshape(self.shape)))

    def converted(self, source: Operand) -> Array:
        """Return the codes of another operand in this format: the bits if the formats are equal,
        otherwise converted through float32."""
        same = source.held is self.held
        return source.codes() if same else self.round(self.held, source.values())

    def part(self, index: Any) -> Operand:
        """Return the operand of some of the elements, selected by an index of numpy."""
        there = None if self.there is None else self.there[index]
        return replace(self, positions=self.positions[index], there=there)
