"""The commands eval and grade."""

import csv
import json
import sys
from pathlib import Path

import jsonschema
import pytest
from candidates import CHEATS, HONEST

from neuroncore.cli import main
from neuroncore.cli.grade import row
from neuroncore.eval.course import Assignment, Limit, Part

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs/eval.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="isolation needs Linux"),
    pytest.mark.usefixtures("judged_here"),
]
SPEC = """
import numpy as np
from neuroncore.eval import Spec

def inputs(seed, shape):
    return tuple(np.random.default_rng(seed).standard_normal((2, *shape), np.float32))

SPEC = Spec(lambda a, b: 2 * a + b, inputs, [(128, 64)], [(256, 32)], tol=1e-6, seeds=2)
"""


@pytest.fixture
def batch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.py").write_text(SPEC)
    folder = tmp_path / "batch"
    folder.mkdir()
    (folder / "a.py").write_text(HONEST)
    (folder / "b.py").write_text(CHEATS["NaN"][1])
    (folder / "c.py").write_bytes(b"def kernel\xff(:")
    (folder / "none.py").mkdir()  # no candidate
    return folder


def verdicts(path):
    return {one["candidate"]: one for one in map(json.loads, path.read_text().splitlines())}


def valid(verdict):
    """Validate a verdict with the published schema, which describes all of its fields."""
    VALIDATOR.validate(verdict)
    known = SCHEMA["properties"], SCHEMA["$defs"]["shape"]["properties"]
    assert verdict.keys() <= known[0].keys()
    for one in verdict["shapes"]:
        assert one.keys() <= known[1].keys()


@pytest.mark.parametrize("first", [b"\xef\xbb\xbf", b"# coding: latin-1\n# caf\xe9\n"])
def test_a_candidate_in_another_encoding_is_judged(batch, first, capsys):
    (batch / "a.py").write_bytes(first + HONEST.encode())
    assert main(["eval", "--spec", "spec.py", "--candidate", "batch/a.py", "--secret", "7"]) == 0


def test_an_interrupted_batch_in_two_processes_is_resumed(batch, tmp_path, capsys):
    out = tmp_path / "out.jsonl"
    words = ["eval", "--spec", "spec.py", "--batch", "batch", "--jsonl", "out.jsonl", "--rank"]
    words += ["--secret", "7"]
    assert main([*words, "--jobs", "2"]) == 1
    said = capsys.readouterr().err
    assert all(one in said for one in ("3 candidates, 1 passed", "1 WRONG_RESULT", "1 SyntaxError"))
    first = verdicts(out)
    assert [one["status"] for _, one in sorted(first.items())] == ["passed", "wrong", "refused"]
    for one in first.values():
        valid(one)
    kept = [line for line in out.read_text().splitlines() if "b.py" not in line]
    out.write_text("\n".join([*kept, '{"cut short']))
    assert main([*words, "--resume", "--trace", "traces.jsonl"]) == 1
    again = verdicts(out)
    assert len(out.read_text().splitlines()) == 3
    for name, one in again.items():
        assert (one["shapes"], one["error"]) == (first[name]["shapes"], first[name]["error"])
    statuses = [
        json.loads(line)["evaluation"]["status"]
        for line in (tmp_path / "traces.jsonl").read_text().splitlines()
    ]
    assert sorted(statuses) == ["COMPILE_ERROR", "INCORRECT_NUMERICAL", "PASSED"]
    assert "a.py" in capsys.readouterr().err  # the ranking


def test_a_cache_judges_no_candidate_twice(batch, tmp_path, capsys):
    words = ["eval", "--spec", "spec.py", "--candidate", "batch/a.py", "--cache", "kept"]
    assert main(words) == 0
    (file,) = (tmp_path / "kept").iterdir()
    kept = json.loads(file.read_text())
    file.write_text(json.dumps({**kept, "latency_us": 42.0}))
    capsys.readouterr()
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["latency_us"] == 42.0


def test_why_names_the_best_changes(batch, capsys):
    words = ["eval", "--spec", "spec.py", "--candidate", "batch/a.py", "--isolation", "process"]
    assert main([*words, "--why", "--secret", "7"]) == 0
    verdict = json.loads(capsys.readouterr().out)
    valid(verdict)
    first, other = verdict["shapes"]
    assert verdict["repeat"]["secret"] == 7
    assert first["bound_by"] == "serial chain" and "bound_by" not in other
    best = first["what_ifs"]
    assert 0 < len(best) <= 3 and best[0]["latency_us"] < first["latency_us"]


def test_grades_are_a_table(batch, tmp_path, capsys):
    words = ["grade", "--spec", "spec.py", "--submissions", "batch", "--csv", "grades.csv"]
    assert main(words) == 0
    with (tmp_path / "grades.csv").open() as file:
        rows = [*csv.DictReader(file)]
    found = [(row["submission"], row["status"], row["code"]) for row in rows]
    assert found == [
        ("batch/a.py", "passed", ""),
        ("batch/b.py", "wrong", "WRONG_RESULT"),
        ("batch/c.py", "refused", "SyntaxError"),
    ]


def test_a_wrong_submission_has_the_error_of_its_wrong_result():
    """It had the error of the shapes that came before, which passed."""
    passed = {"seeds": [{"relative_l2": 0.0}]}
    verdict = {"candidate": "a.py", "status": "wrong", "latency_us": None, "shapes": [passed]}
    for error, said in (({"errors": {"relative_l2": 0.5}}, 0.5), ({"code": "WRONG_SHAPE"}, "")):
        assert row({**verdict, "error": error})["relative_l2"] == said


def test_grades_of_an_assignment_are_points(batch, tmp_path, capsys, monkeypatch):
    fast = Part("fast", "spec.py", 4.0, (Limit(1e-3), Limit(1e4, 0.5)), needs=("right",))
    parts = Assignment([Part("right", "spec.py", 6.0), fast])
    monkeypatch.setattr("neuroncore.cli.grade.assigned", lambda _: parts)
    words = ["grade", "--spec", "cs149:2025", "--submissions", "batch", "--csv", "grades.csv"]
    assert main(words) == 0 and "10 points at most" in capsys.readouterr().err
    with (tmp_path / "grades.csv").open() as file:
        right, wrong, none = csv.DictReader(file)
    assert (right["points"], right["right"], right["fast"]) == ("8.0", "6.0", "2.0")
    assert float(right["fast us"]) > 9 and right["errors"] == ""
    assert (wrong["points"], wrong["fast us"]) == ("0.0", "")
    assert wrong["errors"].startswith("right: WRONG_RESULT") and "; fast: WRONG" in wrong["errors"]
    assert none["errors"].startswith("right: SyntaxError line 1")


def test_hidden_inputs_are_not_in_a_specification(batch, tmp_path, capsys):
    blind = HONEST.replace("return sums(a, b)", "load(b[0:128])\n    return sums(a, b)")
    (batch / "a.py").write_text(blind)
    words = ["eval", "--spec", "spec.py", "--candidate", "batch/a.py", "--examine"]
    assert main(words) == 1
    said = capsys.readouterr().out
    assert "line 6: the results pass even if dma_copy writes zeros" in said
    assert (
        "5 instructions, of which 1 could write zeros; 0 inputs without effect, 0 weak results"
        in said
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no candidates: give --candidate or --batch"),
        (["--candidate", "none.py"], "none.py can't be read"),
        (["--batch", "none"], "none is not a folder"),
        (["--candidate", "batch/a.py", "--resume"], "--resume needs --jsonl"),
        (["--candidate", "batch/a.py", "--jobs", "0"], "must be positive"),
        (["--candidate", "batch/a.py", "--seconds", str(10**30)], "--seconds must be from 1 to"),
    ],
)
def test_wrong_usage(words, said, batch, capsys):
    assert main(["eval", "--spec", "spec.py", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_specification_that_fails_is_named(batch, tmp_path, capsys):
    (tmp_path / "spec.py").write_text("x = 1\n\n1 / 0\n")
    assert main(["eval", "--spec", "spec.py", "--candidate", "batch/a.py"]) == 2
    assert "spec.py:3: ZeroDivisionError" in capsys.readouterr().err
    (tmp_path / "spec.py").write_text("x = 1\n\nx = (\n")
    assert main(["eval", "--spec", "spec.py", "--candidate", "batch/a.py"]) == 2
    assert "spec.py:3: SyntaxError: '(' was never closed\n" in capsys.readouterr().err
    (tmp_path / "spec.py").write_text("SPEC = 1\n")
    assert main(["eval", "--spec", "spec.py", "--candidate", "batch/a.py"]) == 2
    assert "has no variable SPEC" in capsys.readouterr().err
