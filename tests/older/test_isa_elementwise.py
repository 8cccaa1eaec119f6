"""Elementwise instructions of the older API compared with numpy."""

import ml_dtypes
import numpy as np
import pytest
from device import converted
from every import for_all
from neuronxcc.nki import isa as nisa
from neuronxcc.nki import language as nl
from older_device import Older

from neuroncore.base.errors import KernelError, SignatureError

F32 = np.float32
COLUMN = np.linspace(0.5, 2.0, 128, dtype=F32)[:, None]


def numbers(shape, seed=0):
    """Numbers between 1/4 and 4, of both signs."""
    rng = np.random.default_rng([seed, *shape])
    return (2.0 ** rng.uniform(-2, 2, shape) * rng.choice([-1, 1], shape)).astype(F32)


def behind(column, x):
    """A column along the partitions of x."""
    return column[: len(x)].reshape(-1, *(1,) * (x.ndim - 1))


def scanned(x, y, start):
    out, state = np.empty_like(x), np.full(len(x), start, F32)
    for i in range(x.shape[1]):
        out[:, i] = state = x[:, i] * state + y[:, i]
    return out


# a call of tiles x and y and of a tile with a column c, and the same in numpy's float32
CALLS = {
    "tensor_tensor": (
        lambda x, y, c, **o: nisa.tensor_tensor(x, y, nl.multiply, **o),
        lambda x, y, c: x * y,
    ),
    "tensor_tensor numpy": (
        lambda x, y, c, **o: nisa.tensor_tensor(x, y, op=np.maximum, **o),
        lambda x, y, c: np.maximum(x, y),
    ),
    "tensor_scalar": (
        lambda x, y, c, **o: nisa.tensor_scalar(x, nl.multiply, 2.0, **o),
        lambda x, y, c: x * F32(2),
    ),
    "tensor_scalar column": (
        lambda x, y, c, **o: nisa.tensor_scalar(x, nl.add, c, **o),
        lambda x, y, c: x + c,
    ),
    "tensor_scalar reversed": (
        lambda x, y, c, **o: nisa.tensor_scalar(x, np.subtract, 1.5, reverse0=True, **o),
        lambda x, y, c: F32(1.5) - x,
    ),
    "tensor_scalar twice": (
        lambda x, y, c, **o: nisa.tensor_scalar(
            x, nl.multiply, c, op1=nl.subtract, operand1=0.25, reverse1=True, **o
        ),
        lambda x, y, c: F32(0.25) - x * c,
    ),
    "scalar_tensor_tensor": (
        lambda x, y, c, **o: nisa.scalar_tensor_tensor(
            data=x, op0=nl.multiply, operand0=c, op1=nl.add, operand1=y, **o
        ),
        lambda x, y, c: x * c + y,
    ),
    "scalar_tensor_tensor reversed": (
        lambda x, y, c, **o: nisa.scalar_tensor_tensor(
            data=x, op0=np.subtract, operand0=3.0, op1=np.subtract, operand1=y, reverse1=True, **o
        ),
        lambda x, y, c: y - (x - F32(3)),
    ),
    "activation": (
        lambda x, y, c, **o: nisa.activation(nl.square, x, bias=c, scale=2.0, **o),
        lambda x, y, c: (x * F32(2) + c) ** 2,
    ),
    "activation column": (
        lambda x, y, c, **o: nisa.activation(np.square, x, scale=c, **o),
        lambda x, y, c: (x * c) ** 2,
    ),
    "tensor_copy": (lambda x, y, c, **o: nisa.tensor_copy(x, **o), lambda x, y, c: x),
    "reciprocal": (lambda x, y, c, **o: nisa.reciprocal(x, **o), lambda x, y, c: F32(1) / x),
}
SHAPES = [(1, 1), (5, 7), (33, 64), (128, 3)]


def case(name, shape, **options):
    """Return the result of the instruction, the result of numpy, and the core."""
    call, numpys = CALLS[name]
    x, y = numbers(shape), numbers(shape, 1)
    device = Older()
    c = device.tile(COLUMN[: shape[0]])
    got = device.call(call, device.tile(x), device.tile(y), c, **options)
    return got, numpys(x, y, behind(COLUMN, x)).astype(F32), device


def near(got, want):
    """Compare within two roundings: the Scalar engine's functions do not have numpy's bits."""
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=3e-6)


@for_all("name", CALLS)
@for_all("shape", [*SHAPES, (4, 3, 5)])
def test_the_result_is_numpy_s(name, shape):
    got, want, device = case(name, shape)
    assert (got.shape, got.dtype, got.region.value) == (shape, "float32", "sbuf")
    near(got.numpy(), want)
    assert len(device.opcodes) == 1


@for_all("name", CALLS)
@for_all("dtype", ["bfloat16", "float16", "int32"])
def test_dtype_rounds_the_result_once(name, dtype):
    got, want, _ = case(name, (5, 7), dtype=dtype)
    assert got.dtype == dtype
    wide = converted(want, np.dtype(dtype)).astype(np.float64)
    steps = np.abs(got.numpy().astype(np.float64) - wide)
    if dtype == "int32":
        assert (steps <= (np.abs(want - np.floor(want) - 0.5) < 1e-4)).all()
    else:
        assert (steps <= np.abs(wide) * float(ml_dtypes.finfo(dtype).eps)).all()
        assert (steps == 0).mean() > 0.9


@for_all("name", CALLS)
def test_without_dtype_the_result_has_the_data_s(name):
    call, numpys = CALLS[name]
    device = Older()
    x, y = (numbers((4, 6), s).astype(ml_dtypes.bfloat16) for s in range(2))
    got = device.call(call, device.tile(x), device.tile(y), device.tile(COLUMN[:4]))
    assert got.dtype == "bfloat16"
    want = numpys(x.astype(F32), y.astype(F32), COLUMN[:4]).astype(F32)
    np.testing.assert_allclose(got.numpy().astype(F32), want, rtol=2**-8)


@for_all("name", CALLS)
def test_a_mask_computes_a_part(name):
    p, f = nl.arange(5)[:, None], nl.arange(7)[None, :]
    got, want, device = case(name, (5, 7), mask=(p < 3) & (f > 1))
    near(got[0:3, 2:7].numpy(), want[:3, 2:])
    assert got.unwritten().sum() == 35 - 15
    assert len(device.opcodes) == 1


@for_all("name", CALLS)
def test_operands_may_be_in_psum_and_results_go_there(name):
    call, numpys = CALLS[name]
    x, y = numbers((4, 6)), numbers((4, 6), 1)
    device = Older()
    a, b = device.tile(x, buffer="psum"), device.tile(y)
    c = device.tile(COLUMN[:4])

    def kernel():
        t = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.psum)
        t[:, 1:7] = call(a, b, c)
        return t

    near(device.call(kernel)[:, 1:7].numpy(), numpys(x, y, COLUMN[:4]).astype(F32))
    assert len(device.opcodes) == 1


@for_all("name", CALLS)
def test_blocks_can_be_operands(name):
    call, numpys = CALLS[name]
    x, y = numbers((2, 4, 6)), numbers((2, 4, 6), 1)
    device = Older()
    source, other = device.tile(x, buffer="hbm"), device.tile(y, buffer="hbm")
    c = device.tile(COLUMN[:4])

    def kernel():
        tiles = nl.ndarray((2, nl.par_dim(4), 6), dtype=nl.float32)
        for i in nl.affine_range(2):
            tiles[i] = call(nl.load(source[i]), nl.load(other[i]), c)
        return [nl.copy(tiles[i]) for i in range(2)]

    for i, tile in enumerate(device.call(kernel)):
        near(tile.numpy(), numpys(x[i], y[i], COLUMN[:4]).astype(F32))


@for_all("name", CALLS)
def test_hbm_is_refused_as_an_operand(name):
    device = Older()
    x, y = (device.tile(numbers((4, 6)), buffer="hbm") for _ in range(2))
    with pytest.raises(KernelError, match="hbm"):
        device.call(CALLS[name][0], x, y, device.tile(COLUMN[:4]))
    assert not device.opcodes


@for_all("name", CALLS)
def test_an_array_is_refused_as_an_operand(name):
    device = Older()
    with pytest.raises(SignatureError, match="not a tile"):
        device.call(CALLS[name][0], numbers((4, 6)), numbers((4, 6)), device.tile(COLUMN[:4]))


# --- free axes of size 1, other sizes -------------------------------------------------------------


def test_free_axes_of_size_1_are_repeated():
    device = Older()
    x, y = numbers((4, 1, 5)), numbers((4, 3, 1), 1)
    got = device.call(nisa.tensor_tensor, device.tile(x), device.tile(y), nl.add)
    assert np.array_equal(got.numpy(), x + y)


@for_all("column", [(4, 1), (4,), (4, 1, 1, 1)])
@for_all("shape", [(4, 6), (4, 3, 5), (4, 2, 3, 5)])
@for_all("swapped", [False, True])
def test_one_element_per_partition_goes_along_all_free_axes(shape, column, swapped):
    device = Older()
    x, c = numbers(shape), numbers((4, 1), 1)
    operands = (
        device.tile(x),
        device.tile(c)[:, 0] if column == (4,) else device.tile(c.reshape(column)),
    )
    got = device.call(nisa.tensor_tensor, *operands[:: -1 if swapped else 1], nl.subtract)
    difference = x - c.reshape(4, *(1 for _ in shape[1:]))
    assert np.array_equal(got.numpy(), -difference if swapped else difference)


def test_the_result_of_two_columns_has_the_larger_number_of_axes():
    device = Older()
    a, b = device.tile(numbers((4, 1, 1))), device.tile(numbers((4, 1), 1))
    for pair in ((a, b), (b, a)):
        assert device.call(nisa.tensor_tensor, *pair, nl.add).shape == (4, 1, 1)


@pytest.mark.parametrize("other", [(4, 5), (3, 6), (1, 6), (4, 2, 4), (3, 1)])
def test_sizes_that_differ_are_refused(other):
    device = Older()
    with pytest.raises(KernelError):
        device.call(
            nisa.tensor_tensor, device.tile(numbers((4, 6))), device.tile(numbers(other)), nl.add
        )
    assert not device.opcodes


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_column_of_a_narrow_format_is_widened(dtype):
    device = Older()
    x, c = numbers((4, 6)), COLUMN[:4].astype(dtype)
    got = device.call(nisa.tensor_scalar, device.tile(x), nl.multiply, device.tile(c))
    assert np.array_equal(got.numpy(), x * c.astype(F32))
    assert len(device.opcodes) == 2


def test_bits_are_combined_without_conversion():
    device = Older()
    x = np.random.default_rng(0).integers(-(2**31), 2**31, (4, 6), np.int32)
    c = np.int32([[1], [3], [255], [-1]])
    a, b = device.tile(x), device.tile(c)
    assert np.array_equal(device.call(nisa.tensor_scalar, a, np.bitwise_and, b).numpy(), x & c)
    assert np.array_equal(
        device.call(
            nisa.tensor_scalar, a, nl.left_shift, 3, op1=nl.bitwise_xor, operand1=5
        ).numpy(),
        x << 3 ^ 5,
    )


@for_all("form", ["int32", "uint8", "bfloat16", "float16"])
def test_a_scalar_of_each_partition_is_converted_for_arithmetic(form):
    x, c = numbers((4, 6)), np.arange(1, 5)[:, None]
    device = Older()
    a, b = device.tile(x), device.tile(c.astype(form))
    got = device.call(nisa.tensor_scalar, a, np.multiply, b, op1=np.add, operand1=b)
    assert np.array_equal(got.numpy(), (x * c + c).astype(F32))
    both = {"op0": np.add, "operand0": b, "op1": np.multiply, "operand1": a}
    got = device.call(nisa.scalar_tensor_tensor, data=a, **both)
    assert np.array_equal(got.numpy(), ((x + c).astype(F32) * x).astype(F32))
    total = device.tile(np.zeros((4, 1), F32))
    fold = {"reduce_op": np.add, "reduce_res": total}
    got = device.call(nisa.tensor_scalar_reduce, data=a, op0=np.add, operand0=b, **fold)
    assert np.array_equal(got.numpy(), (x + c).astype(F32))


def test_a_bitvec_operator_takes_no_floats():
    device = Older()
    a, b = device.tile(np.ones((4, 6), np.int32)), device.tile(np.ones((4, 1), F32))
    with pytest.raises(KernelError, match="bitvec"):
        device.call(nisa.tensor_scalar, a, np.bitwise_and, b)


# --- scans, memset, running folds ----------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (128, 33)])
def test_a_scan_goes_along_the_free_axis(shape):
    x, y = numbers(shape) / 4, numbers(shape, 1)
    device = Older()
    a, b, start = device.tile(x), device.tile(y), device.tile(np.full((shape[0], 1), 2, F32))
    for initial in (2.0, start):
        got = device.call(
            nisa.tensor_tensor_scan, a, b, initial=initial, op0=np.multiply, op1=np.add
        )
        assert np.allclose(got.numpy(), scanned(x, y, 2.0), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_memset_makes_a_tile_of_one_number(dtype):
    device = Older()
    got = device.call(nisa.memset, (5, 7), 3, dtype)
    assert np.array_equal(got.numpy(), np.full((5, 7), 3, dtype))
    rows = nl.arange(5)[:, None] < 2
    part = device.call(nisa.memset, (5, 7), 3, dtype, mask=rows)
    assert np.array_equal(part[0:2].numpy(), np.full((2, 7), 3, dtype))
    assert part.unwritten().sum() == 21


@pytest.mark.parametrize("function", [nisa.activation, nisa.activation_reduce])
def test_an_activation_may_leave_its_sum(function):
    x = numbers((5, 7))
    device = Older()
    data, total = device.tile(x), device.empty((5, 1))
    reset = {"reduce_cmd": nisa.reduce_cmd.reset_reduce} if function is nisa.activation else {}
    got = device.call(
        function, np.square, data, reduce_op=np.add, reduce_res=total[:, 0:1], **reset
    )
    assert np.array_equal(got.numpy(), x * x)
    assert np.allclose(total.numpy(), (x * x).sum(1, keepdims=True), rtol=1e-6)


def test_an_unknown_operator_is_refused():
    device = Older()
    x = device.tile(numbers((4, 6)))
    with pytest.raises(KernelError, match="not an operator"):
        device.call(nisa.activation, np.fft, x)
    with pytest.raises(KernelError, match="not an operator"):
        device.call(nisa.tensor_tensor, x, x, "add")


@pytest.mark.parametrize("value", [ml_dtypes.bfloat16(3.5), np.float16(3.5), np.uint16(3), 3.5])
def test_numbers_of_numpy_and_ml_dtypes_fill_tiles(value):
    device = Older()
    made = device.call(nisa.memset, (3, 5), value, nl.float32)
    assert np.array_equal(made.numpy(), np.full((3, 5), float(value), np.float32))
