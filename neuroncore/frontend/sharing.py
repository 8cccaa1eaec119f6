"""Arrays that several ranks are given: each has one of its own, of which the system copies only the
pages that it writes.
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

SMALL = 1 << 16  # bytes of an array that is simply copied


def apart(per_rank: Sequence[Arguments]) -> list[Arguments]:
    """The arguments of ranks, with arrays in the place of those whose memory another rank is given
    too. An array of one rank alone stays the caller's, and shows what the kernel writes to it."""
    whole = {id(one): as_numpy(one) for one in leaves(list(per_rank)) if is_array(one)}
    several = _in_several(per_rank, whole)
    with ExitStack() as files:
        copies = {n: _Copies(whole[n], files) for n in several}
        return [_own(given, copies) for given in per_rank]


def _own(given: Arguments, copies: dict[int, _Copies]) -> Arguments:
    made: dict[int, Any] = {}
    args, kwargs = (_replaced(part, copies, made) for part in given)
    return args, kwargs


def is_array(value: Any) -> bool:
    """Whether a value is an array of the host, of any library."""
    return is_host_array(value) or library(value) is not None


def _in_several(per_rank: Sequence[Arguments], whole: dict[int, Array]) -> set[int]:
    """The arrays of which some memory is in the arguments of two ranks, by their ids."""
    ranks: dict[int, set[int]] = {n: set() for n in whole}
    for rank, given in enumerate(per_rank):
        for one in leaves(list(given)):
            if id(one) in ranks:
                ranks[id(one)].add(rank)
    found = {n for n, those in ranks.items() if len(those) > 1}
    before: list[tuple[int, int]] = []  # arrays that begin further down: where they end, and ids
    for (low, high), n in sorted((_span(array), n) for n, array in whole.items() if array.size):
        before = [one for one in before if one[0] > low]
        overlaps = [other for _, other in before if len(ranks[n] | ranks[other]) > 1]
        found.update([n, *overlaps] if overlaps else ())
        before.append((high, n))
    return found


def _span(array: Array) -> tuple[int, int]:
    """The addresses of its first byte and of that after its last."""
    low, high = access.extent(array.shape, array.strides)
    start = int(array.__array_interface__["data"][0])
    return start + low, start + high + array.itemsize


class _Copies:
    """An array's contents, for as many arrays of their own as are asked for."""

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
    """A rank's arguments with its own arrays; one that it is given twice stays one."""
    if isinstance(value, dict):
        return {key: _replaced(one, copies, made) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return like(value, [_replaced(one, copies, made) for one in value])
    if id(value) not in copies:
        return value
    if id(value) not in made:
        made_by, own = library(value), copies[id(value)].another()
        made[id(value)] = made_by.given(own) if made_by else own
    return made[id(value)]
