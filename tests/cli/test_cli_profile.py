"""`neuroncore profile`, and the neuron-profile that programs find on their PATH."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nki.language as nl
import numpy as np
import pytest

from neuroncore.cli import main, tools
from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.report import saved

NEURONCORE = str(Path(sys.executable).parent / "neuroncore")
X = np.ones((3, 5), np.float32)


def double(x, times=1):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for _ in range(times):
        nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out


def save(name, times=1):
    run = launch(double, (X, times), tensor=NkiTensor, target="trn2")
    saved.save(run, Path(f"{name}.neff"), Path(f"{name}.ntff"))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The current folder, in which a run is saved as x."""
    monkeypatch.chdir(tmp_path)
    save("x")
    return tmp_path


def profile(*words):
    return main(["profile", *words])


def refused(capsys, *words):
    """Run a wrong command, which leaves no file behind; return its message."""
    before = sorted(Path().rglob("*"))
    assert profile(*words) == 2
    assert sorted(Path().rglob("*")) == before
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


NEFF, NTFF = ("-n", "x.neff"), ("-s", "x.ntff")

# --- view -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("files", [NEFF, NTFF, NEFF + NTFF])
def test_summary_json_is_one_line_with_one_object_in_it(capsys, files):
    assert profile("view", *files, "--output-format", "summary-json") == 0
    (line,) = capsys.readouterr().out.splitlines()
    summary = json.loads(line)
    assert summary == saved.summaries(saved.read(Path("x.ntff"), "ntff"))
    assert summary[next(iter(summary))]["dma_transfer_count"] == 2


@pytest.mark.parametrize("chosen", [[], ["--output-format=summary-text"], ["--disable-ui"]])
def test_summary_text_has_a_field_and_its_value_per_line(capsys, chosen):
    assert profile("view", *NTFF, *chosen) == 0
    name, *lines = capsys.readouterr().out.splitlines()
    ((key, fields),) = saved.summaries(saved.read(Path("x.ntff"), "ntff")).items()
    assert name == key
    found = dict(re.fullmatch(r"    (\w+) +(\S.*)", line).groups() for line in lines)
    assert found == {field: str(value) for field, value in fields.items()}
    assert [*found] == sorted(found)


def test_a_summary_lists_what_the_run_consisted_of(capsys):
    assert profile("view", *NEFF, *NTFF) == 0
    fields, instructions, lines = capsys.readouterr().out.split("\n\n")
    assert re.search(r"^    dma_transfer_count +2$", fields, re.MULTILINE)
    assert [line.split()[0] for line in instructions.splitlines()[1:]] == ["1", "1", "1"]
    assert re.search(r"Vector +TENSOR_SCALAR +tensor_scalar$", instructions, re.MULTILINE)
    assert f"{__file__}:" in lines and "nl.store(out, nl.multiply(nl.load(x), 2.0))" in lines
    assert "estimate" in instructions and "estimate" in lines


def test_without_a_format_a_page_is_written_next_to_the_run(capsys):
    assert profile("view", *NEFF, *NTFF) == 0
    printed = capsys.readouterr()
    assert printed.err == "wrote x.html\n" and " bound_by " in printed.out
    page = Path("x.html").read_text()
    assert "tensor_scalar" in page and '"what_if"' in page
    assert profile("view", *NEFF, "--no-answers") == 0
    assert '"what_if"' not in Path("x.html").read_text()
    assert " bound_by " not in capsys.readouterr().out


@pytest.mark.parametrize("chosen", [["--output-format=summary-text"], ["--disable-ui"]])
def test_no_page_is_written_unless_requested(capsys, chosen):
    assert profile("view", *NEFF, *NTFF, *chosen) == 0
    assert not Path("x.html").exists() and capsys.readouterr().err == ""


def test_long_lists_of_lines_are_cut(capsys, monkeypatch):
    monkeypatch.setattr("neuroncore.cli.profile.SHOWN", 0)
    assert profile("view", *NEFF) == 0
    assert capsys.readouterr().out.endswith("and 1 more\n")


def test_a_summary_can_go_to_a_file(capsys):
    assert profile("view", *NTFF, "--output-format=summary-json", "--output-file=out.json") == 0
    assert capsys.readouterr().out == ""
    assert next(iter(json.loads(Path("out.json").read_text()))).startswith("n_")


def test_json_has_the_summary_in_a_table(capsys):
    assert profile("view", *NEFF, *NTFF, "--output-format", "json") == 0
    tables = json.loads(Path("ntff.json").read_text())
    assert tables["summary"][0]["hfu_estimated_percent"] == 0
    assert [row["count"] for row in tables["instructions"]] == [1, 1, 1]
    assert "wrote ntff.json" in capsys.readouterr().err


def test_perfetto_is_the_timeline():
    assert profile("view", *NTFF, "--output-format", "perfetto", "--output-file", "t.json") == 0
    events = json.loads(Path("t.json").read_text())["traceEvents"]
    assert [e["name"] for e in events if e["ph"] == "X"] == [
        *("dma_copy", "tensor_scalar", "dma_copy")
    ]


def test_a_timeline_that_was_not_saved_is_refused(capsys, monkeypatch):
    monkeypatch.setattr(saved, "TRACED", 2)
    save("x")
    said = refused(capsys, "view", *NTFF, "--output-format", "perfetto")
    assert "3 instructions are more than 2" in said and "run --trace" in said


def test_an_empty_run_has_a_summary_too(capsys):
    saved.save(launch(lambda x: x, [X], tensor=NkiTensor), Path("x.neff"), None)
    assert profile("view", *NEFF) == 0
    assert re.search(r"^    instruction_count +0$", capsys.readouterr().out, re.MULTILINE)


def test_view_needs_files_that_belong_together(capsys):
    assert "-n X.neff" in refused(capsys, "view")
    save("y", times=2)
    said = refused(capsys, "view", "-n", "y.neff", *NTFF)
    assert "y.neff and x.ntff are of different runs" in said
    assert "no file none.neff" in refused(capsys, "view", "-n", "none.neff")
    assert "not the ntff" in refused(capsys, "view", "-s", "x.neff")
    Path("real.neff").write_bytes(b"\1\0\0\0" * 300)
    assert "for files of a device use" in refused(capsys, "view", "-n", "real.neff")
    assert "can't be written" in refused(capsys, "view", *NTFF, "--output-file", ".")


# --- capture --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ((), ["profile.ntff"]),
        (("-s", "y.ntff"), ["y.ntff"]),
        (("-s", "y.ntff", "--profile-nth-exec=2", "--enable-dge-notifs"), ["y_exec_2.ntff"]),
        (
            ("--num-exec", "4", "--profile-nth-exec", "2"),
            ["profile_exec_2.ntff", "profile_exec_4.ntff"],
        ),
    ],
)
def test_a_capture_equals_the_profile_of_the_run(capsys, options, names):
    assert profile("capture", *NEFF, *options) == 0
    assert sorted(p.name for p in Path().glob("*.ntff")) == sorted([*names, "x.ntff"])
    assert all(Path(name).read_bytes() == Path("x.ntff").read_bytes() for name in names)
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("estimate from when the kernel ran") == len(names)


def test_a_capture_needs_a_run_and_a_place(capsys):
    assert "-n X.neff" in refused(capsys, "capture", "-s", "y.ntff")
    assert "no file none.neff" in refused(capsys, "capture", "-n", "none.neff")
    assert "no folder" in refused(capsys, "capture", *NEFF, "-s", "none/y.ntff")
    for wrong in ("0", "-1", "x"):
        with pytest.raises(SystemExit):
            profile("capture", *NEFF, f"--num-exec={wrong}")
        assert f"'{wrong}' is not a number" in capsys.readouterr().err


# --- neuron-profile on the PATH -------------------------------------------------------------------

HARNESS = """
import json
import os
import subprocess

view = "neuron-profile view -n x.neff -s {} --output-format summary-json"
subprocess.run(["neuron-profile", "capture", "-n", "x.neff", "-s", "a b.ntff"], check=True)
assert os.system(view.format("'a b.ntff'") + " > out.json") == 0
with open("out.json") as file:
    summary = json.load(file)
print(summary[next(iter(summary))]["total_time"] * 1e3)
assert subprocess.run(["neuron-explorer", "view", "-n", "none.neff"]).returncode == 2
"""
# a script has to launch something
EMPTY = "import nki, numpy\nnki.jit(lambda x: x)(numpy.ones(3, 'f'))\n"


def start(*command, **environment):
    return subprocess.run(
        [*command], capture_output=True, text=True, env={**os.environ, **environment}
    )


def test_a_script_that_is_run_finds_neuron_profile():
    Path("harness.py").write_text(HARNESS + EMPTY)
    done = start(NEURONCORE, "run", "harness.py")
    assert done.returncode == 0, done.stderr
    assert "no file none.neff" in done.stderr
    summary = saved.summaries(saved.read(Path("x.ntff"), "ntff"))
    (fields,) = summary.values()
    assert str(fields["total_time"] * 1e3) in done.stdout


def test_child_processes_import_the_alias_of_neuroncore():
    code = "import neuronxcc.nki, nki; print(nki.__name__, neuronxcc.nki.__name__)"
    with tools.on_the_path():
        made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert any(Path(folder).name == "alias" for folder in sys.path)
    assert made.stdout.split() == ["neuroncore.frontend.nki", "neuroncore.frontend.neuronxcc.nki"]
    assert not any(Path(folder).name == "alias" for folder in sys.path)


def test_the_path_is_restored_afterwards(monkeypatch):
    monkeypatch.setenv("PATH", "somewhere")
    with tools.on_the_path():
        first, rest = os.environ["PATH"].split(os.pathsep)
        assert sorted(os.listdir(first)) == ["neuron-explorer", "neuron-profile"]
        assert rest == "somewhere"
    assert os.environ["PATH"] == "somewhere" and not Path(first).exists()
    monkeypatch.delenv("PATH")
    with pytest.raises(ZeroDivisionError), tools.on_the_path():
        assert os.environ["PATH"].endswith(os.defpath)
        1 / 0  # noqa: B018
    assert "PATH" not in os.environ


@pytest.fixture
def path(folder, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    assert main(["tools-path"]) == 0
    return Path(capsys.readouterr().out.rstrip("\n"))


def test_other_programs_find_neuron_profile_on_the_path(folder, path):
    assert path.is_relative_to(folder / "cache" / "neuroncore")
    assert sorted(p.name for p in path.iterdir()) == ["neuron-explorer", "neuron-profile"]
    there = f"{path}{os.pathsep}{os.environ['PATH']}"
    done = start("neuron-profile", "view", *NTFF, "--output-format=summary-json", PATH=there)
    assert json.loads(done.stdout) == saved.summaries(saved.read(Path("x.ntff"), "ntff"))
    assert start("neuron-explorer", "view", "-n", "none.neff", PATH=there).returncode == 2


def test_neuron_profile_does_not_import_from_the_current_folder(path):
    for name in ("json", "profile", "neuroncore"):
        Path(f"{name}.py").write_text("raise SystemExit(7)\n")
    done = start(str(path / "neuron-profile"), "view", *NTFF)
    assert done.returncode == 0, done.stderr


def test_on_windows_neuron_profile_is_a_batch_file(monkeypatch, tmp_path):
    made = tools.batch_file(r"C:\100% mine\python.exe", r"C:\lib")
    assert made.startswith("@echo off\r\n") and made.count("\r\n") == made.count("\n") == 4
    assert r'"C:\100%% mine\python.exe" -P -m neuroncore profile %*' in made
    assert r'"PYTHONPATH=%PYTHONPATH%;C:\lib"' in made
    assert "C:" in made and "exec" not in made


def test_without_access_to_the_cache_another_folder_is_used(capsys, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["tools-path"]) == 0
    made = Path(capsys.readouterr().out.rstrip("\n"))
    assert made.parent == tmp_path and os.access(made / "neuron-profile", os.X_OK)
