"""bn_stats, bn_aggr, tensor_partition_reduce and tensor_scalar_cumulative."""

from itertools import product

import nki.isa as nisa
import nki.language as nl
import numpy as np
from alu import TWO_OPERANDS, UNARY_V4
from device import TARGETS, Device, noise
from every import for_all
from hypothesis import given
from hypothesis import strategies as st

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
SHAPES = [(1, 1), (3, 7), (33, 4), (9, 5, 3), (2, 70)]
COMMANDS = nisa.reduce_cmd


# --- bn_stats -------------------------------------------------------------------------------------


@for_all("target", TARGETS)
def test_moments_of_even_and_odd_elements(target):
    device = Device(target)
    for shape in SHAPES:
        data = noise(shape, special=False)
        dst = device.empty((shape[0], 6))
        device.issue("bn_stats", dst, device.tile(data))
        for n, part in enumerate(data.reshape(shape[0], -1)[:, i::2] for i in (0, 1)):
            if part.shape[1]:
                exact = part.astype(np.float64)
                want = np.stack([exact.mean(1), exact.var(1) * part.shape[1]], 1)
                got = dst.numpy()[:, 3 * n + 1 : 3 * n + 3]
                np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-30)
    device.agrees()


def test_a_single_element_has_no_odd_part():
    device = Device()
    dst = device.empty((2, 6))
    device.issue("bn_stats", dst, device.tile(np.float32([[5], [-3]])))
    assert dst.numpy().tolist() == [[1, 5, 0, 0, 0, 0], [1, -3, 0, 0, 0, 0]]


def test_infinity_and_nan_affect_only_their_half():
    device = Device()
    dst = device.empty((1, 6))
    device.issue("bn_stats", dst, device.tile(np.float32([[np.inf, 1, 2, 3]])))
    assert dst.numpy().tolist()[0][:2] == [2, np.inf] and np.isnan(dst.numpy()[0, 2])
    assert dst.numpy()[0, 3:].tolist() == [2, 2, 2]


# --- bn_aggr --------------------------------------------------------------------------------------


def aggregate(device, triples, dtype="float32"):
    dst = device.empty((len(triples), 2), dtype)
    device.issue("bn_aggr", dst, device.tile(triples))
    return dst.numpy()


@for_all("target", TARGETS)
def test_mean_and_variance_of_pieces(target):
    for size in (1, 2, 511, 512, 513, 1300):
        device = Device(target)
        data = (noise((5, size), special=False) + 3).astype(np.float32)
        pieces = -(-size // 512)
        src, stats, dst = device.tile(data), device.empty((5, pieces, 6)), device.empty((5, 2))
        for i in range(pieces):
            device.issue("bn_stats", stats[:, i, :], src[:, 512 * i : min(size, 512 * i + 512)])
        device.issue("bn_aggr", dst, stats)
        exact = data.astype(np.float64)
        np.testing.assert_allclose(dst.numpy()[:, 0], exact.mean(axis=1), rtol=1e-6)
        np.testing.assert_allclose(dst.numpy()[:, 1], exact.var(axis=1), rtol=1e-6, atol=1e-12)


def test_pieces_are_weighted_by_their_counts():
    triples = np.float32([[1, 10, 0, 3, 2, 6, 0, 77, 0]])
    # 10 and three numbers of mean 2: mean 4; (6 + 36 + 3 * 4) / 4
    assert aggregate(Device(), triples).tolist() == [[4, 13.5]]


def test_the_mean_of_no_elements_is_nan():
    assert np.isnan(aggregate(Device(), np.zeros((1, 3), np.float32))).all()


# --- tensor_partition_reduce ----------------------------------------------------------------------


def test_bits_are_reduced_too():
    device = Device()
    for name, dtype in product(("bitwise_or", "bitwise_and"), INTEGERS):
        data, dst = noise((50, 6), dtype), device.empty((1, 6), dtype)
        device.issue("tensor_partition_reduce", dst, getattr(nl, name), device.tile(data))
        assert np.array_equal(dst.numpy(), getattr(np, name).reduce(data, axis=0)[np.newaxis])


def test_a_fold_may_go_into_its_own_first_row():
    device = Device()
    tile = device.tile(np.arange(12, dtype=np.float32).reshape(4, 3))
    device.issue("tensor_partition_reduce", tile[0:1], nl.add, tile)
    assert tile.numpy()[0].tolist() == [18, 22, 26]


# --- tensor_scalar_cumulative ---------------------------------------------------------------------

RUNNING = ("add", "subtract", "multiply", "maximum", "minimum")


def cumulate(device, data, op0, op1, *args, dst="float32", **more):
    tile = device.tile(data) if isinstance(data, np.ndarray) else data
    out = device.empty(tile.shape, dst)
    ops = getattr(nl, op0), getattr(nl, op1)
    device.issue("tensor_scalar_cumulative", out, tile, *ops, *args, **more)
    return out.numpy()


@for_all("target", TARGETS)
def test_values_accumulate_from_left_to_right(target):
    device = Device(target)
    for op0, op1 in product(TWO_OPERANDS, RUNNING):
        cumulate(device, noise((3, 7)), op0, op1, 1.5)
    for op0, shape in product(UNARY_V4 if target == "trn3" else ("abs",), SHAPES):
        cumulate(device, noise(shape), op0, "add", 0)
        factor = device.tile(noise((shape[0], 1), seed=1, special=False))
        cumulate(device, noise(shape, special=False), "multiply", "add", factor)
    device.agrees()
    assert cumulate(device, np.float32([[1, 2, 3]]), "add", "subtract", 0.0).tolist() == [[1, 1, 2]]


@given(st.lists(st.integers(1, 20), min_size=1, max_size=5), st.sampled_from(RUNNING))
def test_a_chain_of_pieces_equals_one_instruction(sizes, op1):
    device = Device()
    data, parts, first = noise((3, sum(sizes)), special=False), [], 0
    for size in sizes:
        command = COMMANDS.reduce if first else COMMANDS.reset_reduce
        piece = data[:, first : first + size]
        parts.append(cumulate(device, piece, "add", op1, 0.5, reduce_cmd=command))
        first += size
    whole = cumulate(device, data, "add", op1, 0.5)
    np.testing.assert_array_equal(np.hstack(parts), whole)


def test_a_run_may_start_from_given_values_and_other_commands_ignore_them():
    device = Device()
    data, start = noise((9, 6), special=False), noise((9, 1), seed=2, special=False)
    for op1 in RUNNING:
        for first in (device.tile(start), 2.5):
            for command in (COMMANDS.load_reduce, COMMANDS.reset_reduce, COMMANDS.reduce):
                cumulate(device, data, "add", op1, 0.0, first, reduce_cmd=command)
    device.agrees()


def test_the_registers_are_shared_with_other_instructions():
    device = Device()
    data = noise((8, 6), special=False)
    cumulate(device, data, "add", "maximum", 0.0)
    most, dst = device.empty((8, 1)), device.empty((8, 6))
    device.issue(
        "tensor_scalar_reduce", dst, device.tile(data - 1), nl.add, 0.0, nl.maximum, most,
        reduce_cmd=COMMANDS.reduce,
    )  # fmt: skip
    assert np.array_equal(most.numpy(), data.max(axis=1, keepdims=True))
