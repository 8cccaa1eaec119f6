"""Instructions of the older API that select, search and move, compared with numpy."""

import numpy as np
import pytest
from every import for_all
from neuronxcc import nki
from neuronxcc.nki import isa as nisa
from neuronxcc.nki import language as nl
from older_device import Older

from neuroncore.base.errors import DtypeError, KernelError, NotEmulated, SignatureError, ViewError

F32 = np.float32
P, F = nl.arange(5)[:, None], nl.arange(8)[None, :]
ROWS, COLUMNS = np.arange(5)[:, None], np.arange(8)


def numbers(shape=(5, 8), seed=0):
    order = np.random.default_rng([seed, *shape]).permutation(np.prod(shape))
    return order.reshape(shape).astype(F32)


# --- iota and affine_select -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int32", "float32", "uint32"])
def test_iota_is_the_expression(dtype):
    device = Older()
    got = device.call(nisa.iota, P * 100 + F * 3 + 7, dtype=dtype)
    assert got.dtype == dtype
    assert np.array_equal(got.numpy(), (ROWS * 100 + COLUMNS * 3 + 7).astype(dtype))
    p, x, y = nl.mgrid[0:3, 0:4, 0:2]
    i, j, k = np.mgrid[0:3, 0:4, 0:2]
    cube = device.call(nisa.iota, p + 10 * x + 100 * y, dtype=np.int32)
    assert np.array_equal(cube.numpy().reshape(3, 4, 2), i + 10 * j + 100 * k)


def test_iota_of_a_program_and_of_an_iteration_is_one_element():
    @nki.jit
    def kernel(x):
        made = nl.ndarray((6, 2), np.int32, buffer=nl.shared_hbm)
        head = nl.program_id(1)
        for i in nl.affine_range(2):
            of_both = nisa.iota(head, dtype=nl.int32) * 10 + nisa.iota(i, dtype=nl.int32)
            nl.store(made[nl.ds(head, 1), nl.ds(i, 1)], of_both.reshape((1, 1)))
        return made

    got = kernel[1, 6](np.zeros((1, 1), F32))
    assert np.array_equal(got, 10 * np.arange(6)[:, None] + np.arange(2))


@pytest.mark.parametrize("what", [nl.arange(8), 3.0, None])
def test_iota_of_no_tile_is_refused(what):
    with pytest.raises(SignatureError, match="index expression of a tile"):
        Older().call(nisa.iota, what, dtype=np.int32)


@for_all(
    ("compare", "want"),
    [
        (P >= F, ROWS >= COLUMNS),
        (P < F, ROWS < COLUMNS),
        (F <= 3, (COLUMNS <= 3) & (ROWS >= 0)),
        (2 * P + 1 > F, 2 * ROWS + 1 > COLUMNS),
        (P == F, ROWS == COLUMNS),
        (P != F, ROWS != COLUMNS),
        ((P >= F) & (F > 0), (ROWS >= COLUMNS) & (COLUMNS > 0)),
        (True, np.ones((5, 8), bool)),
        (False, np.zeros((5, 8), bool)),
    ],
)
def test_affine_select_keeps_elements_where_the_comparison_is_true(compare, want):
    x = numbers()
    device = Older()
    tile = device.tile(x)
    got = device.call(nisa.affine_select, compare, tile, -9984.0)
    assert np.array_equal(got.numpy(), np.where(want, x, F32(-9984)))

    def kernel():
        t = nl.ndarray((5, 8), dtype=nl.bfloat16)
        t[...] = nisa.affine_select(compare, tile, -1.0, dtype=nl.bfloat16)
        return t

    assert np.array_equal(
        device.call(kernel).numpy(), np.where(want, x, F32(-1)).astype("bfloat16")
    )


def test_affine_select_wants_a_comparison():
    device = Older()
    with pytest.raises(SignatureError, match="comparison of index expressions"):
        device.call(nisa.affine_select, P, device.tile(numbers()), 0.0)


P64, F64 = nl.arange(64)[:, None], nl.arange(8)[None, :]
PART = slice(32, 64), slice(3, 7)  # the elements that the mask chooses
OF_PLACES = {
    "iota": lambda _, mask: nisa.iota(P64 * 100 + F64 * 3, dtype=nl.float32, mask=mask),
    "affine_select": lambda x, mask: nisa.affine_select(
        (F64 * 10 >= P64) & (F64 * 11 < P64 + 30), x, -1.0, mask=mask
    ),
    "range_select": lambda x, mask: selected(x, mask, range_start=1),
}


def selected(x, mask, **more):
    low, high = (nisa.memset((x.shape[0], 1), number, nl.float32) for number in (4.0, 7.0))
    between = {"comp_op0": np.greater_equal, "comp_op1": np.less, "bound0": low, "bound1": high}
    return nisa.range_select(on_true_tile=x, **between, mask=mask, **more)


@pytest.mark.parametrize("name", OF_PLACES)
def test_a_mask_does_not_move_the_places_of_elements(name):
    device = Older()
    tile = device.tile(numbers((64, 8)))
    mask = (P64 >= 32) & (F64 >= 3) & (F64 < 7)
    whole, part = (device.call(OF_PLACES[name], tile, m).numpy() for m in (None, mask))
    assert len({*whole[PART].reshape(-1)}) > 2
    assert np.array_equal(part[PART], whole[PART])


def test_a_range_is_over_adjacent_elements():
    device = Older()
    x = device.tile(numbers((4, 2, 3)))
    mask = nl.mgrid[0:4, 0:2, 0:3][2] < 2
    with pytest.raises(NotEmulated, match="separate elements"):
        device.call(selected, x, mask)


# --- other choices --------------------------------------------------------------------------------


def test_range_select_keeps_elements_between_two_bounds():
    x = numbers()
    low, high = F32([[0], [1], [2], [3], [8]]), F32([[8], [4], [2], [5], [8]])
    device = Older()
    tiles = [device.tile(v) for v in (x, low, high)]

    def kernel():
        return nisa.range_select(
            on_true_tile=tiles[0],
            comp_op0=np.greater_equal,
            comp_op1=np.less,
            bound0=tiles[1],
            bound1=tiles[2],
        )

    inside = (low <= COLUMNS) & (high > COLUMNS)
    assert np.array_equal(device.call(kernel).numpy(), np.where(inside, x, np.finfo(F32).min))


@pytest.mark.parametrize("reverse", [False, True])
def test_predicated_copies_leave_other_elements_unchanged(reverse):
    x, y = numbers(), numbers(seed=1)
    predicate = np.random.default_rng(0).integers(0, 2, (5, 8)).astype(np.uint8)
    device = Older()
    src, dst, chosen = device.tile(x), device.tile(y), device.tile(predicate)
    device.call(
        nisa.tensor_copy_predicated, src=src, dst=dst, predicate=chosen, reverse_pred=reverse
    )
    assert np.array_equal(dst.numpy(), np.where((predicate != 0) ^ reverse, x, y))


def test_select_reduce_selects_and_finds_the_maximum():
    x = numbers()
    predicate = np.random.default_rng(0).integers(0, 2, (5, 8)).astype(np.uint8)
    device = Older()
    dst, top = device.empty((5, 8)), device.empty((5, 1))
    device.call(
        nisa.select_reduce,
        dst=dst,
        predicate=device.tile(predicate),
        on_true=device.tile(x),
        on_false=-5.0,
        reduce_res=top,
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
        reduce_op=nl.max,
    )
    want = np.where(predicate != 0, x, F32(-5))
    assert np.array_equal(dst.numpy(), want)
    assert np.array_equal(top.numpy(), want.max(1, keepdims=True))


# --- searches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(5, 8), (128, 33), (1, 100)])
def test_the_eight_greatest_and_where_they_are(shape):
    x = numbers(shape)
    device = Older()
    tile = device.tile(x)
    top = device.call(nisa.max8, src=tile)
    order = np.argsort(-x, axis=1)[:, :8]
    assert np.array_equal(top.numpy(), np.take_along_axis(x, order, 1))
    at = device.call(nisa.nc_find_index8, data=tile, vals=top)
    assert at.dtype == "uint32" and np.array_equal(at.numpy(), order)
    rest = device.call(nisa.nc_match_replace8, data=tile, vals=top, imm=-1.0)
    want = x.copy()
    np.put_along_axis(want, order, -1, 1)
    assert np.array_equal(rest.numpy(), want)


def test_a_masked_search_covers_a_part():
    x = numbers((5, 20))
    device = Older()
    got = device.call(nisa.max8, src=device.tile(x), mask=nl.arange(20)[None, :] < 12)
    assert np.array_equal(got.numpy(), -np.sort(-x[:, :12], 1)[:, :8])


def test_a_mask_over_eight_elements_does_not_cut_the_eight_values_to_find():
    x, device = numbers((5, 8)), Older()
    top = -np.sort(-x, 1)
    got = device.call(
        nisa.nc_match_replace8,
        data=device.tile(x),
        vals=device.tile(top),
        imm=-1.0,
        mask=nl.arange(8)[None, :] < 6,
    )
    assert (got.numpy()[:, :6] == -1).all()


def test_fewer_than_eight_are_refused():
    device = Older()
    with pytest.raises(KernelError):
        device.call(nisa.max8, src=device.tile(numbers((5, 7))))
    assert not device.opcodes


def test_a_shuffle_goes_within_groups_of_32_partitions():
    x = numbers((64, 3))
    order = [(7 * i + 5) % 32 for i in range(32)]
    device = Older()
    dst = device.empty((64, 3))
    device.call(nisa.nc_stream_shuffle, device.tile(x), dst, order)
    assert np.array_equal(dst.numpy(), x.reshape(2, 32, 3)[:, order].reshape(64, 3))
    with pytest.raises(KernelError):
        device.call(nisa.nc_stream_shuffle, device.tile(x), dst, [32] * 32)


def test_sequence_bounds_are_first_and_last_of_each_segment():
    ids = np.float32([[1, 1, 2, 2, 2, 0, 3, 0]])
    device = Older()
    got = device.call(nisa.sequence_bounds, segment_ids=device.tile(ids)).numpy()
    assert got.shape == (1, 2, 8)
    for place, segment in enumerate(ids[0]):
        if segment:
            members = np.flatnonzero(ids[0] == segment)
            assert got[0, :, place].tolist() == [members[0], members[-1] + 1]


# --- moving ---------------------------------------------------------------------------------------


def test_dma_copies_between_memories_and_adds():
    x = numbers()
    device = Older()
    source, there, back = device.tile(x), device.empty((5, 8), buffer="hbm"), device.empty((5, 8))
    device.call(nisa.dma_copy, dst=there, src=source)
    device.call(nisa.dma_copy, dst=back, src=there)
    assert np.array_equal(back.numpy(), x)
    device.call(nisa.dma_copy, dst=there, src=source, dst_rmw_op=np.add)
    assert np.array_equal(there.numpy(), x + x)
    with pytest.raises(KernelError, match="can't combine"):
        device.call(nisa.dma_copy, dst=there, src=source, dst_rmw_op=np.multiply)


def test_a_masked_dma_leaves_other_elements_unchanged():
    x, y = numbers(), numbers(seed=1)
    device = Older()
    dst = device.tile(y, buffer="hbm")
    device.call(nisa.dma_copy, dst=dst, src=device.tile(x), mask=(P < 2) & (F > 5))
    want = y.copy()
    want[:2, 6:] = x[:2, 6:]
    assert np.array_equal(dst.numpy(), want)


@pytest.mark.parametrize("shape", [(16, 32), (128, 64), (9, 3, 4), (9, 3, 4, 5)])
def test_a_dma_transposes(shape):
    """The order of four axes is (3, 1, 2, 0), as the page says."""
    x = numbers(shape).astype("bfloat16")
    device = Older()
    got = device.call(nisa.dma_transpose, device.tile(x, buffer="hbm"))
    assert np.array_equal(got.numpy(), np.swapaxes(x, 0, -1))


@pytest.mark.parametrize(
    ("target", "buffer", "dtype"),
    [
        ("trn2", "hbm", "float32"),
        ("trn2", "sbuf", "bfloat16"),
        ("trn2", "sbuf", "int32"),
        ("trn1", "sbuf", "float32"),
    ],
)
def test_32_bit_data_that_a_dma_may_transpose(target, buffer, dtype):
    x = np.arange(512).reshape(16, 32) % 256
    device = Older(target)
    source = device.tile(x, dtype, buffer)
    assert np.array_equal(device.call(nisa.dma_transpose, source).numpy(), x.T)
    assert len(device.lines) == 1


def test_float32_in_sbuf_leaves_no_trace_where_dma_engines_transpose():
    device = Older("trn2")
    with pytest.raises(DtypeError, match=r"NCC_ISFV902"):
        device.call(nisa.dma_transpose, device.tile(numbers((16, 32))))
    assert device.lines == []


def test_a_dma_repeats_along_the_free_axis_and_in_hbm():
    x = numbers()
    device = Older()
    source = device.tile(x, buffer="hbm")
    wide, rows = device.empty((5, 8)), device.empty((3, 8), buffer="hbm")
    device.call(nisa.dma_copy, dst=wide, src=source[nl.arange(5)[:, None], F * 0 + 2])
    assert np.array_equal(wide.numpy(), x[:, 2:3].repeat(8, axis=1))
    device.call(nisa.dma_copy, dst=rows, src=source[nl.arange(3)[:, None] * 0 + 4, F])
    assert np.array_equal(rows.numpy(), x[4:5].repeat(3, axis=0))
    device.call(nisa.dma_copy, dst=wide[0:1], src=source[nl.arange(1)[:, None] * 0 + 4, F])
    assert np.array_equal(wide.numpy()[0], x[4])
    issued = len(device.lines)
    with pytest.raises(ViewError, match=r"NCC_IBCG901"):
        device.call(nisa.dma_copy, dst=wide, src=source[nl.arange(5)[:, None] * 0 + 4, F])
    assert len(device.lines) == issued


def test_a_gather_takes_runs_by_shared_indices():
    x = numbers((32, 10))
    places = np.random.default_rng(0).integers(0, 10, (32, 1)).astype(np.uint16)
    device = Older()
    got = device.call(nisa.local_gather, device.tile(x), device.tile(places))
    want = np.stack([x[p, places[p // 16 * 16 : p // 16 * 16 + 16, 0]] for p in range(32)])
    assert np.array_equal(got.numpy().reshape(want.shape), want)
