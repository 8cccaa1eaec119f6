"""bench/instructions.py: the figures that it compares with a trace, those that it leaves out, and
when it fails."""

import csv
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import instructions

TIMES = ("dur_median_ns", "issue_same_min_ns", "issue_any_median_ns")
WORDS = ("generation", "engine", "opcode", "op", "operands", "transpose_mode", "pe_clock_frac")
TILES = "src:fp32:{}:512:s1 dst:fp32:SBUF:512:s1 ch=128"
COPY = {"engine": "Vector", "opcode": "COPY", "operands": TILES.format("PSUM")}
EXP = {"engine": "Scalar", "opcode": "ACTIVATE", "op": "EXP", "operands": TILES.format("SBUF")}
PASS = {"engine": "Tensor", "opcode": "MATMUL", "operands": "src:fp32:SBUF:512:s1"}
LOAD = {"engine": "Tensor", "opcode": "LDWEIGHTS", "operands": "src:bfloat16:SBUF:128:s-1"}
BRANCH = {"engine": "Vector", "opcode": "COMPARE_BRANCH"}


def outcome(tmp_path, capsys, *rows):
    """Return the exit code and the output for rows that (row, duration, interval) produce."""
    path = tmp_path / "trace.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, (*WORDS, *TIMES), restval="")
        writer.writeheader()
        for row, duration, interval in rows:
            times = dict(zip(TIMES, (duration, interval, interval), strict=True))
            writer.writerow({"generation": "trn2", **row, **times})
    code = instructions.main(str(path))
    return code, capsys.readouterr().out


@pytest.mark.parametrize(
    ("row", "duration", "interval"),
    [
        (COPY, (60 + 512) / 0.96 + 90, (60 + 512) / 0.96),
        (EXP, (110 + 110 + 512) / 1.2 + 105, (110 + 110 + 512) / 1.2),
        ({**PASS, "pe_clock_frac": "1.0"}, (7 + 2 * 512) / 2.4 + 163, (7 + 2 * 512) / 2.4),
        ({**PASS, "pe_clock_frac": "0.5"}, (7 + 2 * 512) / 1.2 + 163, (7 + 2 * 512) / 1.2),
        ({**LOAD, "pe_clock_frac": "1.0"}, 128 / 2.4 + 44, 0),
        ({**LOAD, "pe_clock_frac": "0.5"}, 128 / 1.2 + 44, 0),
    ],
)
def test_a_row_that_matches_the_trace_passes(tmp_path, capsys, row, duration, interval):
    code, out = outcome(tmp_path, capsys, (row, duration, interval))
    assert code == 0
    assert "median error 0.0%" in out and "0 beyond 15%" in out


def test_a_row_with_a_different_time_fails(tmp_path, capsys):
    code, out = outcome(tmp_path, capsys, (COPY, 343, ""), (COPY, 686, ""), (COPY, 686, ""))
    assert code == 1
    assert out.count("OFF") == 1 and "greatest 100.0%, 1 beyond 15%" in out


def test_an_interval_longer_than_a_duration_is_a_wait_and_is_not_compared(tmp_path, capsys):
    code, out = outcome(tmp_path, capsys, (COPY, 686, 2700))
    assert code == 0
    assert "1 figures" in out and "interval" not in out


def test_instructions_that_kernels_do_not_issue_are_listed(tmp_path, capsys):
    code, out = outcome(tmp_path, capsys, (COPY, 686, ""), (BRANCH, 100, ""))
    assert code == 0
    assert "COMPARE_BRANCH  an instruction of the sequencer" in out and "2 rows; 1 figures" in out
