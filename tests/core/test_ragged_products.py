r"""One operand is used by products of several widths, in several roles, one after the other.

A product caches the packed form of an operand. These programs use one tile at full width and then
narrower, like the last tile of every loop over columns, and compare each result with exact
integers."""

import microscaling
import numpy as np
import pytest
from device import Device
from every import for_all

from neuroncore.base.enums import matmul_perf_mode
from neuroncore.numerics.formats import lookup

RAGGED = range(17, 0, -1)
"""Columns of a last tile: each width up to one more than two registers of eight numbers."""
WIDTHS = (513, *RAGGED, 64)
FORMATS = ("bfloat16", "float16", "float8_e4m3", "float8_e5m2", "tfloat32", "float32")


def with_each(first, *others):
    """Return every format paired with the first of some values, and a narrow and a wide one paired
    with the others."""
    every = [(form, first) for form in FORMATS]
    return every + [(form, other) for form in ("bfloat16", "float32") for other in others]


def integers(rng, shape):
    """Return small integers whose sums of products are exact in every order."""
    return rng.integers(-4, 5, shape).astype(np.float32)


def product(device, stationary, moving, **options):
    """The result of a matmul of two tiles."""
    columns = moving.shape[-1]
    rows = stationary.shape[-1]
    dst = device.empty((rows, columns), buffer="psum")
    device.issue("nc_matmul", dst, stationary, moving, **options)
    return dst.numpy()


@pytest.mark.parametrize("form, shape", with_each((128, 128), (100, 64), (127, 9), (33, 1)))
def test_stationary_tile_with_wide_and_narrow_moving_tiles(form, shape):
    device, rng = Device(), np.random.default_rng(1)
    s = integers(rng, shape)
    stationary = device.tile(s, form)
    for width in WIDTHS:
        for first in range(0, width, 512):
            x = integers(rng, (shape[0], min(512, width - first)))
            found = product(device, stationary, device.tile(x, form))
            np.testing.assert_array_equal(found, s.T @ x)


@for_all("form", FORMATS)
def test_moving_tile_with_wide_and_narrow_stationary_tiles(form):
    device, rng = Device(), np.random.default_rng(2)
    x = integers(rng, (96, 24))
    moving = device.tile(x, form)
    for width in (128, 128, *RAGGED, 128):
        s = integers(rng, (96, width))
        np.testing.assert_array_equal(product(device, device.tile(s, form), moving), s.T @ x)


@pytest.mark.parametrize("form, columns", with_each(64, 128, 8, 4))
def test_one_tile_in_both_roles(form, columns):
    device, rng = Device(), np.random.default_rng(3)
    a = integers(rng, (127, columns))
    tile = device.tile(a, form)
    for width in (3, 128, *RAGGED, 128, 5):
        b = integers(rng, (127, width))
        other = device.tile(b, form)
        np.testing.assert_array_equal(product(device, tile, tile), a.T @ a)
        np.testing.assert_array_equal(product(device, tile, other), a.T @ b)
        np.testing.assert_array_equal(product(device, other, tile), b.T @ a)


@pytest.mark.parametrize("form", ["float8_e4m3", "float8_e5m2"])
def test_one_tile_by_single_and_by_double_rows(form):
    """[K, 2, N] is 2 N columns of K rows; in double_row mode it is N columns of 2 K rows."""
    device, rng = Device(), np.random.default_rng(4)
    double = {"perf_mode": matmul_perf_mode.double_row}
    s = integers(rng, (128, 2, 64))
    stationary = device.tile(s, form)
    for width in (64, 64, 32, *RAGGED, 64):
        x = integers(rng, (128, 2, width))
        moving = device.tile(x, form)
        for _ in range(2):
            dst = device.empty((64, width), buffer="psum")
            device.issue("nc_matmul", dst, stationary, moving, **double)
            np.testing.assert_array_equal(dst.numpy(), np.einsum("kgm,kgn->mn", s, x))
            dst = device.empty((128, 2 * width), buffer="psum")
            device.issue("nc_matmul", dst, stationary, moving)
            expected = s.reshape(128, -1).T @ x.reshape(128, -1)
            np.testing.assert_array_equal(dst.numpy(), expected)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
@pytest.mark.parametrize("form", ["bfloat16", "float32"])
def test_transposes_between_products(target, form):
    device, rng = Device(target), np.random.default_rng(5)
    a = integers(rng, (128, 128))
    tile, identity = device.tile(a, form), device.tile(np.eye(128, dtype=np.float32), form)
    for width in (128, *RAGGED, 128):
        b = integers(rng, (128, width))
        np.testing.assert_array_equal(product(device, tile, device.tile(b, form)), a.T @ b)
        kind = "float32" if target == "trn1" else form
        dst = device.empty((128, 128), kind, buffer="psum")
        device.issue("nc_matmul", dst, tile, identity, is_transpose=True)
        np.testing.assert_array_equal(dst.numpy().astype(np.float32), a.T)
        narrow = device.empty((width, 128), kind, buffer="psum")
        device.issue("nc_matmul", narrow, tile[:, :width], identity, is_transpose=True)
        np.testing.assert_array_equal(narrow.numpy().astype(np.float32), a.T[:width])
        np.testing.assert_array_equal(product(device, identity, device.tile(b, form)), b)


def test_tiles_of_the_array():
    device, rng = Device(), np.random.default_rng(6)
    s = integers(rng, (128, 32))
    stationary = device.tile(s, "bfloat16")
    for width in (512, *RAGGED):
        x = integers(rng, (128, width))
        moving = device.tile(x, "bfloat16")
        for row in (0, 32, 64):
            found = product(
                device, stationary[row : row + 32], moving[row : row + 32],
                tile_position=(row, 0), tile_size=(32, 32),
            )  # fmt: skip
            part = slice(row, row + 32)
            np.testing.assert_array_equal(found, s[part].T @ x[part])
        np.testing.assert_array_equal(product(device, stationary, moving), s.T @ x)


def test_sparse_products_alternate_with_dense_ones():
    device, rng = Device(experimental=True), np.random.default_rng(7)
    s = integers(rng, (128, 8))
    stationary = device.tile(s, "bfloat16")
    tags = device.tile(np.zeros((128, 2), np.uint16))  # the first element of each group
    for width in (64, *RAGGED):
        x = integers(rng, (128, 4, width))
        moving = device.tile(x, "bfloat16")
        dst = device.empty((8, width), buffer="psum")
        device.issue("nc_matmul_sparse", dst, stationary, moving, tags)
        chosen = np.repeat(x[::4, 0], 4, axis=0)
        np.testing.assert_array_equal(dst.numpy(), s.T @ chosen)
        np.testing.assert_array_equal(product(device, stationary, moving[:, 0]), s.T @ x[:, 0])


def test_scaled_products_of_several_widths():
    device, rng = Device("trn3"), np.random.default_rng(8)
    kind = lookup("float8_e5m2").numpy

    def operand(columns):
        """Return elements [K, F, 4], all with scale 1, and their tiles."""
        elements = rng.integers(-2, 3, (64, columns, 4)).astype(np.float32)
        ones = np.full((8, columns), 127, np.uint8)
        return elements, microscaling.matmul_operand(device, elements.astype(kind), ones)

    s, (stationary, s_scale) = operand(6)
    for width in (128, *RAGGED):
        x, (moving, x_scale) = operand(width)
        dst = device.empty((6, width), buffer="psum")
        device.issue("nc_matmul_mx", dst, stationary, moving, s_scale, x_scale)
        np.testing.assert_array_equal(dst.numpy(), np.einsum("kmi,kni->mn", s, x))
