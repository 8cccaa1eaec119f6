"""Commands that read files of devices: profile import, profile view, why, diff and neff."""

import argparse
import gzip
import json
import re

import captures
import numpy as np
import pytest
import viewed

from neuroncore.cli import captures as commands
from neuroncore.cli import main
from neuroncore.view.page import Page

TRACE, PROGRAM = captures.copied()
KERNEL = """
import nki
import nki.language as nl

@nki.jit
def copied(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    again = nl.copy(tile)
    nl.store(out, again)
    return out
"""
SOURCE = ("kernel.py::copied", "--args", "float32[128,64]")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, data in (("k.ntff", TRACE), ("p.neff", PROGRAM), ("kernel.py", KERNEL.encode())):
        (tmp_path / name).write_bytes(data)
    return tmp_path


def printed(capsys, *words):
    assert main([*words]) == 0
    return capsys.readouterr().out


def test_import_prints_figures_and_the_path(capsys, folder):
    text = printed(capsys, "profile", "import", "k.ntff", "--neff", "p.neff", "--trace", "t.json")
    assert re.search(r"^ +kernel_time +[\d.]+ [num]?s$", text, re.M) and "kernel.py:7" in text
    assert re.search(r"^ +hbm_read_bytes +[\d.]+ [KM]?i?B$", text, re.M)
    assert json.loads((folder / "t.json").read_text())["traceEvents"]
    printed(capsys, "profile", "import", "k.ntff", "--neff", "p.neff", "--html", "k.html")
    assert "measured" in (folder / "k.html").read_text()
    told = json.loads(printed(capsys, "profile", "import", "k.ntff", "--json"))
    assert told["summary"]["dma_transfer_count"] == 2 and told["why"]["measured"]


def test_import_lists_lines_of_the_kernel(capsys):
    text = printed(capsys, "profile", "import", "k.ntff", "--neff", "p.neff", "--source", *SOURCE)
    assert "kernel.py:8" in text and "kernel.py:10" in text


def test_profile_view_accepts_a_trace_of_a_device(capsys, folder):
    files = "-n", "p.neff", "-s", "k.ntff"
    assert "total_time" in printed(capsys, "profile", "view", *files)
    told = printed(capsys, "profile", "view", *files, "--output-format", "summary-json")
    assert json.loads(told)["kernel.neff"]["is_simulation"] is False
    printed(capsys, "profile", "view", *files, "--output-format", "json", "--output-file", "o.json")
    assert json.loads((folder / "o.json").read_text())["summary"]


def test_why_accepts_a_trace(capsys):
    assert "neuron-profile" in printed(capsys, "why", "k.ntff")
    told = json.loads(printed(capsys, "why", "k.ntff", "--neff", "p.neff", "--json"))
    (launch,) = told["launches"]
    assert launch["lines"][0]["place"] == "kernel.py:7"


def test_diff_accepts_traces_and_kernels(capsys):
    assert "+0.0%" in printed(capsys, "diff", "k.ntff", "k.ntff")
    told = json.loads(printed(capsys, "diff", "k.ntff", *SOURCE, "--json"))
    assert told["how"] == ["measured", "estimate"]
    assert {row["what"] for row in told["lines"]} <= {"kernel.py:8", "kernel.py:9", "kernel.py:10"}


def test_starts_of_transfers_have_one_name_on_both_sides(capsys):
    told = json.loads(
        printed(capsys, "diff", "k.ntff", *SOURCE, "--descriptors", "software", "--json")
    )
    rows = {(row["engine"], row["what"]): row for row in told["opcodes"]}
    assert rows["GpSimd", "starts of transfers"]["new"]["count"] == 2
    assert rows["Sync", "starts of transfers"]["old"]["count"] == 2


def test_the_page_of_a_comparison_has_the_lines_of_the_kernel(capsys, folder):
    """It had the lines of the compiler's statements, which are 7 to 9 in this program."""
    printed(capsys, "diff", "k.ntff", *SOURCE, "--neff", "p.neff", "--html", "d.html")
    measured, estimated = viewed.document(Page((folder / "d.html").read_text()))["cores"]
    assert {line["line"] for line in measured["lines"]} == {8, 9, 10}
    assert {line["line"] for line in estimated["lines"]} >= {8}


def test_a_kernel_runs_on_the_machine_of_the_capture(capsys, folder):
    """The default machine is trn2, so that kernels were compared with traces of other machines."""
    (folder / "k.ntff").write_bytes(TRACE.replace(b"trn2.3xlarge", b"trn1.2xlarge"))
    told = json.loads(printed(capsys, "diff", "k.ntff", *SOURCE, "--json"))
    assert told["targets"] == ["trn1.2xlarge", "trn1"]
    told = json.loads(printed(capsys, "diff", "k.ntff", *SOURCE, "--target", "trn3", "--json"))
    assert told["targets"] == ["trn1.2xlarge", "trn3"]


def test_a_kernel_that_does_not_match_a_trace_is_noticed(capsys):
    for command in (("profile", "import", "k.ntff", "--source"), ("diff", "k.ntff")):
        assert main([*command, "kernel.py::copied", "--args", "float32[128,64]"]) == 0
        assert "match" not in capsys.readouterr().err
        assert main([*command, "kernel.py::copied", "--args", "float32[128,32]"]) == 0
        assert "only 0 of 1 computations of kernel.neff match copied" in capsys.readouterr().err


OLDER = """
from neuronxcc import nki
import neuronxcc.nki.language as nl

@nki.jit
def copied(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.copy(nl.load(x)))
    return out
"""


def test_other_descriptors_than_those_of_the_trace_are_noticed(capsys, folder, monkeypatch):
    (folder / "older.py").write_text(OLDER)
    command = ["diff", "k.ntff", "older.py::copied", "--args", "float32[128,64]"]
    assert main(command) == 0  # the queue of the trace is static
    assert "NEURON_CC_FLAGS has no --disable-dge" in capsys.readouterr().err
    monkeypatch.setenv("NEURON_CC_FLAGS", "--disable-dge")
    assert main(command) == 0
    assert "descriptors" not in capsys.readouterr().err


def test_neff_lists_and_compares(capsys):
    assert "PSEUDO_DMA_TRIGGER" in printed(capsys, "neff", "p.neff")
    told = printed(capsys, "neff", "p.neff", "--source", *SOURCE)
    assert "load" in told.splitlines()[1] and "same" in told.splitlines()[1]
    found = json.loads(printed(capsys, "neff", "p.neff", "--source", *SOURCE, "--json"))
    assert [row["kind"] for row in found["beside"]] == ["load", "compute", "store"]


def test_the_document_of_all_instructions_is_made_only_for_json(capsys, monkeypatch):
    monkeypatch.setattr(commands.listing, "document", lambda program: {"all": program.name})
    assert json.loads(printed(capsys, "neff", "p.neff", "--json")).keys() == {"all"}
    monkeypatch.setattr(commands.listing, "document", None)
    assert "PSEUDO_DMA_TRIGGER" in printed(capsys, "neff", "p.neff")


def test_neff_executes_and_compares(capsys, folder):
    x = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)
    np.savez(folder / "in.npz", x=x)
    np.savez(folder / "good.npz", y=x)
    np.savez(folder / "bad.npz", y=np.where(x == 5, np.nan, x))
    text = printed(capsys, "neff", "p.neff", "--arrays", "in.npz", "--save", "out.npz")
    assert "output y float32[128,64]: 0 to 8191" in text
    assert np.array_equal(np.load(folder / "out.npz")["y"], x)
    assert "agrees" in printed(
        capsys, "neff", "p.neff", "--arrays", "in.npz", "--expect", "good.npz"
    )
    assert main(["neff", "p.neff", "--arrays", "in.npz", "--expect", "bad.npz", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["outputs"]["y"]
    assert (told["agrees"], told["error"], told["tolerance"]) == (False, "inf", 1e-4)
    assert main(["neff", "p.neff", "--execute", "--expect", "in.npz"]) == 2
    assert "no output x" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("profile", "import", "none.ntff"),
        ("profile", "import", "p.neff"),
        ("profile", "import", "k.ntff", "--html", "none/k.html"),
        ("why", "cut.ntff"),
        ("neff", "k.ntff"),
        ("neff", "p.neff", "--args", "1"),
        ("neff", "p.neff", "--execute", "--source", "kernel.py::copied"),
        ("neff", "p.neff", "--execute", "--target", "trn3"),
        ("neff", "p.neff", "--arrays", "none.npz"),
        ("neff", "p.neff", "--arrays", "k.ntff"),
        ("neff", "p.neff", "--execute", "--save", "none/out.npz"),
        ("profile", "import", "k.ntff", "--neff", "k.ntff"),
        ("profile", "import", "k.ntff", "--args", "1"),
        ("why", "empty.neff"),
        ("why", "text.ntff"),
        ("diff", "k.ntff", "empty.neff"),
        ("why", "k.ntff", "--source", "kernel.py::copied"),
        ("view", "k.ntff", "--source", "kernel.py::copied"),
        ("why", "k.ntff", "--launch", "standalone"),
        ("view", "k.ntff", "--clock-phase", "0.2"),
        ("why", "k.ntff", "--args", "1"),
        ("run", "k.ntff"),
    ],
)
def test_other_files_are_refused_in_one_sentence(capsys, folder, words):
    (folder / "cut.ntff").write_bytes(TRACE[:400])
    (folder / "empty.neff").write_bytes(b"")
    (folder / "text.ntff").write_text(KERNEL)
    assert main([*words]) == 2
    told = capsys.readouterr()
    assert told.out == "" and told.err.startswith("neuroncore: ") and told.err.count("\n") == 1


def test_the_accepted_arguments_are_those_that_are_read_for_a_file_of_a_device(monkeypatch):
    """Without an entry in the table, an argument that has an effect would be refused."""
    read, refuse = set(), commands.refuse_others

    class Recording(argparse.Namespace):
        def __getattribute__(self, name):
            read.add(name)
            return super().__getattribute__(name)

    def recorded(arguments):
        refuse(arguments)
        arguments.__class__ = Recording

    monkeypatch.setattr(commands, "refuse_others", recorded)
    for command in ("why", "view"):
        assert main([command, "k.ntff"]) == 0
    read_before = "answers", "time_limit"  # or never: a page of a measured run has no answers
    assert sorted({*read, *read_before}) == sorted(commands.OF_CAPTURE)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("why", "ours.neff"), "-n ours.neff"),
        (("run", "ours.neff"), "-n ours.neff"),
        (("neff", "ours.neff"), "-n ours.neff"),
        (("why", "ours.ntff"), "-s ours.ntff"),
        (("profile", "import", "ours.ntff"), "-s ours.ntff"),
    ],
)
def test_saved_runs_with_file_names_of_the_vendor_are_recognized_and_refused(
    capsys, folder, words, option
):
    for kind in ("neff", "ntff"):
        saved = gzip.compress(f'{{"format": "neuroncore.{kind}/1"}}'.encode())
        (folder / f"ours.{kind}").write_bytes(saved)
    assert main([*words]) == 2
    told = capsys.readouterr().err
    assert "is a run that neuroncore saved" in told and f"profile view {option}`" in told
    assert told.count("\n") == 1


def test_other_compressed_files_are_not_taken_for_saved_runs(capsys, folder):
    (folder / "other.neff").write_bytes(gzip.compress(b"{}"))
    assert main(["neff", "other.neff"]) == 2
    assert "neuroncore saved" not in capsys.readouterr().err
