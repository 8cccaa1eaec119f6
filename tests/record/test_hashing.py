"""Rows of large tables are found by hashes, which differ if the rows differ."""

import numpy as np
import pytest

from neuroncore.record import loops
from neuroncore.record.loops import mixed, no_slots, slot_of


def test_boxes_of_a_loop_nest_share_few_slots():
    """The boxes are those of tiles in order, each of which reads a column of a separate tensor."""
    slots = len(no_slots(4000))
    taken = set()
    for tile in range(4000):
        key = 0
        for value in (tile // 2, 0, 8, tile % 250 * 16, tile % 250 * 16 + 16, 1, -1, -1):
            key = mixed(key, value)
        taken.add(slot_of(key, slots))
    assert len(taken) > 3000  # 3,500 of as many random boxes


@pytest.mark.parametrize("few", [0, 1 << 20], ids=["by hashes", "by a dict"])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (50, 1), (200, 0), (200, 3)])
def test_distinct_rows_come_in_the_order_of_their_first(shape, few, monkeypatch):
    monkeypatch.setattr(loops, "FEW", few)
    rows = np.random.default_rng(0).integers(-2, 3, shape)
    first, number = loops.distinct(rows[:, ::-1])
    listed = rows[:, ::-1].tolist()
    assert first.tolist() == sorted({listed.index(row) for row in listed})
    assert first.dtype == number.dtype == np.int32
    assert [listed[first[n]] for n in number] == listed
