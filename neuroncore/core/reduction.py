"""Sums and extremes over ranks: in which order they are taken, and where they are rounded.

Neither is published. Every way takes float32 (the DMA engines add in it: inferred from
aws-neuron-sdk neuron-runtime/explore/intranode-collective-comm.rst) and is a value of
`Options.collective_rounding`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from neuroncore.clause.alu import Operator
from neuroncore.memory.tile import Array, Tile
from neuroncore.native import buffers
from neuroncore.numerics import codec

Join = Callable[[Array, Array], Array]
Rounded = Callable[[Array], Array]  # values to the tensor's format, and back


def reduced(way: str, tiles: Sequence[Tile], op: Operator, chip: int) -> Array:
    """Codes of the reduction of tiles of one format, flat; the tiles are those of the ranks in
    their order, of which `chip` are on one chip."""
    first = tiles[0]
    if len(tiles) == 1:
        return np.array(first.codes(), order="C").reshape(-1)
    values = [np.ascontiguousarray(tile.values()).reshape(-1) for tile in tiles]

    def join(a: Array, b: Array) -> Array:
        out = buffers.array(a.shape, a.dtype)
        op.apply(a.reshape(1, -1), b.reshape(1, -1), out.reshape(1, -1))
        return out

    def rounded(wide: Array) -> Array:
        codes = first.rounded(wide)
        is_wide = codes.dtype == wide.dtype
        return codes if is_wide else codec.decode(first.held, codes)

    if way == "ring":
        return first.rounded(ring(values, join, rounded))
    if way == "mesh":
        return first.rounded(mesh(values, join, rounded, chip))
    return first.rounded(chain(values, join))


def chain(values: Sequence[Array], join: Join) -> Array:
    """In the order of the ranks, not rounded on the way."""
    return reduce(join, values)


def ring(values: Sequence[Array], join: Join, rounded: Rounded) -> Array:
    """In as many pieces as ranks: piece p goes round from rank p + 1 to rank p, and is rounded at
    every hop, which writes it to memory."""
    count = len(values)
    pieces = [np.array_split(one, count) for one in values]
    done = []
    for p in range(count):
        around = [pieces[(p + 1 + hop) % count][p] for hop in range(count)]
        done.append(reduce(lambda a, b: rounded(join(a, b)), around))
    return np.concatenate(done)


def mesh(values: Sequence[Array], join: Join, rounded: Rounded, chip: int) -> Array:
    """The ranks of each chip first, rounded once, then the chips, not rounded on the way."""
    chips = [values[at : at + chip] for at in range(0, len(values), chip)]
    return chain([rounded(chain(own, join)) for own in chips], join)
