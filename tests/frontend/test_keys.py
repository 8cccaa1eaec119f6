"""The key of a call distinguishes equal numbers of different types: after a legal call, a call with
True, 1 or 1.0 instead ends as it would without earlier calls. Flags and the signs of zeros are
distinguished too."""

import nki.language as nl
import numpy as np
from calls import ONE_CORE, Case
from device import Device
from every import for_all

from neuroncore import machine
from neuroncore.base.errors import KernelError
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.core.legality import known

NUMBERS = bool, int, float


def called(name, turn):
    """Return a call that some machine accepts. If `turn` is odd, columns are numbers."""
    feature = INSTRUCTIONS[name].feature
    target = next(t for t in ("trn2", "trn3") if not feature or machine.load(t).has(feature))
    return Case(Device(target), name, lanes=3, free=32, turn=turn)


def ends(case, arguments):
    """Return the error of a call, or the bits that it leaves in its tiles."""
    try:
        case.device.issue(case.name, **arguments)
    except KernelError as error:
        return error.code, error.statement, error.got
    return [tile.codes().tobytes() for tile in case.tiles]


def numbers(case):
    """Return the arguments that are numbers, and each flag in both states."""
    for p in case.instruction.parameters:
        value = case.arguments.get(p.name, p.default)
        if type(value) in NUMBERS:
            yield from (
                (p.name, each) for each in ((True, False) if type(value) is bool else (value,))
            )


def equals(value):
    """Return equal numbers of other types."""
    return [kind(value) for kind in NUMBERS if type(value) is not kind and kind(value) == value]


def after(name, turn, changed, warm):
    """Return how the last of several calls ends, each with one changed argument: with the caches of
    the calls before it, or without them."""
    case = called(name, turn)
    for parameter, value in changed:
        if not warm:
            case.device.core.calls.clear()
            known.clear()
        end = ends(case, case.arguments | {parameter: value})
    return end


def others(value):
    """Return values that may replace a number: equal ones of other types, and the other flag."""
    return [*equals(value), "text", *([not value] if type(value) is bool else [])]


@for_all("name", ONE_CORE)
def test_equal_numbers_of_other_types_and_other_flags_are_distinguished(name):
    for turn in (0, 1, 4):  # 4 subtracts
        for parameter, value in numbers(called(name, turn)):
            for other in others(value):
                both = (parameter, value), (parameter, other)
                assert after(name, turn, both, False) == after(name, turn, both, True), both


def test_zeros_of_both_signs_are_recorded_separately():
    device = Device()
    x = device.tile(np.ones((1, 2), np.float32))
    for zero in (0.0, -0.0):
        dst = device.empty((1, 2))
        device.issue("tensor_scalar", dst, x, nl.multiply, zero)
        assert np.signbit(dst.numpy()).all() == np.signbit(zero)
    device.agrees()


def test_operands_that_only_one_operator_swaps_are_distinguished():
    device = Device()
    x = device.tile(np.full((1, 2), 3, np.float32))
    for swapped in (True, False):
        dst = device.empty((1, 2))
        both = {"op0": nl.subtract, "operand0": 1.0, "op1": nl.subtract, "operand1": 5.0}
        device.issue("tensor_scalar", dst, x, **both, reverse0=swapped, reverse1=True)
    device.agrees()
    assert dst.numpy().tolist() == [[3, 3]]
