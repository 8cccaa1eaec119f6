"""activation and activation_reduce: scale, bias, function, rounding; what they take and refuse."""

import nki.language as nl
import numpy as np
import pytest
from alu import VALID, greatest
from device import TARGETS, Device, converted, noise, same
from every import for_all

from neuroncore.errors import DtypeError, OperatorError, SignatureError, TargetError

FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
SHAPES = ((1, 1), (3, 7), (128, 33), (96, 5, 3), (5, 2, 3, 4))
EXACT = {  # one rounding of float32
    "copy": lambda x: x,
    "square": lambda x: x * x,
    "relu": lambda x: greatest(x, np.float32(0)),
    "abs": np.abs,
    "sqrt": np.sqrt,
    "reciprocal": lambda x: np.float32(1) / x,
}
POLYNOMIALS = (
    *("exp", "log", "sigmoid", "tanh", "erf", "erf_dx", "sin", "arctan", "rsqrt", "softplus"),
    *("gelu", "gelu_dx", "gelu_apprx_tanh", "gelu_apprx_sigmoid", "gelu_apprx_sigmoid_dx"),
    *("silu", "silu_dx", "mish", "sign", "prelu"),
)
FUNCTIONS = (*EXACT, *POLYNOMIALS)


def affine(data, scale=None, bias=None):
    """data * scale + bias, rounded twice."""
    value = data.astype(np.float32)
    with np.errstate(all="ignore"):
        for operation, operand in ((np.multiply, scale), (np.add, bias)):
            if operand is not None:
                operand = np.asarray(operand).astype(np.float32)
                column = operand.reshape(-1, *[1] * (data.ndim - 1)) if operand.ndim else operand
                value = operation(value, column)
    return value


def applied(name, value):
    with np.errstate(all="ignore"):
        return EXACT[name](value).astype(np.float32)


def activated(device, op, data, dtype="float32", name="activation", **options):
    dst, given = device.empty(data.shape, dtype), options
    options = {k: device.tile(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    if name == "activation_reduce":
        options |= {"reduce_op": nl.add, "reduce_res": None}
    device.issue(name, dst, getattr(nl, op), device.tile(data), **options)
    value = affine(data, *(given.get(name) for name in ("scale", "bias")))
    assert device.findings == (["OUT_OF_RANGE"] if beyond(op, value) else [])
    return dst.numpy()


def beyond(op, value):
    """Whether a number other than 0 is outside of what the function is valid for."""
    numbers = value[np.isfinite(value) & (value != 0)]
    low, high = VALID.get(op, (-np.inf, np.inf))
    numbers = np.abs(numbers) if op == "reciprocal" else numbers
    return bool(((numbers < low) | (numbers > high)).any())


BOTH = pytest.mark.parametrize("name", ["activation", "activation_reduce"])


# --- values ---------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", EXACT)
def test_exact_functions(op, target, name):
    data = noise((128, 33))
    same(activated(Device(target), op, data, name=name), applied(op, data))


@BOTH
@for_all("after", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("before", [*FLOATS, *INTEGERS])
def test_every_format(before, after, name):
    data, scale, bias = noise((9, 33), before), noise((9, 1), seed=1), noise((9, 1), seed=2)
    got = activated(Device(), "square", data, after, name, scale=scale, bias=bias)
    same(got, converted(applied("square", affine(data, scale, bias)), after))


@pytest.mark.parametrize("form", [*FLOATS, *INTEGERS])
def test_a_bias_has_any_format(form):
    data, bias = noise((9, 33)), noise((9, 1), form, 2)
    got = activated(Device(), "copy", data, bias=bias, scale=3.0)
    same(got, affine(data, np.float32(3), bias))


@pytest.mark.parametrize("op", FUNCTIONS)
@pytest.mark.parametrize("target", TARGETS)
def test_scale_and_bias_come_before_the_function(op, target):
    data, scale, bias = noise((16, 33)), noise((16, 1), seed=1), noise((16, 1), seed=2)
    if target == "trn1" and op == "reciprocal":
        bias = None
    for s in (scale, np.float32(0.37), None):
        options = {k: v for k, v in (("scale", s), ("bias", bias)) if v is not None}
        got = activated(Device(target), op, data, **options)
        same(got, activated(Device(target), op, affine(data, s, bias)))


@pytest.mark.parametrize("target", ["trn2", "trn3"])
@pytest.mark.parametrize("bias", [1, -2.5, np.float32(0.1), np.inf, np.nan])
def test_a_bias_may_be_a_number(bias, target):
    data = noise((9, 5))
    same(activated(Device(target), "abs", data, bias=bias), np.abs(affine(data, None, bias)))


def test_multiplication_and_addition_round_separately():
    x = np.float32([[1 + 2**-12]])
    got = activated(Device(), "copy", x, scale=x, bias=np.float32([[-(1 + 2**-11)]]))
    assert got == 0  # a fused multiply-add would leave 2^-24


@pytest.mark.parametrize("bias", [0, 0.0, np.zeros((1, 1), np.float32)])
def test_adding_zero_makes_plus_zero_of_minus_zero(bias):
    data = np.float32([[-0.0]])
    same(activated(Device(), "copy", data, bias=bias), np.float32([[0.0]]))
    same(activated(Device(), "copy", data), data)


def test_halves_and_overflow_follow_the_rules_of_dst():
    data = np.float32([[0.5, 1.5, 2.5, 1e6, -1e6, np.nan]])
    assert activated(Device(), "copy", data, "int8").tolist() == [[0, 2, 2, 127, -128, 0]]
    got = activated(Device(), "square", np.float32([[15.5, 15.7, 15.8]]), "float8_e4m3")
    assert got.astype(np.float32).tolist() == [[240, 240, np.inf]]


def test_int32_is_read_through_float32():
    data = np.array([[2**24 + 1, 2**31 - 1]], np.int32)
    assert activated(Device(), "copy", data, "int32").tolist() == [[2**24, 2**31 - 1]]
    assert activated(Device(), "copy", data, "uint32").tolist() == [[2**24, 2**31]]


# --- shapes, views, memories ----------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("op", ["relu", "exp"])
def test_shapes_and_memories(op, shape, name):
    data, column = noise(shape, special=False), noise((shape[0], 1), seed=1, special=False)
    want = activated(Device(), op, affine(data, column, column), "bfloat16")
    for dst_in, data_in, column_in in np.ndindex(2, 2, 2):
        device = Device()
        dst_in, data_in, column_in = (("sbuf", "psum")[i] for i in (dst_in, data_in, column_in))
        dst = device.empty(shape, "bfloat16", dst_in)
        options = dict.fromkeys(("scale", "bias"), device.tile(column, buffer=column_in))
        if name == "activation_reduce":
            options |= {"reduce_op": nl.add, "reduce_res": device.empty((shape[0], 1))}
        device.issue(name, dst, getattr(nl, op), device.tile(data, buffer=data_in), **options)
        same(dst.numpy(), want)


@pytest.mark.parametrize("op", ["square", "tanh"])
@pytest.mark.parametrize("after", ["float32", "float16"])
def test_strided_views_leave_the_rest_alone(after, op):
    device = Device()
    data, old = noise((96, 9, 10)), noise((96, 7, 11), after, 1)
    dst = device.tile(old)
    view = device.tile(data)[:, 0:9:3, 1:4].permute((0, 2, 1))
    device.issue("activation", dst[:, 1:7:2, 2:11:3], getattr(nl, op), view, scale=0.5)
    want = old.copy()
    part = affine(data[:, 0:9:3, 1:4].transpose(0, 2, 1), np.float32(0.5))
    want[:, 1:7:2, 2:11:3] = activated(Device(), op, part, after)
    same(dst.numpy(), want)


def test_free_shapes_need_not_be_equal_and_data_may_repeat():
    device = Device()
    data = noise((6, 1, 4))
    dst = device.empty((6, 2, 6))
    device.issue("activation", dst, nl.square, device.tile(data).broadcast(1, 3))
    same(dst.numpy(), applied("square", np.repeat(data, 3, axis=1)).reshape(6, 2, 6))


@pytest.mark.parametrize("form", ["float32", "bfloat16"])
@pytest.mark.parametrize("op", ["relu", "sigmoid"])
@pytest.mark.parametrize("starts", [(0, 0), (0, 1), (1, 0), (5, 2)])
@pytest.mark.parametrize("rows", [1, 5])
def test_all_is_read_before_anything_is_written(starts, op, form, rows):
    device = Device()
    values = noise((rows, 40), form)
    tile = device.tile(values)
    dst, data = (tile[:, s : s + 30] for s in starts)
    scale = {"scale": tile[:, 7:8]} if form == "float32" else {}
    device.issue(
        "activation", dst, getattr(nl, op), data, tile[:, starts[0] : starts[0] + 1], **scale
    )
    before = affine(
        values[:, starts[1] : starts[1] + 30],
        values[:, 7:8] if scale else None,
        values[:, starts[0] : starts[0] + 1],
    )
    want = values.copy()
    want[:, starts[0] : starts[0] + 30] = activated(Device(), op, before, form)
    same(tile.numpy(), want)


@pytest.mark.parametrize("op", ["square", "relu", "exp"])
@pytest.mark.parametrize("rows", [1, 3])
def test_addresses_that_overlap_are_one_memory(rows, op):
    device = Device()
    values = noise((rows, 12), special=False)
    src, dst = device.tile(values, address=(64, 8)), device.empty((rows, 12), address=(64, 12))
    device.issue("activation", dst, getattr(nl, op), src)
    same(dst.numpy(), activated(Device(), op, values))
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
