"""bn_stats, bn_aggr, tensor_partition_reduce and tensor_scalar_cumulative."""

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from alu import TWO_OPERANDS, alu
from device import TARGETS, Device, converted, noise, same
from every import for_all
from hypothesis import given
from hypothesis import strategies as st

FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
SHAPES = [(1, 1), (3, 7), (128, 33), (96, 5, 3), (2, 512)]
COMMANDS = nisa.reduce_cmd


def flat(values):
    return values.reshape(len(values), -1)


# --- bn_stats -------------------------------------------------------------------------------------


def moments(values):
    """Count, mean and sum of squared deviations of even and of odd elements, in float64."""
    found = []
    for part in (flat(values)[:, 0::2], flat(values)[:, 1::2]):
        part = part.astype(np.float32).astype(np.float64)
        mean = part.mean(axis=1) if part.shape[1] else np.zeros(len(part))
        found += [np.full(len(part), part.shape[1]), mean, ((part.T - mean) ** 2).sum(axis=0)]
    return np.array(found).T


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", SHAPES)
@for_all("dtype", FLOATS + INTEGERS)
def test_moments_of_even_and_of_odd_elements(target, shape, dtype):
    device = Device(target)
    values = noise(shape, dtype, special=False)
    if dtype.startswith("float8"):
        values = np.clip(values.astype(np.float32), -200, 200).astype(dtype)
        values[np.isnan(values.astype(np.float32))] = 0
    dst = device.empty((shape[0], 6))
    device.issue("bn_stats", dst, device.tile(values))
    np.testing.assert_allclose(dst.numpy(), moments(values), rtol=1e-6, atol=1e-30)


def test_each_statistic_is_rounded_once():
    device = Device()
    values = np.float32([[1, 7, 2, 0, 4, 0, 1 + 2**-23]])
    dst = device.empty((1, 6))
    device.issue("bn_stats", dst, device.tile(values))
    same(dst.numpy(), moments(values).astype(np.float32))


def test_a_single_element_has_no_odd_part():
    device = Device()
    dst = device.empty((2, 6))
    device.issue("bn_stats", dst, device.tile(np.float32([[5], [-3]])))
    assert dst.numpy().tolist() == [[1, 5, 0, 0, 0, 0], [1, -3, 0, 0, 0, 0]]


def test_infinity_and_nan_stay_in_their_half():
    device = Device()
    dst = device.empty((1, 6))
    device.issue("bn_stats", dst, device.tile(np.float32([[np.inf, 1, 2, 3]])))
    assert dst.numpy().tolist()[0][:2] == [2, np.inf] and np.isnan(dst.numpy()[0, 2])
    assert dst.numpy()[0, 3:].tolist() == [2, 2, 2]


@pytest.mark.parametrize("buffer", ["sbuf", "psum"])
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_statistics_are_rounded_to_dst_through_strides(buffer, dtype):
    device = Device()
    values = noise((33, 20), special=False)
    tile, dst = device.tile(values, buffer=buffer), device.empty((33, 9), dtype, buffer)
    device.issue("bn_stats", dst[:, 2:8], tile[:, 1:20:3])
    want = moments(values[:, 1:20:3]).astype(np.float32)
    same(dst[:, 2:8].codes().copy().view(dst.dtype.numpy), converted(want, dtype))
    assert dst.unwritten().sum() == 33 * 3


# --- bn_aggr --------------------------------------------------------------------------------------


def aggregate(device, triples, dtype="float32", buffer="sbuf"):
    dst = device.empty((len(triples), 2), dtype, buffer)
    device.issue("bn_aggr", dst, device.tile(triples, buffer=buffer))
    return dst.numpy()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [1, 2, 511, 512, 513, 1024, 1300])
def test_mean_and_variance_of_pieces(target, size):
    device = Device(target)
    values = (noise((40, size), special=False) + 3).astype(np.float32)
    pieces = -(-size // 512)
    src, stats, dst = device.tile(values), device.empty((40, pieces, 6)), device.empty((40, 2))
    for i in range(pieces):
        device.issue("bn_stats", stats[:, i, :], src[:, 512 * i : min(size, 512 * i + 512)])
    device.issue("bn_aggr", dst, stats)
    exact = values.astype(np.float64)
    np.testing.assert_allclose(dst.numpy()[:, 0], exact.mean(axis=1), rtol=1e-6)
    np.testing.assert_allclose(dst.numpy()[:, 1], exact.var(axis=1), rtol=1e-6, atol=1e-12)


def test_counts_weigh_the_pieces():
    triples = np.float32([[1, 10, 0, 3, 2, 6, 0, 77, 0]])
    # 10 and three numbers of mean 2: mean 4; (6 + 36 + 3 * 4) / 4
    assert aggregate(Device(), triples).tolist() == [[4, 13.5]]


def test_of_nothing_there_is_no_mean():
    assert np.isnan(aggregate(Device(), np.zeros((1, 3), np.float32))).all()


@pytest.mark.parametrize("buffer", ["sbuf", "psum"])
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_results_are_rounded_to_dst(buffer, dtype):
    triples = np.float32([[2, 1.3, 0.7, 2, 4.6, 11.1], [1, 300, 0, 1, -299, 5]])
    n, mean, m2 = (triples[:, i::3].astype(np.float64) for i in range(3))
    total = (n * mean).sum(axis=1, keepdims=True) / n.sum(axis=1, keepdims=True)
    spread = (m2 + n * (mean - total) ** 2).sum(axis=1, keepdims=True)
    want = np.hstack([total, spread / n.sum(axis=1, keepdims=True)]).astype(np.float32)
    same(aggregate(Device(), triples, dtype, buffer), converted(want, dtype))


def test_triples_may_be_in_16_bits():
    triples = np.float32([[4, 2, 8, 4, 6, 0]]).astype("bfloat16")
    assert aggregate(Device(), triples).tolist() == [[4, 5]]


# --- tensor_partition_reduce ----------------------------------------------------------------------


def fold_rows(name, values):
    """Row by row from the first, in float32."""
    state = values[0].astype(np.float32)
    for row in values[1:].astype(np.float32):
        state = alu("maximum" if name == "maximum" else "add", state, row)
    return state / np.float32(len(values)) if name == "average" else state


@pytest.mark.parametrize("name", ["add", "average", "maximum"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (128, 33), (96, 5, 3), (33, 2, 3, 4)])
@for_all("dtype", FLOATS + INTEGERS)
def test_partitions_fold_from_the_first(name, shape, dtype):
    device = Device()
    values = noise(shape, dtype)
    dst = device.empty((1, *shape[1:]))
    device.issue("tensor_partition_reduce", dst, getattr(nl, name), device.tile(values))
    with np.errstate(all="ignore"):
        same(dst.numpy(), fold_rows(name, values)[np.newaxis])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_a_fold_is_rounded_to_dst(target, dtype):
    device = Device(target)
    values = noise((77, 12), special=False)
    dst = device.empty((1, 3, 4), dtype)
    device.issue("tensor_partition_reduce", dst, nl.add, device.tile(values))
    same(dst.numpy(), converted(fold_rows("add", values).reshape(1, 3, 4), dtype))


@pytest.mark.parametrize("name", ["bitwise_or", "bitwise_and"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits_fold_too(name, dtype):
    device = Device()
    values = noise((50, 6), dtype)
    dst = device.empty((1, 6), dtype)
    device.issue("tensor_partition_reduce", dst, getattr(nl, name), device.tile(values))
    assert np.array_equal(dst.numpy(), getattr(np, name).reduce(values, axis=0)[np.newaxis])


def test_a_fold_may_go_into_its_own_first_row():
    device = Device()
    tile = device.tile(np.arange(12, dtype=np.float32).reshape(4, 3))
    device.issue("tensor_partition_reduce", tile[0:1], nl.add, tile)
    assert tile.numpy()[0].tolist() == [18, 22, 26]


# --- tensor_scalar_cumulative ---------------------------------------------------------------------

START = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf}


def running(op0, op1, values, imm0, start):
    """Each step written out, in float32; the value is the left operand."""
    state = np.broadcast_to(np.float32(start), (len(values), 1))
    out = []
    for column in flat(values).astype(np.float32).T:
        state = alu(op1, alu(op0, column[:, None], np.float32(imm0)), state)
        out.append(state)
    return np.hstack(out).reshape(values.shape).astype(np.float32)


def cumulate(device, values, op0, op1, *args, dst="float32", buffer="sbuf", **more):
    tile = values if not isinstance(values, np.ndarray) else device.tile(values, buffer=buffer)
    out = device.empty(tile.shape, dst, buffer)
    ops = getattr(nl, op0), getattr(nl, op1)
    device.issue("tensor_scalar_cumulative", out, tile, *ops, *args, **more)
    return out.numpy()


@for_all("op1", START)
@pytest.mark.parametrize("op0", TWO_OPERANDS)
def test_values_run_up_from_left_to_right(op0, op1):
    values = noise((5, 12))
    with np.errstate(all="ignore"):
        want = running(op0, op1, values, 1.5, START[op1])
        same(cumulate(Device(), values, op0, op1, 1.5), want)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("buffer", ["sbuf", "psum"])
def test_a_number_for_each_partition(target, shape, buffer):
    device = Device(target)
    values, factor = noise(shape, special=False), noise((shape[0], 1), seed=1, special=False)
    got = cumulate(device, values, "multiply", "add", device.tile(factor), buffer=buffer)
    same(got, running("multiply", "add", values, factor, 0))


SHORT = (*FLOATS, *INTEGERS[:4])


@pytest.mark.parametrize("source", SHORT)
@for_all("dtype", SHORT)
def test_the_state_is_float32_whatever_dst_is(source, dtype):
    values = noise((4, 9), source, special=False)
    with np.errstate(all="ignore"):
        want = converted(running("add", "add", values, 0.3, 0), dtype)
    same(cumulate(Device(), values, "add", "add", 0.3, dst=dtype), want)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=5), st.sampled_from(sorted(START)))
def test_a_chain_of_pieces_is_one_run(sizes, op1):
    device = Device()
    values = noise((3, sum(sizes)), special=False)
    tile, parts, first = device.tile(values), [], 0
    for size in sizes:
        command = COMMANDS.reduce if first else COMMANDS.reset_reduce
        piece = tile[:, first : first + size]
        parts.append(cumulate(device, piece, "add", op1, 0.5, reduce_cmd=command))
        first += size
    with np.errstate(all="ignore"):
        same(np.hstack(parts), running("add", op1, values, 0.5, START[op1]))


@pytest.mark.parametrize("op1", START)
def test_a_run_may_start_from_given_values(op1):
    device = Device()
    values, start = noise((40, 6), special=False), noise((40, 1), seed=2, special=False)
    load = COMMANDS.load_reduce
    got = cumulate(device, values, "add", op1, 0.0, device.tile(start), reduce_cmd=load)
    same(got, running("add", op1, values, 0.0, start))
    got = cumulate(device, values, "add", op1, 0.0, 2.5, reduce_cmd=load)
    same(got, running("add", op1, values, 0.0, 2.5))


def test_a_start_is_ignored_by_other_commands():
    device = Device()
    values = noise((4, 6), special=False)
    whole = running("add", "add", np.hstack([values, values]), 0.0, 0.0)
    assert np.array_equal(cumulate(device, values, "add", "add", 0.0, 99.0), whole[:, :6])
    got = cumulate(device, values, "add", "add", 0.0, 99.0, reduce_cmd=COMMANDS.reduce)
    assert np.array_equal(got, whole[:, 6:])


def test_the_registers_are_those_of_other_instructions():
    device = Device()
    values = noise((8, 6), special=False)
    cumulate(device, values, "add", "maximum", 0.0)
    most, dst = device.empty((8, 1)), device.empty((8, 6))
    device.issue(
        "tensor_scalar_reduce", dst, device.tile(values - 1), nl.add, 0.0, nl.maximum, most,
        reduce_cmd=COMMANDS.reduce,
    )  # fmt: skip
    assert np.array_equal(most.numpy(), values.max(axis=1, keepdims=True))


def test_in_place():
    device = Device()
    values = noise((7, 5), special=False)
    tile = device.tile(values)
    device.issue("tensor_scalar_cumulative", tile, tile, nl.add, nl.subtract, 1.0)
    same(tile.numpy(), running("add", "subtract", values, 1.0, 0))
