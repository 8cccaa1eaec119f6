"""Memory as arrays of bytes, and operands as arrays of byte positions in this memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from neuroncore.plain.formats import Array, Coding, decode, poison

BYTE = np.uint8
# the flags of n bytes, all set, as one integer
ALL_SET = {n: np.ones(n, BYTE).view(f"u{n}")[0] for n in (1, 2, 4)}


class PlainTensor:
    """The bytes of a tensor. On the device, rows are `pitch` bytes apart. In `data`, they are
    `layout.spread` times as far apart, because `Options.storage` may widen elements. `written` has
    a 1 for each byte of the device that was written to this tensor. If the kernel chose the
    address, `base` is the whole memory, and has the bytes of the tensor. `ever` has a 1 for each
    byte of this memory that was written to any tensor."""

    def __init__(self, layout: Any, rows: int, pitch: int, base: PlainTensor | None = None) -> None:
        self.layout, self.written = layout, np.zeros(rows * pitch, BYTE)
        self.pitch: int = base.pitch if base else pitch
        self.ever: Array = base.ever if base else self.written
        self.data: Array = base.data if base else np.zeros(rows * pitch * layout.spread, BYTE)

    def places(self, positions: Array) -> Array:
        """Return the byte positions in memory for byte positions in the tensor."""
        layout = self.layout
        if not layout.placed:
            return positions
        begin, row = layout.partition0 * self.pitch + layout.byte0, positions // layout.row_bytes
        return begin + positions + row * (self.pitch - layout.row_bytes)

    def codes(self, positions: Array, kind: Any) -> Array:
        """Return the codes at these byte positions of the tensor, in the numpy type `kind`."""
        words, at = viewed(self.data, self.places(positions) * self.layout.spread, kind)
        return words[at]

    def write(self, positions: Array, codes: Array, size: int) -> None:
        """Write codes of `size` bytes at these byte positions. The last code at a position
        remains."""
        places, whole = self.places(positions), ALL_SET[size]
        words, at = viewed(self.data, places * self.layout.spread, codes.dtype)
        words[at] = codes
        both = ((self.written, positions), (self.ever, places))
        for flags, where in both[: 1 + self.layout.placed]:  # one array without an address
            words, at = viewed(flags, where, whole.dtype)
            words[at] = whole


def viewed(data: Array, places: Array, kind: Any) -> tuple[Array, Array]:
    """Return the bytes `data` as an array of type `kind`, and the indices of the elements at the
    bytes `places`, whose distances are multiples of the size."""
    size = np.dtype(kind).itemsize
    first = int(places.flat[0]) % size if places.size else 0
    count = (len(data) - first) // size
    return data[first : first + count * size].view(kind), places // size


def positions(shape: tuple[int, ...], strides: tuple[int, ...], size: int, first: int) -> Array:
    """Return the byte positions of elements of `size` bytes, from byte `first` on. `strides` count
    elements."""
    places = np.array(first)
    for count, stride in zip(shape, strides, strict=True):
        places = places[..., np.newaxis] + np.arange(count, dtype=np.int64) * (stride * size)
    return places


@dataclass(eq=False)
class Operand:
    """Elements of a tensor: their byte `positions`, their format (`form`), and their format in
    memory (`held`). If an index chooses rows, `there` flags the elements in rows that exist. None
    means that all rows exist."""

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
        """Return the codes of the elements. Uninitialized elements are `poison`, or 0 if
        `zeros`."""
        codes = self.tensor.codes(self.positions, self.held.codes)
        if (missing := self.missing()).any():
            codes[missing] = np.array(0 if self.zeros else poison(self.held)).astype(codes.dtype)
        return codes

    def values(self) -> Array:
        """Return the elements as float32."""
        return decode(self.held, self.codes())

    def rows(self) -> Array:
        """Return the elements as float32, in the shape [partitions, elements per partition]."""
        return self.values().reshape(self.lanes, -1)

    def bits(self) -> Array:
        """Return the codes as unsigned integers, in the shape of `rows`."""
        return self.codes().view(f"u{self.held.size}").reshape(self.lanes, -1)

    def missing(self, ever: bool = True) -> Array:
        """Return whether each element has unwritten bytes. If `ever`, writes to any tensor at the
        address count."""
        tensor, at = self.tensor, self.positions
        flags, at = (tensor.ever, tensor.places(at)) if ever else (tensor.written, at)
        words, at = viewed(flags, at, ALL_SET[self.form.size].dtype)
        return words[at] != ALL_SET[self.form.size]

    def put(self, codes: Array, where: Array | None = None) -> None:
        """Write a code for each element, or only for the elements that `where` flags."""
        codes = np.broadcast_to(codes, self.shape) if codes.ndim == 0 else codes.reshape(self.shape)
        codes, at = codes.astype(self.held.codes, copy=False), self.positions
        if flags := [f.reshape(self.shape) for f in (where, self.there) if f is not None]:
            codes, at = (array[np.all(flags, axis=0)] for array in (codes, at))
        self.tensor.write(at, codes, self.form.size)

    def set(self, values: Any) -> None:
        """Round float32 values to the format in memory, and write them."""
        self.put(self.round(self.held, np.asarray(values, np.float32).reshape(self.shape)))

    def converted(self, source: Operand) -> Array:
        """Return the elements of `source` as codes of this format: the same bits for equal formats,
        otherwise through float32."""
        same = source.held is self.held
        return source.codes() if same else self.round(self.held, source.values())

    def part(self, index: Any) -> Operand:
        """Return an operand with the elements that a numpy index selects."""
        there = None if self.there is None else self.there[index]
        return replace(self, positions=self.positions[index], there=there)
