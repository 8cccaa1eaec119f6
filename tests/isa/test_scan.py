"""tensor_tensor_scan: a recurrence along the free axes, its state in float32."""

import nki.language as nl
import numpy as np
import pytest
from alu import MAGNITUDES, TWO_OPERANDS, alu
from device import TARGETS, Device, converted, noise, same
from every import for_all
from hypothesis import given
from hypothesis import strategies as st

from neuroncore.base.errors import TargetError

FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
SHAPES = ((1, 1), (3, 7), (128, 33), (96, 5, 3), (5, 2, 3, 4))


def scan(device, data0, data1, initial, op0, op1, dtype="float32", shape=None, **flags):
    dst = device.empty(shape or data0.shape, dtype)
    initial = device.tile(initial) if isinstance(initial, np.ndarray) else initial
    tiles = device.tile(data0), device.tile(data1)
    device.issue(
        "tensor_tensor_scan", dst, *tiles, initial, getattr(nl, op0), getattr(nl, op1), **flags
    )
    assert device.findings == []
    return dst.numpy()


def expected(data0, data1, initial, op0, op1, reverse0=False, reverse1=False):
    first, second = (x.astype(np.float32).reshape(len(x), -1) for x in (data0, data1))
    state = np.broadcast_to(np.asarray(initial, np.float32).reshape(-1), len(first))
    rows = []
    for a, b in zip(first.T, second.T, strict=True):
        state = alu(op1, alu(op0, a, state, reverse0), b, reverse1)
        rows.append(state)
    return np.stack(rows, axis=1).reshape(data0.shape)


def given_operands(shape, forms=("float32",) * 3, special=False):
    data0, data1 = (noise(shape, f, i, special) for i, f in enumerate(forms[:2]))
    return data0, data1, noise((shape[0], 1), forms[2], 2, special)


@for_all("op1", TWO_OPERANDS)
@pytest.mark.parametrize("op0", TWO_OPERANDS)
def test_every_pair_of_operators(op0, op1):
    data0, data1, initial = given_operands((33, 12), special=True)
    for flags in ({}, {"reverse0": True}, {"reverse1": True}, {"reverse0": True, "reverse1": True}):
        for start in (initial, 0.5):
            call = data0, data1, start, op0, op1
            same(scan(Device(), *call, **flags), expected(*call, **flags))


@pytest.mark.parametrize("op", MAGNITUDES)
def test_magnitudes_are_v4s(op):
    call = *given_operands((9, 12)), "multiply", op
    same(scan(Device("trn3"), *call), expected(*call))
    device = Device("trn2")
    x, column = device.tile(noise((3, 4))), device.zeros((3, 1))
    args = x, x, x, column, getattr(nl, op), nl.add
    error = device.refuses(TargetError, "tensor_tensor_scan", *args, words=[op, "trn2"])
    assert error.code == "TARGET"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("ops", [("multiply", "add"), ("subtract", "maximum")])
@pytest.mark.parametrize("shape", SHAPES)
def test_all_free_axes_are_one_run(shape, ops, target):
    call = *given_operands(shape), *ops
    same(scan(Device(target), *call), expected(*call))


@for_all("after", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("form", [*FLOATS, *INTEGERS])
def test_every_format(form, after):
    call = *given_operands((9, 12), (form, "bfloat16", form)), "maximum", "subtract"
    same(scan(Device(), *call, after), converted(expected(*call), after))
    call = *given_operands((9, 12), ("float16", form, "int8")), "add", "minimum"
    same(scan(Device(), *call, after), converted(expected(*call), after))


def test_the_state_stays_float32():
    ones = np.ones((1, 4), np.float32)
    got = scan(Device(), ones, 0 * ones, 256, "add", "add", "bfloat16")
    assert got.astype(np.float32).tolist() == [[256, 258, 260, 260]]  # of 257, 258, 259, 260


def test_a_scan_runs_from_left_to_right():
    data0, data1 = np.float32([[2, 3, 4]]), np.float32([[1, 10, 100]])
    assert scan(Device(), data0, data1, 1, "multiply", "add").tolist() == [[3, 19, 176]]


@pytest.mark.parametrize(
    ("flags", "want"),
    [
        ({}, [9 - 1, 20 - 8 - 2]),  # (data0 - r) - data1
        ({"reverse0": True}, [-9 - 1, -10 - 20 - 2]),  # (r - data0) - data1
        ({"reverse1": True}, [1 - 9, 2 - 28]),  # data1 - (data0 - r)
    ],
)
def test_operands_are_swapped_on_request(flags, want):
    data0, data1 = np.float32([[9, 20]]), np.float32([[1, 2]])
    got = scan(Device(), data0, data1, 0, "subtract", "subtract", **flags)
    assert got.tolist() == [want]


@pytest.mark.parametrize("initial", [0, -1.5, np.inf, np.nan, np.float32(2), 2**24 + 1])
def test_the_start_may_be_a_number(initial):
    data0, data1, _ = given_operands((9, 5))
    call = data0, data1, initial, "add", "subtract"
    same(scan(Device(), *call), expected(*call))


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 12))
def test_a_scan_goes_on_where_it_stopped(seed, columns, rows):
    rng = np.random.default_rng(seed)
    data0, data1 = rng.normal(size=(2, rows, columns)).astype(np.float32)
    device = Device()
    x, y = device.tile(data0), device.tile(data1)
    whole, parts = device.empty(data0.shape), device.empty(data0.shape)
    device.issue("tensor_tensor_scan", whole, x, y, 1.0, nl.multiply, nl.add)
    cut, state = rng.integers(0, columns), 1.0
    for part in (slice(0, cut), slice(cut, columns)):
        if part.start < part.stop:
            views = (t[:, part] for t in (parts, x, y))
            device.issue("tensor_tensor_scan", *views, state, nl.multiply, nl.add)
            state = parts[:, part.stop - 1 : part.stop]
    same(parts.numpy(), whole.numpy())


@pytest.mark.parametrize("where", [("sbuf", "sbuf"), ("psum", "sbuf"), ("sbuf", "psum")])
@pytest.mark.parametrize("others", [("sbuf", "psum"), ("psum", "sbuf")])
def test_memories(where, others):
    device = Device()
    data0, data1, initial = given_operands((9, 5))
    dst = device.empty((9, 5), "float16", others[0])
    tiles = (device.tile(x, buffer=b) for x, b in ((data0, where[0]), (data1, where[1])))
    start = device.tile(initial, buffer=others[1])
    device.issue("tensor_tensor_scan", dst, *tiles, start, nl.multiply, nl.add)
    want = expected(data0, data1, initial, "multiply", "add")
    same(dst.numpy(), converted(want, "float16"))


@pytest.mark.parametrize("form", ["float32", "bfloat16"])
@pytest.mark.parametrize("starts", [(0, 0, 0), (1, 0, 2), (0, 1, 0), (0, 1, 1), (2, 1, 0)])
@pytest.mark.parametrize("rows", [1, 5])
def test_all_is_read_before_anything_is_written(starts, form, rows):
    device = Device()
    values = noise((rows, 40), form, special=False)
    tile = device.tile(values)
    views = [tile[:, s : s + 30] for s in starts]
    device.issue("tensor_tensor_scan", *views, tile[:, 7:8], nl.subtract, nl.maximum)
    a, b = (values[:, s : s + 30] for s in starts[1:])
    want = values.copy()
    part = expected(a, b, values[:, 7:8], "subtract", "maximum")
    want[:, starts[0] : starts[0] + 30] = converted(part, form)
    same(tile.numpy(), want)


def test_strided_broadcast_and_differently_shaped_operands():
    device = Device()
    data0, data1, old = noise((6, 9, 10)), noise((6, 1, 4), seed=1), noise((6, 24), "float16", 2)
    dst = device.tile(old)
    views = device.tile(data0)[:, ::3, 1:9:2], device.tile(data1).broadcast(1, 3)
    device.issue("tensor_tensor_scan", dst[:, ::2], *views, 0.5, nl.minimum, nl.add)
    want = old.copy()
    part = expected(data0[:, ::3, 1:9:2], np.repeat(data1, 3, axis=1), 0.5, "minimum", "add")
    want[:, ::2] = converted(part.reshape(6, 12), "float16")
    same(dst.numpy(), want)
