"""The time of transfers of spilled tiles."""

from types import SimpleNamespace

import pytest

from neuroncore.time.prepare import spill_ns


@pytest.mark.parametrize(("stack", "rate"), [(820, 18.1 * 16), (160, 160)])
def test_spilled_bytes_move_at_the_slower_rate_of_engines_and_stack(stack, rate):
    """trn1's engines move them at the rate of its stack, and at that of a slower stack."""
    machine = SimpleNamespace(
        hbm=SimpleNamespace(stack_gigabytes_per_s=stack),
        dma=SimpleNamespace(engines=16, gigabytes_per_s_per_engine=18.1),
    )
    moves = SimpleNamespace(bytes_of=lambda kind: 1000)
    assert spill_ns(moves, machine) == pytest.approx(2000 / rate)
