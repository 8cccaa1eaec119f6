"""bench/peers.py: the kernels that it runs on neuroncore, and its message for a peer that is not
installed."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import peers

pytestmark = pytest.mark.source


@pytest.mark.parametrize("kernel, size", [("add", 128), ("softmax", 128), ("matmul", 512)])
def test_kernels_agree_with_numpy(kernel, size):
    seconds, *ratios = peers.ratios(kernel, size, peers.ours(), rounds=1)
    assert len(ratios) == 2 and min(seconds, *ratios) > 0


def test_a_missing_peer_is_left_out_with_the_reason(monkeypatch, capsys):
    make = peers.of_module("in_no_language", "Nothing", "pip install nothing")
    monkeypatch.setattr(peers, "PEERS", {"Nothing": ("nothing", make)})
    assert not dict(peers.installed())
    reason = "Nothing is not installed (No module named 'peer_kernels.in_no_language')"
    assert capsys.readouterr().out == f"without Nothing: {reason}: pip install nothing\n"
