"""tensor_tensor_scan: a recurrence along the free axes, its state in float32."""

from itertools import cycle, product

import nki.language as nl
import numpy as np
from alu import MAGNITUDES, TWO_OPERANDS
from calls import PAIRS, values
from device import TARGETS, Device, noise, same
from every import for_all
from hypothesis import given
from hypothesis import strategies as st


def scan(device, data0, data1, initial, op0, op1, dtype="float32", **flags):
    dst = device.empty(data0.shape, dtype)
    initial = device.tile(initial) if isinstance(initial, np.ndarray) else initial
    device.issue(
        "tensor_tensor_scan", dst, device.tile(data0), device.tile(data1), initial,
        getattr(nl, op0), getattr(nl, op1), **flags,
    )  # fmt: skip
    return dst


def test_every_pair_of_operators_in_every_order():
    """On the machine that has all operators; test_every_instruction.py has them on the others."""
    device, orders = Device("trn3"), cycle(product((False, True), (False, True)))
    starts = cycle((noise((3, 1), seed=2), 0.5, -1.5))
    data0, data1 = noise((3, 7)), noise((3, 7), seed=1)
    operators = [*TWO_OPERANDS, *MAGNITUDES]
    for op0, op1 in product(operators, operators):
        reverse0, reverse1 = next(orders)
        flags = {"reverse0": reverse0, "reverse1": reverse1}
        scan(device, data0, data1, next(starts), op0, op1, **flags)
    device.agrees()
    assert not device.findings


@for_all("target", TARGETS)
def test_all_free_axes_are_one_run(target):
    device = Device(target)
    for shape in ((1, 1), (33, 12), (9, 5, 3), (5, 2, 3, 4)):
        scan(device, noise(shape), noise(shape, seed=1), noise((shape[0], 1)), "multiply", "add")
    device.agrees()


def test_every_format():
    device = Device("trn3")
    for form, after in PAIRS:
        data = values(form, (3, 7))
        device.issue(
            "tensor_tensor_scan", device.empty((3, 7), after), device.tile(data, form),
            device.tile(noise((3, 7), "bfloat16")), 0.5, nl.maximum, nl.subtract,
        )  # fmt: skip
    device.agrees()


def test_the_state_stays_float32():
    ones = np.ones((1, 4), np.float32)
    got = scan(Device(), ones, 0 * ones, 256, "add", "add", "bfloat16").numpy()
    assert got.astype(np.float32).tolist() == [[256, 258, 260, 260]]  # of 257, 258, 259, 260


def test_a_scan_runs_from_left_to_right():
    data0, data1 = np.float32([[2, 3, 4]]), np.float32([[1, 10, 100]])
    got = scan(Device(), data0, data1, 1, "multiply", "add")
    assert got.numpy().tolist() == [[3, 19, 176]]


def test_operands_are_swapped_on_request():
    data0, data1, device = np.float32([[9, 20]]), np.float32([[1, 2]]), Device()
    for flags, want in (
        ({}, [9 - 1, 20 - 8 - 2]),  # (data0 - r) - data1
        ({"reverse0": True}, [-9 - 1, -10 - 20 - 2]),  # (r - data0) - data1
        ({"reverse1": True}, [1 - 9, 2 - 28]),  # data1 - (data0 - r)
    ):
        got = scan(device, data0, data1, 0, "subtract", "subtract", **flags)
        assert got.numpy().tolist() == [want]


def test_the_start_may_be_a_number():
    device = Device()
    for initial in (0, -1.5, np.inf, np.nan, np.float32(2), 2**24 + 1):
        scan(device, noise((9, 5)), noise((9, 5), seed=1), initial, "add", "subtract")
    device.agrees()


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


STARTS = [(0, 0, 0), (1, 0, 2), (0, 1, 0), (0, 1, 1), (2, 1, 0)]


@for_all("starts", STARTS)
def test_all_is_read_before_anything_is_written(starts):
    device = Device()
    for form, rows in product(("float32", "bfloat16"), (1, 5)):
        tile = device.tile(noise((rows, 40), form, special=False))
        views = [tile[:, s : s + 30] for s in starts]
        device.issue("tensor_tensor_scan", *views, tile[:, 7:8], nl.subtract, nl.maximum)
    device.agrees()


def test_strided_broadcast_and_differently_shaped_operands():
    device = Device()
    data0, data1 = device.tile(noise((6, 9, 10))), device.tile(noise((6, 1, 4), seed=1))
    dst = device.tile(noise((6, 24), "float16", 2))
    views = data0[:, ::3, 1:9:2], data1.broadcast(1, 3)
    device.issue("tensor_tensor_scan", dst[:, ::2], *views, 0.5, nl.minimum, nl.add)
    device.agrees()
