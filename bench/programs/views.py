"""Tensors of a program, and views of them. A view has an array of the byte positions of its
elements. Numpy computes this array: the kernel's indexing is applied to the positions of all
elements of the tensor. Strides are never computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
SIZES = {
    **dict.fromkeys(("float32", "tfloat32", "int32", "uint32"), 4),
    **dict.fromkeys(("bfloat16", "float16", "int16", "uint16"), 2),
    **dict.fromkeys(("float8_e5m2", "float8_e4m3", "float8_e3m4", "float8_e4m3fn"), 1),
    **dict.fromkeys(("int8", "uint8", "bool_", "float8_e8m0fnu"), 1),
    **dict.fromkeys(("float8_e5m2_x4", "float8_e4m3fn_x4"), 4),
    "float4_e2m1fn_x4": 2,
}
"""The size of each format in bytes, by its name in nki.language."""
STARTS = {0: 128, 32: 32, 64: 64, 96: 32}
"""The partitions where an access may start, and how many it then takes (ARCH1)."""


@dataclass(eq=False)
class Tensor:
    """A tensor of the program. `region` is hbm, sbuf or psum. `written` flags its bytes that were
    written; for a tensor at an address it flags the bytes of the memory, and `places` are the
    positions of the tensor's bytes there. `roles` are the roles and sizes in which it was used."""

    name: str
    region: str
    shape: tuple[int, ...]
    form: str
    constant: bool = False
    written: Array = field(init=False)
    places: Array | None = None
    first: int = 0
    roles: set[str] = field(default_factory=set)
    last: View | None = None

    def __post_init__(self) -> None:
        self.written = np.zeros(prod(self.shape) * SIZES[self.form], np.bool_)

    def place(self, memory: Array, address: tuple[int, int]) -> None:
        """Set the address of the tensor: (partition, byte in the partition) in a memory
        [partitions, bytes]."""
        self.first, byte = address
        rows = self.first + np.arange(self.shape[0])[:, np.newaxis]
        self.places = (rows * memory.shape[1] + byte + np.arange(self.row)).reshape(-1)
        self.written = memory.reshape(-1)

    def shares(self, other: Tensor) -> bool:
        """Return whether two tensors may share bytes."""
        return self is other or (self.places is not None and other.places is not None)

    @property
    def on_chip(self) -> bool:
        return self.region != "hbm"

    @property
    def is_input(self) -> bool:
        """True if the tensor is an argument of the kernel."""
        return self.name.startswith("x")

    @property
    def is_shared(self) -> bool:
        """True if another core may read the tensor, at any time until the next barrier."""
        return self.name.startswith("s")

    @property
    def row(self) -> int:
        """The bytes per partition; for a tensor in HBM, all of its bytes."""
        return prod(self.shape[1:] if self.on_chip else self.shape) * SIZES[self.form]

    @property
    def wide(self) -> int:
        """The bytes of each entry of the first axis."""
        return prod(self.shape[1:]) * SIZES[self.form]

    def whole(self) -> View:
        """Return the view of the whole tensor."""
        at = np.arange(prod(self.shape)).reshape(self.shape) * SIZES[self.form]
        return View(self, self.name, at, self.form)


@dataclass(frozen=True, eq=False)
class View:
    """Elements of a tensor in a format: the text of the view in a kernel, and the byte positions
    `at` of its elements. Each method returns another view, as the method of the same name does in a
    kernel.

    `moved` is True if the offset is only known at run time, and `picked` if an index in SBUF
    selects the elements. On the second core of a rank, the view is `apart` bytes further on.
    `kinds` are the kinds of views by which it was made.
    """

    tensor: Tensor
    text: str
    at: Array
    form: str
    moved: bool = False
    picked: bool = False
    apart: int = 0
    kinds: frozenset[str] = frozenset()

    @property
    def shape(self) -> tuple[int, ...]:
        return self.at.shape

    @property
    def size(self) -> int:
        return SIZES[self.form]

    @property
    def lanes(self) -> int:
        return self.at.shape[0]

    @property
    def free(self) -> int:
        """The number of elements per partition."""
        return prod(self.at.shape[1:])

    def _made(self, more: str, at: Array, kind: str, **changes: Any) -> View:
        kinds = self.kinds | {kind} if kind else self.kinds
        return replace(self, text=self.text + more, at=at, kinds=kinds, **changes)

    def bytes(self) -> Array:
        """Return the positions of all bytes of the elements."""
        return (self.at.reshape(-1, 1) + np.arange(self.size)).reshape(-1)

    def is_written(self) -> bool:
        """Return whether all elements were written."""
        written = self.tensor.written
        return bool(written.all() or written[self._places()].all())

    def mark_written(self) -> None:
        """Note that all elements were written."""
        written = self.tensor.written
        if not written.all():
            written[self._places()] = True

    def _places(self) -> Array:
        at = self.bytes()
        return at if self.tensor.places is None else self.tensor.places[at]

    def is_free(self) -> bool:
        """Return whether statements may write the view."""
        return not self.tensor.constant and self.is_unique()

    @property
    def starts_well(self) -> bool:
        """True if engines can start at the first partition of the view and access consecutive
        partitions."""
        last = self.tensor.first + int(self.at[-1].flat[0]) // self.tensor.row
        in_a_row = last - self.first_lane < self.lanes
        return in_a_row and self.lanes <= STARTS.get(self.first_lane, 0)

    @property
    def first_lane(self) -> int:
        """The first partition of the view."""
        return self.tensor.first + int(self.at.flat[0]) // self.tensor.row

    def is_unique(self) -> bool:
        """Return whether no element occurs twice."""
        flat = np.sort(self.at, axis=None)
        return bool((flat[1:] != flat[:-1]).all())

    def is_dense(self) -> bool:
        """Return whether the elements of a partition, or in HBM all elements, are contiguous."""
        flat = self.at[:1].reshape(-1) if self.tensor.on_chip else self.at.reshape(-1)
        return bool((np.diff(flat) == self.size).all())

    def index(self, *keys: slice | int, said: Sequence[str] = ()) -> View:
        """Return the view at an index of integers and slices. If `said` is given, it has other
        texts for the integers and slices."""
        stepped = any(isinstance(k, slice) and k.step not in (None, 1) for k in keys)
        at = self.at[keys]
        at = at.reshape(*at.shape, 1) if self.tensor.on_chip and at.ndim == 1 else at
        text = ", ".join(said or map(key_text, keys))
        return self._made(f"[{text}]", at, "step" if stepped else "slice")

    def reshape(self, *shape: int) -> View:
        return self._made(f".reshape({shape})", self.at.reshape(shape), "reshape")

    def flatten_dims(self, first: int, last: int) -> View:
        shape = (*self.shape[:first], -1, *self.shape[last + 1 :])
        return self._made(f".flatten_dims({first}, {last})", self.at.reshape(shape), "reshape")

    def reshape_dim(self, axis: int, sizes: Sequence[int]) -> View:
        shape = (*self.shape[:axis], *sizes, *self.shape[axis + 1 :])
        return self._made(f".reshape_dim({axis}, {[*sizes]})", self.at.reshape(shape), "reshape")

    def permute(self, order: Sequence[int]) -> View:
        return self._made(f".permute({[*order]})", self.at.transpose(order), "permute")

    def expand_dim(self, axis: int) -> View:
        return self._made(f".expand_dim({axis})", np.expand_dims(self.at, axis), "expand")

    def squeeze_dim(self, axis: int) -> View:
        return self._made(f".squeeze_dim({axis})", self.at.squeeze(axis), "squeeze")

    def broadcast(self, axis: int, count: int) -> View:
        shape = (*self.shape[:axis], count, *self.shape[axis + 1 :])
        return self._made(
            f".broadcast({axis}, {count})", np.broadcast_to(self.at, shape), "broadcast"
        )

    def view(self, form: str) -> View:
        """Return the same bytes as elements of another format. The last axis must be dense unless
        both formats have the same width."""
        size, ratio = SIZES[form], self.size / SIZES[form]
        firsts = self.at[..., :: max(1, round(1 / ratio))]
        steps = np.arange(max(1, round(ratio))) * size
        at = (firsts[..., np.newaxis] + steps).reshape(*self.shape[:-1], -1)
        return self._made(f".view(nl.{form})", at, "format view", form=form)

    def ap(self, pattern: Sequence[Sequence[int]], offset: int, form: str | None = None) -> View:
        """Return an access pattern of the tensor: [step, count] for each axis, from element
        `offset` on. Steps and the offset count elements of the format `form`."""
        form = form or self.form
        at = np.array(offset)
        for step, count in pattern:
            at = at[..., np.newaxis] + step * np.arange(count)
        other = f", dtype=nl.{form}" if form != self.form else ""
        text = f".ap({[[*pair] for pair in pattern]}, offset={offset}{other})"
        return self._made(text, at * SIZES[form], "access pattern", form=form)

    def ap_from_here(self, pattern: Sequence[Sequence[int]], form: str) -> View:
        """Return an access pattern that begins where this view begins, maybe at a run-time offset.
        The first axis has the partitions of the view; steps count elements of the format `form`."""
        (_, lanes), *free = pattern
        at = self.at.reshape(lanes, -1)[:, 0]
        for step, count in free:
            at = at[..., np.newaxis] + step * SIZES[form] * np.arange(count)
        other = f", dtype=nl.{form}" if form != self.form else ""
        text = f".ap({[[*pair] for pair in pattern]}{other})"
        return self._made(text, at, "access pattern", form=form)

    def with_register(self, text: str, at: Array) -> View:
        """Return the view whose position a register determines: `text` is its index in the kernel,
        and `at` has the byte positions."""
        at = at.reshape(*at.shape, 1) if self.tensor.on_chip and at.ndim == 1 else at
        return self._made(text, at, "dynamic offset", moved=True)

    def with_picks(self, text: str, at: Array) -> View:
        """Return the view of elements of each partition that an index in SBUF selects."""
        return self._made(text, at, "picked elements", moved=True, picked=True)

    def with_rows(self, text: str, at: Array) -> View:
        """Return the view of rows that an index selects."""
        return self._made(text, at, "indirect DMA", moved=True)


def key_text(key: slice | int) -> str:
    if isinstance(key, int):
        return str(key)
    parts = [key.start, key.stop] if key.step is None else [key.start, key.stop, key.step]
    return ":".join("" if part is None else str(part) for part in parts)
