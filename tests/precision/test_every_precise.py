"""Every instruction of one core also runs in float64, in every format: on the newest machine that
has it, because the computation in float64 is the same on all machines."""

import pytest
from accepted import accepted
from calls import ONE_CORE, SIZES, Case
from device import TARGETS, Device
from every import every, for_all

from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.core.precision.findings import Precision
from neuroncore.core.precision.shadow import Shadow


def forms_of(name, target):
    """Return the formats of an instruction that no newer machine has."""
    if not INSTRUCTIONS[name].operands:
        return ["float32"] * (target == TARGETS[-1])
    newer = TARGETS[TARGETS.index(target) + 1 :]
    return sorted({*accepted(name, target)}.difference(*(accepted(name, one) for one in newer)))


def cases(name, target):
    """Yield each format that an operand may have, and each size."""
    device = Device(target, experimental=True)  # for products with structured sparsity
    device.core.shadow = Shadow(device.core, Precision())
    forms = forms_of(name, target)
    for turn in range(max(len(forms), len(SIZES)) if forms else 0):
        yield Case(device, name, str(forms[turn % len(forms)]), *SIZES[turn % len(SIZES)], turn)


@for_all("target", TARGETS)
@pytest.mark.parametrize("name", ONE_CORE)
def test_an_instruction_gives_the_same_bits_if_errors_are_followed(name, target):
    made = [*cases(name, target)]
    every(made, Case.issue)
    if made:
        made[0].device.agrees()
