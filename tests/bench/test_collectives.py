"""bench/collectives.py: the published table for 64 ranks. The model is fitted to 20 of its rows."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import collectives

CSV = ROOT / "tests/data/collectives.csv"

pytestmark = pytest.mark.source
NUMBER = re.compile(r"[0-9.]+")


def test_rows_that_are_not_in_the_fit_are_within_the_limits():
    every = list(collectives.rows(CSV))
    fitted = [row for row in every if row.is_fitted]
    assert len(every) == 50 and len(fitted) == 20
    assert {(row.op, row.dtype) for row in fitted} == {
        ("all_gather", "fp32"),
        ("reduce_scatter", "fp32"),
    }
    held_out = collectives.errors(every, False, "A")
    assert len(held_out) == 30 and held_out[-1] <= 0.20 and held_out[15] <= 0.08
    assert collectives.within_limits(every)


def test_a_wrong_model_exceeds_the_limits():
    every = list(collectives.rows(CSV))
    slower = [row._replace(microseconds=1.2 * row.microseconds) for row in every]
    assert not collectives.within_limits(slower)
    assert not collectives.within_limits([row for row in every if row.is_fitted])


def test_the_numbers_in_the_file_are_the_results_of_the_fit():
    pytest.importorskip("scipy")
    found = list(collectives.fit(list(collectives.rows(CSV))))
    told = [
        "mesh: step_us 5.38, gather 76, scatter 113 GB/s",
        "rdh: step_us 3.64, gather 187, scatter 151 GB/s",
        "kangaring: step_us 3.86, gather 351, scatter 286 GB/s",
    ]
    assert [NUMBER.sub("", line) for line in found] == [NUMBER.sub("", line) for line in told]
    for one, other in zip(found, told):  # the last digit depends on the processor's least squares
        assert [float(n) for n in NUMBER.findall(one)] == pytest.approx(
            [float(n) for n in NUMBER.findall(other)], rel=0.01
        )


def test_rows_without_an_estimate_are_reported(tmp_path, monkeypatch, capsys):
    head, first, *_ = CSV.read_text().splitlines()
    rows = [
        first,
        first.replace(",1,64,2,", ",2,64,2,"),
        "unstated,1,64,,all_gather,fp32,1024,1.0,B",
        "unstated,1,64,,all_gather,fp32,1024,1.0,X",
    ]
    (tmp_path / "some.csv").write_text("\n".join([head, *rows]))
    monkeypatch.setattr(sys, "argv", ["collectives.py", str(tmp_path / "some.csv")])
    assert collectives.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6 and sum("no estimate" in line for line in lines) == 2
    assert lines[1].endswith("mesh, held out")
