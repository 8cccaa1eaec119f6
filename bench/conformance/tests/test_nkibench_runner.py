"""Tests of the runner of NKIBench, on checkouts of one small problem: which kernels pass, and which
do not."""

import argparse
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

BENCH = Path(__file__).parents[2]
sys.path[:0] = [str(BENCH), str(BENCH / "conformance")]

import nkibench
import nkibench_case
import nkibench_speed
from nkibench_case import Disagreement, hold, relative_error

IMPORTS = "import neuronxcc.nki as nki\nimport neuronxcc.nki.language as nl\n"
KERNEL = """
@nki.jit
def kernel(x, scale):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), {factor}))
    return out
"""
REFERENCE = """
import numpy as np

def get_inputs():
    return [np.random.rand(2, 3, 5).astype(np.float32), 2.0]

def forward(x, scale):
    return scale * x

def transform_to_nki_inputs(inputs):
    return [inputs[0].reshape(6, 5), inputs[1]]

def transform_nki_outputs(result, reference):
    return [np.reshape(result, reference.shape)]
"""


@pytest.fixture
def checkout(tmp_path):
    """Return a checkout with one baseline and one sample, and functions that replace their
    kernels."""
    (tmp_path / "NKIBench/kernels").mkdir(parents=True)
    (tmp_path / "NKIBench/reference").mkdir()
    (tmp_path / "samples/nki").mkdir(parents=True)
    made = {"task": "./reference/twice.py", "kernel": "./kernels/twice.py"}
    summary = {"twice": {"cases": {"0": {"values": {}, "impls": [made]}}}}
    (tmp_path / "NKIBench/summary.json").write_text(json.dumps(summary))
    for name in ("twice.py", nkibench.MAMBA, nkibench.ROPE):
        (tmp_path / "NKIBench/reference" / name).write_text(REFERENCE)
    baseline(tmp_path, IMPORTS + KERNEL.format(factor="scale"))
    (tmp_path / "samples/nki/mamba_optimized.py").write_text(KERNEL.format(factor="2.0"))
    return tmp_path


def baseline(checkout, source):
    (checkout / "NKIBench/kernels/twice.py").write_text(source)


def outcomes(checkout, **changes):
    given = argparse.Namespace(checkout=checkout, k="twice", target=["trn2"], seeds=[0])
    limits = {"workers": 1, "timeout": 600.0, "memory": 8.0, "replay": False, "small": False}
    vars(given).update(limits | changes)
    return list(nkibench.outcomes(given))


def only(checkout, **changes):
    (outcome,) = outcomes(checkout, **changes)
    return outcome


def test_a_kernel_that_agrees_passes_on_every_target_and_seed(checkout):
    found = outcomes(checkout, target=["trn1", "trn2"], seeds=[0, 21], workers=2)
    assert [(o.name, o.verdict) for o in found] == [
        ("twice trn1", "passed"),
        ("twice trn2", "passed"),
    ]
    for outcome in found:
        first, second, peak = outcome.details
        assert first.startswith("seed 0: relative L2 0, ") and second.startswith("seed 21: ")
        assert peak.startswith("peak memory ")


def test_a_sample_needs_no_imports_and_missing_ones_are_skipped(checkout):
    found = {o.name: o.verdict for o in outcomes(checkout, k="samples/")}
    assert found.pop("samples/mamba_optimized trn2") == "passed"
    assert set(found.values()) == {"skipped"} and len(found) == len(nkibench.SAMPLES) - 1


@pytest.mark.parametrize(("factor", "verdict"), [("2.00001", "passed"), ("2.0001", "failed")])
def test_a_result_may_be_off_by_the_tolerance_and_no_more(checkout, factor, verdict):
    baseline(checkout, IMPORTS + KERNEL.format(factor=factor))
    assert only(checkout).verdict == verdict


def test_kernels_that_the_emulator_refuses_are_counted_as_refused(checkout):
    wrong = IMPORTS + KERNEL.format(factor="scale").replace("nl.load(x)", "x")
    baseline(checkout, wrong)
    outcome = only(checkout)
    assert outcome.verdict == "refused" and outcome.cause


def test_a_case_ends_with_its_time(checkout):
    baseline(checkout, "while True: pass")
    assert only(checkout, timeout=0.5).verdict == "timed out"


# --- the benchmark's rule -------------------------------------------------------------------------


def test_the_error_is_relative_to_the_reference_in_the_2_norm(monkeypatch):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 7, 11)).astype(np.float32)
    want = np.linalg.norm((a - b).astype(np.float64)) / np.linalg.norm(b.astype(np.float64))
    for chunk in (1, 10, 77, 1000):
        monkeypatch.setattr(nkibench_case, "CHUNK", chunk)
        assert np.isclose(relative_error(a, b), want, rtol=1e-6)


def test_zeros_pass_for_nothing():
    x = np.ones((3, 5), np.float32)
    assert relative_error(0 * x, x) == 1.0
    assert relative_error(0 * x, 0 * x) == np.inf
    assert np.isnan(relative_error(np.nan * x, x))


def held(kernel, reference):
    problem = SimpleNamespace(
        get_inputs=lambda: [np.random.rand(4).astype(np.float32)],
        forward=reference,
        transform_to_nki_inputs=lambda inputs: inputs,
        transform_nki_outputs=lambda got, _: list(got) if isinstance(got, tuple) else [got],
    )
    return hold(kernel, problem, 2e-5, seed=0)


def test_every_result_counts():
    assert held(lambda x: (x, 2 * x), lambda x: (x, 2 * x))[0] == 0
    with pytest.raises(Disagreement, match=r"seed 0: off by relative L2 \[0\.0, 0\.3"):
        held(lambda x: (x, 2 * x), lambda x: (x, 3 * x))
    with pytest.raises(Disagreement, match="1 results, its reference 2"):
        held(lambda x: x, lambda x: (x, x))
    with pytest.raises(Disagreement, match=r"\(3,\), its reference \(4,\)"):
        held(lambda x: x[1:], lambda x: x)
    with pytest.raises(Disagreement, match="nan"):
        held(lambda x: x * np.nan, lambda x: x)


def test_inputs_are_those_of_the_seed():
    seen = []
    held(lambda x: seen.append(x) or x, lambda x: x)
    np.random.seed(0)
    assert np.array_equal(seen[0], np.random.rand(4).astype(np.float32))


def test_a_launch_is_timed_and_its_bits_are_printed(checkout):
    files = checkout / "NKIBench/kernels/twice.py", checkout / "NKIBench/reference/twice.py"
    found = nkibench_speed.case(*files, shares=False)
    assert found["seconds"] > 0 and "unrecorded" not in found
    np.random.seed(0)
    wanted = 2 * np.random.rand(2, 3, 5).astype(np.float32).reshape(6, 5)
    assert found["bits"] == nkibench_speed.digest((wanted,))
    assert found["bits"] != nkibench_speed.digest((wanted.T,))


@pytest.mark.parametrize("bits,word", [("0", "same"), ("1", "OTHER")])
def test_two_versions_are_compared(checkout, monkeypatch, bits, word):
    """The versions are measured alternately, and the least time of each version's rounds counts.
    Shares come from the first round of this version."""
    times, asked = iter((3.0, 5.0, 2.0, 4.0)), []

    def measured(python, problem, shares, threads):
        asked.append((python == sys.executable, shares, threads))
        found = {"seconds": next(times), "bits": "0" if python == sys.executable else bits}
        return found | {"whole": 3.0, "meanings": {"exp": [4, 0.5], "load": [6, 1.0]}}

    monkeypatch.setattr(nkibench_speed, "in_process", measured)
    problem, *_ = nkibench_speed.problems(checkout)
    given = argparse.Namespace(other="python-of-another", rounds=2, shares=True, threads=2)
    text, ours, theirs = nkibench_speed.line(problem, given)
    assert (ours, theirs) == (2.0, 4.0)
    assert asked == [(True, True, 2), (False, False, 2), (True, False, 2), (False, False, 2)]
    assert f"bits {word}" in text and "0.50  " in text
    assert "meaning  1.50 (50%), rest 150000 us x 10; load 33%, exp 17%" in text
