"""The arguments of a launch, with their contents before the launch.

Small arguments are copied. A large array is copied when an instruction first writes to it.
Otherwise the caller's array is used, and a sample is taken at the end of the launch. Later uses
compare the sample, and refuse an array that has changed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base import buffers
from neuroncore.base.errors import UsageError
from neuroncore.frontend.arguments import (
    Arguments,
    arrays_in,
    copied,
    is_array,
    leaves,
    may_overlap,
    owns,
    replaced,
)
from neuroncore.numerics.libraries import as_numpy

Array = npt.NDArray[Any]

LARGE = 1 << 20  # bytes; copying fewer takes less time than most launches
WORD = 8  # bytes that are compared together
BLOCK = 2048  # bytes per word of the sample; more if an array has too many blocks
MOST = 1 << 14  # the most words in a sample; there is a limit because each word is a cache miss


class OriginalArray:
    """The contents of a large array before a launch. Call `keep` before the array is written, and
    `launched` after the launch."""

    def __init__(self, array: Array) -> None:
        self.array, self.name = array, ""
        self._sample: bytes | None = None
        self._copy: Array | None = None

    def keep(self) -> None:
        """Copy the array unless there is a copy."""
        if self._copy is None:
            self._copy = buffers.copied(self.array)

    def launched(self) -> None:
        """Take a sample of the array after the launch, unless there is a copy."""
        if self._copy is None:
            self._sample = _sample(self.array)

    def value(self) -> Array:
        """Return the contents before the launch: the copy, or else a read-only view of the caller's
        array. Raises UsageError if the sample shows that the array has changed since the launch."""
        if self._copy is not None:
            return self._copy
        if self._sample is not None and _sample(self.array) != self._sample:
            raise UsageError(
                f"argument {self.name or 'of the kernel'} has changed since the launch, and the "
                "Run has no copy of it: arrays that the kernel only reads are not copied if they "
                f"have {LARGE >> 20} MiB or more. To change such an array, change a copy of it"
            )
        view = self.array.view()
        view.flags.writeable = False
        return view


def _sample(array: Array) -> bytes:
    """Return a sample of an array: one word of each block of BLOCK bytes (of MOST larger blocks, if
    there are more), and the last bytes.

    If all bytes of a range as long as two blocks change, this is always detected. A change of a few
    elements is likely missed."""
    content = array.reshape(-1).view(np.uint8)
    count = len(content) // WORD
    words = content[: count * WORD].view(np.uint64)
    return words.take(_places(count)).tobytes() + content[-WORD:].tobytes()


@lru_cache(maxsize=8)
def _places(count: int) -> Array:
    """Return the positions of the sampled words in an array of `count` words. They are random
    within each block, so that a column of a matrix is sampled too."""
    block = max(BLOCK // WORD, -(-count // MOST))
    starts: Array = np.arange(0, count, block)
    random = np.random.default_rng(0).integers(0, block, len(starts))
    places: Array = np.minimum(starts + random, count - 1)
    return places


class Originals:
    """The arguments of a launch, with the values that they had before the launch."""

    def __init__(self, arguments: Arguments, lazily: bool) -> None:
        """Copy the arguments. If `lazily`, large arrays are not copied yet. `lazily` is for
        kernels, because other functions may change arrays without instructions. Raises UsageError
        for an argument that can't be copied."""
        self._given = leaves(list(arguments))  # until `launched`, so that no id is used again
        self._ids = [*map(id, self._given)]
        large = _large(self._given) if lazily else []
        self.of = {id(array): OriginalArray(array) for array in large}
        self._arguments = copied(arguments, but=large)

    def launched(self) -> None:
        """Record that the launch is over: from now on arrays may change without an instruction."""
        self._given.clear()  # a record keeps no more arrays than it needs
        for original in self.of.values():
            original.launched()

    def arguments(self) -> Arguments:
        """Return the arguments with the original arrays. Raises UsageError for an array that has
        changed and has no copy."""
        args, named = (replaced(part, self._value) for part in self._arguments)
        return args, named

    def by_id(self) -> dict[int, Any]:
        """Return the original values by the ids of the caller's values. Large arrays are replaced
        by OriginalArrays."""
        pairs = zip(self._ids, leaves(list(self._arguments)), strict=True)
        return {key: self.of.get(key, copy) for key, copy in pairs}

    def _value(self, argument: Any) -> Any:
        original = self.of.get(id(argument))
        return argument if original is None else original.value()


def changed(used: Arguments, before: Arguments) -> dict[int, Array]:
    """Return the arrays in `used`, the arguments after a launch, that differ from those `before`,
    by their positions among all arrays."""
    pairs = enumerate(zip(arrays_in(used), arrays_in(before), strict=True))
    return {n: array for n, (array, old) in pairs if _differ(array, old)}


def _differ(array: Array, old: Array) -> bool:
    """Return whether two arrays differ in any byte. Arrays that share memory never differ."""
    return not np.may_share_memory(array, old) and array.tobytes() != old.tobytes()


Before = Arguments | Originals
"""Arguments as they were before a launch."""


class OriginalArrays(Mapping[str, Array]):
    """The input arrays of a record, by name. Large arrays without a copy are checked when they are
    read. Most records are only timed, so the arrays are looked up when they are first read."""

    def __init__(self, used: Mapping[str, Any], before: Originals) -> None:
        """`used`: the caller's arrays, by name
        `before`: the arguments of the call; other arrays are left out"""
        self._used = {name: id(array) for name, array in used.items()}
        self._before = before

    @cached_property
    def _arrays(self) -> dict[str, Any]:
        originals = self._before.by_id()
        pairs = ((name, originals.get(key)) for name, key in self._used.items())
        return {name: original for name, original in pairs if original is not None}

    def __getitem__(self, name: str) -> Array:
        array = self._arrays[name]
        return array.value() if isinstance(array, OriginalArray) else as_numpy(array)

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


def _large(values: list[Any]) -> list[Array]:
    """Return the large numpy arrays that can be copied later, at the first write.

    They are contiguous and writable, and share no memory with another argument, whose writes would
    change them."""
    large = {id(x) for x in values if type(x) is np.ndarray and x.nbytes >= LARGE}
    if not large:
        return []
    arrays = {id(value): value for value in values if is_array(value)}.values()
    apart = arrays if all(map(owns, arrays)) else _apart(arrays)
    return [x for x in apart if id(x) in large and x.flags.carray and not x.dtype.hasobject]


def _apart(arrays: Collection[Any]) -> list[Any]:
    """Return the arrays that share no address with another array."""
    pairs = [(array, as_numpy(array)) for array in arrays]
    return [
        array
        for array, data in pairs
        if not any(may_overlap(data, other) for one, other in pairs if one is not array)
    ]
