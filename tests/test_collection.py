"""Collecting tests takes little time, because every process that runs some of them collects all."""

import pytest
from device import Device

from neuroncore.base.errors import KernelError


def refused(function, *arguments):
    """Return whether the function is refused at this time."""
    try:
        function(*arguments)
    except RuntimeError as error:
        return "parametrize over names" in str(error)
    return False


WHILE_COLLECTING = [refused(Device), refused(KernelError, "statement")]


def test_nothing_is_issued_or_checked_while_tests_are_collected():
    assert all(WHILE_COLLECTING)


@pytest.mark.parametrize("made", [Device, lambda: KernelError("statement")])
def test_instructions_are_issued_while_tests_run(made):
    assert not refused(made)
