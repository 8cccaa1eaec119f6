"""scalar_tensor_tensor and reciprocal."""

import nki.language as nl
import numpy as np
from device import Device, same

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


def test_multiplication_and_addition_round_separately():
    x, device = np.float32([[1 + 2**-12]]), Device()
    got = fused(device, x, "multiply", x, "subtract", np.float32([[1 + 2**-11]]))
    assert got.numpy() == 0  # a fused multiply-add would leave 2^-24


# --- reciprocal -----------------------------------------------------------------------------------


def test_reciprocals_of_zeros_infinities_and_nan():
    device = Device()
    data = device.tile(np.float32([[0, -0.0, np.inf, -np.inf, np.nan, 1e-40]]))
    dst = device.empty((1, 6))
    device.issue("reciprocal", dst, data)
    same(dst.numpy(), np.float32([[np.inf, -np.inf, 0, -0.0, np.nan, np.inf]]))
