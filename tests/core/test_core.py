"""The core: what it says of itself, and the one way by which instructions happen on it."""

import inspect
from dataclasses import replace

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import Device

from neuroncore.base.errors import DefinitionError
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.core.binding import bound
from neuroncore.frontend import issue


def test_a_core_is_one_short_line():
    device = Device("trn2")
    device.issue("memset", device.empty((4, 4)), 1.0)
    assert repr(device.core) == "Core(trn2, program 0, 1 instructions)"
    assert repr(Device("trn1", record=False).core) == "Core(trn1, program 0, no record)"


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_one_function_binds_checks_executes_and_notes(name):
    function = inspect.unwrap(issue.function(name))
    assert function.__code__.co_name == name
    assert {"prepare", "settle", "staged", "ISSUED"} <= {*function.__code__.co_names}


@pytest.mark.parametrize("name", ["core", "key", "settle", "tile"])
def test_a_clause_has_no_parameter_by_a_name_of_the_function_that_issues_it(name):
    clause = replace(INSTRUCTIONS["reciprocal"])
    vars(clause)["parameters"] = tuple(replace(p, name=name) for p in clause.parameters[:1])
    with pytest.raises(DefinitionError, match=f"reciprocal can't have a parameter '{name}'"):
        bound(clause, print, print)


def test_an_offset_in_a_register_does_what_the_same_number_does():
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
