"""The core: its text, and the single path by which it issues instructions."""

import inspect

import nki.isa as nisa
import nki.language as nl
import numpy as np
from device import Device
from every import for_all

from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.core import execute
from neuroncore.frontend import issue


def test_a_core_is_one_short_line():
    device = Device("trn2")
    device.issue("memset", device.empty((4, 4)), 1.0)
    assert repr(device.core) == "Core(trn2, program 0, 1 instruction)"
    assert repr(Device("trn1", record=False).core) == "Core(trn1, program 0, no record)"


@for_all("name", INSTRUCTIONS)
def test_one_function_binds_checks_and_records_and_one_executes(name):
    function = inspect.unwrap(issue.function(name))
    assert function.__module__ == "neuroncore.frontend.instructions"
    assert {"prepare", "settle", "execute", name} <= {*function.__code__.co_names}
    assert "staged" in getattr(execute, name).__code__.co_names


def test_an_offset_in_a_register_has_the_effect_of_the_same_number():
    def run(start):
        device = Device()
        x, out = device.tile(np.arange(32, dtype=np.float32).reshape(4, 8)), device.zeros((4, 4))
        at = device.call(nisa.register_alloc, start) if start else 3
        for reads, writes in ((x[:, nl.ds(at, 4)], out), (out, x[:, nl.ds(at, 4)])):
            device.issue("tensor_scalar", writes, reads, nl.add, 1.0)
        return x.numpy(), out.numpy(), out.storage.version, x.storage.version

    for fixed, dynamic in zip(run(None), run(3)):
        assert np.array_equal(fixed, dynamic)


def test_parameters_at_their_defaults_make_the_same_call_as_those_left_out():
    device = Device()
    x, out = device.tile(np.ones((4, 8), np.float32)), device.zeros((4, 8))
    calls = device.core.program.calls
    before = len(calls)
    device.issue("tensor_scalar", out, x, nl.add, 1.0)
    device.issue("tensor_scalar", out, x, nl.add, 1.0, reverse0=False, engine=nisa.engine.unknown)
    assert len(calls) == before + 1
    device.issue("tensor_scalar", out, x, nl.add, 1.0, engine=nisa.engine.vector)
    device.issue("tensor_scalar", out, x, nl.subtract, 1.0, reverse0=True)
    assert len(calls) == before + 3 and (out.numpy() == 0).all()


def test_a_call_that_was_found_legal_decides_once_what_to_run():
    device = Device()
    x, out = device.tile(np.arange(32, dtype=np.float32).reshape(4, 8)), device.zeros((4, 8))
    for data in (x, out):
        device.issue("tensor_tensor", out, data, x, nl.add)
    (call,) = [c for c in device.core.program.calls if c.name == "tensor_tensor"]
    run = call.run
    device.issue("tensor_tensor", out, x, x, nl.subtract)
    assert call.run is run and (out.numpy() == 0).all()
    run(out, x, x)
    assert np.array_equal(out.numpy(), 2 * x.numpy())
