"""Packed operands are cached from their second use on, until the tile changes."""

import numpy as np
import pytest
from device import Device
from every import for_all

from neuroncore.core import packs
from neuroncore.core.packs import PackForm, Packs
from neuroncore.frontend.nki import language as nl


def labelled(values):
    return "packed", values


PACKED, COPIED = PackForm("role", 1, labelled), PackForm("role", 1, np.array)


def used(kept, tile, form=PACKED):
    """Return the operand for a use: the elements as read, or ("packed", elements)."""
    return kept.get(tile, form, lambda t: t.numpy().tolist())


def test_the_second_use_caches_the_packed_operand():
    device, kept = Device(), Packs()
    tile = device.tile(np.ones((1, 2), np.float32))
    assert used(kept, tile) == [[1, 1]]
    packed = used(kept, tile)
    assert packed == ("packed", [[1, 1]]) and used(kept, tile) is packed
    assert used(kept, tile[:, :1]) == [[1]]  # another tile of the same storage


@pytest.mark.parametrize(
    "other",
    [PackForm("role", 1, tuple), PackForm("role", 2, labelled), PackForm("other", 1, labelled)],
)
def test_another_form_of_the_same_tile_is_another_entry(other):
    device, kept = Device(), Packs()
    tile = device.tile(np.ones((1, 2), np.float32))
    packed = [used(kept, tile) for _ in range(2)][1]
    assert used(kept, tile, other) == [[1, 1]]
    assert used(kept, tile, other) == other.pack([[1, 1]])
    assert used(kept, tile) is packed


def test_a_write_invalidates_the_entry():
    device, kept = Device(), Packs()
    tile = device.tile(np.ones((1, 2), np.float32))
    used(kept, tile), used(kept, tile)
    device.issue("memset", tile[:, 1:], 3.0)
    assert used(kept, tile) == [[1, 3]]
    assert used(kept, tile) == ("packed", [[1, 3]])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("dma_copy", lambda source, same: {"src": source}),
        ("tensor_copy", lambda source, same: {"src": same}),
        ("tensor_scalar", lambda source, same: {"data": same, "op0": nl.add, "operand0": 0.0}),
        ("tensor_tensor", lambda source, same: {"data1": same, "data2": same, "op": nl.maximum}),
        ("activation", lambda source, same: {"op": nl.copy, "data": same}),
    ],
)
def test_a_product_uses_the_last_written_data(name, arguments):
    random = np.random.default_rng(3)
    first, second = random.integers(-9, 9, (2, 128, 128)).astype(np.float32)
    moving = random.integers(-9, 9, (128, 512)).astype(np.float32)
    device = Device()
    operand, other = device.tile(first), device.tile(moving)
    source, same = device.tile(second, buffer="hbm"), device.tile(second)
    for weights in (first, first, second):
        if weights is second:
            device.issue(name, dst=operand, **arguments(source, same))
        product = device.empty((128, 512), buffer="psum")
        device.issue("nc_matmul", product, operand, other)
        np.testing.assert_array_equal(product.numpy(), weights.T @ moving)


def test_a_product_uses_data_that_was_scattered_into_a_tile():
    device = Device("trn3")
    ones, threes = (np.full((128, 128), value, np.float32) for value in (1, 3))
    operand, moving = device.tile(ones), device.tile(np.ones((128, 512), np.float32))
    rows, columns = np.ogrid[:128, :8]
    places = device.tile(rows % 16 + 16 * columns, "uint32")  # each group of 16 rows selects all
    for weights in (ones, ones, threes):
        if weights is threes:
            device.issue("tensor_copy", operand.indirect(places, 128), device.tile(threes))
        product = device.empty((128, 512), buffer="psum")
        device.issue("nc_matmul", product, operand, moving)
        assert np.unique(product.numpy()) == [128 * weights[0, 0]]


def test_memory_that_the_caller_can_write_is_read_each_time():
    device, kept = Device(), Packs()
    placed = device.empty((1, 2), address=(0, 0))
    device.issue("memset", placed, 1.0)
    assert used(kept, placed) == used(kept, placed) == [[1, 1]]


def test_a_new_storage_with_the_id_of_a_deleted_one_is_distinguished():
    device, kept = Device(), Packs()
    for value in range(20):
        tile = device.tile(np.full((1, 2), value, np.float32))
        assert used(kept, tile) == [[value, value]]
        assert used(kept, tile) == ("packed", [[value, value]])
        del tile


@pytest.mark.parametrize("uses", [1, 2, 3])
def test_the_least_recently_used_entry_is_dropped(monkeypatch, uses):
    monkeypatch.setattr(packs, "ROOM", 64)
    device, kept = Device(), Packs()
    tiles = [device.tile(np.full((1, 4), value, np.float32)) for value in range(6)]
    for _ in range(uses):
        for tile in tiles:
            kept.get(tile, COPIED, lambda t: t.numpy())
            assert kept.nbytes <= 64
    assert kept.nbytes == (0 if uses == 1 else 64)


def test_the_number_of_entries_is_limited(monkeypatch):
    monkeypatch.setattr(packs, "MOST", 4)
    device, kept = Device(), Packs()
    tiles = [device.tile(np.ones((1, 1), np.float32)) for _ in range(10)]
    for tile in tiles:
        used(kept, tile)
    assert len(kept._known) == 4


def test_operands_that_are_packed_at_the_first_use_are_dropped_before_others(monkeypatch):
    monkeypatch.setattr(packs, "EARLY", 32)
    device, kept = Device(), Packs()
    tiles = [device.tile(np.full((1, 4), value, np.float32)) for value in range(4)]

    def use(tile):
        return kept.get(tile, COPIED, lambda t: t.numpy(), early=True)

    first = use(tiles[0])
    assert use(tiles[0]) is first and kept.nbytes == 16
    others = [use(tile) for tile in tiles[1:]]
    assert kept.nbytes == 48  # tile 0, which was used again, and two of the three others
    assert use(tiles[0]) is first and use(tiles[3]) is others[2] and use(tiles[1]) is not others[0]
    assert use(tiles[1]).tolist() == [[1, 1, 1, 1]]


@for_all("form", ["float32", "bfloat16", "float8_e4m3"])
@pytest.mark.parametrize("shape", [(128, 128, 512), (7, 9, 33), (64, 5, 5), (32, 64, 3)], ids=str)
def test_products_of_packed_operands_have_the_same_bits(form, shape):
    """The first product reads both operands, the second packs them, and the third uses the packed
    ones."""
    k, m, n = shape
    device, rng = Device(), np.random.default_rng(k)
    s, x = (device.tile(rng.standard_normal((k, size), np.float32), form) for size in (m, n))
    found = []
    for _ in range(3):
        dst = device.empty((m, n), buffer="psum")
        device.issue("nc_matmul", dst, s, x)
        found.append(dst.numpy())
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()
    device.issue("memset", x, 1.0)
    dst = device.empty((m, n), buffer="psum")
    device.issue("nc_matmul", dst, s, x)
    sums = s.numpy().astype(np.float32).sum(axis=0)
    np.testing.assert_allclose(
        dst.numpy(), np.broadcast_to(sums[:, None], (m, n)), rtol=1e-4, atol=1e-5
    )
