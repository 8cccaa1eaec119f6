"""Compile-time constants of instructions: a value of a wrong type is refused with neuroncore's
message, for every parameter."""

import numpy as np
import pytest
from accepted import accepted
from calls import ONE_CORE, Case
from device import TARGETS, Device

from neuroncore.base.errors import DtypeError, DynamicControlError, KernelError, SignatureError
from neuroncore.clause.immediate import Immediate, Register
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.clause.operand import Act, Op, Operand, Static
from neuroncore.memory.register import VirtualRegister
from neuroncore.memory.tile import Tile

JUNK = ("abc", object(), [1, "2"], {}, 1j)
DECLARED = [
    (one.name, p.name)
    for one in INSTRUCTIONS.values()
    for p in one.parameters
    if isinstance(p.declared, Immediate | Register)
    or (isinstance(p.declared, Static) and p.declared.flag)
]


class Refused(Exception):
    """Raised when the wrong value was refused, to end the test."""


class Spoiled(Device):
    """A device that replaces one argument of an instruction by a wrong value."""

    def __init__(self, target, name, argument, junk):
        super().__init__(target)
        self.name, self.argument, self.junk = name, argument, junk

    def issue(self, name, *args, **kwargs):
        if name != self.name:
            return super().issue(name, *args, **kwargs)
        names = [p.name for p in INSTRUCTIONS[name].parameters]
        kwargs = {**dict(zip(names, args)), **kwargs, self.argument: self.junk}
        tiles = [value for value in kwargs.values() if isinstance(value, Tile)]
        before = self._state(tiles)
        with pytest.raises(KernelError) as caught:
            super().issue(name, **kwargs)
        assert self.argument in str(caught.value)
        assert self._state(tiles) == before
        raise Refused


@pytest.mark.parametrize(("name", "argument"), DECLARED)
def test_a_wrong_value_is_refused_by_name_and_leaves_no_trace(name, argument):
    if name not in ONE_CORE:
        pytest.skip("takes several cores: test_system.py and test_collectives.py have its refusals")
    has_tiles = bool(INSTRUCTIONS[name].operands)
    target = next(t for t in reversed(TARGETS) if not has_tiles or accepted(name, t))
    for junk in JUNK:
        with pytest.raises(Refused):
            Case(Spoiled(target, name, argument, junk), name).issue()


@pytest.mark.parametrize(
    ("value", "taken"), [(3, 3), (np.int64(3), 3), (True, 1), (np.uint8(255), 255)]
)
def test_integers_of_any_type_become_python_integers(value, taken):
    found = Immediate(int).take("iota", "offset", value)
    assert (type(found), found) == (int, taken) or found is value


@pytest.mark.parametrize("value", [2, 2.5, np.float32(2.5), np.int8(2), float("inf")])
def test_numbers_of_any_type_are_accepted(value):
    assert Immediate(float).take("memset", "value", value) == value


def test_a_float_is_not_accepted_as_an_integer():
    with pytest.raises(SignatureError, match="offset must be an integer"):
        Immediate(int).take("iota", "offset", 2.0)


def test_numbers_have_a_range():
    word = Immediate(int, 0, 3)
    assert word.take("dma_copy", "priority", 3) == 3
    with pytest.raises(DtypeError, match="priority can't be 4"):
        word.take("dma_copy", "priority", 4)


@pytest.mark.parametrize(("depth", "wrap"), [(0, lambda v: v), (1, lambda v: [1, v])])
def test_a_run_time_value_is_refused_by_the_name_of_its_parameter(depth, wrap):
    late = ((VirtualRegister(3), "register"), (Device().zeros((4, 1)), "4 x 1"))
    for value, word in late:
        with pytest.raises(DynamicControlError) as caught:
            Immediate(int, depth=depth).take("topk", "n", wrap(value))
        assert caught.value.argument == "n" and "topk: n must be" in str(caught.value)
        assert word in caught.value.because


def test_lists_of_lists_become_tuples():
    word = Immediate(int, depth=2)
    assert word.take("iota", "pattern", [[1, np.int32(4)], (2, 3)]) == ((1, 4), (2, 3))
    for junk in ("ab", [1, 2], [["a", 1]], [[1.5, 2]]):
        with pytest.raises(SignatureError, match="pattern must be a list of lists"):
            word.take("iota", "pattern", junk)


def test_every_parameter_of_every_clause_is_declared():
    kinds = Operand | Op | Act | Static | Immediate | Register
    for one in INSTRUCTIONS.values():
        for p in one.parameters:
            assert isinstance(p.declared, kinds), (one.name, p.name)


@pytest.mark.parametrize("value", [4.0, np.float32(4)])
def test_offsets_of_patterns_are_whole_numbers_even_as_floats(value):
    device = Device()
    dst = device.empty((2, 3), "int32")
    device.issue("iota", dst, [[1, 3]], value, value)
    assert dst.numpy().tolist() == [[4, 5, 6], [8, 9, 10]]
    device.refuses(SignatureError, "iota", dst, [[1, 3]], 4.5, words=["offset must be an integer"])


def test_a_shuffle_s_mask_may_be_computed_in_floats():
    device = Device()
    src, dst = device.tile(np.arange(64, dtype=np.float32).reshape(32, 2)), device.empty((32, 2))
    device.issue("nc_stream_shuffle", dst, src, [float(31 - i) for i in range(32)])
    assert np.array_equal(dst.numpy(), src.numpy()[::-1])
    device.refuses(SignatureError, "nc_stream_shuffle", dst, src, [0.5] * 32, words=["integers"])
