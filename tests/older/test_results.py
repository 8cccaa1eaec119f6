"""A returned tile becomes the destination of an instruction: the record and the memory after
assignments and masks."""

import linecache
import sys

import ml_dtypes
import numpy as np
import pytest
from neuronxcc import nki
from neuronxcc.nki import isa as nisa
from neuronxcc.nki import language as nl
from older_device import Older, run
from older_kernels import stored

from neuroncore.base.errors import BufferKindError, ImmutableError, ShapeError

A = np.random.default_rng(1).normal(size=(4, 6)).astype(np.float32)
B = np.random.default_rng(2).normal(size=(4, 6)).astype(np.float32)
COPY, TT = "COPY", "TENSOR_TENSOR"


def tile(shape=(4, 6), dtype=np.float32, buffer=nl.sbuf):
    return nl.ndarray(shape, dtype=dtype, buffer=buffer)


# --- where a result goes --------------------------------------------------------------------------


def test_an_assigned_result_is_one_instruction_that_writes_there():
    def kernel(a, b):
        t = tile((4, 12))
        t[...] = nl.zeros((4, 12), np.float32)
        t[:, 3:9] = nl.add(a, b)
        return t

    got, device = run(kernel, A, B)
    want = np.zeros((4, 12), np.float32)
    want[:, 3:9] = A + B
    assert np.array_equal(got, want)
    assert device.opcodes.count(TT) == 1
    assert len(device.opcodes) <= 3


@pytest.mark.parametrize(
    "compute",
    [
        lambda a, b: nisa.tensor_tensor(a, b, nl.add),
        lambda a, b: nl.add(a, b),
        lambda a, b: a + b,
    ],
)
def test_every_way_to_add_is_one_instruction_in_place(compute):
    def kernel(a, b):
        t = tile()
        t[...] = compute(a, b)
        return t

    got, device = run(kernel, A, B)
    assert np.array_equal(got, A + B)
    assert device.opcodes == [TT]


def test_a_result_without_a_place_gets_one():
    def kernel(a, b):
        total = nl.add(a, b)
        return nl.multiply(total, 2.0)

    got, device = run(kernel, A, B)
    assert np.array_equal(got, (A + B) * np.float32(2))
    assert len(device.opcodes) == 2


def test_a_tile_assigned_later_is_copied_and_unchanged():
    def kernel(a, b):
        total = nl.add(a, b)
        t = tile()
        t[...] = total
        t[...] = nl.add(t, 1.0)
        return total

    got, device = run(kernel, A, B)
    assert np.array_equal(got, A + B)
    assert device.opcodes[:2] == [TT, COPY]


def test_a_result_assigned_to_two_places_is_computed_once():
    def kernel(a, b):
        s, t = tile(), tile()
        s[...] = t[...] = nl.add(a, b)
        return nl.subtract(s, t)

    got, device = run(kernel, A, B)
    assert np.array_equal(got, 0 * A)
    assert device.opcodes.count(TT) == 2  # the sum, once, and the difference


def test_an_expression_is_issued_from_the_inside_out():
    def kernel(a, b):
        t = tile()
        t[...] = nl.multiply(nl.add(a, b), nl.subtract(a, b))
        return t

    got, device = run(kernel, A, B)
    assert np.array_equal(got, (A + B) * (A - B))
    assert device.opcodes == [TT] * 3


def test_a_tile_is_read_before_it_is_written_in_place():
    def kernel(a, b):
        a[:, 0:5] = nl.add(a[:, 1:6], b[:, 0:5])
        a[...] = nl.add(a, a)
        return a

    want = A.copy()
    want[:, 0:5] = want[:, 1:6] + B[:, 0:5]
    got, device = run(kernel, A, B)
    assert np.array_equal(got, want + want)
    assert device.opcodes == [TT] * 2


def test_deferred_calls_keep_program_order():
    def kernel(a, b):
        t = tile()
        t[...] = nl.add(a, b)
        first = nl.copy(t)
        t[...] = nl.subtract(a, b)
        second = nl.copy(t)
        return nl.multiply(first, second)

    got, device = run(kernel, A, B)
    assert np.array_equal(got, (A + B) * (A - B))
    assert device.opcodes.count(TT) == 3


def test_an_index_that_computes_comes_after_the_value():
    def kernel(a, b):
        t = tile((4, 6))
        seen = []

        def column():
            seen.append(nl.copy(b))
            return 0

        t[:, column() : 6] = nl.add(a, b)
        return t

    got, device = run(kernel, A, B)
    assert np.array_equal(got, A + B)
    assert device.opcodes.count(TT) == 1


def test_helpers_may_return_results():
    def twice(x):
        return nl.multiply(x, 2.0)

    def kernel(a):
        t = tile()
        t[...] = twice(a)
        kept = twice(t)
        t[...] = (lambda x: twice(x))(kept)
        return t

    got, device = run(kernel, A)
    assert np.array_equal(got, A * np.float32(8))
    assert len(device.opcodes) == 3


def test_a_helper_s_result_in_an_expression_is_not_where_it_is_assigned():
    def add_one(x):
        return nl.add(x, 1.0)

    def kernel(a):
        t = tile()
        t[...] = nl.multiply(add_one(a), add_one(t0))
        return t

    t0 = None

    def outer(a):
        nonlocal t0
        t0 = nl.copy(a)
        return kernel(a)

    got, _ = run(outer, A)
    assert np.array_equal(got, (A + 1) * (A + 1))


SOURCELESS = """
def kernel(a, b):
    t = nl.ndarray((4, 12), dtype=nl.float32, buffer=nl.sbuf)
    t[:, 0:6] = nl.add(a, b)
    t[:, 6:12] = nl.subtract(a, b)
    kept = nl.multiply(a, b)
    t[:, 0:6] += kept
    p = nl.zeros((6, 6), nl.float32, buffer=nl.psum)
    for _ in nl.sequential_range(2):
        p += nisa.nc_matmul(a, b)
    t[0:6, 6:12] = nl.add(t[0:4, 6:12], p[0:4, :]) if False else nl.copy(t[:, 6:12])
    return t, nl.copy(p)
"""


def test_results_are_correct_without_source_text():
    space = {"nl": nl, "nisa": nisa}
    exec(SOURCELESS.replace("t[0:6, 6:12]", "t[:, 6:12]"), space)
    device = Older()
    a, b = device.tile(A), device.tile(B)
    t, product = device.call(space["kernel"], a, b)
    assert np.array_equal(t.numpy(), np.concatenate([(A + B) + A * B, A - B], 1))
    assert np.allclose(product.numpy(), 2 * A.T @ B, rtol=1e-5, atol=1e-5)


# --- formats --------------------------------------------------------------------------------------


def test_a_float32_result_is_rounded_once_to_the_format_of_its_target():
    def kernel(a, b):
        t = tile(dtype=nl.bfloat16)
        t[...] = nl.add(a, b)
        return t

    got, device = run(kernel, A, B)
    assert np.array_equal(got, (A + B).astype(ml_dtypes.bfloat16))
    assert device.opcodes == [TT]


def test_a_result_of_another_dtype_is_rounded_to_that_first():
    def kernel(a, b):
        t = tile()
        t[...] = nl.add(a, b, dtype=nl.bfloat16)
        return t

    got, _ = run(kernel, A, B)
    assert np.array_equal(got, (A + B).astype(ml_dtypes.bfloat16).astype(np.float32))


def test_a_float32_result_assigned_to_integers_is_converted():
    values = np.float32([[1.4, 2.6, -3.2, 100.0, 0.5, 1.5]] * 4)

    def kernel(a):
        t = tile(dtype=np.int32)
        t[...] = nl.add(a, 0.0)
        return t

    assert np.array_equal(run(kernel, values)[0], np.rint(values).astype(np.int32))


# --- masks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("move", "want"),
    [
        (lambda a: nl.transpose(a), A.T),
        (lambda a: nisa.dma_transpose(a), A.T),
        (lambda a: nisa.dropout(a, prob=0.0), A),
        (lambda a: nl.dropout(a, 0.0, dtype=nl.bfloat16), A),
    ],
)
def test_a_result_that_the_instruction_cannot_convert_is_copied_to_a_target_of_another_format(
    move, want
):
    # the pages of dropout and nc_transpose: dtype is the type to cast the output to
    def kernel(a):
        t = tile(want.shape, nl.bfloat16)
        t[...] = move(a)
        return t

    device = Older("trn1")
    got = device.call(kernel, device.tile(A))
    assert np.array_equal(got.numpy(), want.astype(ml_dtypes.bfloat16))


def test_a_masked_result_leaves_other_elements_unchanged():
    def kernel(a, b):
        t = tile()
        t[...] = nl.copy(b)
        p, f = nl.arange(4)[:, None], nl.arange(6)[None, :]
        t[p, f] = nl.multiply(a, 2.0, mask=(p < 3) & (f >= 2))
        return t

    want = B.copy()
    want[:3, 2:] = A[:3, 2:] * 2
    got, device = run(kernel, A, B)
    assert np.array_equal(got, want)
    assert len(device.opcodes) == 2


def test_a_mask_that_is_false_writes_nothing():
    def kernel(a, b):
        b[...] = nl.multiply(a, 2.0, mask=nl.arange(4)[:, None] > 3)
        b[...] = nl.multiply(a, 2.0, mask=False)
        return b

    got, device = run(kernel, A, B)
    assert np.array_equal(got, B)
    assert not device.opcodes


def test_a_triangle_is_several_pieces_of_a_dma():
    def kernel(a, b):
        p, f = nl.arange(4)[:, None], nl.arange(6)[None, :]
        b[p, f] = nl.load(a, mask=p >= f)
        return b

    below = np.arange(4)[:, None] >= np.arange(6)
    assert np.array_equal(run(kernel, A, B, buffers=("hbm",))[0], np.where(below, A, B))


def test_a_masked_result_without_a_target_is_initialized_where_the_mask_is_true():
    def kernel(a):
        made = nl.multiply(a, 2.0, mask=nl.arange(6)[None, :] < 4)
        return nl.copy(made[:, 0:4])

    got, device = run(kernel, A)
    assert np.array_equal(got, A[:, :4] * 2)
    assert not device.findings


@pytest.mark.parametrize(
    ("given", "to"),
    [((4, 1), (4, 5, 1)), ((4, 6), (4, 3, 6)), ((4, 6), (4, 2, 3, 6)), ((4, 3, 1), (4, 2, 3, 6))],
)
def test_a_tile_of_fewer_axes_is_broadcast_after_the_partition_axis(given, to):
    def kernel(a):
        t = tile(to)
        t[...] = a
        return t

    values = np.random.default_rng(0).normal(size=given).astype(np.float32)
    got, device = run(kernel, values)
    between = (given[0], *(1,) * (len(to) - len(given)), *given[1:])
    assert np.array_equal(got, np.broadcast_to(values.reshape(between), to))
    assert device.opcodes == [COPY]


@pytest.mark.parametrize("to", [(5, 4, 6), (4, 3, 7), (4, 6, 3)])
def test_a_tile_that_cannot_be_broadcast_is_refused(to):
    def kernel(a):
        tile(to)[...] = a

    with pytest.raises(ShapeError, match="does not fit into"):
        run(kernel, A)


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.uint8])
def test_a_number_is_stored_in_hbm_through_a_tile(dtype):
    def kernel():
        out = tile((5, 300, 2), dtype, nl.hbm)
        for i in nl.affine_range(5):
            out[i] = i
        out[2, 10:14, 1] = 9
        return out

    got, device = run(kernel)
    want = np.repeat(np.arange(5, dtype=dtype), 600).reshape(5, 300, 2)
    want[2, 10:14, 1] = 9
    assert np.array_equal(got, want)
    assert device.opcodes == ["MEMSET", "DMA_DIRECT2D"] * 6


def test_a_number_fills_a_tensor_that_is_larger_than_sbuf():
    def kernel():
        out = tile((1024, 8192), np.float32, nl.hbm)
        out[...] = 3.0
        return out

    got, device = run(kernel)
    assert (got == 3).all() and device.opcodes == ["MEMSET", "DMA_DIRECT2D"] * 2


def test_the_number_of_a_program_is_assigned_in_shared_hbm():
    @nki.jit
    def kernel():
        seen = nl.ndarray((2,), dtype=nl.int32, buffer=nl.shared_hbm)
        me = nl.program_id(0)
        seen[me] = me + 7
        return seen

    assert nki.simulate_kernel(kernel[nl.nc(2)]).tolist() == [7, 8]


# --- refused twins --------------------------------------------------------------------------------


def test_hbm_can_not_be_assigned_to():
    def kernel(a, b):
        b[...] = nl.copy(a)

    with pytest.raises(BufferKindError, match="can't be assigned to"):
        run(kernel, A, B, buffers=("sbuf", "hbm"))


def test_a_number_is_not_assigned_to_a_parameter():
    @nki.jit
    def kernel(x):
        x[0] = 1
        return nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)

    with pytest.raises(ImmutableError):
        nki.simulate_kernel(kernel, A)


def test_a_result_of_another_shape_is_refused():
    def kernel(a):
        a[:, 0:3] = nl.add(a[:, 0:4], 1.0)

    with pytest.raises(ShapeError, match="does not fit into"):
        run(kernel, A)


@pytest.mark.parametrize("of", [lambda a: nl.add(a, 1.0), lambda a: a], ids=["result", "tile"])
def test_a_result_keeps_its_partitions(of):
    def kernel(a):
        o = nl.ndarray((2, 4, 6), np.float32, buffer=nl.sbuf)
        o[0, :, :] = of(a)

    with pytest.raises(ShapeError, match="does not fit into") as caught:
        run(kernel, A)
    assert caught.value.because == "an engine does not move data to other partitions"


def test_a_result_of_one_row_goes_into_one_partition():
    def kernel(a):
        o = nl.ndarray((2, 3, 2), np.float32, buffer=nl.sbuf)
        o[0, :, 0] = nl.add(nl.load(a), 1.0)
        return stored(o[0:1, :, 0])

    assert np.array_equal(nki.simulate_kernel(kernel, A[:1, :3]).ravel(), A[0, :3] + 1)


@pytest.mark.parametrize("rows", [4, 9])
def test_a_mask_that_selects_everything_has_no_effect(rows):
    def kernel(a, b, **masked):
        t = tile()
        t[...] = nl.add(a, b, **masked)
        return t

    def chosen(a, b):
        return kernel(a, b, mask=nl.arange(4)[:, None] < rows)

    (got, device), (want, plain) = run(chosen, A, B), run(kernel, A, B)
    assert np.array_equal(got, want) and len(device.lines) == len(plain.lines)


# --- lines ----------------------------------------------------------------------------------------


def here():
    return sys._getframe(1).f_lineno


def test_lines_of_instructions_are_those_of_the_user():
    def kernel(a, b):
        t = tile()
        t[...] = nl.add(a, b)
        total = nl.subtract(a, b)
        t[:, 0:3] += total[:, 0:3]
        return t, here()

    device = Older()
    _, last = device.call(kernel, device.tile(A), device.tile(B))
    assert [line - last for _, line in device.lines] == [-3, -2, -1]
    assert "nl.add" in linecache.getline(__file__, device.lines[0][1])


def test_an_error_in_a_deferred_call_names_its_line():
    line = 0

    def kernel(a, b):
        nonlocal line
        t = tile((6, 4))
        line = here() + 1
        t[...] = nisa.tensor_tensor(a, b[:, 0:5], nl.add)

    with pytest.raises(Exception, match="tensor_tensor") as caught:
        run(kernel, A, B)
    assert caught.value.to_dict()["line"] == line


def test_a_kernel_returns_the_result_of_its_last_assignment():
    @nki.jit(mode="simulation")
    def kernel(a, b):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        t = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        t[...] = nl.add(nl.load(a), nl.load(b))
        nl.store(out, t)
        return out

    assert np.array_equal(nki.simulate_kernel(kernel, A, B), A + B)
