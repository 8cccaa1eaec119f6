"""Flags of uninitialized bytes: they are exact, and as few as possible."""

import numpy as np
import pytest
from device import Device
from hypothesis import given
from hypothesis import strategies as st

from neuroncore.memory.access import Flags, footprint
from neuroncore.memory.tile import first_write

NBYTES, ITEM = 192, 4


def windows(nbytes):
    """Windows of a storage, with items [4, 3, 4], that are cut, transposed and reversed."""
    items = np.arange(nbytes).reshape(4, 3, -1, ITEM)
    steps = st.sampled_from([-2, -1, 1, 2])
    keys = st.tuples(*[st.builds(slice, st.none(), st.none(), steps)] * 3)
    order = st.permutations(range(3))
    return st.builds(lambda key, order: items[key].transpose(*order, 3), keys, order)


def access(window):
    """Return the start and the footprint of a window of byte numbers."""
    steps = [s // window.itemsize for s in window.strides[:-1]]
    return int(window.flat[0]), footprint(window.shape[:-1], tuple(steps), ITEM)


@given(st.lists(windows(NBYTES), min_size=1, max_size=4), windows(NBYTES))
def test_uninitialized_memory_is_known_to_the_byte(written, looked_at):
    flags = np.zeros(NBYTES, np.bool_)
    flags[written[0]] = True
    gaps = first_write(NBYTES, *access(written[0]))
    assert (gaps is None) == flags.all()
    if gaps is None:
        return
    for window in written[1:]:
        ended = gaps.write(*access(window))
        flags[window] = True
        assert ended == flags.all()
    wanted = ~flags[looked_at].all(axis=-1)
    missing = gaps.missing(*access(looked_at))
    assert not wanted.any() if missing is None else np.array_equal(missing, wanted)


@pytest.mark.parametrize("parts", [[(4096, 512), (1 << 20, 6), (12, 2)], [(0, 1 << 21), (5, 3)]])
def test_flags_of_a_large_memory_stay_when_they_are_divided(parts):
    """The few flags that were set among many are copied one by one."""
    size = 1 << 22
    flags, wanted = Flags(size), np.zeros(size, np.bool_)
    for first, count in parts:
        flags.pieces(first, footprint((count,), (1,), 1))[...] = True
        wanted[first : first + count] = True
    assert np.array_equal(flags.elements(0, footprint((size,), (1,), 1)), wanted)


@given(windows(NBYTES), windows(NBYTES), windows(NBYTES))
def test_flags_can_be_cleared(first, second, looked_at):
    flags, wanted = Flags(NBYTES), np.zeros(NBYTES, np.bool_)
    for window, state in ((first, True), (second, False)):
        flags.pieces(*access(window))[...] = state
        wanted[window] = state
    assert bool(flags.pieces(*access(looked_at)).any()) == wanted[looked_at].any()
    found = flags.elements(*access(looked_at))
    assert np.array_equal(
        found.reshape((*looked_at.shape[:3], -1)).any(-1), wanted[looked_at].any(-1)
    )


@pytest.mark.parametrize(
    "block,flags", [((32, 256), 8), ((256, 64), 256 * 4), ((32, 64), 256 * 4), ((1, 256), 256)]
)
def test_a_flag_covers_all_bytes_that_are_written_together(block, flags):
    device = Device()
    whole = device.empty((256, 256), buffer="hbm")
    part = whole[: block[0], : block[1]]
    device.issue("dma_copy", part, device.tile(np.zeros(block, np.float32), buffer="hbm"))
    gaps = whole.storage.gaps
    assert gaps is not None
    assert gaps.mask.size == flags
    assert part[0:1, 3:5].missing() is None  # reading the flags does not divide them
    assert gaps.mask.size == flags


def test_tensors_that_were_never_written_share_their_flags():
    device = Device()
    one, other = (device.empty((4, 8), buffer="hbm") for _ in range(2))
    assert one.storage.gaps is other.storage.gaps
    device.issue("dma_copy", one[:2], device.tile(np.zeros((2, 8), np.float32), buffer="hbm"))
    assert one.missing()[:, 0].tolist() == [False, False, True, True]
    assert other.missing().all() and one.storage.gaps is not other.storage.gaps
