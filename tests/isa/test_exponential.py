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

from neuroncore.base.errors import (
    DtypeError,
    OperatorError,
    ShapeError,
    SignatureError,
    TargetError,
)
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


def test_powers_of_the_difference_to_the_maximum():
    device = Device("trn3")
    for before, after in product((*FLOATS, *INTEGERS, "uint32"), (*FLOATS, *INTEGERS)):
        exponential(device, noise((3, 7), before), device.tile(column((3,))), dst=after)
    for most in (0.0, 3, -2.5, np.float32(1e30), np.inf):
        exponential(device, noise((4, 30)), most)
    device.agrees()


def test_special_values():
    got = exponential(Device("trn3"), np.float32([[0, -0.0, np.inf, -np.inf, np.nan, 89, -104]]))
    same(got, np.float32([[1, 1, np.inf, 0, np.nan, np.inf, 0]]))


def sum_of(device, values):
    """((x0 + x1) + x2) ... of each row, as an activation adds it: the plain reading checks that."""
    total, tile = device.empty((len(values), 1)), device.tile(values)
    sums = {"reduce_op": nl.add, "reduce_res": total, "reduce_cmd": RESET_REDUCE}
    device.issue("activation", device.empty(tile.shape), nl.copy, tile, **sums)
    return total.numpy()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_sum_is_of_float32_before_rounding(dtype):
    device, numbers = Device("trn3"), np.minimum(noise((9, 40), special=False), 5)
    total, full = device.empty((9, 1)), exponential(device, numbers)
    exponential(device, numbers, dst=dtype, reduce_res=total, reduce_cmd=RESET_REDUCE)
    same(total.numpy(), sum_of(device, full))
    device.agrees()


@given(st.lists(st.integers(1, 30), min_size=1, max_size=5))
def test_a_sum_runs_on_through_several_instructions(sizes):
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


def test_idle_leaves_nothing_to_rely_on():
    device = Device("trn3")
    values, total = noise((4, 6), special=False), device.empty((4, 1))
    exponential(device, values, reduce_cmd=RESET_REDUCE)
    exponential(device, values)
    exponential(device, values, 0.0, total, REDUCE)
    assert np.isnan(total.numpy()).all()


def test_softmax_in_place_through_strides():
    device = Device("trn3")
    total, most = device.empty((64, 1)), device.empty((64, 1))
    part = device.tile(noise((64, 4, 10), special=False))[:, 1:3, 0:10:3]
    device.issue("tensor_reduce", most, nl.maximum, part, (1, 2))
    device.issue("exponential", part, part, most, total, RESET_REDUCE)
    device.agrees()


def exponential_refuses(kind, *words, **change):
    """One argument is replaced by a bad one, made on the device; the good ones are accepted."""
    device = Device("trn3")
    good = {"dst": device.zeros((4, 6)), "src": device.zeros((4, 6)), "max_value": 0.0}
    bad = {**good, **{n: v(device) if callable(v) else v for n, v in change.items()}}
    device.refuses(kind, "exponential", **bad, words=words)
    device.issue("exponential", **good)


def zeros(*args):
    return lambda device: device.zeros(*args)


def test_formats_of_exponentials():
    for dtype in ("uint32", "float8_e4m3fn", "bool"):
        exponential_refuses(DtypeError, "dst", dtype, dst=zeros((4, 6), dtype))
    for dtype in ("tfloat32", "float8_e4m3fn", "bool"):
        exponential_refuses(DtypeError, "src", dtype, src=zeros((4, 6), dtype))
    for dtype in ("int32", "uint8"):
        exponential_refuses(DtypeError, "reduce_res", dtype, reduce_res=zeros((4, 1), dtype))
    half = zeros((4, 1), "bfloat16")
    exponential_refuses(DtypeError, "max_value", "float32", max_value=half)
    load = {"reduce_cmd": LOAD_REDUCE, "reduce_init": half}
    exponential_refuses(DtypeError, "reduce_init", "float32", **load)


def test_shapes_of_exponentials():
    exponential_refuses(ShapeError, "src", "5", dst=zeros((4, 5)))
    exponential_refuses(ShapeError, "src", "3", dst=zeros((3, 6)))
    for name in ("max_value", "reduce_res", "reduce_init"):
        command = {"reduce_cmd": LOAD_REDUCE} if name == "reduce_init" else {}
        exponential_refuses(ShapeError, name, "one element", **{name: zeros((4, 2))}, **command)
        exponential_refuses(ShapeError, name, "4 partitions", **{name: zeros((3, 1))}, **command)


def test_what_goes_with_what():
    exponential_refuses(OperatorError, "reduce_init", reduce_init=1.0)
    exponential_refuses(OperatorError, "reduce_init", reduce_init=zeros((4, 1)))
    exponential_refuses(OperatorError, "reduce_init", reduce_init=2.0, reduce_cmd=REDUCE)
    exponential_refuses(OperatorError, "reset", "load_reduce", reduce_cmd=RESET)
    exponential_refuses(SignatureError, "max_value", max_value="1")


def test_exponentials_go_four_to_a_cycle():
    def busy(size):
        device = Device("trn3")
        device.issue("exponential", device.zeros((4, size)), device.zeros((4, size)))
        (call,) = device.core.program.calls
        return call.instruction.cost(call, device.core.machine).busy_ns

    clock = Device("trn3").core.machine.engines["vector"].clock_ghz
    assert busy(5000) - busy(1000) == pytest.approx(4000 / 4 / clock)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_older_machines_have_neither(target):
    device = Device(target)
    dst, src = device.zeros((4, 6)), device.zeros((4, 6))
    device.refuses(TargetError, "exponential", dst, src, words=[target, "exponential"])
    operands = dst, nl.exp, src, 1.0, 0.0, nl.multiply, nl.add
    device.refuses(TargetError, "activate2", *operands, words=[target, "activate2"])


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


def test_two_steps_then_any_function():
    device = Device("trn3")
    columns = device.tile(column((5,))), device.tile(column((5,), 2))
    for ops, *turned in product(STEPS, (False, True), (False, True)):
        if any(turn and name == "bypass" for turn, name in zip(turned, ops, strict=True)):
            continue
        for op, numbers in product(["copy"] if any(turned) else FUNCTIONS, ((1.7, -0.3), columns)):
            activate(device, noise((5, 12)), op, *numbers, *ops, 0.25, *turned)
    device.agrees()


def test_formats_of_two_steps():
    device = Device("trn3")
    for before, after in product((*FLOATS, *INTEGERS, "uint32"), (*FLOATS, *INTEGERS)):
        tiles = [device.tile(column((5,), seed), before) for seed in (1, 2)]
        activate(
            device, noise((5, 12), before), "square", *tiles, "multiply", "subtract", dst=after
        )
    device.agrees()


def test_prelu_has_a_slope_below_zero():
    device = Device("trn3")
    for slope in (0.0, 0.25, -2.0, device.tile(column((7,)))):
        activate(device, noise((7, 20)), "prelu", 0.0, 0.0, "bypass", "bypass", slope)
    device.agrees()


def test_results_fold_before_they_are_rounded():
    device = Device("trn3")
    for name, dtype in product(FOLDS, ("float32", "bfloat16")):
        more = {"reduce_op": getattr(nl, name), "reduce_cmd": RESET_REDUCE}
        more["reduce_res"] = device.empty((9, 1))
        numbers = noise((9, 25), special=False)
        activate(device, numbers, "copy", 1.1, 0.2, "multiply", "add", dst=dtype, **more)
    device.agrees()


def test_a_fold_runs_on_until_it_is_read():
    device, numbers = Device("trn3"), noise((8, 30), special=False)
    for name in FOLDS:
        steps = ((slice(0, 10), RESET), (slice(0, 10), REDUCE), (slice(20, 30), IDLE))
        for columns, command in (*steps, (slice(10, 30), REDUCE)):
            more = {"reduce_op": getattr(nl, name), "reduce_cmd": command}
            more["reduce_res"] = device.empty((8, 1)) if columns.start == 10 else None
            unchanged = "copy", 0.0, 0.0, "bypass", "bypass"
            activate(device, numbers[:, columns], *unchanged, **more)
    device.agrees()


def test_the_registers_are_those_of_activation():
    device = Device("trn3")
    tile, dst = device.tile(noise((8, 6), special=False)), device.empty((8, 6))
    device.issue("activation", dst, nl.copy, tile, reduce_op=nl.add, reduce_cmd=RESET_REDUCE)
    activate(
        device, tile, "copy", 0.0, 0.0, "bypass", "bypass", reduce_op=nl.add,
        reduce_res=device.empty((8, 1)), reduce_cmd=REDUCE,
    )  # fmt: skip
    device.agrees()


def test_dst_may_hold_its_own_operands():
    device = Device("trn3")
    tile = device.tile(noise((9, 5), special=False))
    device.issue("activate2", tile, nl.copy, tile, tile[:, 2:3], 1.0, nl.multiply, nl.add)
    device.agrees()


def activate2_refuses(kind, *words, **change):
    device = Device("trn3")
    good = {
        "dst": device.zeros((4, 6)),
        "op": nl.exp,
        "data": device.zeros((4, 6)),
        "imm0": 1.0,
        "imm1": 0.0,
        "op0": nl.multiply,
        "op1": nl.add,
    }
    bad = {**good, **change}
    bad = {n: v(device) if getattr(v, "__name__", "") == "<lambda>" else v for n, v in bad.items()}
    device.refuses(kind, "activate2", **bad, words=words)
    device.issue("activate2", **good)


OPERATORS = ("multiply", "add", "subtract", "bypass")


@pytest.mark.parametrize("ops", sorted({(a, b) for a in OPERATORS for b in OPERATORS} - {*STEPS}))
def test_there_are_six_pairs_of_operators(ops):
    op0, op1 = (getattr(nl, op) for op in ops)
    activate2_refuses(OperatorError, f"op0={op0}", f"op1={op1}", op0=op0, op1=op1)


def test_other_operators_are_not_taken():
    for name in ("op0", "op1"):
        for op in (nl.maximum, nl.power, nl.bitwise_and, nl.abs):
            activate2_refuses(OperatorError, name, repr(op), **{name: op})
        activate2_refuses(SignatureError, name, **{name: None})
    activate2_refuses(OperatorError, "op", "activation function", op=nl.add)


def test_only_what_has_two_operands_is_turned_round():
    bypassed = {"op0": nl.bypass, "op1": nl.bypass}
    activate2_refuses(OperatorError, "reverse0", "nl.bypass", **bypassed, reverse0=True)
    activate2_refuses(OperatorError, "reverse1", "nl.bypass", op1=nl.bypass, reverse1=True)


def test_folds_are_five_and_named():
    for op in (nl.multiply, nl.subtract, nl.bitwise_or):
        activate2_refuses(OperatorError, "reduce_op", reduce_op=op, reduce_cmd=RESET_REDUCE)
    for command in (RESET, REDUCE, RESET_REDUCE):
        activate2_refuses(OperatorError, "needs reduce_op", command.name, reduce_cmd=command)
    load = {"reduce_op": nl.add, "reduce_cmd": LOAD_REDUCE}
    activate2_refuses(OperatorError, "load_reduce", **load)


def test_shapes_and_formats_agree():
    for name in ("imm0", "imm1", "relu_param", "reduce_res"):
        activate2_refuses(ShapeError, name, "one element", **{name: zeros((4, 2))})
        activate2_refuses(ShapeError, name, "4 partitions", **{name: zeros((3, 1))})
    activate2_refuses(ShapeError, "data", "5", dst=zeros((4, 5)))
    activate2_refuses(ShapeError, "data", "3", dst=zeros((3, 6)))
    mixed = {"imm0": zeros((4, 1)), "imm1": zeros((4, 1), "bfloat16")}
    activate2_refuses(DtypeError, "imm1", "bfloat16", "float32", **mixed)
    activate2_refuses(SignatureError, "imm0", imm0=None)
