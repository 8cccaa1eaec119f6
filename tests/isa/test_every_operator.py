"""Every operator of each instruction that has operators: with every other operator, in every order
of the operands, with tiles and with numbers. Results are compared with the plain reading."""

from itertools import cycle, islice, product

import pytest
from alu import LOGICAL, MAGNITUDES, PLAIN, TWO_OPERANDS, UNARY_V4
from calls import ONE_CORE, Case
from device import TARGETS, Device
from every import for_all

from neuroncore import machine
from neuroncore.clause.alu import OPERATORS
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.clause.operand import Act, Op

ALONE = ("abs", "reciprocal", *UNARY_V4)
NUMBERS = {"op0": ("operand0", "imm0"), "op1": ("operand1",)}


def parameters(name, kind=Op):
    return [p.name for p in INSTRUCTIONS[name].parameters if isinstance(p.declared, kind)]


COMPUTE = [n for n in ONE_CORE if parameters(n) and INSTRUCTIONS[n].module == "nki.isa"]
COMPUTE = [n for n in COMPUTE if not parameters(n, Act)]  # test_activation.py, test_exponential.py


def number_of(instruction, parameter):
    """Return the name of the number that an operator needs, or None if it needs a whole tile."""
    scalars = [p.name for p in instruction.operands if p.operand.scalar]
    return next((name for name in NUMBERS.get(parameter, ()) if name in scalars), None)


def operators(instruction, parameter, one):
    """Return the operators that are legal for a parameter on a machine."""
    declared, newest = instruction.declared[parameter], one.has("magnitude_operators")
    if declared.names:
        return declared.names
    if declared.reduces:
        return [*PLAIN, *LOGICAL]
    names = [*TWO_OPERANDS, *(MAGNITUDES if newest else ())]
    return [*names, *ALONE[: 4 if newest else 2]] if number_of(instruction, parameter) else names


def combinations(name, target):
    """Return all combinations of operators for the parameters, on the machine that has most of
    them."""
    instruction, one, names = INSTRUCTIONS[name], machine.load(target), parameters(name)
    if instruction.feature and not one.has(instruction.feature):
        return []
    each = [operators(instruction, parameter, one) for parameter in names]
    longest = max(map(len, each))
    together = product(*each) if target == "trn3" else islice(zip(*map(cycle, each)), longest)
    return [dict(zip(names, ops, strict=True)) for ops in together]


def arguments(case, ops):
    """Return the arguments of a call with these operators; its turn determines the order of
    operands."""
    changed = {parameter: OPERATORS[op] for parameter, op in ops.items()}
    reverses = () if case.name == "tensor_scalar_reduce" else ("reverse0", "reverse1")
    for reverse, period in zip(reverses, (2, 3), strict=False):
        if reverse in case.instruction.declared:
            alone = ops.get(reverse.replace("reverse", "op")) in ALONE
            changed[reverse] = bool(case.turn // 2 % period) and not alone
    for parameter, op in ops.items():
        if op in ALONE:
            changed[number_of(case.instruction, parameter)] = 0
    return case.arguments | changed


@for_all("target", TARGETS)
@pytest.mark.parametrize("name", COMPUTE)
def test_every_operator(name, target):
    device, together = Device(target), combinations(name, target)
    for turn, ops in enumerate(together):
        bitwise = any(OPERATORS[op].kind == "bitvec" for op in ops.values())
        case = Case(device, name, "int32" if bitwise else "float32", 3, 7, turn)
        device.issue(name, **arguments(case, ops))
    if together:
        device.agrees()
    assert not device.findings
