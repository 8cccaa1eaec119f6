"""Some calls that bench/fuzz.py generates, and the faults that it finds."""

import sys
from pathlib import Path

import pytest
from every import for_all

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import fuzz

from neuroncore.base.errors import KernelError


def test_random_calls_are_legal_or_refused_without_a_trace():
    tally = fuzz.fuzz(240, seed=3, calls=8)
    assert tally.calls == 240 and not tally.faults
    assert tally.legal.total() > 240 / 3


def test_every_instruction_has_a_seed():
    assert {*fuzz.SEEDS} == {*fuzz.INSTRUCTIONS}


def crash(*_, **__):
    raise ZeroDivisionError("a fault of the emulator")


def leave_something(dst, *_, **__):
    dst.codes()[...] = 7
    raise KernelError("refused, but too late")


@pytest.mark.parametrize(
    ("does", "said"), [(crash, "ZeroDivision"), (leave_something, "changed the state")]
)
def test_wrong_behavior_is_reported_as_a_fault(does, said, monkeypatch):
    device = fuzz.Recording("trn2")
    made = fuzz.Made("memset", (device.zeros((3, 5)), 1.0), {})
    monkeypatch.setattr(fuzz, "function", lambda name: does)
    with pytest.raises(fuzz.Fault, match=said):
        fuzz.attempt(device, made)


def test_scales_that_are_passed_twice_are_refused_like_any_argument():
    tally = fuzz.Tally()
    fuzz.round_of("dma_compute", "uint8", "trn2", 2026, 76, tally)
    assert not tally.faults


def test_a_call_that_is_refused_after_reading_leaves_no_finding():
    tally = fuzz.Tally()
    fuzz.round_of("nc_n_gather", "float32", "trn3", 2028, 59, tally)
    assert tally.calls == 59 and not tally.faults


@for_all("target", ["trn2", "trn3"])
@pytest.mark.parametrize("name", ["all_to_all", "all_gather_v", "all_to_all_v"])
def test_other_ranks_of_a_collective_send_operands_like_those_of_the_core(name, target):
    tally = fuzz.Tally()
    fuzz.round_of(name, "bfloat16", target, 0, 20, tally)
    assert tally.legal[name] > 3 and not tally.faults
