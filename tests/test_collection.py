"""Collecting tests costs little: every process that runs some of them collects all."""

import pytest
from device import Device

from neuroncore.base.errors import KernelError


def refused(function, *arguments):
    """Whether it may not be called now."""
    try:
        function(*arguments)
    except RuntimeError as error:
        return "parametrise over names" in str(error)
    return False


WHILE_COLLECTING = [refused(Device), refused(KernelError, "statement")]


def test_nothing_is_issued_or_checked_while_tests_are_collected():
    assert all(WHILE_COLLECTING)


@pytest.mark.parametrize("made", [Device, lambda: KernelError("statement")])
def test_but_it_is_while_they_run(made):
    assert not refused(made)
