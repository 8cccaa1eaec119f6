"""Tables of many rows are found by hashes that differ where the rows do."""

from neuroncore.native.hashing import mixed, no_slots, slot_of


def test_boxes_of_a_loop_nest_share_few_slots():
    """As of tiles in order, of which each reads a column of a tensor of its own."""
    slots = len(no_slots(4000))
    taken = set()
    for tile in range(4000):
        key = 0
        for value in (tile // 2, 0, 8, tile % 250 * 16, tile % 250 * 16 + 16, 1, -1, -1):
            key = mixed(key, value)
        taken.add(slot_of(key, slots))
    assert len(taken) > 3000  # 3,500 of so many at random
