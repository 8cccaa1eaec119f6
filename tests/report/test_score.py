"""neuroncore score: tables and folders of records, and the command."""

import csv
import json
from pathlib import Path

import nki.language as nl
import numpy as np
import pytest
from every import for_all

from neuroncore import machine
from neuroncore.base.errors import UsageError
from neuroncore.cli import main
from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.record.program import Record
from neuroncore.record.saved import load, save
from neuroncore.report import measurements
from neuroncore.report.estimate import Kind, range_of
from neuroncore.report.measurements import COLUMNS, Harness
from neuroncore.time.schedule import schedule

# --- tables ---------------------------------------------------------------------------------------

ROW = {
    "id": "R1", "generation": "trn2", "kernel": "copies", "metric": "latency_us",
    "measured_by": "nki.benchmark p50", "kernel_source": "github:somebody/kernels:a.py",
    "kernel_source_available": "yes", "notes": "", "est_single_core_us": "10.0", "bound": "DMA",
    "family": "copy", "chain": "copies", "quality": "A",
}  # fmt: skip


def row(**fields):
    return {**ROW, **fields}


def table(path, *rows, columns=COLUMNS):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows([{name: r[name] for name in columns} for r in rows])
    return path


def test_usable_rows_are_good_latencies_of_published_kernels():
    assert measurements.is_usable(ROW) and measurements.is_usable(row(quality="B"))
    for wrong in (
        {"quality": "C"},
        {"metric": "mfu"},
        {"kernel_source_available": "no"},
    ):
        assert not measurements.is_usable(row(**wrong))


@pytest.mark.parametrize(
    ("given", "repository"),
    [
        ("github:somebody/kernels:a.py@0f0f", "somebody/kernels"),
        ("library:src/x.py", "library"),
        ("github:somebody/kernels (git history):a/b.py", "somebody/kernels"),
    ],
)
def test_the_source_of_a_row_is_its_repository(given, repository):
    assert measurements.source(row(kernel_source=given)) == repository


@for_all(
    ("notes", "bound", "spilled"),
    [
        ("", "DMA", False),
        ("spill_reload=0", "DMA", False),
        ("hbm 1/2 spill 0; fast", "DMA", False),
        ("n=3; spill_reload=33816576", "DMA", True),
        ("", "PE-fp32+spill", True),
        ("spills from L=7168 on", "Vector", False),
    ],
)
def test_runs_with_spills_are_marked(notes, bound, spilled):
    assert measurements.spilled(row(notes=notes, bound=bound)) is spilled


def test_a_harness_adds_its_own_offset_on_its_own_machine(tmp_path):
    file = tmp_path / "offsets.toml"
    file.write_text(
        '[[harness]]\ngeneration = "trn2"\nmeasured_by = "nki.benchmark"\noffset_us = 9\n'
    )
    known = measurements.harnesses(file)
    assert known == [Harness("trn2", "nki.benchmark", 9.0)]
    assert measurements.offset_us(ROW, known) == 9.0
    assert measurements.offset_us(row(generation="trn1"), known) == 0.0
    assert measurements.offset_us(row(measured_by="neuron-profile"), known) == 0.0


def test_a_harness_may_add_the_time_of_another(tmp_path):
    file, text = (
        tmp_path / "offsets.toml",
        '[[harness]]\ngeneration = "trn2"\nmeasured_by = "mine"\n',
    )
    file.write_text(f'{text}as = "nki.benchmark"\n')
    assert measurements.harnesses(file) == [Harness("trn2", "mine", 9.0)]
    file.write_text(f'{text}as = "nki.bench"\n')
    with pytest.raises(UsageError, match="is not a list of harnesses"):
        measurements.harnesses(file)


def test_flags_are_those_of_the_row_and_of_its_harness():
    known = [Harness("trn2", "neuron-profile", 16.0, flags="--disable-dge")]
    leaves = measurements.leaves_descriptors
    assert leaves(row(measured_by="nki.benchmark p50"), known)
    assert not leaves(row(measured_by="nki.benchmark --disable-dge"), known)
    assert not leaves(row(measured_by="neuron-profile total_time"), known)
    assert leaves(row(measured_by="neuron-profile total_time"), [])


def test_the_launch_path_of_a_row_and_of_its_harness(tmp_path):
    """The path of the first harness that fits is used, otherwise the column `launch`."""
    file = tmp_path / "offsets.toml"
    entry = '[[harness]]\ngeneration = "trn2"\nmeasured_by = "bench"\noffset_us = 0\n'
    by_hand = f'{entry}launch = "standalone"\nkernel_source = "mine:k/hand"\n'
    file.write_text(by_hand + entry)
    known = measurements.harnesses(file)

    def path(**changed):
        return measurements.launch_of(row(measured_by="bench p50", **changed), known).path

    assert path(kernel_source="mine:k/hand_1.py") == "standalone"
    assert path(kernel_source="mine:k/other.py") == "framework"
    assert path(kernel_source="mine:k/other.py", launch="standalone") == "standalone"
    file.write_text(f'{entry}launch = "alone"\n')
    with pytest.raises(UsageError, match="is not a list of harnesses"):
        measurements.harnesses(file)


def test_descriptors_and_loads_of_a_row_and_of_its_harness(tmp_path):
    file = tmp_path / "offsets.toml"
    entry = '[[harness]]\ngeneration = "trn2"\nmeasured_by = "bench"\noffset_us = 0\n'
    file.write_text(f'{entry}descriptors = "software"\nloads = "once"\n')
    known = measurements.harnesses(file)

    def facts(**changed):
        return measurements.launch_of(row(**{"measured_by": "bench p50", **changed}), known)

    assert (facts().software, facts().loads) == (True, "once")
    told = facts(descriptors="hardware", loads="ahead")
    assert (told.software, told.loads) == (False, "ahead")
    assert (facts(measured_by="x").software, facts(measured_by="x").loads) == (False, "ahead")
    assert (facts().assume, facts(assume="slices").assume) == ((), ("slices",))
    with pytest.raises(UsageError, match=r"row .*: assume contains an unknown rule, 'halves'"):
        facts(assume="halves")


@pytest.mark.parametrize("text", ["", "[[harness]]\nmeasured_by = 'x'\n", "harness = 3\n", "=\n"])
def test_other_files_are_refused_as_harnesses(tmp_path, text):
    file = tmp_path / "offsets.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match="is not a list of harnesses"):
        measurements.harnesses(file)


def test_tables_without_the_columns_are_refused(tmp_path):
    kept = [name for name in COLUMNS if name not in ("chain", "bound")]
    with pytest.raises(UsageError, match="lacks the columns bound, chain"):
        measurements.read(table(tmp_path / "t.csv", ROW, columns=kept))
    with pytest.raises(UsageError, match="can't be read"):
        measurements.read(tmp_path / "nothing.csv")


# --- the command ----------------------------------------------------------------------------------


def copies(x, times):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for _ in range(times):
        nl.store(out, nl.load(x))
    return out


def recorded(folder, name, times, cores=1):
    x = np.ones((128, 512), np.float32)
    grid = (cores,) if cores > 1 else ()
    run = launch(copies, (x, times), tensor=NkiTensor, target="trn2", grid=grid)
    save(Record([core.program for core in run.cores]), folder / name)


def span_us(folder, name):
    """The kernel is DMAs alone."""
    (program,) = load(folder / name).programs
    return schedule(program, machine.load("trn2")).total_ns / 1000


@pytest.fixture
def folder(tmp_path):
    """Records of one, two and four copies, and a table that has them."""
    index = {}
    for times in (1, 2, 4):
        recorded(tmp_path, f"{times}.record", times)
        index[f"R{times}"] = {"record": f"{times}.record"}
    index["R9"] = {"missing": "it was refused"}
    (tmp_path / "index.json").write_text(json.dumps(index))
    spans = {times: span_us(tmp_path, f"{times}.record") for times in (1, 2, 4)}
    table(
        tmp_path / "t.csv",
        row(id="R1", est_single_core_us=str(spans[1])),
        row(id="R4", est_single_core_us=str(spans[4] * 2), notes="spill_reload=1"),
        row(id="R2", est_single_core_us=str(spans[2] / 2), bound="PE", family="other"),
        row(id="R9"),
        row(id="R8"),
        row(id="R7", quality="C"),
    )
    return tmp_path


def score(*words):
    return main(["score", *map(str, words)])


def document(capsys, folder, *words):
    arguments = [folder / "t.csv", "--records", folder, "--recorder", folder / "none.py", *words]
    assert score(*arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_every_row_is_estimated_and_summed_up(capsys, folder):
    found = document(capsys, folder)
    assert [r["id"] for r in found["rows"]] == ["R1", "R4", "R2"]
    assert [r["ratio"] for r in found["rows"]] == pytest.approx([1.0, 0.5, 2.0])
    assert figures(found["errors"]["all"]) == pytest.approx((3, 0.5, 1 / 3))
    assert figures(found["errors"]["without runs that spilled"]) == pytest.approx((2, 0.5, 0.5))
    assert {k for k in found["errors"] if k.startswith(("generation", "source"))} == {
        "generation trn2", "source somebody/kernels"
    }  # fmt: skip
    assert {m["id"]: m["why"] for m in found["missing"]} == {
        "R9": "it was refused", "R8": "not recorded"
    }  # fmt: skip


def figures(group):
    return group["count"], group["median"], group["close"]


def test_each_bound_has_its_range(capsys, folder):
    found = document(capsys, folder, "--by", "limit")
    assert {r["limit"] for r in found["rows"]} == {"latency"}
    row = found["rows"][0]
    stated = range_of(Kind("latency", row["order"], row["descriptors"], row["doubt"]))
    assert {(r["low"], r["high"]) for r in found["rows"]} == {(stated.low, stated.high)}
    inside = sum(r["low"] <= 1 / r["ratio"] <= r["high"] for r in found["rows"])
    told = found["errors"]["limit latency"]
    assert told["covered"] == pytest.approx(inside / 3)
    assert told["half_width"] == pytest.approx((stated.high - stated.low) / 2)


def test_the_order_within_a_chain_is_reported(capsys, folder):
    found = document(capsys, folder)
    (told,) = found["chains"]
    measured = {r["id"]: r["measured_us"] for r in found["rows"]}
    assert measured["R4"] > measured["R1"]
    assert told["pairs"] == found["order"]["pairs"] == 3
    in_order = sum(
        (measured[a] < measured[b]) for a, b in (("R1", "R2"), ("R2", "R4"), ("R1", "R4"))
    )
    assert told["right"] == in_order


@pytest.mark.parametrize(
    ("by", "groups"), [("bound", {"DMA", "PE"}), ("kernel", {"copy", "other"})]
)
def test_errors_are_grouped_on_request(capsys, folder, by, groups):
    found = document(capsys, folder, "--by", by)["errors"]
    assert {k for k in found if k.startswith(by)} == {f"{by} {g}" for g in groups}
    assert not any(k.startswith("source") for k in found)


def test_offsets_are_added_to_estimates(capsys, folder):
    offsets = folder / "offsets.toml"
    offsets.write_text(
        '[[harness]]\ngeneration = "trn2"\nmeasured_by = "nki.b"\noffset_us = 100.0\n'
    )
    without = document(capsys, folder, "--offsets", _empty(folder))["rows"]
    for found in (document(capsys, folder, "--offsets", offsets), document(capsys, folder)):
        for one, other in zip(found["rows"], without):
            assert one["estimated_us"] == pytest.approx(other["estimated_us"] + 100)


def _empty(folder):
    file = folder / "none.toml"
    file.write_text("harness = []\n")
    return file


def test_asserted_constants_are_listed_separately(capsys, folder):
    rows = measurements.read(folder / "t.csv")
    table(folder / "t.csv", *rows[:2], {**rows[2], "kernel_source": "nki-library:src/a.py"})
    found = document(capsys, folder)
    assert [r["id"] for r in found["rows"]] == ["R1", "R4"]
    assert [r["id"] for r in found["asserted"]] == ["R2"]
    assert found["errors"]["all"]["count"] == 2
    assert found["errors"]["nki-library, not included in all"]["count"] == 1
    assert found["chains"][0]["count"] == 2


def test_the_slower_core_counts(capsys, folder):
    recorded(folder, "1.record", 1, cores=2)
    programs = load(folder / "1.record").programs
    recorded(folder, "4.record", 4)
    save(Record([*programs, *load(folder / "4.record").programs]), folder / "1.record")
    found = document(capsys, folder)["rows"]
    alone, beside = found[1]["estimated_us"], found[0]["estimated_us"]
    assert alone < beside < 3 * alone  # of three programs; two cores share an HBM stack


def test_the_text_has_the_same_figures(capsys, folder):
    assert score(folder / "t.csv", "--records", folder, "--recorder", folder / "none.py") == 0
    said = capsys.readouterr().out
    lines = said.splitlines()
    assert lines[0].split() == ["estimate,", "us", "measured,", "us", "ratio"]
    assert "1.00   R1 trn2 copies" in lines[1]
    assert lines[2].endswith("R4 trn2 copies (spilled)")
    (told,) = (line.split() for line in lines if line.endswith(" all"))
    assert told[:3] == ["3", "50.0%", "33.3%"] and len(told) == 6
    assert "2 rows without a record" in said and "R9 copies: it was refused" in said


def test_sources_are_passed_to_the_recorder(capsys, folder, tmp_path):
    """The recorder fills the folder, and its output is not printed as neuroncore's."""
    recorder = folder / "recorder.py"
    recorder.write_text(
        "import json, pathlib, sys\n"
        "table, records, flag, *sources = sys.argv[1:]\n"
        "assert flag == '--sources'\n"
        "print('recording')\n"
        "index = {'R1': {'missing': ' and '.join(sources)}}\n"
        "pathlib.Path(records).mkdir()\n"
        "pathlib.Path(records, 'index.json').write_text(json.dumps(index))\n"
    )
    words = [folder / "t.csv", "--records", folder / "new", "--recorder", recorder, "--json"]
    assert score(*words, "--sources", "a=b", "c") == 0
    found = json.loads(capsys.readouterr().out)
    assert {m["id"]: m["why"] for m in found["missing"]}["R1"] == "a=b and c"
    assert found["rows"] == []


def test_wrong_usage_is_refused(capsys, folder):
    nothing = folder / "nothing"
    for words, said in (
        ([nothing], "can't be read as a table"),
        ([folder / "t.csv", "--records", nothing], "is not a folder of records"),
        (
            [folder / "t.csv", "--sources", "x", "--recorder", nothing, "--records", folder],
            "--recorder",
        ),
        (
            [folder / "t.csv", "--records", folder, "--offsets", nothing],
            "is not a list of harnesses",
        ),
    ):
        assert score(*words) == 2
        assert said in capsys.readouterr().err


# --- the recorder of published kernels ------------------------------------------------------------

FUSED = """
from neuronxcc import nki
import neuronxcc.nki.language as nl

@nki.jit
def fused_attention(q, k, v):
    out = nl.ndarray(q.shape, q.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(q), nl.load(k)))
    return out
"""
CALIBRATION = Path(__file__).parents[2] / "bench/calibration"


@pytest.mark.source
def test_kernels_of_a_checkout_are_recorded_once_and_scored(capsys, tmp_path):
    kernels = tmp_path / "fusion/kernels/fused"
    kernels.mkdir(parents=True)
    (kernels / "attention.py").write_text(FUSED)
    name = "allenkchau/trainium-kernel-fusion"
    one = row(
        kernel="attention_fused",
        kernel_source=f"github:{name}:kernels/fused/attention.py",
        api="legacy neuronxcc.nki",
        shapes="seqlen=512 d_head=128",
        dtype="bf16",
    )
    rows = one, row(id="R2", kernel_source="nobody/knows:x.py", **{k: one[k] for k in NEW})
    file = table(tmp_path / "t.csv", *rows, columns=[*COLUMNS, *NEW])
    words = [file, "--records", tmp_path / "records", "--json"]
    assert score(*words, "--sources", f"{name}={tmp_path / 'fusion'}") == 0
    found = json.loads(capsys.readouterr().out)
    (record,) = (tmp_path / "records").glob("*.record")
    assert [r["id"] for r in found["rows"]] == ["R1"]
    assert found["rows"][0]["estimated_us"] > 9  # the harness adds 9
    assert "it is not known how to run kernels of nobody/knows" in found["missing"][0]["why"]
    assert load(record).about["api"] == "legacy" and load(record).about["target"] == "trn2"
    before = record.stat().st_mtime_ns
    assert score(*words, "--sources", f"{name}={tmp_path / 'fusion'}") == 0
    assert json.loads(capsys.readouterr().out) == found
    assert record.stat().st_mtime_ns == before


NEW = ("api", "shapes", "dtype")
