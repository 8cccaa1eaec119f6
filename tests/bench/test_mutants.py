"""Faults that `bench/mutants.py` puts into a copy of the package."""

import ast
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import mutants

ENTRIES = tomllib.loads(mutants.LIST.read_text())
KEYED = """
def cached(table, a, b):
    key = a, b
    if a < b:
        table[key] = min(a, b)
    return table.get(key)
"""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # plugins take longer than the test
    (tmp_path / "neuroncore/core").mkdir(parents=True)
    (tmp_path / "neuroncore/core/memo.py").write_text(KEYED)
    (tmp_path / "test_memo.py").write_text(
        "from neuroncore.core.memo import cached\n\n\n"
        "def test_each_pair_has_a_place():\n"
        "    table = {}\n"
        "    assert cached(table, 1, 2) == 1 and set(table) == {(1, 2)}\n"
    )
    return tmp_path


@pytest.mark.source
def test_every_fault_of_the_list_fits_a_current_file_and_can_be_compiled():
    found = mutants.mutants(ENTRIES)
    assert len(found) >= 80
    for one in found:
        text = (ROOT / one.file).read_bytes()
        changed = text[: one.at] + one.new.encode() + text[one.at + len(one.old.encode()) :]
        ast.parse(changed)
        assert changed != text
        assert one.package in ENTRIES["tests"]
    assert all((ROOT / test).exists() for tests in ENTRIES["tests"].values() for test in tests)


def test_a_patch_whose_text_is_not_found_is_refused(tree):
    entry = {"file": "neuroncore/core/memo.py", "find": "a, c", "replace": "a", "why": ""}
    with pytest.raises(ValueError, match="0 times"):
        list(mutants.patches([entry], tree))


def test_the_same_seed_draws_the_same_faults(tree):
    first, again = (mutants.drawn("neuroncore/core/memo.py", 3, 1, tree) for _ in range(2))
    assert [one.name for one in first] == [one.name for one in again]
    kinds = {one.why for one in mutants.drawn("neuroncore/core/memo.py", 9, 1, tree)}
    assert kinds == {"a comparison", "an extreme", "a dropped part of a key"}


def test_a_fault_is_killed_only_by_a_test_that_detects_it(tree):
    drawn = mutants.drawn("neuroncore/core/memo.py", 9, 1, tree)
    dropped = next(one for one in drawn if one.new == "key = (a,)")
    assert mutants.killed_by(dropped, ["test_memo.py"], 0, 60, tree) == "tests"
    (tree / "test_memo.py").write_text("def test_nothing():\n    pass\n")
    assert mutants.killed_by(dropped, ["test_memo.py"], 0, 60, tree) == ""
    assert (tree / "neuroncore/core/memo.py").read_text() == KEYED


def test_a_fault_that_takes_too_long_is_not_counted_as_one_that_fails_a_test(tree):
    dropped = mutants.drawn("neuroncore/core/memo.py", 1, 1, tree)[0]
    (tree / "test_memo.py").write_text("import time\n\ntime.sleep(60)\n")
    assert mutants.killed_by(dropped, ["test_memo.py"], 0, 1, tree) == "time"


def test_tests_that_fail_without_a_fault_are_refused(tree):
    assert mutants.seconds_without(["test_memo.py"], tree) > 0
    (tree / "test_memo.py").write_text("def test_nothing():\n    assert False\n")
    with pytest.raises(RuntimeError, match=r"without a mutant, a test of test_memo\.py fails"):
        mutants.seconds_without(["test_memo.py"], tree)
