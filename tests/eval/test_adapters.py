"""Specifications that are read from the files of benchmarks, with small sizes."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from candidates import HEAD, HONEST

from neuroncore.base.errors import UsageError
from neuroncore.eval import Candidate, Pool, evaluate, load_spec
from neuroncore.eval.adapters import assigned, cs149, harness
from neuroncore.eval.drivers import autocomp, kda

POOL = Pool(level="process")
pytestmark = pytest.mark.usefixtures("judged_here")
linux = pytest.mark.skipif(sys.platform != "linux", reason="isolation needs Linux")

REFERENCE = """
import numpy as np

def get_inputs():
    return [np.random.normal(size=(256, 16)).astype(np.float32)]

def forward(x):
    return 2 * x

def transform_to_nki_inputs(inputs):
    return [inputs[0].reshape(2, 128, 16)]

def transform_nki_outputs(made, wanted):
    return (made.reshape(wanted.shape),)
"""
OLDER = """
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        tile = nl.load(x[i])
        nl.store(out[i], nl.multiply(tile, 2.0))
    return out
"""
HARNESS = f"""{HEAD}
SCALE = 2.0
# SUBSTITUTE HERE

@nki.jit
def ref(a, b, scale=1.0):
    return sums(a, b)

def test_nki(ref_func, test_func):
    np.random.seed(42)
    a, b = np.random.rand(2, 128, 64).astype(np.float32)
    return np.allclose(ref_func(a, b, scale=3.0), test_func(a, b, scale=3.0))

if __name__ == "__main__":
    test_nki(ref, solution)
"""
SOLUTION = "@nki.jit\ndef solution(a, b, scale):\n    return sums(a, b)\n"
DEFINITION = {
    "name": "scaled",
    "axes": {"M": {"type": "var"}, "N": {"type": "const", "value": 8}},
    "inputs": {
        "a": {"shape": ["M", "N"], "dtype": "bfloat16"},
        "scale": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"c": {"shape": ["M", "N"], "dtype": "bfloat16"}},
    "reference": "def run(a, scale):\n    return {'c': a * a.dtype.type(scale)}",
}


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """The folder of a benchmark like NKIBench, with one problem."""
    case = {"impls": [{"task": "./task.py", "kernel": "./baseline.py"}], "values": {}}
    (tmp_path / "summary.json").write_text(json.dumps({"twice": {"cases": {"1": case}}}))
    (tmp_path / "task.py").write_text(REFERENCE)
    (tmp_path / "baseline.py").write_text(OLDER)
    monkeypatch.setenv("NKIBENCH_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@linux
def test_a_contract_of_kda_is_read(bench, capsys):
    assert kda.main(["--op", "twice", "--build-baselines", "--fast"]) == 0
    assert "PASS twice" in capsys.readouterr().out
    baseline = json.loads(Path("baselines.json").read_text())["twice"]
    assert baseline["case_id"] == "1" and baseline["baseline_latency_ms"] > 0
    Path("wrong.py").write_text(OLDER.replace("2.0", "3.0"))
    assert kda.main(["--op", "twice", "--candidate", "wrong.py", "--fast"]) == 1
    assert "FAIL twice" in (said := capsys.readouterr().out) and "WRONG_RESULT" in said
    assert kda.main(["--candidate", "wrong.py"]) == 2
    assert kda.main(["--op", "none"]) == 2
    assert "NKIBench has no 'none'; it has twice" in capsys.readouterr().err


@pytest.mark.parametrize("folder", [None, "missing"])
def test_the_backend_of_autocomp_needs_a_clone(monkeypatch, tmp_path, folder):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUTOCOMP_ROOT", raising=False)
    backend = autocomp.EvalBackend(folder, POOL)
    with pytest.raises(UsageError, match=r"a clone of autocomp is needed.*AUTOCOMP_ROOT"):
        backend.evaluate_code(SimpleNamespace(prob_type="suite", prob_id=0), ["x = 1"], "")


@linux
def test_the_backend_of_autocomp_judges_candidates(tmp_path):
    file = tmp_path / "harnesses" / "suite" / "0_sums_test.py"
    file.parent.mkdir(parents=True)
    file.write_text(HARNESS)
    spec = load_spec(f"autocomp:suite/0@{tmp_path}")
    assert spec.name == "suite/0_sums_test" and spec.target == "trn2"
    one, other = (spec.arguments(seed, spec.shapes[0]) for seed in (1, 2))
    assert one[2] == 3.0 and not np.array_equal(one[0], other[0])  # its seed has no effect
    backend = autocomp.EvalBackend(tmp_path, POOL)
    problem = SimpleNamespace(prob_type="suite", prob_id=0, test_file=None)
    wrong = SOLUTION.replace("sums(a, b)", "sums(b, a)")
    found = backend.evaluate_code(problem, [SOLUTION, wrong], "")
    assert [made["correct"] for made in found] == [True, False]
    assert found[0]["latency"] > 0 and found[1]["latency"] is None
    assert "WRONG_RESULT" in found[1]["stderr"]
    feedback, none = backend.get_hw_feedback(problem, [SOLUTION, wrong])
    assert feedback[0].startswith("bound by") and none == []


@pytest.mark.parametrize(
    ("test", "allowed"),
    [
        ("np.allclose(a, b, atol=1e-2)", (1e-5, 1e-2)),
        ("np.allclose(a, b, rtol=1e-3) and np.allclose(b, a, rtol=1e-3)", (1e-3, 1e-8)),
        ("np.allclose(a, b, atol=1e-2) and np.allclose(a, b)", None),
        ("np.allclose(a, b, atol=limit)", None),
        ("np.linalg.norm(a - b) < 1", None),
    ],
)
def test_the_tolerance_comes_from_the_harness(test, allowed):
    assert harness.allclose(f"def test_nki(a, b):\n    return {test}\n") == allowed


@linux
def test_keyword_only_arguments_of_a_harness_are_passed_by_keyword(tmp_path):
    file = tmp_path / "0_sums_test.py"
    file.write_text(HARNESS.replace("scale=1.0", "**more"))
    spec = harness.of_file(file)
    assert spec.keywords == ("scale",) and spec.arguments(1, spec.shapes[0])[2] == 3.0
    (verdict,) = evaluate(spec, [Candidate("x", SOLUTION.replace("scale", "**more"))], POOL)
    assert verdict["passed"], verdict["error"]


def test_a_problem_of_cs149_is_read():
    spec = load_spec("cs149:2025/pool/float16")
    assert (spec.target, spec.order, spec.shapes[0][3:5]) == ("trn2", "compiled", (224, 224))
    image, filters, bias, pool = spec.arguments(0, (1, 4, 5, 7, 6))
    made = spec.reference(image, filters, bias, pool)
    assert made.shape == (1, 5, 2, 2) and made.dtype == np.float16
    whole = cs149.convolved(image.astype(np.float32), filters.astype(np.float32))
    there = image[0, :, 1:4, 2:5].astype(np.float32) * filters[3].astype(np.float32)
    assert np.isclose(whole[0, 3, 1, 2], there.sum())
    *_, none, _ = load_spec("cs149:2025/small").arguments(0, (1, 4, 5, 7, 6, False))
    assert bias.any() and not none.any()
    for unknown in ("2023", "2024/large/small", "2025/bfloat16"):
        with pytest.raises(UsageError, match="it has 2024 and 2025"):
            load_spec(f"cs149:{unknown}")


def verdicts(assignment, microseconds, wrong=()):
    """Verdicts on a candidate with this time in each test, which fails some of the tests."""
    return {
        part.name: {"passed": part.name not in wrong, "latency_us": microseconds}
        for part in assignment.parts
    }


def test_points_equal_those_of_the_harness_of_cs149():
    def total(which, *given):
        return sum(which.points(verdicts(which, *given)).values())

    older, newer = assigned("cs149:2024"), assigned("cs149:2025")
    assert (older.most, newer.most) == (67.5, 65.0) and assigned("cs149:2025/pool") is None
    assert total(newer, 50.0) == 65 and total(newer, 900.0) == 60  # without the small images
    added = newer.parts[-1].microseconds({"latency_us": 0.0})
    assert 5 < added < 20
    assert total(newer, 1002.0 - added) == 60
    slower = newer.points(verdicts(newer, 1002.5 - added))
    assert slower["time/float16"] == 17.5 * 0.95 and slower["time"] == 17.5
    assert total(newer, 900.0, ("large",)) == 7.5  # no points for times
    assert total(newer, 900.0, ("bias/pool",)) == 7.5 + 35  # as without --test_maxpool
    assert total(older, 900.0, ("large",)) == 52.5


def test_a_folder_of_problems_is_read(tmp_path):
    (tmp_path / "level1").mkdir()
    body = (
        "import numpy as np\nforward = lambda x: -x\n"
        "get_inputs = lambda: [np.random.rand(4).astype(np.float32)]\n"
    )
    (tmp_path / "level1" / "3_Minus.py").write_text(body)
    spec = load_spec(f"kernelbench:level1/3@{tmp_path}")
    (one,), (other,) = spec.arguments(1, "level1/3"), spec.arguments(2, "level1/3")
    assert not np.array_equal(one, other) and np.array_equal(spec.reference(one), -one)
    with pytest.raises(UsageError, match="must have exactly one problem 'level1/4'"):
        load_spec(f"kernelbench:level1/4@{tmp_path}")


def test_a_model_of_torch_gets_its_state(tmp_path):
    torch = pytest.importorskip("torch")
    body = (
        "import torch\nclass Model(torch.nn.Linear): pass\n"
        "get_inputs = lambda: [torch.rand(3, 2)]\nget_init_inputs = lambda: [2, 4]\n"
    )
    (tmp_path / "linear.py").write_text(body)
    spec = load_spec(f"kernelbench:linear@{tmp_path}")
    x, weight, bias = spec.arguments(1, "linear")
    assert np.allclose(spec.reference(x, weight, bias), x @ weight.T + bias)
    assert not torch.equal(torch.tensor(weight), torch.tensor(spec.arguments(2, "linear")[1]))


def defined(folder, workloads):
    for kind in ("definitions", "workloads"):
        (folder / kind / "x").mkdir(parents=True, exist_ok=True)
    (folder / "definitions" / "x" / "scaled.json").write_text(json.dumps(DEFINITION))
    lines = (json.dumps({"workload": one}) for one in workloads)
    (folder / "workloads" / "x" / "scaled.jsonl").write_text("\n".join(lines))
    return f"flashinfer:scaled@{folder}"


def test_a_definition_of_flashinfer_is_read(tmp_path):
    inputs = {"a": {"type": "random"}, "scale": {"type": "scalar", "value": 0.5}}
    spec = load_spec(defined(tmp_path, [{"axes": {"M": m}, "inputs": inputs} for m in (4, 4, 6)]))
    assert (spec.shapes, spec.hidden_shapes) == (
        [{"M": 4, "scale": 0.5}],
        [{"M": 6, "scale": 0.5}],
    )
    a, scale = spec.arguments(3, spec.shapes[0])
    assert (a.shape, a.dtype.name, scale) == ((4, 8), "bfloat16", 0.5)
    assert np.array_equal(spec.reference(a, scale)[0], a * a.dtype.type(0.5))
    stored = {"a": {"type": "safetensors", "path": "x", "tensor_key": "a"}}
    with pytest.raises(UsageError, match="in a safetensors file"):
        load_spec(defined(tmp_path, [{"axes": {"M": 4}, "inputs": stored}]))
    with pytest.raises(UsageError, match="has 0 files"):
        load_spec(f"flashinfer:scaled@{tmp_path / 'workloads'}")


def test_a_benchmark_needs_its_folder(monkeypatch):
    monkeypatch.delenv("NKIBENCH_ROOT", raising=False)
    with pytest.raises(UsageError, match="nkibench:silu@FOLDER, or the environment variable NKIB"):
        load_spec("nkibench:silu")
    with pytest.raises(UsageError, match=r"there is no file .*other:silu"):
        load_spec("other:silu")


def test_honest_candidates_use_the_names_of_a_harness():
    kept = harness.prelude("import torch\n" + HARNESS)
    assert "SCALE" in kept and "def sums" in kept and "def ref" in kept
    assert "torch" not in kept and "test_nki" not in kept and HONEST not in kept
