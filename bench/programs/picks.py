"""Views whose elements are selected by an index in SBUF. Engines of trn3 read and write such
views."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.programs.maker import Maker
from bench.programs.views import View

SHARE = 0.27  # share of such views among the operands that may be such views
OFFSETS = ("uint16", "int32")
GROUP, GROUP_OF_PRODUCTS = 16, 32  # partitions that share their offsets


def to_read(
    maker: Maker, lanes: int, free: int, forms: Sequence[str], regions: Sequence[str] = ("sbuf",),
) -> View:  # fmt: skip
    """Return a view to read. On trn3, an index selects the elements of some views."""
    return _some(maker, lanes, free, forms) or maker.to_read(lanes, free, forms, regions)


def to_write(
    maker: Maker, lanes: int, free: int, forms: Sequence[str], regions: Sequence[str] = ("sbuf",),
    written: bool = False,
) -> View:  # fmt: skip
    """Return a view to write. On trn3, an index selects the elements of some views."""
    found = _some(maker, lanes, free, forms)
    return found or maker.to_write(lanes, free, forms, regions, written=written)


def _some(maker: Maker, lanes: int, free: int, forms: Sequence[str]) -> View | None:
    if maker.target != "trn3" or maker.dialect == "older" or not maker.chance(SHARE):
        return None
    return picked(maker, lanes, free, forms)


def picked(
    maker: Maker, lanes: int, free: int, forms: Sequence[str], group: int = GROUP
) -> View | None:
    """Return `free` elements per partition of a written tensor, selected by a new index. `group`
    partitions share their offsets. Return None if `lanes` partitions cannot hold so many
    offsets."""
    if lanes % group and free > lanes % group:
        return None
    known = [
        one.whole()
        for one in maker.tensors
        if one.region == "sbuf" and one.shape[0] == lanes and one.form in forms
        and not one.constant and one.places is None and one.whole().is_written()
    ]  # fmt: skip
    if known and maker.chance(0.6):
        return of(maker, maker.choose(known), free, group)
    shape = lanes, maker.between(1, 40)
    return of(maker, maker.fill(maker.new("sbuf", shape, maker.choose(forms))), free, group)


def of(maker: Maker, base: View, free: int, group: int = GROUP) -> View:
    """Return `free` elements per partition of a whole tensor, selected by a new index. Offset i of
    a group of partitions is in the group's row i % group and in column i // group."""
    lanes = base.lanes
    columns = -(-free // group) + maker.choose((0, 0, 1)) * (lanes % group == 0)
    index, offsets = maker.known(lanes, columns, base.free - 1, maker.choose(OFFSETS))
    row, i = np.arange(lanes)[:, np.newaxis], np.arange(free)
    places = offsets[row // group * group + i % group, i // group]
    at = np.take_along_axis(base.at.reshape(lanes, -1), places, 1)
    return base.with_picks(f".indirect({index.text}, {free})", at)
