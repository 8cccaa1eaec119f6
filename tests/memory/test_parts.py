"""The meaning of an index is computed once for all tiles with the same geometry, and only for
those."""

import nki.language as nl
import numpy as np
import pytest
from device import Device

from neuroncore.memory.parts import Affine, Parted, form
from neuroncore.memory.register import VirtualRegister
from neuroncore.memory.tile import Dynamic


class Noting(Parted):
    """Tiles that share parts with other tiles; counts how often a part was computed."""

    __slots__ = ("made", "part")

    def by_keys(self, keys):
        self.made.append(keys)
        return self.part


class At(Affine):
    """An index with a start and a step."""

    __slots__ = ()

    def __init__(self, start, size, step):
        self.start, self.form = start, form((size,), (step,))


@pytest.fixture
def made():
    return []


def noting(made, key, dynamic=()):
    device = Device()
    tile = device.tile(np.arange(4 * 12, dtype=np.float32).reshape(4, 12))
    one = Noting(tile.storage, tile.geometry, tile.offset, dynamic)
    one.made, one.part = made, tile[key]
    tile.geometry.parts.clear()
    return one


def test_a_part_is_computed_once_for_all_places(made):
    tile = noting(made, (slice(0, 4), slice(0, 3)))
    for first in (0, 2, 9):
        tile[0:4, first : first + 3]
    assert len(made) == 1


def test_steps_of_an_index_are_distinguished(made):
    tile = noting(made, (slice(0, 4), nl.ds(0, 4)))
    for step in (1, 2, 3, 2):
        tile[0:4, At(0, 4, step)]
    assert len(made) == 3


def test_an_index_below_the_first_element_is_never_cached(made):
    tile = noting(made, (slice(0, 4), nl.ds(0, 4)))
    for start in (11, 3, 2):
        tile[0:4, At(start, 4, -1)]
    assert [keys[1].start for keys in made] == [11, 2]


def test_an_index_beyond_the_last_element_is_never_cached(made):
    tile = noting(made, (slice(0, 4), nl.ds(0, 4)))
    for start in (8, 7, 9):
        tile[0:4, At(start, 4, 1)]
    assert [keys[1].start for keys in made] == [8, 9]


def test_a_part_of_a_tile_at_a_run_time_place_is_never_cached(made):
    tile = noting(made, (slice(0, 4), slice(0, 3)))
    tile[0:4, 0:3]
    register = VirtualRegister.__new__(VirtualRegister)
    moving = Noting(tile.storage, tile.geometry, tile.offset, (Dynamic(register, 1, 5),))
    moving.made, moving.part = made, tile.part
    moving[0:4, 0:3]
    assert len(made) == 2
