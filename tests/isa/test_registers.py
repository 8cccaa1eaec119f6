"""Registers: numbers that are known only while the kernel runs."""

import operator

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import Device
from hypothesis import given
from hypothesis import strategies as st

import neuroncore
from neuroncore.base.errors import (
    DynamicControlError,
    KernelError,
    OutOfBoundsError,
    OutsideKernelError,
)
from neuroncore.core.core import on

INT32 = st.integers(-(2**31), 2**31 - 1)


@pytest.fixture
def device():
    device = Device()
    with on(device.core):
        yield device


def wrapped(value):
    return (value + 2**31) % 2**32 - 2**31


def held(device, register, dtype="int32"):
    """Return the contents of a register as the device would show them."""
    cell = device.empty((1, 1), dtype)
    nisa.register_store(cell, register)
    return cell.numpy()[0, 0]


# --- in and out -----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, 7, -5, 2**31 - 1, -(2**31)])
def test_a_register_has_the_number_it_was_given(device, value):
    assert held(device, nisa.register_alloc(value)) == value
    register = nisa.register_alloc()
    nisa.register_move(register, value)
    other = nisa.register_alloc(1)
    nisa.register_move(other, register)
    nisa.register_move(register, 99)
    assert held(device, other) == value


def test_a_new_register_may_have_the_number_of_a_tensor(device):
    tile = device.tile(np.array([[7, 8]], np.int32))
    assert held(device, nisa.register_alloc(tile[0, 1])) == 8


@pytest.mark.parametrize(("value", "kept"), [(2**31, -(2**31)), (2**32 + 3, 3), (2**32 - 1, -1)])
def test_registers_have_32_bits(device, value, kept):
    assert held(device, nisa.register_alloc(value)) == kept


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32"])
@pytest.mark.parametrize("buffer", ["sbuf", "hbm"])
def test_registers_load_every_integer_format(device, dtype, buffer):
    register = nisa.register_alloc()
    for value in (np.iinfo(dtype).min, 1, np.iinfo(dtype).max):
        nisa.register_load(register, device.tile(np.full((1, 1), value), dtype, buffer))
        assert held(device, register) == value


def test_an_unsigned_number_keeps_its_bits(device):
    register = nisa.register_alloc()
    nisa.register_load(register, device.tile(np.uint32([[0xFFFFFFFE]])))
    assert held(device, register) == -2
    assert held(device, register, "uint32") == 0xFFFFFFFE


@pytest.mark.parametrize(
    ("value", "kept"), [(3, 3), (-7, -7), (2.5, 2), (1e30, 2**31 - 1), (np.nan, 0)]
)
def test_a_float_is_converted_like_elsewhere(device, value, kept):
    register = nisa.register_alloc()
    nisa.register_load(register, device.tile(np.float32([[value]])))
    assert held(device, register) == kept


@pytest.mark.parametrize(
    ("dtype", "value", "kept"),
    [("int8", 300, 44), ("uint16", -1, 65535), ("float32", 7, 7), ("bfloat16", 257, 256)],
)
@pytest.mark.parametrize("buffer", ["sbuf", "hbm"])
def test_a_stored_register_wraps_around_in_narrow_integers(device, dtype, value, kept, buffer):
    cell = device.empty((1, 1), dtype, buffer)
    nisa.register_store(cell, nisa.register_alloc(value))
    assert cell.numpy() == kept
    assert device.findings == []


@pytest.mark.parametrize("shape", [(1,), (1, 1)])
def test_registers_load_tensors_of_one_element(device, shape):
    cell = device.tile(np.full(shape, 5, np.int32), buffer="hbm")
    register = nisa.register_alloc()
    nisa.register_load(register, cell)
    nisa.register_store(cell, register + 1)
    assert cell.numpy() == 6


def test_registers_load_one_element_of_a_larger_tensor(device):
    cells = device.tile(np.arange(12, dtype=np.int32).reshape(3, 4))
    register = nisa.register_alloc()
    nisa.register_load(register, cells[2:3, 1])
    nisa.register_store(cells[0:1, 3], register)
    assert cells.numpy()[0, 3] == 9


def test_loading_uninitialized_memory_is_reported(device):
    register = nisa.register_alloc()
    nisa.register_load(register, device.empty((1, 1), "int32"))
    assert device.findings == ["UNINIT_READ"]


# --- refused --------------------------------------------------------------------------------------


def test_a_refused_register_does_not_change_the_record(device):
    program, cell = device.core.program, device.tile(np.ones((1, 1), np.int32))
    before = len(program.calls), program.issued
    for wrong in ("r0", cell, 3, object()):
        device.refuses(DynamicControlError, "register_load", wrong, cell, words=["dst"])
    assert (len(program.calls), program.issued) == before


def test_a_register_without_a_value_is_refused(device):
    empty, other = nisa.register_alloc(), nisa.register_alloc(3)
    cell = device.tile(np.full((1, 1), 8, np.int32))
    device.refuses(DynamicControlError, "register_move", other, empty, words=["no value"])
    device.refuses(DynamicControlError, "register_store", cell, empty, words=["no value"])
    for use in (lambda: empty + 1, lambda: list(nl.dynamic_range(empty))):
        with pytest.raises(DynamicControlError, match="no value"):
            use()
    assert held(device, other) == 3


def test_registers_need_a_kernel():
    with pytest.raises(OutsideKernelError):
        nisa.register_alloc(1)


@pytest.mark.parametrize("use", [nisa.register_store, nisa.memset])
def test_a_number_that_another_launch_loaded_is_refused(device, use):
    other = Device()
    with on(other.core):
        register = nisa.register_alloc(other.tile(np.full((1, 1), 3, np.int32)))
        assert held(other, register + 1) == 4
    cell = device.empty((1, 8), "int32")
    with pytest.raises(OutsideKernelError, match="by another launch"):
        if use is nisa.memset:
            use(cell[:, nl.ds(register, 1)], 5)
        else:
            use(cell[:, 0:1], register + 1)


# --- arguments that must be constants -------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        int,
        range,
        nl.static_range,
        nl.affine_range,
        nl.sequential_range,
        lambda r: [0, 1, 2][r],
        lambda r: "x" * r,
        lambda r: nl.ndarray((r, 4), nl.float32),
        lambda r: list(nl.dynamic_range(0, 4, r)),
    ],
)
def test_a_register_is_refused_where_a_constant_is_needed(device, use):
    with pytest.raises(DynamicControlError):
        use(nisa.register_alloc(2))


@pytest.mark.parametrize(
    "key",
    [
        lambda r: slice(r, None),
        lambda r: slice(0, r),
        lambda r: slice(r, r + 2),
        lambda r: slice(0, 4, r),
        lambda r: nl.ds(0, r),
        lambda r: nl.ds(r, r),
    ],
)
def test_the_size_of_a_slice_must_be_a_constant(device, key):
    tile = device.tile(np.ones((4, 8), np.float32))
    with pytest.raises(DynamicControlError, match="bounds the slice"):
        tile[:, key(nisa.register_alloc(2))]


# --- arithmetic -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["add", "sub", "mul", "and_", "or_", "xor"])
@given(a=INT32, b=INT32)
def test_arithmetic_wraps_around(name, a, b):
    op = getattr(operator, name)
    device = Device()
    with on(device.core):
        x, y = nisa.register_alloc(a), nisa.register_alloc(b)
        results = [held(device, result) for result in (op(x, y), op(x, b), op(a, y))]
        assert results == [wrapped(op(a, b))] * 3
        assert (held(device, x), held(device, y)) == (a, b)


@pytest.mark.parametrize("name", ["floordiv", "mod", "lshift", "rshift"])
@given(a=INT32, b=st.integers(1, 31))
def test_division_and_shifts(name, a, b):
    op = getattr(operator, name)
    device = Device()
    with on(device.core):
        x, y = nisa.register_alloc(a), nisa.register_alloc(b)
        results = [held(device, result) for result in (op(x, y), op(x, b), op(a, y))]
        assert results == [wrapped(op(a, b))] * 3


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
@pytest.mark.parametrize(("a", "b"), [(1, 2), (2, 2), (3, 2), (-1, 1)])
def test_a_comparison_is_a_register_of_zero_or_one(device, name, a, b):
    op = getattr(operator, name)
    x, y = nisa.register_alloc(a), nisa.register_alloc(b)
    for result in (op(x, y), op(x, b), op(a, y)):
        assert held(device, result) == int(op(a, b))


@pytest.mark.parametrize("other", [1.5, "1", None])
def test_arithmetic_of_registers_needs_integers(device, other):
    with pytest.raises(TypeError):
        nisa.register_alloc(1) + other


# --- loops ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [(4,), (0,), (2, 5), (5, 2), (-3, 4, 3), (0, 7, 2), (1, 2, 100)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_dynamic_range_counts_like_range(device, bounds, dynamic):
    given_bounds = [nisa.register_alloc(b) for b in bounds[:2]] if dynamic else bounds[:2]
    loop = nl.dynamic_range(*given_bounds, *bounds[2:])
    assert [held(device, i) for i in loop] == list(range(*bounds))


@pytest.mark.parametrize("step", [0, -1])
def test_steps_must_be_positive(device, step):
    with pytest.raises(DynamicControlError, match="positive"):
        list(nl.dynamic_range(0, 4, step))


def test_the_loop_variable_can_not_be_written(device):
    cell = device.tile(np.ones((1, 1), np.int32))
    for i in nl.dynamic_range(2):
        device.refuses(DynamicControlError, "register_move", i, 5, words=["writes to the variable"])
        for src in (cell, device.empty((1, 1), "int32")):  # nothing is read before it is refused
            device.refuses(
                DynamicControlError, "register_load", i, src, words=["writes to the variable"]
            )


def test_while_ends_at_zero(device):
    count, total = nisa.register_alloc(4), nisa.register_alloc(0)
    while count:
        nisa.register_move(total, total + count)
        nisa.register_move(count, count - 1)
    assert held(device, total) == 10


def test_fori_and_while_loops(device):
    seen = []
    nl.fori_loop(1, nisa.register_alloc(7), lambda i: seen.append(held(device, i)), 2)
    nl.while_loop(nisa.register_alloc(3), lambda r: (seen.append(held(device, r)), r - 1)[1])
    assert seen == [1, 3, 5, 3, 2, 1]
    with pytest.raises(DynamicControlError, match="next condition"):
        nl.while_loop(nisa.register_alloc(3), lambda r: 0)


# --- in indices -----------------------------------------------------------------------------------


def test_a_register_indexes_an_axis(device):
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for buffer in ("sbuf", "hbm"):
        tile = device.tile(values, buffer=buffer)
        for i in nl.dynamic_range(3):
            dst = device.empty((2, 4))
            nisa.dma_copy(dst, tile[:, i])
            assert np.array_equal(dst.numpy(), values[:, held(device, i)])


@pytest.mark.parametrize("engine", ["vector", "scalar", "gpsimd"])
def test_a_window_moves_with_a_register(device, engine):
    values = np.arange(40, dtype=np.float32).reshape(4, 10)
    src, dst = device.tile(values), device.tile(np.zeros((4, 10), np.float32))
    register = nisa.register_alloc(6)
    unit = getattr(nisa.engine, engine)
    nisa.tensor_copy(dst[:, nl.ds(register - 5, 4)], src[:, nl.ds(register, 4)], engine=unit)
    want = np.zeros((4, 10))
    want[:, 1:5] = values[:, 6:10]
    assert np.array_equal(dst.numpy(), want)


def test_a_view_reads_its_register_when_it_is_used(device):
    values = np.arange(8, dtype=np.float32).reshape(1, 8)
    tile, register, dst = device.tile(values), nisa.register_alloc(1), device.empty((1, 2))
    view = tile[:, nl.ds(register, 2)]
    nisa.register_move(register, 5)
    nisa.tensor_copy(dst, view)
    assert np.array_equal(dst.numpy(), [[5, 6]])


@pytest.mark.parametrize("start", [-1, 7, 100])
def test_a_window_out_of_bounds_stops_the_device(device, start):
    tile, dst = device.tile(np.ones((4, 10), np.float32)), device.tile(np.zeros((4, 4), np.float32))
    view = tile[:, nl.ds(nisa.register_alloc(start), 4)]
    words = [str(start), "0 to 6"]
    device.refuses(OutOfBoundsError, "tensor_copy", dst, view, words=["src", *words])
    device.refuses(OutOfBoundsError, "tensor_copy", view, dst, words=["dst", *words])


def test_two_registers_for_two_axes(device):
    values = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    tile, dst = device.tile(values), device.empty((3, 1))
    i, j = nisa.register_alloc(2), nisa.register_alloc(4)
    nisa.tensor_copy(dst, tile[:, i, j])
    assert np.array_equal(dst.numpy()[:, 0], values[:, 2, 4])


@pytest.mark.parametrize("key", [lambda r: r, lambda r: nl.ds(r, 2)])
def test_the_partition_is_part_of_the_instruction(device, key):
    tile = device.tile(np.ones((4, 10), np.float32))
    with pytest.raises(KernelError, match="can't choose a partition"):
        tile[key(nisa.register_alloc(1))]


@pytest.mark.parametrize("start", [-3, 0, 5])
def test_a_register_is_the_offset_of_a_pattern(start):
    @nki.jit
    def kernel(x, number):
        at, columns = nisa.register_alloc(), x.shape[1]
        nisa.register_load(at, nl.load(number))
        out = nl.ndarray((2, *x.shape), nl.float32, buffer=nl.shared_hbm)
        counted, chosen = (nl.ndarray(x.shape, nl.float32) for _ in range(2))
        nisa.iota(counted, [[1, columns]], offset=at, channel_multiplier=2)
        nisa.affine_select(chosen, [[1, columns]], -1, nl.load(x), 7.0, nl.less, offset=at)
        nisa.dma_copy(out[0], counted)
        nisa.dma_copy(out[1], chosen)
        return out

    def wanted(start):
        along, down = start + np.arange(9), np.arange(4)[:, np.newaxis]
        return np.stack([along + 2 * down, np.where(along - down < 0, x, 7)])

    x = np.random.default_rng(0).standard_normal((4, 9)).astype(np.float32)
    run = neuroncore.run(kernel, x, np.array([[start]], np.int32), target="trn2")
    assert np.array_equal(run.results, wanted(start))
    assert np.array_equal(run.replay(x, np.array([[4]], np.int32)), wanted(4))
    assert run.verify().difference is None and run.estimate.seconds > 0
