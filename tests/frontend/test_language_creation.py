"""nki.language: functions that create, move, multiply, transpose and select tensors, and their
instructions."""

import math
import re

import ml_dtypes
import nki
import nki.language as nl
import numpy as np
import pytest
from device import REGIONS, TARGETS, Device, called
from every import for_all

from neuroncore.base.errors import (
    BufferKindError,
    DtypeError,
    OutsideKernelError,
    PartitionLimitError,
    ShapeError,
    SignatureError,
    ViewError,
)
from neuroncore.clause.instruction import INSTRUCTIONS

SHAPES = ((1, 1), (3, 7), (128, 33), (96, 5, 3))
DTYPES = ("float32", "bfloat16", "float16", "float8_e4m3", "int32", "uint8", "int16", "bool")


def normal(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(dtype)


# --- making tensors -------------------------------------------------------------------------------


@for_all("shape", SHAPES)
@for_all("dtype", DTYPES)
def test_constants_fill_every_memory(dtype, shape):
    for region, opcodes in (
        (nl.sbuf, ["MEMSET"]),
        (nl.psum, ["MEMSET"]),
        (nl.shared_hbm, ["MEMSET", "DMA_DIRECT2D"]),
        (nl.private_hbm, ["MEMSET", "DMA_DIRECT2D"]),
    ):
        for function, value in ((nl.zeros, 0), (nl.ones, 1)):
            device, tensor = made(function, shape, dtype, buffer=region)
            np.testing.assert_array_equal(tensor.numpy(), np.full(shape, value, dtype))
            assert device.opcodes == opcodes


def made(function, *args, **options):
    """Return a core, and the tensor that a function creates on it."""
    device = Device()
    return device, device.call(function, *args, **options)


def test_full_rounds_floats_and_refuses_fractions_of_integers():
    tile = made(nl.full, (2, 3), 0.3, nl.bfloat16)[1]
    np.testing.assert_array_equal(tile.numpy(), np.full((2, 3), 0.3, ml_dtypes.bfloat16))
    with pytest.raises(DtypeError, match="but int8 holds only integers"):
        made(nl.full, (2, 3), 0.3, nl.int8)


def test_a_tensor_of_one_axis_gets_a_second_axis_only_on_the_chip():
    assert made(nl.zeros, (5,), nl.float32)[1].shape == (5, 1)
    assert made(nl.zeros, 5, nl.float32)[1].shape == (5, 1)
    assert made(nl.zeros, (5,), nl.float32, buffer=nl.hbm)[1].shape == (5,)
    assert made(nl.ndarray, [2, 3], nl.float32)[1].shape == (2, 3)


@pytest.mark.parametrize("dtype", [nl.bfloat16, "bfloat16", ml_dtypes.bfloat16, np.int8, bool])
def test_a_dtype_is_a_name_or_a_numpy_type_or_a_format(dtype):
    form = made(nl.ndarray, (2, 2), dtype)[1].dtype
    assert form == np.dtype(dtype).name
    assert np.dtype(form) == np.dtype(dtype)
    assert isinstance(form, str)


@for_all("dtype", ["float64", np.int64, int, float, "float33", None, 3])
def test_a_dtype_no_engine_knows_is_refused(dtype):
    with pytest.raises(SignatureError) as caught:
        made(nl.ndarray, (2, 2), dtype)
    assert "not a NeuronCore number format" in str(caught.value)


@pytest.mark.parametrize("shape", [(), (2, -1), (2, 1.5), "ab", None])
def test_invalid_shapes_of_tensors_are_refused(shape):
    with pytest.raises(SignatureError, match="is not a shape"):
        made(nl.ndarray, shape, nl.float32)


def test_a_tensor_needs_a_memory_partitions_and_a_core():
    with pytest.raises(SignatureError, match="'sbuf' is not a memory"):
        made(nl.ndarray, (2, 2), nl.float32, buffer="sbuf")
    with pytest.raises(PartitionLimitError, match="129 partitions"):
        made(nl.zeros, (129, 1), nl.float32)
    with pytest.raises(OutsideKernelError):
        nl.ndarray((2, 2), nl.float32)


def test_like_functions_use_shape_format_and_memory_of_a_tensor():
    device = Device()
    for buffer in REGIONS:
        like = device.tile(normal(3, 7, dtype=np.float16), buffer=buffer)
        for function in (nl.zeros_like, nl.empty_like):
            made = device.call(function, like)
            assert (made.shape, made.dtype, made.buffer) == ((3, 7), "float16", REGIONS[buffer])
        assert not device.call(nl.zeros_like, like).numpy().any()
        other = device.call(nl.empty_like, like, dtype=nl.int8, buffer=nl.psum, name="other")
        assert (other.dtype, other.buffer, other.name) == ("int8", nl.psum, "other")


def test_memories_can_be_distinguished():
    questions = (nl.is_sbuf, nl.is_psum, nl.is_hbm, nl.is_on_chip)
    assert {region: tuple(ask(region) for ask in questions) for region in nl.MemoryRegion} == {
        nl.sbuf: (True, False, False, True),
        nl.psum: (False, True, False, True),
        nl.private_hbm: (False, False, True, False),
        nl.shared_hbm: (False, False, True, False),
    }
    assert nl.hbm is nl.private_hbm
    assert nl.is_psum(made(nl.zeros, (2, 2), nl.float32, buffer=nl.psum)[1])


# --- moving them ----------------------------------------------------------------------------------


@for_all("shape", [*SHAPES, (5,), (2, 3, 4, 5)])
def test_loaded_and_stored_data_is_unchanged(shape):
    values = np.frombuffer(np.random.default_rng(0).bytes(4 * math.prod(shape)), np.float32)
    device = Device()
    source = device.tile(values.reshape(shape), buffer="hbm")
    tile = device.call(nl.load, source)
    assert tile.buffer is nl.sbuf
    target = device.empty(shape, buffer="hbm")
    device.call(nl.store, target, tile)
    assert target.numpy().tobytes() == values.tobytes()
    assert device.opcodes == ["DMA_DIRECT2D", "DMA_DIRECT2D"]


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.int32])
def test_a_load_converts(dtype):
    values = 10 * normal(3, 7)
    want = np.rint(values).astype(dtype) if dtype is np.int32 else values.astype(dtype)
    got, _ = called(nl.load, values, dtype=dtype, tiles_in="hbm")
    np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


def test_a_strided_view_of_hbm_is_loaded_and_stored():
    device, values = Device(), normal(6, 10)
    source, target = device.tile(values, buffer="hbm"), device.tile(0 * values, buffer="hbm")
    device.call(nl.store, target[1::2, 3:9:3], device.call(nl.load, source[::2, 2:8:3]))
    want = 0 * values
    want[1::2, 3:9:3] = values[::2, 2:8:3]
    np.testing.assert_array_equal(target.numpy(), want)


def test_psum_is_not_stored_directly_and_nothing_is_written():
    device = Device()
    tile = device.tile(normal(3, 7), buffer="psum")
    target = device.tile(normal(3, 7, seed=1), buffer="hbm")
    with pytest.raises(BufferKindError, match="store: the value is in psum") as caught:
        device.call(nl.store, target, tile)
    assert "nl.copy" in caught.value.hint
    np.testing.assert_array_equal(target.numpy(), normal(3, 7, seed=1))
    device.call(nl.store, target, device.call(nl.copy, tile))
    np.testing.assert_array_equal(target.numpy(), normal(3, 7))


def test_constants_of_the_host_reach_hbm_from_arrays_and_files(tmp_path):
    values = np.arange(6, dtype=np.int16).reshape(2, 3).T
    np.save(tmp_path / "constant.npy", values)
    for constant in (values, tmp_path / "constant.npy", str(tmp_path / "constant.npy")):
        device, tensor = made(nl.shared_constant, constant)
        assert tensor.buffer is nl.shared_hbm
        np.testing.assert_array_equal(tensor.numpy(), values)
        assert device.opcodes == []
    with pytest.raises(SignatureError, match="float64"):
        made(nl.shared_constant, np.arange(3.0))


def test_a_shared_constant_is_a_copy_of_the_array():
    values = np.zeros((2, 2), np.float32)
    _, tensor = made(nl.shared_constant, values)
    values[:] = 1
    assert not tensor.numpy().any()


@pytest.mark.parametrize("dtype", ["uint8", "float32", "bfloat16", "float8_e5m2"])
def test_the_identity_is_a_tile_of_any_format(dtype):
    device, tile = made(nl.shared_identity_matrix, 5, dtype)
    np.testing.assert_array_equal(tile.numpy(), np.eye(5).astype(dtype))
    assert tile.buffer is nl.sbuf and device.opcodes == ["DMA_DIRECT2D"]
    into = device.empty((5, 5), dtype)
    assert device.call(nl.shared_identity_matrix, 5, dtype, dst=into) is into
    np.testing.assert_array_equal(into.numpy(), np.eye(5).astype(dtype))


@pytest.mark.parametrize(
    "n,error", [(-1, SignatureError), ("5", SignatureError), (129, PartitionLimitError)]
)
def test_the_size_of_an_identity_is_checked_like_the_size_of_a_tile(n, error):
    with pytest.raises(error):
        made(nl.shared_identity_matrix, n)
    device = Device()
    with pytest.raises((error, ShapeError)):  # a tile of the kernel has no room for 129 rows
        device.call(nl.shared_identity_matrix, n, nl.float32, device.zeros((5, 5)))


# --- products, transposes, choices ----------------------------------------------------------------


@for_all("target", TARGETS)
@for_all("dtype", [np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2])
def test_matmul_multiplies_with_and_without_a_transpose(dtype, target):
    x, y = normal(33, 96, dtype=dtype), normal(96, 130, dtype=dtype, seed=1)
    want = x.astype(np.float64) @ y.astype(np.float64)
    got, opcodes = called(nl.matmul, x, y, target=target)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)
    assert got.dtype == np.float32 and opcodes == ["MATMUL", "COPY", "MATMUL"]
    turned = np.ascontiguousarray(x.T)
    again, opcodes = called(nl.matmul, turned, y, transpose_x=True, target=target)
    np.testing.assert_array_equal(again, got)
    assert opcodes == ["MATMUL"]


def test_a_product_of_tiles_that_do_not_fit_is_refused():
    with pytest.raises(ShapeError):
        called(nl.matmul, normal(3, 4), normal(5, 6))


@for_all("dtype", ["float32", "bfloat16", "float16", "float8_e4m3"])
@for_all("shape", [(1, 1), (3, 7), (128, 33), (33, 128)])
def test_a_transpose_is_exact_and_its_result_is_in_psum(dtype, shape):
    x = normal(*shape, dtype=dtype)
    device = Device()
    turned = device.call(nl.transpose, device.tile(x))
    np.testing.assert_array_equal(turned.numpy(), x.T)
    assert turned.buffer is nl.psum and device.opcodes == ["MATMUL"]


def test_a_transpose_converts_its_result_and_reads_psum_through_sbuf():
    x = normal(3, 7)
    got, opcodes = called(nl.transpose, x, dtype=nl.bfloat16)
    np.testing.assert_array_equal(got, x.T.astype(ml_dtypes.bfloat16))
    assert opcodes == ["MATMUL", "COPY"]
    got, opcodes = called(nl.transpose, x, tiles_in="psum")
    np.testing.assert_array_equal(got, x.T)
    assert opcodes == ["COPY", "MATMUL"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_where_selects_by_zero_and_nonzero(dtype):
    x, y = normal(3, 7, dtype=dtype), normal(3, 7, dtype=dtype, seed=1)
    condition = np.resize(np.array([0, 1, -0.0, -3, np.nan, 1e-30], np.float32), (3, 7))
    got, opcodes = called(nl.where, condition, x, y)
    np.testing.assert_array_equal(got, np.where(condition != 0, x, y))
    assert opcodes == ["TENSOR_SCALAR", "COPY", "TENSOR_COPY_PREDICATED"]
    mask = (condition != 0).astype(np.uint8)
    np.testing.assert_array_equal(called(nl.where, mask, x, y)[0], got)


@pytest.mark.parametrize(("argument", "number"), [("condition", True), ("x", 1.0), ("y", 0.0)])
def test_where_names_an_argument_that_is_a_number(argument, number):
    arguments = dict.fromkeys(("condition", "x", "y"), Device().tile(normal(3, 7)))
    with pytest.raises(SignatureError, match=f"{number} is not a tile") as refusal:
        Device().call(nl.where, **{**arguments, argument: number})
    assert refusal.value.argument == argument


def test_where_converts_both_sides():
    x, y = normal(3, 7, dtype=np.float16), normal(3, 7, seed=1)
    condition = np.resize(np.array([0, 1], np.float32), (3, 7))
    got, _ = called(nl.where, condition, x, y, dtype=nl.float32)
    np.testing.assert_array_equal(got, np.where(condition, x.astype(np.float32), y))


@for_all(
    ("shape", "wide", "opcodes"),
    [
        ((33, 1), (33, 9), ["COPY"]),
        ((96, 1, 3), (96, 5, 3), ["COPY"]),
        ((1, 5), (40, 5), ["NC_STREAM_SHUFFLE"] * 2),
        ((1, 1), (128, 6), ["NC_STREAM_SHUFFLE"] * 4),
        ((1, 1, 4), (70, 3, 4), ["NC_STREAM_SHUFFLE"] * 3),
        ((3, 7), (3, 7), []),
    ],
)
def test_broadcasting_repeats_along_free_axes_and_across_partitions(shape, wide, opcodes):
    for dtype in ("float32", "bfloat16", "int8"):
        x = (4 * normal(*shape)).astype(dtype)
        got, became = called(nl.broadcast_to, x, wide)
        np.testing.assert_array_equal(got, np.broadcast_to(x, wide))
        assert became == opcodes


def test_broadcasting_to_an_incompatible_shape_is_refused():
    for wide in ((6, 7), (3, 3, 7), (3,), (3, 14)):
        with pytest.raises(ShapeError, match="can't be broadcast"):
            called(nl.broadcast_to, normal(3, 7), wide)
    with pytest.raises(PartitionLimitError):
        called(nl.broadcast_to, normal(1, 7), (129, 7))


@for_all("first", [0, 5, 32, 127])
@for_all("wide", [(128, 7), (40, 7)])
def test_a_row_of_any_partition_is_broadcast(first, wide):
    @nki.jit
    def kernel(x):
        out = nl.ndarray(wide, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.broadcast_to(nl.load(x)[first : first + 1, :], wide))
        return out

    x = normal(128, 7)
    np.testing.assert_array_equal(kernel(x), np.broadcast_to(x[first], wide))


def test_a_new_axis_is_a_view_but_never_the_partition():
    x = normal(3, 7)
    for axis, shape in ((1, (3, 1, 7)), (2, (3, 7, 1)), (-1, (3, 7, 1))):
        got, opcodes = called(nl.expand_dims, x, axis)
        np.testing.assert_array_equal(got, x.reshape(shape))
        assert opcodes == []
    with pytest.raises(ViewError, match="can't change axis 0"):
        called(nl.expand_dims, x, 0)


# --- instructions of each function ----------------------------------------------------------------

ONE = "abs ceil copy cos exp floor log logical_not negative reciprocal relu sin sqrt tan trunc"
TWO = "add divide equal maximum multiply power subtract"
CALLS = {
    **{name: ((3, 7),) for name in ONE.split()},
    **{name: ((3, 7), (3, 7)) for name in TWO.split()},
    **{name: ((3, 7), 1) for name in ("sum", "prod", "max", "min", "all", "mean", "var")},
    "broadcast_to": ((1, 7), [40, 7]),
    "load": ((3, 7),),
    "matmul": ((3, 7), (7, 4)),
    "rms_norm": ((3, 7), (3, 7), 1, 7),
    "softmax": ((3, 7),),
    "transpose": ((3, 7),),
    "where": ((3, 7), (3, 7), (3, 7)),
    "full": ([3, 7], 1, "int8", nl.shared_hbm),
    "zeros": ([3, 7], "int8", nl.shared_hbm),
    "ones": ([3, 7], "int8", nl.shared_hbm),
    "shared_identity_matrix": (3,),
}


def instructions_in(text):
    """Return the instructions that a docstring names, including those of functions that it refers
    to."""
    named = set(re.findall(r"\w+", text)) & set(INSTRUCTIONS)
    for other in re.findall(r"nl\.(\w+)", text):
        named |= instructions_in(getattr(nl, other).__doc__)
    return named


@for_all("name", CALLS)
def test_a_function_issues_the_instructions_that_its_docstring_names(name):
    function, device = getattr(nl, name), Device()
    buffer = "hbm" if name == "load" else "sbuf"
    arguments = [
        device.tile(np.abs(normal(*a)) + 0.5, buffer=buffer) if isinstance(a, tuple) else a
        for a in CALLS[name]
    ]
    device.call(function, *arguments)
    issued = {call.instruction.name for call in device.core.program.calls}
    assert issued and issued <= instructions_in(function.__doc__)


@pytest.mark.parametrize("dtype", [nl.int8, nl.float32, nl.bfloat16])
def test_the_identity_function_of_releases_before_0_3(dtype):
    got = made(nl.shared_constant, nki.tensor.identity(5, dtype))[1]
    assert got.dtype == dtype and np.array_equal(got.numpy(), np.eye(5).astype(got.numpy().dtype))
