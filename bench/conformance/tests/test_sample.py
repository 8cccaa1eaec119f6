"""Tests of sample.py on small clones that they make: the cases that it runs, the text that it
prints, and the date of the last run."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import everyone
import nkibench_small
import sample
import scripts
from drivers.driver import Driver
from outcome import Outcome

VECTORS = """
import sys
import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

@nki.jit
def vector_add_naive(a, b):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), nl.load(b)))
    return out

x = np.ones((int(sys.argv[-1]), 1), np.float32)
vector_add_naive(x, x)
"""


@pytest.fixture
def refs(tmp_path, monkeypatch):
    """Return a folder with clones of both years of CS149. The clone of the second year has one
    script."""
    for name in ("asst4-trainium", "asst4-trainium2"):
        (tmp_path / f"refs/stanford-cs149+{name}/part1").mkdir(parents=True)
    place = tmp_path / "refs/stanford-cs149+asst4-trainium2/part1"
    (place / "run_benchmark.py").write_text(VECTORS)
    monkeypatch.setattr(sample, "LAST", tmp_path / "sample.json")
    monkeypatch.setenv("NEURONCORE_VERIFY", "0")  # a run of the sample sets this variable
    return tmp_path / "refs"


def asked(refs, **changes):
    scratch = refs.parent / "scratch"
    scratch.mkdir()
    given = {"refs": refs, "to": refs.parent, "part": ["cs149"], "k": "", "jobs": 1}
    given |= {"verify": False, "timeout": 300.0, "memory": 8.0}
    return sample.sampled(argparse.Namespace(**given | changes), scratch)


def test_kernels_that_agree_pass_and_missing_clones_are_not_counted(refs, capsys):
    assert asked(refs, k="2025/naive", part=["cs149", "nkibench"]) == 0
    said = capsys.readouterr().out
    assert "passed" in said and "cs149: cs149-2025/naive" in said
    assert f"skipped  nkibench: zhang677/AccelOpt not in {refs}" in said
    *_, row, sums = said.splitlines()
    assert row.split()[:-1] == ["cs149", "1", "1", "0", "0"] and sums.split()[0] == "all"
    (line,) = (refs.parent / "results.jsonl").read_text().splitlines()
    assert json.loads(line)["verdict"] == "passed" and json.loads(line)["part"] == "cs149"


def test_every_launch_is_held_to_the_plain_reading(refs, capsys):
    assert asked(refs, k="2025/naive", verify=True) == 0
    *_, names, _, sums = capsys.readouterr().out.splitlines()
    figures = dict(zip(names.split()[1:], sums.split()[1:]))
    assert figures["launches"] == "1" and figures["instructions"] == figures["compared"] == "4"
    assert figures["differ"] == figures["not_verified"] == "0"
    (line,) = (refs.parent / "verified.cs149.jsonl").read_text().splitlines()
    assert json.loads(line)["kernel"] == "vector_add_naive"


def test_refused_kernels_fail(refs, capsys):
    file = refs / "stanford-cs149+asst4-trainium2/part1/run_benchmark.py"
    file.write_text(VECTORS.replace("int(sys.argv[-1])", "129"))
    assert asked(refs, k="2025/naive") == 1
    assert capsys.readouterr().out.splitlines()[-1].split()[1:5] == ["1", "0", "0", "1"]


def test_a_launch_that_differs_is_counted_even_if_its_case_passed():
    agreed = {"instructions": 5, "compared": 4, "taken_over": 1, "difference": None}
    launches = [agreed, agreed | {"difference": "nc_matmul"}, {"not_verified": "no record"}]
    outcomes = [Outcome("a", "passed"), Outcome("b", "timed out"), Outcome("c", "skipped")]
    found = sample.row("cs149", outcomes, 1.0, launches)
    assert (found.run, found.passed, found.failed, found.refused) == (2, 1, 1, 0)
    assert (found.launches, found.instructions, found.differ, found.not_verified) == (2, 10, 1, 1)


def test_a_whole_part_is_noted_with_commit_and_figures(tmp_path):
    file = tmp_path / "sample.json"
    assert [*sample.last(file)] == [
        "sample of published kernels: has not run",
        "sample of published kernels, compared with the plain reading: has not run",
    ]
    rows = [sample.Row(part.name, 9, 8, 1, 0, 2.5) for part in sample.PARTS]
    sample.noted(rows, verify=False, file=file)
    sample.noted(rows[:1], verify=True, file=file)
    plain, verified = sample.last(file)
    assert f", {8 * len(rows)} of {9 * len(rows)}" in plain and "not run" not in plain
    assert ", 8 of 9; not run: " in verified and sample.PARTS[-1].name in verified


def test_failures_are_recorded_with_their_cause(tmp_path):
    outcomes = [Outcome("a", "passed"), Outcome("b[1-2]", "refused", "SIGNATURE: no such")]
    sample.noted([sample.row("cs149", outcomes, 1.0, [])], False, tmp_path / "sample.json")
    kept = json.loads((tmp_path / "sample.json").read_text())["plain"]["cs149"]
    assert kept["not_passed"] == {"b": "refused: SIGNATURE: no such"}


def test_a_part_without_a_case_is_not_noted(tmp_path):
    sample.noted([sample.row("strangers", [], 0.0, [])], False, tmp_path / "sample.json")
    assert json.loads((tmp_path / "sample.json").read_text()) == {}


def test_a_test_of_the_library_is_excused_only_for_the_known_cause():
    name = "a.py::Test::test_qwen3_8b_fast[1-2]"
    large = sample.explained(Outcome(name, "failed", "MemoryError: Unable to allocate"))
    assert large.verdict == "theirs" and "memory" in large.cause
    for other in (Outcome(name, "failed", "AssertionError: "), Outcome("a::b", "refused", "X: ")):
        assert sample.explained(other) == other


def test_the_first_variant_of_each_driver_is_a_case_where_its_repository_is_cloned(
    refs, monkeypatch
):
    def listed(repository, *variants):
        return Driver(repository, "rows.sum", lambda _: iter(()), "trn2", lambda _: variants)

    (refs / "a+b").mkdir()
    drivers = [listed("a/b", "small", "large"), listed("not/cloned", ""), listed("a/b")]
    monkeypatch.setattr(everyone, "DRIVERS", drivers)
    given = argparse.Namespace(checkouts=refs, k="", timeout=1.0, memory=1.0)
    assert [task.name for task in everyone.Runs(given).first_of_each()] == ["a/b rows.sum small"]


def test_a_part_of_a_part_is_not_noted(refs):
    asked(refs, k="2025/naive")
    assert not sample.LAST.exists()


def test_files_of_an_earlier_commit_are_written_next_to_the_clone(tmp_path):
    clone = tmp_path / "refs/a+b"
    clone.mkdir(parents=True)

    def git(*arguments):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", clone, *who, *arguments], check=True, capture_output=True)

    git("init")
    (clone / "kernel.py").write_text("first")
    git("add", "kernel.py")
    git("commit", "-m", "first")
    git("tag", "first")
    (clone / "kernel.py").write_text("second")
    git("commit", "-am", "second")
    clones = sample.Clones(tmp_path / "refs", tmp_path)
    assert (clones.at("a/b", "first", "old") / "kernel.py").read_text() == "first"
    assert clones.has("a/b", "first") and not clones.has("a/b", "0123456789")
    clones.link("a/b", "new")
    assert (tmp_path / "new/kernel.py").read_text() == "second"


def test_each_script_of_nki_samples_and_of_both_years_is_a_case(tmp_path):
    names = [task.name for task in scripts.tasks(tmp_path, "", 1.0, 1.0)]
    for prefix, count in (("samples/", 30), ("samples-old/", 8), ("cs149-2024/", 4)):
        assert sum(name.startswith(prefix) for name in names) >= count


# ---- NKIBench at small sizes ---------------------------------------------------------------------


def test_numbers_loops_and_texts_become_small(monkeypatch):
    sizes = {"numbers": {"32": 2, "4096": 256}, "loops": {"i1": 1}, "texts": {"(8, 4": "(1, 4"}}
    monkeypatch.setitem(nkibench_small.SIZES, "made", sizes)
    kernel = "x = np.zeros((8, 4, 32), np.float32)\nfor i1 in nl.affine_range(32): x[i1]\n"
    small, reference = nkibench_small.shrunk("made", kernel, "M = 4096  # not 40960\n")
    assert small == "x = np.zeros((1, 4, 2), np.float32)\nfor i1 in nl.affine_range(1): x[i1]\n"
    assert reference == "M = 256  # not 40960\n"


def test_a_kernel_with_other_sizes_is_not_made_small(monkeypatch):
    monkeypatch.setitem(nkibench_small.SIZES, "made", {"loops": {"i1": 1}})
    with pytest.raises(nkibench_small.NotThere, match="made has no loop of i1"):
        nkibench_small.shrunk("made", "for i2 in nl.affine_range(3): pass\n", "")
    monkeypatch.setitem(nkibench_small.SIZES, "made", {"texts": {"(8, 4": "(1, 4"}})
    with pytest.raises(nkibench_small.NotThere, match=r"made has no '\(8, 4'"):
        nkibench_small.shrunk("made", "", "")
    with pytest.raises(nkibench_small.NotThere, match="has no other"):
        nkibench_small.shrunk("other", "", "")
