"""scalar_tensor_tensor and reciprocal."""

from itertools import cycle, product

import nki.language as nl
import numpy as np
from alu import MAGNITUDES, TWO_OPERANDS, UNARY
from calls import PAIRS, values
from device import Device, noise, same
from every import for_all

# --- scalar_tensor_tensor -------------------------------------------------------------------------


def fused(device, data, op0, scalar, op1, other, dtype="float32", **flags):
    dst = device.empty(data.shape, dtype)
    scalar = device.tile(scalar) if isinstance(scalar, np.ndarray) else scalar
    device.issue(
        "scalar_tensor_tensor",
        *(dst, device.tile(data), getattr(nl, op0), scalar, getattr(nl, op1), device.tile(other)),
        **flags,
    )
    return dst


def test_every_pair_of_operators_in_every_order():
    """On the machine that has all operators; test_every_instruction.py has them on the others."""
    device, orders = Device("trn3"), cycle(product((False, True), (False, True)))
    data, other, column = noise((3, 5)), noise((3, 5), seed=1), noise((3, 1), seed=2)
    two = [*TWO_OPERANDS, *MAGNITUDES]
    for op0, op1 in product([*two, "abs", "reciprocal"], two):
        for scalar in (0,) if op0 in UNARY else (column, -1.5):
            reverse0, reverse1 = next(orders)
            turned = {"reverse0": reverse0 and op0 not in UNARY, "reverse1": reverse1}
            fused(device, data, op0, scalar, op1, other, **turned)
    device.agrees()
    assert not device.findings


def test_the_intermediate_is_not_rounded_to_dst():
    device = Device()
    data, other = np.full((1, 1), 256, "bfloat16"), np.full((1, 1), -256, "bfloat16")
    got = fused(device, data, "add", 1.0, "add", other, "bfloat16")
    assert got.numpy().astype(np.float32) == 1


def test_multiplication_and_addition_round_separately():
    x, device = np.float32([[1 + 2**-12]]), Device()
    got = fused(device, x, "multiply", x, "subtract", np.float32([[1 + 2**-11]]))
    assert got.numpy() == 0  # a fused multiply-add would leave 2^-24


def test_strided_broadcast_and_differently_shaped_operands():
    device = Device()
    data, other = device.tile(noise((6, 9, 10))), device.tile(noise((6, 1, 4), seed=1))
    dst, views = device.tile(noise((6, 24), "float16", 2)), (data[:, ::3, 1:9:2], other)
    device.issue(
        "scalar_tensor_tensor", dst[:, ::2], views[0], nl.subtract, 1, nl.less,
        other.broadcast(1, 3),
    )  # fmt: skip
    device.agrees()


STARTS = [(0, 0, 0), (0, 1, 0), (1, 0, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1), (2, 1, 0), (0, 9, 9)]


@for_all("starts", STARTS)
def test_operands_may_overlap_dst(starts):
    device = Device()
    for rows, form, width, column in product((1, 5), ("float32", "bfloat16"), (1, 10), (0, 5, 19)):
        tile = device.tile(noise((rows, 20), form))
        dst, data, other = (tile[:, s : s + width] for s in starts)
        scalar = tile[:, column : column + 1]
        device.issue("scalar_tensor_tensor", dst, data, nl.subtract, scalar, nl.maximum, other)
    device.agrees()


# --- reciprocal -----------------------------------------------------------------------------------


def test_reciprocals_of_all_formats_in_all():
    device = Device("trn3")
    for before, after in PAIRS:
        data = device.tile(values(before, (3, 65)), before)
        device.issue("reciprocal", device.empty((3, 65), after), data)
    device.agrees()


def test_reciprocals_of_what_has_none():
    device = Device()
    data = device.tile(np.float32([[0, -0.0, np.inf, -np.inf, np.nan, 1e-40]]))
    dst = device.empty((1, 6))
    device.issue("reciprocal", dst, data)
    same(dst.numpy(), np.float32([[np.inf, -np.inf, 0, -0.0, np.nan, np.inf]]))
