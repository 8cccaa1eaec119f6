"""Arrays that are passed to several ranks: each rank gets a separate copy, of which the operating
system copies only the pages that the rank writes.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.frontend.arguments import Arguments
from neuroncore.frontend.arrays import as_numpy, library
from neuroncore.frontend.ending import is_host_array, leaves
from neuroncore.memory import access
from neuroncore.record.inputs import like

Array = npt.NDArray[Any]

SMALL = 1 << 16  # bytes of the largest array that is simply copied


def apart(per_rank: Sequence[Arguments]) -> list[Arguments]:
    """Return the arguments of ranks, with separate arrays for those whose memory is passed to
    another rank too. An array of a single rank stays the caller's, and the kernel's writes appear
    in it."""
    whole = {id(one): as_numpy(one) for one in leaves(list(per_rank)) if is_array(one)}
    several = _in_several(per_rank, whole)
    with ExitStack() as files:
        copies = {n: _Copies(whole[n], files) for n in several}
        return [_own(arguments, copies) for arguments in per_rank]


def _own(given: Arguments, copies: dict[int, _Copies]) -> Arguments:
    copies_made: dict[int, Any] = {}
    args, kwargs = (_replaced(part, copies, copies_made) for part in given)
    return args, kwargs


def is_array(value: Any) -> bool:
    """Return whether a value is an array of the host, of any library."""
    return is_host_array(value) or library(value) is not None


def _in_several(per_rank: Sequence[Arguments], whole: dict[int, Array]) -> set[int]:
    """Return the ids of the arrays whose memory is, at least in part, in the arguments of two
    ranks."""
    ranks: dict[int, set[int]] = {n: set() for n in whole}
    for rank, arguments in enumerate(per_rank):
        for one in leaves(list(arguments)):
            if id(one) in ranks:
                ranks[id(one)].add(rank)
    several = {n for n, those in ranks.items() if len(those) > 1}
    before: list[tuple[int, int]] = []  # arrays with lower addresses: their ends, and ids
    for (low, high), n in sorted((_span(array), n) for n, array in whole.items() if array.size):
        before = [one for one in before if one[0] > low]
        overlaps = [other for _, other in before if len(ranks[n] | ranks[other]) > 1]
        several.update([n, *overlaps] if overlaps else ())
        before.append((high, n))
    return several


def _span(array: Array) -> tuple[int, int]:
    """Return the addresses of an array's first byte and of the byte after its last."""
    low, high = access.extent(array.shape, array.strides)
    start = int(array.__array_interface__["data"][0])
    return start + low, start + high + array.itemsize


class _Copies:
    """The contents of an array, from which any number of separate arrays are made."""

    def __init__(self, array: Array, files: ExitStack) -> None:
        self.array, self.files = array, files
        self.file: Any = None

    def another(self) -> Array:
        if self.array.nbytes < SMALL:
            return self.array.copy()
        if self.file is None:
            self.file = self.files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 so it is
            self.file.write(np.ascontiguousarray(self.array).view(np.uint8).data)
            self.file.flush()
        pages = mmap.mmap(self.file.fileno(), self.array.nbytes, access=mmap.ACCESS_COPY)
        return np.frombuffer(pages, self.array.dtype).reshape(self.array.shape)


def _replaced(value: Any, copies: dict[int, _Copies], made: dict[int, Any]) -> Any:
    """Return a rank's arguments with its own arrays; an array that is passed twice stays one
    array."""
    if isinstance(value, dict):
        return {key: _replaced(one, copies, made) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return like(value, [_replaced(one, copies, made) for one in value])
    if id(value) not in copies:
        return value
    if id(value) not in made:
        made_by, copy = library(value), copies[id(value)].another()
        made[id(value)] = made_by.given(copy) if made_by else copy
    return made[id(value)]
