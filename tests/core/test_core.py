"""The core: what it says of itself, and the one way by which instructions happen on it."""

import inspect
from dataclasses import replace

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import Device

from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.core.binding import bound
from neuroncore.errors import DefinitionError


def test_a_core_is_one_short_line():
    device = Device("trn2")
    device.issue("memset", device.empty((4, 4)), 1.0)
    assert repr(device.core) == "Core(trn2, program 0, 1 instructions)"
    assert repr(Device("trn1", record=False).core) == "Core(trn1, program 0, no record)"


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_one_function_binds_checks_executes_and_notes(name):
    function = inspect.unwrap(getattr(nisa, name))
    assert function.__code__.co_name == name
    assert {"prepare", "settle", "stage", "ISSUED"} <= {*function.__code__.co_names}


@pytest.mark.parametrize("name", ["core", "key", "settle", "tile"])
def test_a_clause_has_no_parameter_by_a_name_of_the_function_that_issues_it(name):
    clause = INSTRUCTIONS["reciprocal"]
    renamed = tuple(replace(p, name=name) for p in clause.parameters[:1])
    with pytest.raises(DefinitionError, match=f"reciprocal can't have a parameter '{name}'"):
        bound(replace(clause, parameters=renamed), print, print)


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
