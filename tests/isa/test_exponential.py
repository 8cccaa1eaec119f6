"""exponential and activate2, the instructions that v4 adds to the Vector and the Scalar engine."""

from itertools import product

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import nki.language as nl
import numpy as np
import pytest
from device import Device, noise, same
from hypothesis import given
from hypothesis import strategies as st
from nki.isa import reduce_cmd

from neuroncore.clause.alu import FUNCTIONS

FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32")
IDLE, RESET, REDUCE = reduce_cmd.idle, reduce_cmd.reset, reduce_cmd.reduce
RESET_REDUCE, LOAD_REDUCE = reduce_cmd.reset_reduce, reduce_cmd.load_reduce


def column(shape, seed=1):
    return noise((shape[0], 1), seed=seed, special=False)


# --- exponential ----------------------------------------------------------------------------------


def exponential(device, values, *args, dst="float32", buffer="sbuf", **more):
    tile = values if not isinstance(values, np.ndarray) else device.tile(values, buffer=buffer)
    out = device.empty(tile.shape, dst, buffer)
    device.issue("exponential", out, tile, *args, **more)
    return out.numpy()


def test_special_values():
    got = exponential(Device("trn3"), np.float32([[0, -0.0, np.inf, -np.inf, np.nan, 89, -104]]))
    same(got, np.float32([[1, 1, np.inf, 0, np.nan, np.inf, 0]]))


def sum_of(device, values):
    """Return ((x0 + x1) + x2) ... of each row, added like in an activation; the plain reading is
    compared with it."""
    total, tile = device.empty((len(values), 1)), device.tile(values)
    sums = {"reduce_op": nl.add, "reduce_res": total, "reduce_cmd": RESET_REDUCE}
    device.issue("activation", device.empty(tile.shape), nl.copy, tile, **sums)
    return total.numpy()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_sum_is_computed_before_rounding(dtype):
    device, numbers = Device("trn3"), np.minimum(noise((9, 40), special=False), 5)
    total, full = device.empty((9, 1)), exponential(device, numbers)
    exponential(device, numbers, dst=dtype, reduce_res=total, reduce_cmd=RESET_REDUCE)
    same(total.numpy(), sum_of(device, full))
    device.agrees()


@given(st.lists(st.integers(1, 30), min_size=1, max_size=5))
def test_a_sum_continues_through_several_instructions(sizes):
    device = Device("trn3")
    tile = device.tile(np.minimum(noise((5, sum(sizes)), special=False), 5))
    total, full, first = device.empty((5, 1)), exponential(device, tile), 0
    for size in sizes:
        command = REDUCE if first else RESET_REDUCE
        exponential(device, tile[:, first : first + size], 0.0, total, command, dst="bfloat16")
        first += size
    same(total.numpy(), sum_of(device, full))


def test_a_sum_may_start_from_given_values():
    device, start = Device("trn3"), column((33,))
    numbers = np.minimum(noise((33, 6), special=False), 5)
    total, full = device.empty((33, 1)), exponential(device, numbers)
    for init, first in ((device.tile(start), start), (2.5, np.full((33, 1), 2.5, np.float32))):
        exponential(device, numbers, 0.0, total, LOAD_REDUCE, init)
        same(total.numpy(), sum_of(device, np.hstack([first, full])))
    device.agrees()


def test_idle_leaves_undefined_registers():
    device = Device("trn3")
    values, total = noise((4, 6), special=False), device.empty((4, 1))
    exponential(device, values, reduce_cmd=RESET_REDUCE)
    exponential(device, values)
    exponential(device, values, 0.0, total, REDUCE)
    assert np.isnan(total.numpy()).all()


def test_four_exponentials_take_a_cycle():
    def busy(size):
        device = Device("trn3")
        device.issue("exponential", device.zeros((4, size)), device.zeros((4, size)))
        (call,) = device.core.program.calls
        return call.instruction.cost(call, device.core.machine).busy_ns

    clock = Device("trn3").core.machine.engines["vector"].clock_ghz
    assert busy(5000) - busy(1000) == pytest.approx(4000 / 4 / clock)


# --- activate2 ------------------------------------------------------------------------------------

STEPS = (
    ("multiply", "add"),
    ("multiply", "subtract"),
    ("multiply", "bypass"),
    ("add", "bypass"),
    ("subtract", "bypass"),
    ("bypass", "bypass"),
)
FOLDS = ("add", "maximum", "minimum", "abs_max", "abs_min")


def activate(device, values, op, imm0, imm1, op0, op1, *args, dst="float32", **more):
    tile = values if not isinstance(values, np.ndarray) else device.tile(values)
    out = device.empty(tile.shape, dst)
    ops = getattr(nl, op0), getattr(nl, op1)
    device.issue("activate2", out, getattr(nl, op), tile, imm0, imm1, *ops, *args, **more)
    return out.numpy()


def test_two_operators_precede_any_function():
    device = Device("trn3")
    columns = device.tile(column((5,))), device.tile(column((5,), 2))
    for ops, *turned in product(STEPS, (False, True), (False, True)):
        if any(turn and name == "bypass" for turn, name in zip(turned, ops, strict=True)):
            continue
        for op, numbers in product(["copy"] if any(turned) else FUNCTIONS, ((1.7, -0.3), columns)):
            activate(device, noise((5, 12)), op, *numbers, *ops, 0.25, *turned)
    device.agrees()


def test_prelu_has_a_slope_below_zero():
    device = Device("trn3")
    for slope in (0.0, 0.25, -2.0, device.tile(column((7,)))):
        activate(device, noise((7, 20)), "prelu", 0.0, 0.0, "bypass", "bypass", slope)
    device.agrees()


def test_results_are_folded_before_they_are_rounded():
    device = Device("trn3")
    for name, dtype in product(FOLDS, ("float32", "bfloat16")):
        more = {"reduce_op": getattr(nl, name), "reduce_cmd": RESET_REDUCE}
        more["reduce_res"] = device.empty((9, 1))
        numbers = noise((9, 25), special=False)
        activate(device, numbers, "copy", 1.1, 0.2, "multiply", "add", dst=dtype, **more)
    device.agrees()


def test_a_fold_continues_until_it_is_read():
    device, numbers = Device("trn3"), noise((8, 30), special=False)
    for name in FOLDS:
        steps = ((slice(0, 10), RESET), (slice(0, 10), REDUCE), (slice(20, 30), IDLE))
        for columns, command in (*steps, (slice(10, 30), REDUCE)):
            more = {"reduce_op": getattr(nl, name), "reduce_cmd": command}
            more["reduce_res"] = device.empty((8, 1)) if columns.start == 10 else None
            unchanged = "copy", 0.0, 0.0, "bypass", "bypass"
            activate(device, numbers[:, columns], *unchanged, **more)
    device.agrees()


def test_the_registers_are_shared_with_activation():
    device = Device("trn3")
    tile, dst = device.tile(noise((8, 6), special=False)), device.empty((8, 6))
    device.issue("activation", dst, nl.copy, tile, reduce_op=nl.add, reduce_cmd=RESET_REDUCE)
    activate(
        device, tile, "copy", 0.0, 0.0, "bypass", "bypass", reduce_op=nl.add,
        reduce_res=device.empty((8, 1)), reduce_cmd=REDUCE,
    )  # fmt: skip
    device.agrees()
