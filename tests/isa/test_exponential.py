"""exponential and activate2, the instructions that v4 adds to the Vector and the Scalar engine."""

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import nki.language as nl
import numpy as np
import pytest
from alu import alu
from device import Device, converted, noise, same
from every import for_all
from hypothesis import given
from hypothesis import strategies as st
from nki.isa import reduce_cmd

from neuroncore.errors import DtypeError, OperatorError, ShapeError, SignatureError, TargetError

FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32")
SHAPES = ((1, 1), (3, 7), (128, 33), (96, 5, 3), (5, 2, 3, 4))
IDLE, RESET, REDUCE = reduce_cmd.idle, reduce_cmd.reset, reduce_cmd.reduce
RESET_REDUCE, LOAD_REDUCE = reduce_cmd.reset_reduce, reduce_cmd.load_reduce


def column(shape, seed=1):
    return noise((shape[0], 1), seed=seed, special=False)


def beside(values, like):
    """A [P, 1] column, shaped to broadcast along the free axes."""
    return values.reshape(len(like), *[1] * (like.ndim - 1))


# --- exponential ----------------------------------------------------------------------------------


def exp(values, most=0.0):
    """e^(x - most): the difference rounded to float32, then the power."""
    with np.errstate(all="ignore"):
        shifted = values.astype(np.float32) - np.float32(most)
        return np.exp(shifted.astype(np.float64)).astype(np.float32)


def summed(values, start=0.0):
    """((start + x0) + x1) ... along each row, in float32; [P, 1]."""
    state = np.broadcast_to(np.float32(start), (len(values), 1))
    for part in values.reshape(len(values), -1).T:
        state = state + part[:, None]
    return state


def exponential(device, values, *args, dst="float32", buffer="sbuf", **more):
    tile = values if not isinstance(values, np.ndarray) else device.tile(values, buffer=buffer)
    out = device.empty(tile.shape, dst, buffer)
    device.issue("exponential", out, tile, *args, **more)
    return out.numpy()


@pytest.mark.parametrize("shape", SHAPES)
@for_all("dtype", [*FLOATS, *INTEGERS, "uint32"])
@pytest.mark.parametrize("buffer", ["sbuf", "psum"])
def test_the_power_of_the_difference_to_the_maximum(shape, dtype, buffer):
    values = noise(shape, dtype)
    most = column(shape)
    device = Device("trn3")
    got = exponential(device, values, device.tile(most), buffer=buffer)
    np.testing.assert_array_max_ulp(got, exp(values, beside(most, values)), 1)


@pytest.mark.parametrize("most", [0.0, 3, -2.5, np.float32(1e30), np.inf])
def test_the_maximum_may_be_a_number(most):
    values = noise((4, 30))
    np.testing.assert_array_max_ulp(exponential(Device("trn3"), values, most), exp(values, most), 1)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_powers_are_rounded_to_dst(dtype):
    values = np.float32([[0, 1, 2, 3.3, 5, -1, -20, 30, np.inf, -np.inf]])
    same(exponential(Device("trn3"), values, dst=dtype), converted(exp(values), dtype))


def test_special_values():
    got = exponential(Device("trn3"), np.float32([[0, -0.0, np.inf, -np.inf, np.nan, 89, -104]]))
    same(got, np.float32([[1, 1, np.inf, 0, np.nan, np.inf, 0]]))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_sum_is_of_float32_before_rounding(shape, dtype):
    device = Device("trn3")
    values = np.minimum(noise(shape, special=False), 5)
    total, full = device.empty((shape[0], 1)), exponential(device, values)
    exponential(device, values, dst=dtype, reduce_res=total, reduce_cmd=RESET_REDUCE)
    same(total.numpy(), summed(full))


@given(st.lists(st.integers(1, 30), min_size=1, max_size=5))
def test_a_sum_runs_on_through_several_instructions(sizes):
    device = Device("trn3")
    values = np.minimum(noise((5, sum(sizes)), special=False), 5)
    tile, first = device.tile(values), 0
    total, full = device.empty((5, 1)), exponential(device, values)
    for size in sizes:
        command = REDUCE if first else RESET_REDUCE
        exponential(device, tile[:, first : first + size], 0.0, total, command, dst="bfloat16")
        first += size
    same(total.numpy(), summed(full))


def test_a_sum_may_start_from_given_values():
    device = Device("trn3")
    values, start = np.minimum(noise((33, 6), special=False), 5), column((33,))
    total, full = device.empty((33, 1)), exponential(device, values)
    exponential(device, values, 0.0, total, LOAD_REDUCE, device.tile(start))
    same(total.numpy(), summed(full, start))
    exponential(device, values, 0.0, total, LOAD_REDUCE, 2.5)
    same(total.numpy(), summed(full, 2.5))


def test_idle_leaves_nothing_to_rely_on():
    device = Device("trn3")
    values, total = noise((4, 6), special=False), device.empty((4, 1))
    exponential(device, values, reduce_cmd=RESET_REDUCE)
    exponential(device, values)
    exponential(device, values, 0.0, total, REDUCE)
    assert np.isnan(total.numpy()).all()


def test_softmax_in_place_through_strides():
    device = Device("trn3")
    values = noise((64, 4, 10), special=False)
    tile, total, most = device.tile(values), device.empty((64, 1)), device.empty((64, 1))
    part = tile[:, 1:3, 0:10:3]
    device.issue("tensor_reduce", most, nl.maximum, part, (1, 2))
    device.issue("exponential", part, part, most, total, RESET_REDUCE)
    chosen = values[:, 1:3, 0:10:3]
    want = exp(chosen, chosen.max(axis=(1, 2), keepdims=True))
    np.testing.assert_array_max_ulp(tile.numpy()[:, 1:3, 0:10:3], want, 1)
    np.testing.assert_allclose(total.numpy()[:, 0], want.sum(axis=(1, 2)), rtol=1e-6)
    assert np.array_equal(tile.numpy()[:, 0], values[:, 0])


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
EXACT = {
    "copy": lambda x: x,
    "square": lambda x: x * x,
    "abs": np.abs,
    "relu": lambda x: np.where(np.isnan(x), x, np.maximum(x, np.float32(0))),
}
FOLDS = {"add": 0.0, "maximum": -np.inf, "minimum": np.inf, "abs_max": 0.0, "abs_min": np.inf}


def stepped(values, op0, op1, imm0, imm1, reverse0=False, reverse1=False):
    """(x <op0> imm0) <op1> imm1, each step rounded to float32."""
    value = values.astype(np.float32)
    for op, operand, reverse in ((op0, imm0, reverse0), (op1, imm1, reverse1)):
        if op != "bypass":
            value = alu(op, value, np.float32(operand), reverse)
    return value


def activate(device, values, op, imm0, imm1, op0, op1, *args, dst="float32", **more):
    tile = values if not isinstance(values, np.ndarray) else device.tile(values)
    out = device.empty(tile.shape, dst)
    ops = getattr(nl, op0), getattr(nl, op1)
    device.issue("activate2", out, getattr(nl, op), tile, imm0, imm1, *ops, *args, **more)
    return out.numpy()


@pytest.mark.parametrize("ops", STEPS)
@pytest.mark.parametrize("reverse0", [False, True])
@pytest.mark.parametrize("reverse1", [False, True])
def test_two_steps_then_a_function(ops, reverse0, reverse1):
    if (reverse0 and ops[0] == "bypass") or (reverse1 and ops[1] == "bypass"):
        return
    values, turned = noise((5, 12)), (reverse0, reverse1)
    got = activate(Device("trn3"), values, "copy", 1.7, -0.3, *ops, 0.0, *turned)
    same(got, stepped(values, *ops, 1.7, -0.3, *turned))


@pytest.mark.parametrize("shape", SHAPES)
@for_all("dtype", [*FLOATS, *INTEGERS, "uint32"])
@pytest.mark.parametrize("op", EXACT)
def test_immediates_may_be_one_number_for_each_partition(shape, dtype, op):
    device = Device("trn3")
    values, scale, bias = noise(shape, dtype), column(shape), column(shape, seed=2)
    tiles = device.tile(scale), device.tile(bias)
    got = activate(device, values, op, *tiles, "multiply", "subtract")
    both = beside(scale, values), beside(bias, values)
    with np.errstate(all="ignore"):
        same(got, EXACT[op](stepped(values, "multiply", "subtract", *both)))


@pytest.mark.parametrize(
    ("op", "function"),
    [
        ("exp", np.exp),
        ("tanh", np.tanh),
        ("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
        ("silu", lambda x: x / (1 + np.exp(-x))),
        ("arctan", np.arctan),
    ],
)
@pytest.mark.parametrize("buffer", ["sbuf", "psum"])
def test_functions_are_those_of_activation(op, function, buffer):
    device = Device("trn3")
    values = noise((64, 30), special=False)
    src, dst = device.tile(values, buffer=buffer), device.empty((64, 30), buffer=buffer)
    device.issue("activate2", dst, getattr(nl, op), src, 0.05, 0.1, nl.multiply, nl.add)
    x = stepped(values, "multiply", "add", 0.05, 0.1).astype(np.float64)
    np.testing.assert_array_max_ulp(dst.numpy(), function(x).astype(np.float32), 1)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_results_are_rounded_to_dst(dtype):
    values = noise((5, 12), special=False)
    got = activate(Device("trn3"), values, "copy", 3.0, 0.5, "multiply", "add", dst=dtype)
    same(got, converted(stepped(values, "multiply", "add", 3.0, 0.5), dtype))


@pytest.mark.parametrize("slope", [0.0, 0.25, -2.0, "column"])
def test_prelu_has_a_slope_below_zero(slope):
    device = Device("trn3")
    values = noise((7, 20))
    factor = column((7,)) if slope == "column" else np.float32(slope)
    given_slope = device.tile(factor) if slope == "column" else slope
    got = activate(device, values, "prelu", 0.0, 0.0, "bypass", "bypass", given_slope)
    with np.errstate(all="ignore"):
        same(got, np.where(values > 0, values, factor * values).astype(np.float32))


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_results_fold_before_they_are_rounded(name, dtype):
    device = Device("trn3")
    values, res = noise((40, 25), special=False), device.empty((40, 1))
    more = {"reduce_op": getattr(nl, name), "reduce_res": res, "reduce_cmd": RESET_REDUCE}
    activate(device, values, "copy", 1.1, 0.2, "multiply", "add", dst=dtype, **more)
    state = np.full((40, 1), FOLDS[name], np.float32)
    for part in stepped(values, "multiply", "add", 1.1, 0.2).T:
        state = alu(name, state, part[:, None])
    same(res.numpy(), state)


@pytest.mark.parametrize("name", FOLDS)
def test_a_fold_runs_on_until_it_is_read(name):
    device = Device("trn3")
    values, res = noise((8, 30), special=False), device.empty((8, 1))
    tile, op = device.tile(values), getattr(nl, name)

    def run(part, command, res=None):
        activate(
            device, part, "copy", 0.0, 0.0, "bypass", "bypass", reduce_op=op, reduce_res=res,
            reduce_cmd=command,
        )  # fmt: skip

    run(tile[:, 0:10], RESET)
    run(tile[:, 0:10], REDUCE)
    run(tile[:, 20:30], IDLE)  # leaves the Scalar engine's registers alone
    run(tile[:, 10:30], REDUCE, res)
    state = np.full((8, 1), FOLDS[name], np.float32)
    for part in values.T:
        state = alu(name, state, part[:, None])
    same(res.numpy(), state)


def test_the_registers_are_those_of_activation():
    device = Device("trn3")
    values, res = noise((8, 6), special=False), device.empty((8, 1))
    tile, dst = device.tile(values), device.empty((8, 6))
    device.issue("activation", dst, nl.copy, tile, reduce_op=nl.add, reduce_cmd=RESET_REDUCE)
    activate(
        device, tile, "copy", 0.0, 0.0, "bypass", "bypass", reduce_op=nl.add, reduce_res=res,
        reduce_cmd=REDUCE,
    )  # fmt: skip
    same(res.numpy(), summed(np.hstack([values, values])))


def test_dst_may_hold_its_own_operands():
    device = Device("trn3")
    values = noise((9, 5), special=False)
    tile = device.tile(values)
    scale = values[:, 2:3].copy()
    device.issue("activate2", tile, nl.copy, tile, tile[:, 2:3], 1.0, nl.multiply, nl.add)
    same(tile.numpy(), stepped(values, "multiply", "add", scale, 1.0))


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


def test_immediates_of_one_narrow_format_are_taken():
    device = Device("trn3")
    values, scale = noise((4, 6), special=False), column((4,)).astype("bfloat16")
    tiles = device.tile(scale), device.tile(scale)
    got = activate(device, values, "copy", *tiles, "multiply", "add")
    wide = scale.astype(np.float32)
    same(got, stepped(values, "multiply", "add", wide, wide))
