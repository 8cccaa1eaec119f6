"""The accumulator registers of the Scalar and the Vector engine, one per lane. activation,
activation_reduce, tensor_scalar_reduce and select_reduce use them for sums."""

from itertools import product

import nki.language as nl
import numpy as np
import pytest
from device import Device, noise
from hypothesis import given
from hypothesis import strategies as st
from nki.isa import reduce_cmd

from neuroncore.base.errors import ShapeError

IDLE, RESET, REDUCE = reduce_cmd.idle, reduce_cmd.reset, reduce_cmd.reduce
RESET_REDUCE, LOAD_REDUCE = reduce_cmd.reset_reduce, reduce_cmd.load_reduce
REDUCTIONS = ("add", "multiply", "maximum", "minimum")


def summed(device, data, command, result=True, **options):
    """Issue activation(copy) with a command; return the contents of the registers if `result` is
    set."""
    tile = data if not isinstance(data, np.ndarray) else device.tile(data)
    res = device.empty((tile.shape[0], 1)) if result else None
    dst = device.empty(tile.shape)
    device.issue(
        "activation", dst, nl.copy, tile, reduce_op=nl.add, reduce_res=res, reduce_cmd=command,
        **options,
    )  # fmt: skip
    return res.numpy() if result else None


# --- activation -----------------------------------------------------------------------------------


@pytest.mark.parametrize("repeats", [False, True])
def test_a_sum_has_all_elements_even_if_dst_repeats_one_place(repeats):
    device, data = Device(), np.arange(15, dtype=np.float32).reshape(5, 3)
    res = device.empty((5, 1))
    dst = device.empty((5, 1 if repeats else 3))
    view = dst.broadcast(1, 3) if repeats else dst
    command = {"reduce_op": nl.add, "reduce_res": res, "reduce_cmd": RESET_REDUCE}
    device.issue("activation", view, nl.copy, device.tile(data), **command)
    device.agrees()


@pytest.mark.parametrize(("rows", "start"), [(64, 0), (32, 64), (5, 96)])
def test_registers_beyond_those_of_data_may_be_read_out_too(rows, start):
    device, lanes = Device(), 128 - start
    tile = device.tile(noise((128, 7), special=False))[start : start + rows]
    res, dst = device.empty((lanes, 1)), device.empty(tile.shape)
    command = {"reduce_op": nl.add, "reduce_cmd": RESET_REDUCE}
    device.issue("activation", dst, nl.copy, tile, reduce_res=res, **command)
    device.agrees()
    assert np.isnan(res.numpy()[rows:]).all() and device.findings == ["UNINIT_READ"]
    for count in (rows - 1, lanes + 1):
        if 0 < count <= 128:
            wrong = device.empty((count, 1))
            device.refuses(
                ShapeError, "activation", dst, nl.copy, tile, reduce_res=wrong, **command,
                words=["reduce_res has"],
            )  # fmt: skip


def test_terms_of_a_sum_are_not_rounded_to_dst():
    device, data = Device(), np.full((1, 4), 1.001, np.float32)
    dst, res = device.empty((1, 4), "bfloat16"), device.empty((1, 1))
    device.issue("activation_reduce", dst, nl.copy, device.tile(data), nl.add, res)
    assert dst.numpy().astype(np.float32).tolist() == [[1] * 4] and res.numpy() > 4


def test_the_commands_of_activation():
    device = Device()
    ones = np.ones((3, 4), np.float32)
    assert summed(device, ones, RESET_REDUCE).tolist() == [[4]] * 3
    assert summed(device, 2 * ones, REDUCE).tolist() == [[12]] * 3
    assert summed(device, 9 * ones, IDLE).tolist() == [[12]] * 3  # only read out
    assert summed(device, ones[:, :3], REDUCE, result=False) is None
    assert summed(device, ones, IDLE).tolist() == [[15]] * 3
    assert summed(device, ones, RESET).tolist() == [[0]] * 3
    assert summed(device, ones, REDUCE).tolist() == [[4]] * 3


@given(
    st.lists(st.sampled_from([RESET, REDUCE, RESET_REDUCE, IDLE]), max_size=8), st.integers(0, 9)
)
def test_any_sequence_of_commands(commands, seed):
    device = Device()
    for i, command in enumerate([RESET, *commands]):
        summed(device, noise((5, 1 + i), seed=seed + i, special=False), command)
    device.agrees()


def test_registers_that_were_never_reset_are_nan():
    for command in (IDLE, REDUCE):
        assert np.isnan(summed(Device(), np.ones((3, 4), np.float32), command)).all()


def test_an_activation_without_a_command_leaves_the_registers_alone():
    device = Device()
    ones = np.ones((3, 4), np.float32)
    summed(device, ones, RESET_REDUCE, result=False)
    device.issue("activation", device.empty((3, 4)), nl.exp, device.tile(ones))
    assert summed(device, ones, REDUCE).tolist() == [[8]] * 3


def test_activation_reduce_leaves_its_sum_in_the_registers():
    device = Device()
    ones = device.tile(np.ones((3, 4), np.float32))
    device.issue("activation_reduce", device.empty((3, 4)), nl.copy, ones, nl.add, None)
    assert summed(device, ones, REDUCE).tolist() == [[8]] * 3


def test_each_lane_has_a_separate_register():
    device = Device()
    rows = np.arange(128, dtype=np.float32).reshape(128, 1)
    data = device.tile(rows)
    for start in (0, 32, 64, 96):
        summed(device, data[start : start + 32], RESET_REDUCE, result=False)
    for start in (96, 0, 64, 32):
        got = summed(device, data[start : start + 32], REDUCE)
        assert np.array_equal(got, 2 * rows[start : start + 32])
    assert np.array_equal(summed(device, data, IDLE), 2 * rows)
    assert summed(device, data[:7], RESET_REDUCE).tolist() == rows[:7].tolist()
    assert np.array_equal(summed(device, data, IDLE)[7:], 2 * rows[7:])


@pytest.mark.parametrize("start", [0, 32, 64, 96])
def test_the_lane_of_a_register_is_the_lane_of_the_input(start):
    device = Device()
    data = device.tile(np.full((32, 2), 3, np.float32), address=(start, 0))
    dst, res = device.empty((32, 2), address=(96, 64)), device.empty((32, 1), address=(32, 128))
    device.issue("activation_reduce", dst, nl.copy, data, nl.add, res)
    assert (res.numpy() == 6).all()
    assert (summed(device, data, IDLE) == 6).all()
    other = device.tile(np.ones((32, 2), np.float32), address=((start + 32) % 128, 256))
    assert np.isnan(summed(device, other, IDLE)).all()


def test_the_sum_may_go_into_dst_or_data():
    device = Device()
    for column, into in product((0, 3), ("dst", "data")):
        tiles = {"dst": device.empty((9, 5)), "data": device.tile(noise((9, 5)))}
        res = tiles[into][:, column : column + 1]
        device.issue("activation_reduce", op=nl.abs, reduce_op=nl.add, reduce_res=res, **tiles)
    device.agrees()


# --- tensor_scalar_reduce -------------------------------------------------------------------------


def scalar_reduce(device, data, op0, operand0, reduce_op, dtype="float32", **options):
    """Return dst and the reduction."""
    tile = device.tile(data)
    dst, res = device.empty(data.shape, dtype), device.empty((len(data), 1))
    options = {k: device.tile(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    operand0 = device.tile(operand0) if isinstance(operand0, np.ndarray) else operand0
    device.issue(
        "tensor_scalar_reduce", dst, tile, getattr(nl, op0), operand0, getattr(nl, reduce_op), res,
        **options,
    )  # fmt: skip
    assert device.findings == []
    return dst.numpy(), res.numpy()


def test_the_commands_of_tensor_scalar_reduce():
    device = Device()
    parts = [noise((9, n), seed=n, special=False) for n in (5, 3, 8)]
    for reduce_op in REDUCTIONS:
        call = "multiply", 1.0, reduce_op
        scalar_reduce(device, parts[0], *call)
        scalar_reduce(device, parts[1], *call, reduce_cmd=REDUCE)
        for start in (0.75, noise((9, 1), seed=9, special=False)):
            loaded = {"reduce_cmd": LOAD_REDUCE, "reduce_init": start}
            scalar_reduce(device, parts[2], *call, **loaded)
    device.agrees()


def test_negating_the_result_does_not_change_the_registers():
    device = Device()
    ones = np.ones((3, 4), np.float32)
    call = ones, "add", 0.0, "add"
    assert scalar_reduce(device, *call, reduce_res_negate=True)[1].tolist() == [[-4]] * 3
    assert scalar_reduce(device, *call, reduce_cmd=REDUCE)[1].tolist() == [[8]] * 3


def test_a_reduction_may_stay_in_the_registers():
    device = Device()
    x = device.tile(np.ones((3, 4), np.float32))
    device.issue("tensor_scalar_reduce", device.empty((3, 4)), x, nl.add, 1.0, nl.add)
    got = scalar_reduce(device, np.ones((3, 2), np.float32), "add", 0.0, "add", reduce_cmd=REDUCE)
    assert got[1].tolist() == [[10]] * 3


# --- the registers of the Vector engine are shared ------------------------------------------------


def selected(device, data, command, result=True):
    res = device.empty((len(data), 1)) if result else None
    ones = device.tile(np.ones(data.shape, np.uint8))
    given = device.empty(data.shape), ones, device.tile(data), 0.0, res
    device.issue("select_reduce", *given, reduce_cmd=command)
    return res.numpy() if result else None


def test_select_continues_what_tensor_scalar_reduce_began():
    device, data = Device(), noise((9, 5), special=False)
    scalar_reduce(device, data, "add", 0.0, "maximum")
    selected(device, noise((9, 8), seed=1, special=False), REDUCE)
    assert (selected(device, data - 1e6, RESET_REDUCE) < -1e5).all()
    device.agrees()


def test_an_idle_select_may_overwrite_the_registers():
    device, data = Device(), noise((9, 5), special=False)
    selected(device, data, RESET_REDUCE)
    assert np.isnan(selected(device, data, IDLE)).all()
    assert np.isnan(selected(device, data, REDUCE)).all()
    selected(device, data, RESET_REDUCE)
    device.agrees()


def test_the_two_engines_have_separate_registers():
    device = Device()
    ones = np.ones((3, 4), np.float32)
    summed(device, ones, RESET_REDUCE, result=False)
    scalar_reduce(device, 5 * ones, "add", 0.0, "add")
    assert summed(device, ones, IDLE).tolist() == [[4]] * 3
    selected(device, ones, IDLE)
    assert summed(device, ones, REDUCE).tolist() == [[8]] * 3


def test_vector_registers_belong_to_lanes_too():
    device = Device()
    data = device.tile(np.repeat(np.arange(128, dtype=np.float32), 2).reshape(128, 2))
    for start, command in ((0, RESET_REDUCE), (64, RESET_REDUCE), (0, REDUCE), (64, REDUCE)):
        part, res = data[start : start + 64], device.empty((64, 1))
        device.issue(
            "tensor_scalar_reduce", device.empty((64, 2)), part, nl.add, 0.0, nl.add, res,
            reduce_cmd=command,
        )  # fmt: skip
        times = 2 if command is RESET_REDUCE else 4
        assert np.array_equal(res.numpy()[:, 0], times * np.arange(start, start + 64))


@pytest.mark.parametrize("command", [{}, {"reduce_cmd": 0}])
def test_uninitialized_registers_are_reported(command):
    device = Device()
    res = device.empty((3, 1))
    tiles = device.empty((3, 4)), nl.copy, device.tile(noise((3, 4)))
    device.issue("activation", *tiles, reduce_op=nl.add, reduce_res=res, **command)
    assert device.findings == ["UNINIT_READ"]
    assert np.isnan(res.numpy()).all()
