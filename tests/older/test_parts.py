"""Repeated parts by index expressions, masked sums, and the methods that create new tiles."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuroncore.base.errors import OutOfBoundsError
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor

X = np.arange(6 * 40, dtype=np.float32).reshape(6, 40)


@nki.jit
def picked(x, starts, step):
    """Read seven columns from each start, one part after the other."""
    out = nl.ndarray((len(starts), 6, 7), x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    i, j = nl.arange(6)[:, None], nl.arange(7)[None, :]
    for n, start in enumerate(starts):
        nl.store(out[n, i, j], tile[i, start + step * j])
    return out


@given(st.lists(st.integers(0, 40 - 19), min_size=2, max_size=5), st.integers(1, 3))
def test_a_repeated_part_begins_at_its_offset(starts, step):
    want = [X[:, start : start + 7 * step : step] for start in starts]
    assert np.array_equal(picked(X, starts, step), want)


def test_a_part_by_a_loop_variable_is_computed_once(monkeypatch):
    made, by_keys = [], Tensor.by_keys
    monkeypatch.setattr(
        Tensor, "by_keys", lambda tile, keys: made.append(keys) or by_keys(tile, keys)
    )

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(6):
            nl.store(out[i, nl.arange(40)[:, None]], nl.load(x[i : i + 1, 0:40]))
        return out

    assert np.array_equal(kernel(X), X)
    assert len(made) == 2


@pytest.mark.parametrize("outside", [-1, 34])
def test_a_repeated_part_out_of_bounds_is_refused(outside):
    with pytest.raises((OutOfBoundsError, IndexError), match=r"exceeds axis 1 of size 40"):
        picked(X, [0, 33, 5, outside], 1)


@nki.jit
def summed(a, b, chosen):
    """sum over k of a[k].T @ b[k] in the columns below `chosen[k]`."""
    (steps, _, m), n = a.shape, b.shape[2]
    out = nl.ndarray((m, n), nl.float32, buffer=nl.shared_hbm)
    total = nl.zeros((m, n), nl.float32, buffer=nl.psum)
    columns = nl.arange(n)[None, :]
    for step in range(steps):
        total[nl.arange(m)[:, None], columns] += nisa.nc_matmul(
            nl.load(a[step]), nl.load(b[step]), mask=columns < chosen[step]
        )
    copied = nl.zeros((m, n), nl.float32)
    copied[...] = nl.copy(total, mask=columns < chosen[0])
    nl.store(out, copied)
    return out


def test_a_masked_sum_continues_in_the_part_that_its_mask_selects():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 9, 5)), rng.normal(size=(3, 9, 11))
    want = np.einsum("skm,skn->mn", a, b)
    want[:, 7:] = 0
    got = summed(a.astype(np.float32), b.astype(np.float32), (7, 7, 7))
    assert np.allclose(got, want, atol=1e-5)


def test_a_masked_sum_begins_in_each_element_with_its_first_product():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(4, 9, 5)), rng.normal(size=(4, 9, 11))
    chosen = (3, 8, 2, 10)
    inside = np.arange(11) < np.array(chosen)[:, None]
    want = np.einsum("skm,skn,sn->mn", a, b, inside)
    want[:, 3:] = 0
    got = summed(a.astype(np.float32), b.astype(np.float32), chosen)
    assert np.allclose(got, want, atol=1e-5)


@pytest.mark.parametrize("tensor", ["zeros", "ndarray"])
def test_a_sum_in_a_part_of_a_tile_continues_in_all_of_it(tensor):
    @nki.jit
    def kernel(a, b):
        out = nl.ndarray((5, 11), nl.float32, buffer=nl.shared_hbm)
        total = getattr(nl, tensor)((5, 11), nl.float32, buffer=nl.psum)
        for _ in nl.affine_range(3):
            u, v = nl.load(a), nl.load(b)
            total[0:5, 0:4] += nisa.nc_matmul(u, v[0:9, 0:4])
            total += nisa.nc_matmul(u, v)
        nl.store(out, nl.copy(total))
        return out

    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(9, 5)), rng.normal(size=(9, 11))
    want = 3 * a.T @ b
    want[:, :4] *= 2
    assert np.allclose(kernel(a.astype(np.float32), b.astype(np.float32)), want, atol=1e-4)


def test_a_row_is_repeated_along_both_axes():
    @nki.jit
    def kernel(x):
        out = nl.ndarray((5, 40), x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x[2:3]).broadcast_to((5, 40)))
        return out

    assert np.array_equal(kernel(X), np.broadcast_to(X[2:3], (5, 40)))


def test_astype_rounds_a_copy():
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, nl.int32, buffer=nl.shared_hbm)
        tile = nl.load(x)
        nl.store(out, tile.astype(nl.int32))
        return out

    assert np.array_equal(kernel(X), X.astype(np.int32))
