"""Files of runs that were changed are refused with a sentence, or replay inside their tensors."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import mutations


def test_two_hundred_mutations(tmp_path):
    found = mutations.outcomes(tmp_path, 200, seed=1)
    assert sum(found.values()) == 200 and min(found["refused"], found["replayed"]) > 20
