"""Candidates get the same verdicts on the workers of a Dask scheduler as in local processes."""

import sys

import pytest
from candidates import CHEATS, HONEST

from neuroncore.eval import Pool, evaluate, load_spec
from neuroncore.eval.pool import Dask
from neuroncore.eval.worker import Candidate

distributed = pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="isolation needs Linux"),
    pytest.mark.filterwarnings("ignore"),
]
SPEC = """
import numpy as np
from neuroncore.eval import Spec

def inputs(seed, shape):
    return tuple(np.random.default_rng(seed).standard_normal((2, *shape), np.float32))

SPEC = Spec(lambda a, b: 2 * a + b, inputs, [(128, 64)], tol=1e-6, seeds=1, secret=5)
"""


def verdicts(spec, pool):
    """Return verdicts by candidate, without the time that they took."""
    sources = {"honest": HONEST, "nan": CHEATS["NaN"][1], "exit": "raise SystemExit"}
    candidates = [Candidate(f"{name} {n}", one) for name, one in sources.items() for n in range(2)]
    found = {one["candidate"]: one for one in evaluate(spec, candidates, pool)}
    assert len(found) == len(candidates)
    return {name: {**one, "cost": None} for name, one in found.items()}


def test_two_workers_give_the_same_verdicts(tmp_path):
    (tmp_path / "spec.py").write_text(SPEC)
    spec = load_spec(tmp_path / "spec.py")
    here = verdicts(spec, Pool())
    assert here["honest 0"]["passed"] and here["exit 1"]["error"]["code"] == "SystemExit"
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        assert verdicts(spec, Pool(executor=Dask(cluster.scheduler_address))) == here
