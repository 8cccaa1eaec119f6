"""activation and activation_reduce: scale, bias, function, rounding; legal and illegal operands."""

from itertools import product

import nki.language as nl
import numpy as np
import pytest
from device import TARGETS, Device, noise, same
from every import for_all

from neuroncore.clause.alu import FUNCTIONS
from neuroncore.clause.arithmetic import WORTH


def activated(device, op, data, dtype="float32", name="activation", **options):
    dst = device.empty(data.shape, dtype)
    options = {k: device.tile(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    if name == "activation_reduce":
        options |= {"reduce_op": nl.add, "reduce_res": None}
    device.issue(name, dst, getattr(nl, op), device.tile(data), **options)
    return dst.numpy()


# --- values ---------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("columns", [9, WORTH // 16])
def test_a_constant_bias_is_added_to_all_partitions_of_a_tile_of_any_size(columns):
    data, device = noise((16, columns)), Device("trn2")
    got = activated(device, "abs", data, scale=2.0, bias=0.75)
    with np.errstate(over="ignore"):
        same(got, np.abs(data * np.float32(2.0) + np.float32(0.75)))
    device.agrees()


def test_multiplication_and_addition_round_separately():
    x = np.float32([[1 + 2**-12]])
    got = activated(Device(), "copy", x, scale=x, bias=np.float32([[-(1 + 2**-11)]]))
    assert got == 0  # a fused multiply-add would leave 2^-24


@pytest.mark.parametrize("bias", [0, 0.0, np.zeros((1, 1), np.float32)])
def test_adding_zero_turns_minus_zero_into_plus_zero(bias):
    data = np.float32([[-0.0]])
    same(activated(Device(), "copy", data, bias=bias), np.float32([[0.0]]))
    same(activated(Device(), "copy", data), data)


# --- shapes, views, memories ----------------------------------------------------------------------


@for_all("rows, op", product((1, 3), ("square", "relu", "exp")))
def test_addresses_that_overlap_are_one_memory(rows, op):
    device, numbers = Device(), noise((rows, 12), special=False)
    src, dst = device.tile(numbers, address=(64, 8)), device.empty((rows, 12), address=(64, 12))
    device.issue("activation", dst, getattr(nl, op), src)
    same(dst.numpy(), activated(Device(), op, numbers))
    same(src.numpy()[:, 1:], dst.numpy()[:, :-1])
