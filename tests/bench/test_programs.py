"""Random programs: a seed is a program, what holds of them is checked, and failures are shrunk."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from bench.programs import checks
from bench.programs.generator import generate
from bench.programs.shrinking import shrink
from neuroncore.core import packs


def test_a_seed_is_one_program():
    sources = [generate(seed).source() for seed in (1, 2, 1)]
    assert sources[0] == sources[2] != sources[1]


def test_programs_are_of_both_dialects():
    assert {generate(seed).dialect for seed in range(40)} == {"today", "older"}


@pytest.mark.parametrize("seed", range(12))
def test_all_that_has_to_hold_of_a_program_holds(seed):
    checks.check(generate(seed))


def test_a_printed_program_is_a_file_that_checks_itself(tmp_path, capsys):
    program = generate(5)
    exec(compile(program.source(), "program.py", "exec"), {})
    assert capsys.readouterr().out == "holds\n"


def test_a_fault_is_found_and_shrunk(monkeypatch):
    """The operand cache forgets that a tile was written."""
    given = packs.Packs.get

    def stale(self, tile, *more, **named):
        version, tile.storage.version = tile.storage.version, 0
        try:
            return given(self, tile, *more, **named)
        finally:
            tile.storage.version = version

    monkeypatch.setattr(packs.Packs, "get", stale)
    for seed in range(300):
        program = generate(seed)
        try:
            checks.check(program)
        except checks.Failure as failure:
            small = shrink(program, failure.kind)
            assert len(small.source().splitlines()) <= 20
            with pytest.raises(checks.Failure, match="nc_matmul"):
                checks.check(small)
            return
    raise AssertionError("no program found it")
