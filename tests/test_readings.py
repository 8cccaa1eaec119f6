"""The comparison with the plain reading detects a wrong element, and a write next to it."""

import nki.language as nl
import numpy as np
import pytest
from device import Device


@pytest.fixture
def device():
    device = Device()
    device.x = device.tile(np.arange(12, dtype=np.float32).reshape(3, 4))
    device.wide = device.tile(np.ones((3, 6), np.float32))
    device.issue("tensor_scalar", device.wide[:, ::2], device.x[:, :3], nl.multiply, 2.0)
    device.issue("activation", device.wide[:, :2], nl.exp, device.x[:, :2])
    device.agrees()
    return device


@pytest.mark.parametrize("column, said", [(1, "activation: dst"), (2, "tensor_scalar: dst")])
def test_each_result_is_compared_where_no_later_instruction_wrote(device, column, said):
    device.wide.codes()[2, column] += 0.5
    with pytest.raises(AssertionError, match=rf"{said}\[2, 1\] is .*plain reading has"):
        device.agrees()


def test_elements_that_no_instruction_wrote_must_not_change(device):
    device.wide.codes()[1, 3] = 7
    with pytest.raises(AssertionError, match=r"\(3, 6\) was overwritten"):
        device.agrees()


def test_sources_must_not_change(device):
    device.x.codes()[0, 0] = 7
    with pytest.raises(AssertionError, match="was overwritten"):
        device.agrees()


def test_elements_that_are_marked_as_written_must_be_written():
    device = Device()
    dst = device.empty((3, 4))
    device.issue("memset", dst[:, :2], 1.0)
    device.agrees()
    dst.mark_written()
    with pytest.raises(AssertionError, match="noted as written"):
        device.agrees()
