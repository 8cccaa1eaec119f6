"""Operands in the form that products take, cached while their tiles are unchanged.

Kernels multiply one tile by many others. The form that a product takes (a packed matrix, decoded
values, the rows that a permutation picks) is cached from the second use on, and from the first use
if every use has to make it anyway.

The key is (storage, offset, geometry, form). A geometry fixes shape, strides and format. A
`PackForm` names everything else that decides what is made: the role of the operand, how many rows
are multiplied as a group, and the function that packs. An entry also has the version of its
storage, which every write raises. The key leaves out the options and the machine, because a cache
belongs to one core, and the other operand, because a form says all that depends on it. Tiles at
explicit addresses are not cached: other tensors may write the same bytes.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import ReferenceType, ref

from neuroncore.memory.storage import Storage
from neuroncore.memory.tile import Tile

ROOM = 1 << 26  # bytes of all that is kept
MOST = 1 << 12  # tiles that are known
EARLY = 1 << 22  # bytes of what is kept of tiles that were used once: as much as caches hold


class PackForm(NamedTuple):
    """The form in which a product takes a tile: it depends on more than the tile."""

    role: str
    group: int  # rows that are multiplied at a time
    pack: Callable[[Any], Any]  # makes it of what was read


@dataclass(slots=True, eq=False)
class _Known:
    """A tile that was used at a version of its storage, and what was made of it at the second
    use, or early, at the first."""

    storage: ReferenceType[Storage]
    version: int
    kept: Any = None
    nbytes: int = 0
    early: bool = False  # and it was not used again so far


class Packs:
    """Packed tiles of one core; the least recently used are dropped."""

    def __init__(self) -> None:
        self._known: OrderedDict[Any, _Known] = OrderedDict()
        self._early: deque[tuple[_Known, int]] = deque()  # with their bytes
        self.nbytes = self._early_bytes = 0

    def get(
        self,
        tile: Tile,
        form: PackForm,
        read: Callable[[Tile], Any],
        early: bool = False,
    ) -> Any:
        """Return the result of `read` for a tile; from the second use on, and with `early` from the
        first, the cached result of `form.pack` for it."""
        storage = tile.storage
        if storage.image is not None:  # other tensors may write there
            return read(tile)
        key = id(storage), tile.offset, tile.geometry, form
        known = self._known.get(key)
        if known is None or known.version != storage.version or known.storage() is not storage:
            self._forget(key)
            known = self._known[key] = _Known(ref(storage), storage.version)
            if len(self._known) > MOST:
                self._forget(next(iter(self._known)))
            return self._keep_early(known, form.pack(read(tile))) if early else read(tile)
        self._known.move_to_end(key)
        known.early = False
        if known.kept is None:
            self._keep(known, form.pack(read(tile)))
        return known.kept

    def clear(self) -> None:
        """Drop all kept data."""
        self._known.clear()
        self._early.clear()
        self.nbytes = self._early_bytes = 0

    def _keep(self, known: _Known, made: Any) -> None:
        known.kept, known.nbytes = made, getattr(made, "nbytes", 0)
        self.nbytes += known.nbytes
        while self.nbytes > ROOM:
            self._forget(next(iter(self._known)))

    def _keep_early(self, known: _Known, made: Any) -> Any:
        """Keep data that was made at the first use until others need the space."""
        self._keep(known, made)
        known.early = True
        self._early.append((known, known.nbytes))
        self._early_bytes += known.nbytes
        while self._early_bytes > EARLY:
            oldest, nbytes = self._early.popleft()
            self._early_bytes -= nbytes
            if oldest.early:
                self.nbytes -= nbytes
                oldest.kept, oldest.nbytes, oldest.early = None, 0, False
        return made

    def _forget(self, key: Any) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            self.nbytes -= known.nbytes
            known.early = False
