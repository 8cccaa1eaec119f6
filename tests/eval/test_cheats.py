"""Candidates that cheat or fail, each in an isolated process, and the judge's verdicts on them."""

import sys

import pytest
from candidates import CHEATS, HONEST, LOOP, spec, times

from neuroncore.eval.isolation import ProcessLimits
from neuroncore.eval.worker import Candidate, Worker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="isolation needs Linux")


@pytest.fixture(scope="module")
def worker():
    made = Worker(
        spec(), "linux", ProcessLimits(cpu_seconds=1, seconds=60.0, memory=2 << 30, processes=40)
    )
    yield made
    made.close()


@pytest.fixture(scope="module")
def honest(worker):
    return worker.verdict(Candidate("honest", HONEST))


def test_an_honest_candidate_passes(honest):
    assert honest["passed"] and honest["error"] is None and honest["latency_us"] > 0
    public, hidden = honest["shapes"]
    assert public["shape"] == "(128, 64)" and hidden["shape"] == "(256, 32)"
    assert [seed["relative_l2"] for seed in public["seeds"]] == [0.0, 0.0]
    assert public["low_us"] < public["latency_us"] < public["high_us"]


def test_the_isolation_that_holds_is_stated(honest):
    assert honest["isolation"]["level"] == "linux"
    assert {"namespaces", "landlock", "seccomp"} < honest["isolation"].keys()


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_refused_or_gets_the_honest_latency(name, worker, honest):
    codes, source = CHEATS[name]
    verdict = worker.verdict(Candidate(name, source))
    if "passed" in codes.split() and verdict["passed"]:
        assert verdict["latency_us"] == honest["latency_us"]
    else:
        assert verdict["error"]["code"] in codes.split(), verdict["error"]
        assert len(verdict["error"]["message"]) <= 400
    if "NOT_ONEZERO" in codes:
        lines = source.splitlines()
        assert "is_stationary_onezero" in lines[verdict["error"]["line"] - 1]
    if name in ("outlives its parent", "takes memory that is shared"):
        assert verdict["error"]["message"] == "-1"


def test_a_cheat_changes_no_later_verdict(worker, honest):
    again = worker.verdict(Candidate("honest", HONEST))
    assert (again["passed"], again["shapes"]) == (True, honest["shapes"])


def test_a_killed_process_that_forks_is_started_again(worker, honest):
    worker._zygote.kill()
    again = worker.verdict(Candidate("honest", HONEST))
    assert again["shapes"] == honest["shapes"]


# n times x, where Python reads n from the public inputs
CONSTANT = LOOP.replace("nl.dynamic_range(r)", "range(int(n.numpy()[0, 0]))")
# one product with the number of iterations, which Python counts
COUNTED = LOOP.replace("nl.dynamic_range(r):", "(turns := [*nl.dynamic_range(r)])[:1]:").replace(
    "tensor_tensor(dst=s, data1=s, data2=t, op=nl.add)",
    "tensor_scalar(dst=s, data=t, op0=nl.multiply, operand0=float(len(turns)))",
)


def test_loops_may_depend_on_hidden_inputs_only_on_the_device():
    worker = Worker(times(dynamic=True), "process", ProcessLimits())
    for source, code in [(LOOP, None), (CONSTANT, "WRONG_RESULT"), (COUNTED, "DYNAMIC")]:
        verdict = worker.verdict(Candidate("loop", source))
        assert (verdict["error"] and verdict["error"]["code"]) == code, verdict["error"]
        assert code or len(verdict["shapes"][0]["seeds"]) == 3
    worker.close()
