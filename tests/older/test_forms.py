"""Forms of published kernels in the older API: each is a small kernel, and numpy computes its
result."""

import ml_dtypes
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np
import pytest
from every import for_all

from neuroncore.base.errors import OutOfBoundsError, ShapeError

RNG = np.random.default_rng(0)


def numbers(*shape):
    return RNG.integers(-8, 9, shape).astype(np.float32)  # sums of them are exact


def stored(make, *arrays, dtype=np.float32, shape=None):
    """Return the result of `make` for tiles of the arrays."""

    @nki.jit
    def kernel(*given):
        tiles = [nl.load(x) for x in given]
        made = make(*tiles)
        out = nl.ndarray(shape or made.shape, dtype, buffer=nl.shared_hbm)
        nl.store(out, made)
        return out

    return kernel(*arrays)


@for_all("axes", [(1,), (2,), (3,), (1, 3), (2, 3), (1, 2), [3, 1], (-3, -1)])
@for_all(
    ("fold", "want"), [(nl.sum, np.sum), (nl.max, np.max), (nl.min, np.min), (nl.mean, np.mean)]
)
def test_folds_along_any_free_axes(axes, fold, want):
    x = numbers(5, 4, 3, 8)
    got = stored(lambda t: fold(t, axis=axes), x)
    np.testing.assert_allclose(got, want(x, axis=tuple(axes)), rtol=1e-6, atol=1e-6)


def test_every_instruction_accepts_a_name():
    segments, x = np.repeat(np.arange(1, 3, dtype=np.float32), 8)[None], numbers(16, 8)

    def copied(t):
        copy = nl.ndarray(t.shape, t.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=copy, src=t, name="copy")
        return nisa.tensor_copy(copy, name="result")

    def gathered(t):
        index = nisa.memset((16, 1), 0, np.uint16, name="index")
        return nisa.local_gather(t, index, 1, 16, name="gathered")

    bounds = stored(lambda t: nisa.sequence_bounds(segment_ids=t, name="bounds"), segments)
    assert (stored(copied, x) == x).all()
    assert (stored(gathered, x).reshape(16, 16) == x[:, :1]).all()
    assert (bounds[0, 0] == np.repeat([0, 8], 8)).all()


@pytest.mark.parametrize("axes", [(1,), (3,), (1, 3)])
def test_folded_axes_are_kept_on_request(axes):
    x = numbers(5, 4, 3, 8)
    got = stored(lambda t: nl.sum(t, axis=axes, keepdims=True), x)
    assert (got == x.sum(axes, keepdims=True)).all()


def test_a_mask_of_a_fold_covers_the_folded_elements():
    x = numbers(5, 4, 3, 8)

    def folded(t):
        i, j, k, m = nl.mgrid[0:5, 0:4, 0:3, 0:8]
        return nl.sum(t[i, j, k, m], axis=[1, 3], mask=(m < 6) & (j < 3))

    assert (stored(folded, x) == x[:, :3, :, :6].sum((1, 3))).all()


def test_a_mask_of_a_fold_shortens_what_is_out_of_bounds():
    x = numbers(5, 6, 7)

    def pooled(t):
        i, y, a, x_, b = nl.mgrid[0:5, 0:3, 0:3, 0:5, 0:2]
        return nl.max(t[i, 2 * y + a, x_ + b], axis=[2, 4], mask=(2 * y + a < 6) & (a < 2))

    want = np.maximum(x[..., :5], x[..., 1:6]).reshape(5, 3, 2, 5).max(2)
    assert (stored(pooled, x) == want).all()


def test_the_partition_axis_cannot_be_folded():
    with pytest.raises(ShapeError, match="axis"):
        stored(lambda t: nl.sum(t, axis=[0, 2]), numbers(5, 4, 3))


@pytest.mark.parametrize("transposed", [False, True])
def test_products_take_operands_from_psum(transposed):
    a, b, eye = numbers(7, 7), numbers(7, 9), np.eye(7, dtype=np.float32)

    def product(x, y, one):
        in_psum = nisa.nc_matmul(one, x), nisa.nc_matmul(one, y)
        return nl.copy(nl.matmul(*in_psum, transpose_x=transposed))

    assert (stored(product, a, b, eye) == (a.T if transposed else a) @ b).all()


def test_a_sum_in_psum_begins_with_its_first_product():
    a, b = numbers(3, 7, 5), numbers(3, 7, 9)

    @nki.jit
    def summed(x, y):
        out = nl.ndarray((5, 9), x.dtype, buffer=nl.shared_hbm)
        acc = nl.ndarray((2, nl.par_dim(5), 9), np.float32, buffer=nl.psum)  # not nl.zeros
        for i in nl.affine_range(3):
            acc[1, :, :] += nisa.nc_matmul(nl.load(x[i]), nl.load(y[i]))
        nl.store(out, nl.copy(acc[1]))
        return out

    assert (summed(a, b) == np.einsum("ikm,ikn->mn", a, b)).all()


@pytest.mark.parametrize("divisor", [38, 7])
@pytest.mark.parametrize("by_tile", [False, True])
def test_quotients_of_integers_are_floats(divisor, by_tile):
    x = np.arange(2200, 2328, dtype=np.int32)[:, None]
    y = np.full_like(x, divisor)

    def rows(a, b):
        return nl.floor(a / (b if by_tile else divisor), dtype=nl.int32)

    got = stored(rows, x, y, dtype=np.int32)
    exact = x % divisor != 0  # elsewhere a reciprocal may fall short
    assert (got[exact] == (x // divisor)[exact]).all()


@pytest.mark.parametrize("rows", [200, 129, 256])
def test_a_slice_beyond_the_end_is_shortened_by_a_mask(rows):
    x = numbers(rows, 5)

    @nki.jit
    def copied(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        lane = nl.arange(128)[:, None]
        for i in nl.affine_range(2):
            piece, mask = slice(i * 128, (i + 1) * 128), i * 128 + lane < rows
            nl.store(out[piece, 0:5], nl.load(x[piece, 0:5], mask=mask), mask=mask)
        return out

    assert (copied(x) == x).all()


def test_a_slice_beyond_the_end_is_refused_without_one():
    with pytest.raises(OutOfBoundsError, match=r"\[128, 255\] exceeds axis 0 of size 200"):

        @nki.jit
        def copied(x):
            out = nl.ndarray((128, 5), x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load(x[128:256]))
            return out

        copied(numbers(200, 5))


def test_functions_of_more_axes_than_a_pattern_has():
    x = numbers(6, 4, 5, 6)

    def corners(t):
        out = nl.ndarray((6, 6, 8, 10), np.float32, buffer=nl.sbuf)
        p, a, b, c, i, j, k = nl.mgrid[0:6, 0:2, 0:2, 0:2, 0:3, 0:4, 0:5]
        near, far = t[p, i + a, j + b, k + c], t[p, i - a + 1, j - b + 1, k - c + 1]
        out[p, 2 * i + a, 2 * j + b, 2 * k + c] = 0.75 * near + 0.25 * far
        return out

    want = np.empty((6, 6, 8, 10), np.float32)
    for a, b, c in np.ndindex(2, 2, 2):
        near = x[:, a : 3 + a, b : 4 + b, c : 5 + c]
        far = x[:, 1 - a : 4 - a, 1 - b : 5 - b, 1 - c : 6 - c]
        want[:, a::2, b::2, c::2] = 0.75 * near + 0.25 * far
    assert (stored(corners, x) == want).all()


def test_an_instruction_has_four_free_axes():
    def folded(t):
        p, a, b, c, i, j, k = nl.mgrid[0:6, 0:2, 0:2, 0:2, 0:3, 0:4, 0:5]
        return nisa.tensor_reduce(nl.add, t[p, i + a, j + b, k + c], (3, 4, 5, 6))

    with pytest.raises(
        ShapeError, match="the access pattern of data has 6 free axes, but the limit is"
    ):
        stored(folded, numbers(6, 4, 5, 6))


def test_masked_selections_read_psum():
    eye, x = np.eye(7, dtype=np.float32), numbers(7, 9)

    def causal(one, values):
        row, column = nl.mgrid[0:7, 0:9]
        product = nisa.nc_matmul(one, values)
        return nisa.affine_select(row >= column, product, -9984.0)

    want = np.where(np.arange(7)[:, None] >= np.arange(9), x, -9984.0)
    assert (stored(causal, eye, x) == want).all()


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float32, np.float16])
def test_numpys_numbers_fill_tensors(dtype):
    lowest = nl.finfo(dtype).min
    x = numbers(4, 6).astype(dtype)

    def padded(t):
        tile = nl.full((4, 8), lowest, dtype, buffer=nl.sbuf)
        tile[:, 1:7] = nl.copy(t)
        return tile

    want = np.pad(x.astype(np.float32), ((0, 0), (1, 1)), constant_values=float(lowest))
    assert (stored(padded, x, dtype=dtype).astype(np.float32) == want).all()


def test_a_tensor_without_blocks_needs_no_counts_of_tiles():
    @nki.jit
    def copied(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        buffer = nki.compiler.sbuf.mod_alloc(base_addr=1024, num_free_tiles=(4,))
        tile = nl.ndarray(x.shape, x.dtype, buffer=buffer)
        tile[...] = nl.load(x)
        nl.store(out, tile)
        return out

    x = numbers(7, 9)
    assert (copied(x) == x).all()


@pytest.mark.parametrize("axes", [(1,), (1, 2), (2,), (1, 3)])
def test_the_instruction_reduces_any_free_axes_too(axes):
    x = numbers(5, 4, 3, 8)
    got = stored(lambda t: nisa.tensor_reduce(nl.add, t, axes, negate=True, keepdims=True), x)
    assert (got == -x.sum(axes, keepdims=True)).all()


@pytest.mark.parametrize("shape", [(7, 1), (7, 3), (7, 3, 4), (7, 1, 4, 1)])
def test_a_predicate_of_the_first_axes_applies_to_the_remaining_axes(shape):
    x, y = numbers(7, 3, 4, 2), numbers(7, 3, 4, 2)
    chosen = RNG.integers(0, 2, shape).astype(np.uint8)

    def merged(a, b, flags):
        nisa.tensor_copy_predicated(src=a, dst=b, predicate=flags)
        return b

    behind = chosen.reshape(*shape, *(1,) * (4 - len(shape))) != 0
    assert (stored(merged, x, y, chosen) == np.where(behind, x, y)).all()


def test_a_predicate_of_other_sizes_is_refused():
    def merged(a, flags):
        nisa.tensor_copy_predicated(src=a, dst=a, predicate=flags)
        return a

    with pytest.raises(ShapeError, match="predicate"):
        stored(merged, numbers(7, 3, 4), np.ones((7, 2), np.uint8))


def test_a_tile_of_one_element_is_a_number_of_iterations():
    @nki.jit
    def powers(x, steps):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile, count = nl.load(x), nl.load(steps)
        row = nl.zeros((1, 1), np.int32)
        for _ in range(nt.scalar(count)):
            tile[...] = nl.add(tile, tile)
            row[...] = nl.add(row, 1)
        nl.store(out, tile)
        return out

    x = numbers(4, 5)
    assert (powers(x, np.array([[3]], np.int32)) == 8 * x).all()
    with pytest.raises(ShapeError, match="scalar takes one number"):
        powers(x, np.ones((1, 2), np.int32))


def test_tensors_and_values_are_instances_of_the_annotation_of_tensors():
    def checked(tile, rest: nt.tensor | None = None):
        assert all(
            isinstance(value, nt.tensor) for value in (tile, tile[0:2], tile + 1, nl.exp(tile))
        )
        assert not any(
            isinstance(other, nt.tensor) for other in (rest, 2, nl.arange(4), tile.shape)
        )
        return nl.add(tile, 1)

    x = numbers(4, 5)
    assert (stored(checked, x) == x + 1).all()


def test_a_row_selected_by_a_tile_can_be_combined_with_slices():
    x = numbers(6, 4, 5)

    @nki.jit
    def row(x, which):
        out = nl.ndarray((6, 5), x.dtype, buffer=nl.shared_hbm)
        at = nl.load(which)
        nl.store(out, nl.load(x[:, at[0, 0], :]))
        return out

    for n in range(4):
        assert (row(x, np.array([[n]], np.int32)) == x[:, n]).all()


INTEGERS = np.array([[-1, -(2**31), 2**31 - 1, 2**24 + 1, 0, 7]], np.int32)


@pytest.mark.parametrize("target", [np.uint32, np.int32])
def test_transfers_between_integers_of_32_bits_move_bits(target):
    given = INTEGERS if target is np.uint32 else INTEGERS.view(np.uint32)

    @nki.jit
    def kernel(x):
        stored, copied, loaded, masked = (
            nl.ndarray(x.shape, target, buffer=nl.shared_hbm) for _ in range(4)
        )
        tile = nl.load(x)
        i, j = nl.mgrid[0:1, 0:8]
        nl.store(stored, tile)
        nisa.dma_copy(dst=copied, src=tile)
        nl.store(loaded, nl.load(x, dtype=target))
        wide = nl.load(x[i, j], mask=j < 6)
        nl.store(masked[i, j], wide, mask=j < 6)
        return stored, copied, loaded, masked

    for got in kernel(given):
        assert (got == given.view(target)).all()


def test_a_missing_row_of_a_gather_is_minus_one_in_int32():
    @nki.jit
    def kernel(x, rows):
        found = nl.ndarray((2, 8), np.int32, buffer=nl.shared_hbm)
        picked = nl.ndarray((2, 6), np.uint32, buffer=nl.shared_hbm)
        index = nl.load(rows)
        gathered = nl.load(x[index, nl.arange(6)[None, :]])
        nl.store(picked[index, nl.arange(6)[None, :]], gathered)
        tile = nl.load(rows, dtype=np.float32)
        values = nl.broadcast_to(tile, shape=(2, 8))
        nl.store(found, nisa.nc_find_index8(data=values, vals=nl.add(values, 9)))
        return found, picked

    x, rows = np.concatenate([INTEGERS, INTEGERS[:, ::-1]]), np.array([[1], [0]], np.int32)
    found, picked = kernel(x, rows)
    assert (found == -1).all()
    assert (picked == x.view(np.uint32)).all()


@pytest.mark.parametrize(
    "function",
    [nl.floor, nl.sin, lambda t: nl.softmax(t, 1), lambda t: nl.var(t, 1), lambda t: nl.mod(t, 2.0),
     lambda t: nl.where(t > 0, t, 0.0),
     lambda t: nl.gather_flattened(t, nl.zeros((5, 2), np.uint32))],
)  # fmt: skip
def test_expressions_beyond_the_end_are_refused_by_functions_of_several_instructions(function):
    # the access would reach the row of the next partition
    with pytest.raises(OutOfBoundsError, match=r"\[3, 8\] exceeds axis 1 of size 6"):
        stored(
            lambda t: function(t[nl.arange(5)[:, None], 3 + nl.arange(6)[None, :]]), numbers(9, 6)
        )
