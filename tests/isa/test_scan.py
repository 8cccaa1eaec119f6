"""tensor_tensor_scan: a recurrence along the free axes, with a float32 state."""

import nki.language as nl
import numpy as np
from device import Device, noise, same
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


def test_the_start_may_be_a_number():
    device = Device()
    for initial in (0, -1.5, np.inf, np.nan, np.float32(2), 2**24 + 1):
        scan(device, noise((9, 5)), noise((9, 5), seed=1), initial, "add", "subtract")
    device.agrees()


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 12))
def test_a_scan_can_be_continued(seed, columns, rows):
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
