"""Damaged files of runs are refused with one sentence, or are replayed without access outside their
tensors."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import damaged_records


def test_a_hundred_damaged_records(tmp_path):
    found = damaged_records.outcomes(tmp_path, 100, seed=1)
    assert sum(found.values()) == 100 and min(found["refused"], found["replayed"]) > 10
