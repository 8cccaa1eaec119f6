"""`neuroncore calibrate` prints measurements of the user next to the estimates."""

import json

import pytest
from cli_files import KERNEL

from neuroncore.cli import main, score

HEAD = "kernel,arguments,machine,harness,microseconds\n"
ROWS = (
    HEAD
    + """kernel.py::double,"float32[128,64]",trn2,mine,12.5
kernel.py::double,"float32[128,512]",trn2,mine,14
"""
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.py").write_text(KERNEL)
    return tmp_path


def test_rows_are_next_to_estimates(capsys, folder):
    (folder / "rows.csv").write_text(ROWS)
    assert main(["calibrate", "rows.csv"]) == 0
    assert "mine on trn2: 2 rows" in capsys.readouterr().out
    assert main(["calibrate", "rows.csv", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["measured"] for row in told["rows"]] == [12500, 14000]
    assert told["harnesses"][0]["offset"] > 0


def test_a_row_may_have_the_arguments_of_its_launch(capsys, folder):
    head = HEAD.replace("\n", ",launch,clock_phase\n")
    row = 'kernel.py::double,"float32[128,64]",trn2,neuron-profile,20,{}\n'
    (folder / "rows.csv").write_text(head + row.format("standalone,0.5") + row.format(","))
    assert main(["calibrate", "rows.csv"]) == 0
    assert (
        "of this difference, 15.1 us are the overhead of neuron-profile" in capsys.readouterr().out
    )
    for facts, said in (("alone,", "'standalone'"), (",1.5", "line 2: clock_phase")):
        (folder / "rows.csv").write_text(head + row.format(facts))
        assert main(["calibrate", "rows.csv"]) == 2
        assert said in capsys.readouterr().err


def test_the_offset_and_the_factor_are_medians():
    rows = [score.MeasuredRow("k", "trn2", "h", e + 9, e) for e in (10, 20, 30)]
    (found,) = score.summaries([*rows, score.MeasuredRow("k", "trn2", "h", 900, 9)])
    assert (found.number, found.near) == (4, 0)
    assert found.offset == 9 and found.factor == pytest.approx((29 / 20 + 19 / 10) / 2)


@pytest.mark.parametrize(
    "text", ["", HEAD, "kernel,machine\nk,trn2\n", HEAD + "k.py::k,1,trn2,h,soon\n"]
)
def test_other_tables_are_refused(capsys, folder, text):
    (folder / "rows.csv").write_text(text)
    assert main(["calibrate", "rows.csv"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_table_without_rows_lacks_no_column(capsys, folder):
    (folder / "rows.csv").write_text(HEAD)
    assert main(["calibrate", "rows.csv"]) == 2
    assert capsys.readouterr().err == "neuroncore: rows.csv has no rows\n"
