"""activation and activation_reduce: scale, bias, function, rounding; what they take and refuse."""

from itertools import product

import nki.language as nl
import numpy as np
import pytest
from calls import values
from device import TARGETS, Device, noise, same
from every import for_all

from neuroncore.base.errors import DtypeError, OperatorError, SignatureError, TargetError
from neuroncore.clause.alu import FUNCTIONS
from neuroncore.numerics.formats import FORMATS

FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")


def activated(device, op, data, dtype="float32", name="activation", **options):
    dst = device.empty(data.shape, dtype)
    options = {k: device.tile(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    if name == "activation_reduce":
        options |= {"reduce_op": nl.add, "reduce_res": None}
    device.issue(name, dst, getattr(nl, op), device.tile(data), **options)
    return dst.numpy()


BOTH = pytest.mark.parametrize("name", ["activation", "activation_reduce"])


# --- values ---------------------------------------------------------------------------------------


@BOTH
def test_every_format(name):
    device = Device("trn3")
    for before, after in product(FORMATS, FORMATS):
        dst, data = device.empty((3, 33), after), device.tile(values(before, (3, 33)), before)
        columns = {"scale": device.tile(noise((3, 1), seed=1))}
        if before != "tfloat32":
            columns["bias"] = device.tile(values(before, (3, 1), 2), before)
        sums = {"reduce_op": nl.add, "reduce_res": None} if name == "activation_reduce" else {}
        device.issue(name, dst, nl.square, data, **columns, **sums)
    device.agrees()


@pytest.mark.parametrize("target", TARGETS)
def test_every_function_of_scaled_and_shifted_data(target):
    device = Device(target)
    scale, bias = noise((16, 1), seed=1), noise((16, 1), seed=2)
    given = [{}, {"scale": scale}, {"scale": np.float32(0.37)}, {"scale": scale, "bias": bias}]
    given += [{"bias": bias}] if target == "trn1" else [{"bias": n} for n in (1, -2.5, np.nan)]
    for op, options in product(FUNCTIONS, given):
        if target != "trn1" or op != "reciprocal" or "bias" not in options:
            activated(device, op, noise((16, 9)), **options)
    device.agrees()


def test_multiplication_and_addition_round_separately():
    x = np.float32([[1 + 2**-12]])
    got = activated(Device(), "copy", x, scale=x, bias=np.float32([[-(1 + 2**-11)]]))
    assert got == 0  # a fused multiply-add would leave 2^-24


@pytest.mark.parametrize("bias", [0, 0.0, np.zeros((1, 1), np.float32)])
def test_adding_zero_makes_plus_zero_of_minus_zero(bias):
    data = np.float32([[-0.0]])
    same(activated(Device(), "copy", data, bias=bias), np.float32([[0.0]]))
    same(activated(Device(), "copy", data), data)


# --- shapes, views, memories ----------------------------------------------------------------------


@for_all("starts", [(0, 0), (0, 1), (1, 0), (5, 2)])
def test_all_is_read_before_anything_is_written(starts):
    device = Device()
    for op, form, rows in product((nl.relu, nl.sigmoid), ("float32", "bfloat16"), (1, 5)):
        for columns in ([], ["bias"], ["bias", "scale"] if form == "float32" else ()):
            tile = device.tile(noise((rows, 40), form))
            dst, data = (tile[:, s : s + 30] for s in starts)
            given = {name: tile[:, starts[0] + 7 : starts[0] + 8] for name in columns}
            device.issue("activation", dst, op, data, **given)
    device.agrees()


@for_all("rows, op", product((1, 3), ("square", "relu", "exp")))
def test_addresses_that_overlap_are_one_memory(rows, op):
    device, numbers = Device(), noise((rows, 12), special=False)
    src, dst = device.tile(numbers, address=(64, 8)), device.empty((rows, 12), address=(64, 12))
    device.issue("activation", dst, getattr(nl, op), src)
    same(dst.numpy(), activated(Device(), op, numbers))
    same(src.numpy()[:, 1:], dst.numpy()[:, :-1])


# --- what is refused ------------------------------------------------------------------------------


def call(name, device, **options):
    """A legal call, but for the options."""
    options = {
        "dst": device.tile(noise((9, 5))),
        "op": nl.exp,
        "data": device.zeros((9, 5)),
    } | options
    sums = {"reduce_op": nl.add, "reduce_res": None}
    return {**sums, **options} if name == "activation_reduce" else options


@BOTH
@pytest.mark.parametrize("form", [*FLOATS[1:], *INTEGERS, "tfloat32"])
def test_a_scale_is_float32(form, name):
    device = Device()
    options = call(name, device, scale=device.zeros((9, 1), form))
    error = device.refuses(DtypeError, name, words=["scale", form, "float32"], **options)
    assert error.code == "DTYPE_RULE"


@BOTH
def test_a_bias_is_not_tfloat32(name):
    device = Device()
    options = call(name, device, bias=device.zeros((9, 1), "tfloat32"))
    device.refuses(DtypeError, name, words=["bias", "tfloat32"], **options)


@BOTH
def test_v3_reads_float8_e4m3fn_as_data_only(name):
    """A published kernel dequantizes so on trn2; the same tile as the stationary matrix was refused
    there. trn1 has no such format at all."""
    data = np.array([[-240, 0.5, 448]], np.float32)
    device = Device("trn2")
    options = call(name, device, data=device.tile(data, "float8_e4m3fn"), op=nl.copy)
    dst = options["dst"] = device.empty((1, 3), "bfloat16")
    device.issue(name, **options)
    assert np.array_equal(dst.numpy().astype(np.float32), data)
    narrow = device.empty((1, 3), "float8_e4m3fn")
    device.refuses(TargetError, name, words=["dst", "trn2"], **options | {"dst": narrow})
    older = Device("trn1")
    options = call(name, older, data=older.zeros((9, 5), "float8_e4m3fn"))
    older.refuses(TargetError, name, words=["data", "trn1"], **options)


@BOTH
@pytest.mark.parametrize("bias", [0, 0.0, 1.5])
def test_v2_takes_a_bias_from_a_tile_only(bias, name):
    device = Device("trn1")
    options = call(name, device, bias=bias)
    error = device.refuses(TargetError, name, words=["bias", "trn1"], **options)
    assert error.code == "TARGET" and "memset" in error.hint
    device.issue(name, **options | {"bias": device.tile(np.full((9, 1), bias, np.float32))})


@BOTH
def test_v2_takes_no_bias_with_the_reciprocal(name):
    device = Device("trn1")
    options = call(name, device, op=nl.reciprocal, bias=device.zeros((9, 1)))
    device.refuses(TargetError, name, words=["bias", "reciprocal", "trn1"], **options)
    device.issue(name, **options | {"bias": None})
    newer = Device("trn2")
    newer.issue(name, **call(name, newer, op=nl.reciprocal, bias=newer.zeros((9, 1))))


@BOTH
@pytest.mark.parametrize("op", [nl.add, nl.bitwise_and, "exp", None, np.exp, 3])
def test_an_activation_is_a_function_of_the_scalar_engine(op, name):
    device = Device()
    error = device.refuses(OperatorError, name, words=["op"], **call(name, device, op=op))
    assert error.code == "UNSUPPORTED_OP_COMBO"


@BOTH
@pytest.mark.parametrize("value", ["1", [1.0], 1j, np.ones((9, 1), np.float32)])
@pytest.mark.parametrize("place", ["scale", "bias"])
def test_scale_and_bias_are_numbers_or_tiles(place, value, name):
    device = Device()
    device.issue(name, **call(name, device, **{place: 1.0}))
    options = call(name, device, **{place: value})
    error = device.refuses(SignatureError, name, words=[place], **options)
    assert error.code == "SIGNATURE"


@BOTH
@pytest.mark.parametrize(
    "op", ["maximum", "multiply", "minimum", "subtract", "abs_max", "logical_or"]
)
def test_the_only_reduction_is_the_sum(op, name):
    device = Device("trn3")
    options = call(name, device) | {"reduce_op": getattr(nl, op)}
    error = device.refuses(OperatorError, name, words=["reduce_op", op, "add"], **options)
    assert error.code == "UNSUPPORTED_OP_COMBO"


@pytest.mark.parametrize("op", [None, "add", np.add])
def test_activation_reduce_needs_a_reduction(op):
    device = Device()
    options = call("activation_reduce", device) | {"reduce_op": op}
    device.refuses(SignatureError, "activation_reduce", words=["reduce_op"], **options)
    if op is None:
        device.issue("activation", **call("activation", device, reduce_op=None))
