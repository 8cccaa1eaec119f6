"""Tiles with the same geometry share everything that follows from it; tiles with different geometry
do not."""

import dataclasses

import numpy as np
import pytest
from device import Device

from neuroncore.base.errors import SignatureError
from neuroncore.memory import geometry


def test_tiles_with_equal_positions_have_one_geometry_and_one_view():
    device = Device()
    one, other = (device.empty((128, 64))[:, 0:8] for _ in range(2))
    assert one.storage is not other.storage
    assert one.geometry is other.geometry and one.signature() is other.signature()


def test_a_call_distinguishes_rows_but_not_columns_of_sbuf():
    tile = Device().empty((128, 64))
    left, right, lower = tile[:, 0:8], tile[:, 8:16], tile[32:, 0:8]
    assert left.signature() is right.signature()
    assert tile[0:32, 0:8].signature() is not lower.signature()
    assert lower.signature().partition == 32


def test_a_call_distinguishes_places_in_a_bank_of_psum():
    tile = Device().empty((128, 512), buffer="psum")
    left, right = (tile[:, start : start + 8].signature() for start in (0, 8))
    assert left is not right and (left.byte, right.byte) == (0, 32)


def test_a_view_stays_unique_however_many_views_were_made_since():
    """Otherwise a saved record was refused as damaged if its tiles had the geometry of tiles of an
    older kernel."""
    tile = Device().empty((128, 64))
    kept = tile.signature()
    fields = [getattr(kept, field.name) for field in dataclasses.fields(kept)]
    for number in range(2 * geometry.MOST):
        geometry.view((number, *kept.shape), *fields[1:])
    assert geometry.view(*fields) is kept


@pytest.mark.parametrize("options", [{}, {"storage": "float32"}], ids=["chip", "wide"])
@pytest.mark.parametrize("address", [None, (0, 256)], ids=["anywhere", "placed"])
def test_a_window_has_the_elements_that_numpy_finds(options, address):
    device = Device(**options)
    values = (np.arange(64 * 48) % 256).reshape(64, 48).astype(np.float32)
    tile = device.empty(values.shape, "bfloat16", address=address)
    tile.store(values)
    for rows in (slice(32, None), slice(1, 64, 3)):  # a DMA takes every third partition, too
        np.testing.assert_array_equal(tile[rows, 5:40:7].values(), values[rows, 5:40:7])


def test_an_index_of_other_sizes_makes_another_view():
    device = Device()
    table, index = device.zeros((128, 64)), device.zeros((1, 1), "int32")
    plain, moved = table[:, 0:1], table[:, index]
    assert plain.signature().dynamic == 0 and moved.signature().dynamic == 1
    assert moved.signature() is table[:, index].signature()


def test_a_full_table_is_emptied(monkeypatch):
    monkeypatch.setattr(geometry, "MOST", 2)
    tile = Device().empty((128, 64))
    kept = [tile[:, :n].geometry for n in range(1, 9)]
    assert [lies.shape[1] for lies in kept] == list(range(1, 9))
    assert len(tile.storage.layout.geometries) <= 2


def test_a_cached_index_has_the_same_meaning_for_another_tensor():
    device = Device()
    values = np.arange(96 * 40, dtype=np.float32).reshape(96, 40)
    for tile, of in ((device.tile(values), values), (device.tile(-values), -values)):
        for start in (3, 7):
            np.testing.assert_array_equal(tile[32:64, start:-2].values(), of[32:64, start:-2])
            part, plain = tile[:, start:], of[:, start:]
            np.testing.assert_array_equal(part[1:5, 2:9].values(), plain[1:5, 2:9])


def test_a_wrong_index_that_equals_a_cached_one_is_still_refused():
    tile = Device().empty((4, 6), buffer="hbm")
    assert tile[1].shape == (6,) and tile[1:2].shape == (1, 6)
    for key in (True, 1.0, slice(1.0, 2), slice(None, None, -1)):
        with pytest.raises(SignatureError):
            tile[key]


def test_a_tile_covers_its_storage_whatever_the_stride_of_an_axis_of_size_1():
    tile = Device().empty((4, 8))
    assert tile.window((4, 1, 8), (8, 0, 1), 0).covers_storage
    assert not tile.window((4, 2, 8), (8, 0, 1), 0).covers_storage
