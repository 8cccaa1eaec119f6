"""A cache of operands in the form in which products read them.

Kernels multiply one tile by many others. A product reads an operand in a special form: a packed
matrix, decoded values, or the rows that a permutation chooses. This form is cached at the second
use of the tile. If the product always needs this form, the form is cached at the first use.

The key of an entry is (storage, offset, geometry, form). A geometry fixes shape, strides and
format. A `PackForm` names everything else on which the result depends: the role of the operand, how
many rows are multiplied as a group, and the function that packs. The options and the machine are
not in the key, because a cache belongs to one core. The other operand of the product determines the
form but not the data, so the other operand is not in the key.

An entry also stores the version of its storage. Every write increments the version and so makes the
entry invalid. Tiles at addresses that the kernel chose are not cached: other tensors may write to
the same bytes."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import ReferenceType, ref

from neuroncore.memory.storage import Storage
from neuroncore.memory.tile import Tile

ROOM = 1 << 26  # bytes of all cached data
MOST = 1 << 12  # tiles that are remembered
# the most bytes cached for tiles that were used only once: about the size of a processor's caches
EARLY = 1 << 22


class PackForm(NamedTuple):
    """The form in which a product reads an operand."""

    role: str
    group: int  # rows that are multiplied at a time
    pack: Callable[[Any], Any]  # packs the values that were read


@dataclass(slots=True, eq=False)
class _KnownTile:
    """The last use of a tile: the version of its storage, and the packed data if cached."""

    storage: ReferenceType[Storage]
    version: int
    packed: Any = None
    nbytes: int = 0
    early: bool = False  # cached at the first use, and not used again so far


class Packs:
    """The packed tiles of one core. When the cache is full, the least recently used tiles are
    dropped."""

    def __init__(self) -> None:
        self._known: OrderedDict[Any, _KnownTile] = OrderedDict()
        self._early: deque[tuple[_KnownTile, int]] = deque()  # with their bytes
        self.nbytes = self._early_bytes = 0

    def get(
        self,
        tile: Tile,
        form: PackForm,
        read: Callable[[Tile], Any],
        early: bool = False,
    ) -> Any:
        """Return an operand in a form that products take.

        At the first use of the tile, this is `read(tile)`. Later it is the cached
        `form.pack(read(tile))`, and with `early` also at the first use. Tiles at addresses that the
        kernel chose are never cached."""
        storage = tile.storage
        if storage.image is not None:  # other tensors may write there
            return read(tile)
        key = id(storage), tile.offset, tile.geometry, form
        known = self._known.get(key)
        if known is None or known.version != storage.version or known.storage() is not storage:
            self._forget(key)
            known = self._known[key] = _KnownTile(ref(storage), storage.version)
            if len(self._known) > MOST:
                self._forget(next(iter(self._known)))
            return self._keep_early(known, form.pack(read(tile))) if early else read(tile)
        self._known.move_to_end(key)
        known.early = False
        if known.packed is None:
            self._keep(known, form.pack(read(tile)))
        return known.packed

    def clear(self) -> None:
        """Drop all cached data."""
        self._known.clear()
        self._early.clear()
        self.nbytes = self._early_bytes = 0

    def _keep(self, known: _KnownTile, packed: Any) -> None:
        known.packed, known.nbytes = packed, getattr(packed, "nbytes", 0)
        self.nbytes += known.nbytes
        while self.nbytes > ROOM:
            self._forget(next(iter(self._known)))

    def _keep_early(self, known: _KnownTile, packed: Any) -> Any:
        """Cache data at its first use. Drop the oldest such data beyond EARLY bytes."""
        self._keep(known, packed)
        known.early = True
        self._early.append((known, known.nbytes))
        self._early_bytes += known.nbytes
        while self._early_bytes > EARLY:
            oldest, nbytes = self._early.popleft()
            self._early_bytes -= nbytes
            if oldest.early:
                self.nbytes -= nbytes
                oldest.packed, oldest.nbytes, oldest.early = None, 0, False
        return packed

    def _forget(self, key: Any) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            self.nbytes -= known.nbytes
            known.early = False
