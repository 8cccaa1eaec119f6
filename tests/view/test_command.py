"""`neuroncore view` and `run --html`."""

import base64
import re
import sys
import zlib
from urllib.request import urlopen

import numpy as np
import pytest
from cli_files import KERNEL
from viewed import document

from neuroncore.cli import main
from neuroncore.cli import view as command
from neuroncore.view.page import Page


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "")
    for name in ("mine", "failing"):  # another test may have imported a file of that name
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "mine.py").write_text(KERNEL)
    (tmp_path / "script.py").write_text(f"{KERNEL}\nx = inputs_of_ones()\ndouble(x), in_place(x)")
    return tmp_path


def test_view_writes_a_page_of_a_kernel(folder, capsys):
    assert main(["view", "mine.py::double", "-o", "my page.html", "--target", "trn1"]) == 0
    address = (folder / "my page.html").as_uri()
    assert f"page       my page.html (open it in a browser: {address})" in capsys.readouterr().out
    made = document(Page((folder / "my page.html").read_text("utf-8")))
    (core,) = made["cores"]
    assert (core["kernel"], core["machine"]) == ("double", "trn1")
    (file,) = made["files"]
    assert file["name"].endswith("mine.py") and file["text"] == KERNEL


def test_a_page_of_a_script_has_all_its_launches(folder, capsys):
    assert main(["run", "script.py", "--html", "out.html", "--json"]) == 0
    cores = document(Page((folder / "out.html").read_text("utf-8")))["cores"]
    assert [core["kernel"] for core in cores] == ["double", "in_place"]
    assert all(len(core["values"]["tiles"]) > 0 for core in cores)
    assert capsys.readouterr().out.startswith("{")


def test_values_of_a_script_are_those_before_its_kernels_changed_them(folder):
    again = "\nin_place(x), in_place(x)"
    (folder / "again.py").write_text(f"{KERNEL}\nx = inputs_of_ones(){again}")
    assert main(["view", "again.py", "-o", "out.html"]) == 0
    first, second = document(Page((folder / "out.html").read_text("utf-8")))["cores"]
    assert first["values"]["tiles"][0]["high"] == 1.0
    assert second["values"]["tiles"][0]["high"] == first["values"]["tiles"][-1]["high"] == 2.0


def test_a_page_that_cant_be_written_is_refused_before_the_run(capsys):
    assert main(["view", "mine.py::double", "-o", "nowhere/page.html"]) == 2
    assert "--html nowhere/page.html can't be written" in capsys.readouterr().err


@pytest.mark.parametrize("values", ["some", "0:1", "none"])
def test_requested_values_are_on_the_page(folder, values):
    command = ["view", "mine.py::double", "-o", "page.html", "--values", values, "--ref", "zeros"]
    assert main(command) == 1  # the result differs, and the page is still written
    (core,) = document(Page((folder / "page.html").read_text("utf-8")))["cores"]
    assert ("reason" in core["values"]) == (values == "none")
    if values == "0:1":
        assert ["data" in tile for tile in core["values"]["tiles"]] == [True, False]


@pytest.mark.parametrize("values", ["5", "5:2", "3:3", "a:b"])
def test_an_invalid_range_of_values_is_refused(values, capsys):
    with pytest.raises(SystemExit):
        main(["view", "mine.py::double", "-o", "page.html", "--values", values])
    assert f"{values!r} is none of these: 'some', 'none', A:B" in capsys.readouterr().err


def test_without_a_name_the_page_is_named_after_the_kernel_or_the_script(folder, capsys):
    for file, name in (("mine.py::double", "double.html"), ("script.py", "script.html")):
        for _ in range(2):  # the second page replaces the first
            assert main(["view", file, "--values", "none"]) == 0
            assert f"page       {name} (open it in a browser: file:///" in capsys.readouterr().out
        assert document(Page((folder / name).read_text("utf-8")))["cores"]


def test_a_file_that_is_not_a_page_is_replaced_only_on_request(folder, capsys):
    (folder / "double.html").write_text("<p>mine</p>")
    assert main(["view", "mine.py::double"]) == 2
    assert "double.html exists and is not a page of a run: use -o" in capsys.readouterr().err
    assert (folder / "double.html").read_text() == "<p>mine</p>"
    assert main(["view", "mine.py::double", "-o", "double.html"]) == 0


def test_a_page_shows_whether_the_result_is_right(folder, capsys):
    (folder / "mine.py").write_text(
        f"{KERNEL}\ndef expected(x):\n    return 2 * x\n"
        "def other(x):\n    found = 2 * x\n    found[1, 2] = 9\n    return found\n"
    )
    right, wrong = (outcome(folder, ["mine.py::double", "--ref", r]) for r in ("expected", "other"))
    assert right["kind"] == "right" and "agree with the reference" in right["text"]
    assert wrong["kind"] == "wrong" and "\n" not in wrong["text"]
    assert "result 0 differs: worst element at (1, 2): got " in wrong["text"]
    assert ", expected 9; relative L2 error " in wrong["text"]
    (drawn,) = wrong["maps"]
    levels = np.frombuffer(zlib.decompress(base64.b64decode(drawn["data"])), np.uint8)
    _, columns = drawn["levels"]
    assert [int(n) for n in np.flatnonzero(levels)] == [columns + 2]  # element (1, 2)
    assert (drawn["result"], right["maps"]) == (0, [])


def outcome(folder, command):
    """Return the text about the result on the page of a command."""
    main(["view", *command, "-o", "page.html", "--values", "none"])
    (core,) = document(Page((folder / "page.html").read_text("utf-8")))["cores"]
    return core["outcome"]


FAILING = """
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def late(x):
    t = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.tensor_scalar(dst=t[:, 0:4], data=t, op0=nl.add, operand0=1.0)  # late
    return t

@nki.jit
def first(x):
    return nl.ndarray((256, 8), x.dtype, buffer=nl.sbuf)  # first

@nki.jit
def result(x):
    t = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)  # result
    nisa.dma_copy(dst=t, src=x)
    return t

@nki.jit
def python(x):
    t = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    return [][3]  # python
"""


@pytest.mark.parametrize(
    ("kernel", "issued", "said"),
    [
        ("late", 1, "error[SHAPE_MISMATCH] tensor_scalar: data"),
        ("first", 0, "error[PARTITION_LIMIT]"),
        ("result", 1, "error[SIGNATURE] the kernel returns"),
        ("python", 1, "IndexError: list index out of range"),
    ],
)
def test_a_kernel_that_fails_has_a_page_of_all_before_the_error(folder, kernel, issued, said):
    (folder / "failing.py").write_text(FAILING)
    command = [f"failing.py::{kernel}", "--args", "float32[128,8]"]
    assert main(["run", *command]) == main(["view", *command, "-o", "page.html"]) == 1
    made = document(Page((folder / "page.html").read_text("utf-8")))
    error, cores = made["error"], made["cores"]
    assert error["kind"] == "failed" and said in error["text"]
    source = made["files"][error["file"]]["text"].splitlines()
    assert source[error["line"] - 1].endswith(f"# {kernel}")
    assert [core["instructions"] for core in cores] == [issued] * (issued > 0)
    assert all("sentence" not in core and core["outcome"] == error for core in cores)


def test_a_script_that_fails_keeps_the_launches_before_the_error(folder):
    (folder / "failing.py").write_text(FAILING)
    script = f"{KERNEL}\nimport failing\nx = inputs_of_ones()\ndouble(x)"
    for then, issued in (("failing.late(x)", [3, 1]), ("assert not double", [3])):
        (folder / "then.py").write_text(f"{script}\n{then}")
        assert main(["view", "then.py", "-o", "page.html"]) == 1
        made = document(Page((folder / "page.html").read_text("utf-8")))
        assert [core["instructions"] for core in made["cores"]] == issued
        assert made["error"]["text"]
        assert made["cores"][0]["outcome"] is None


def test_a_changed_script_is_shown_with_its_current_text(folder):
    for doubled in ("inputs_of_ones()", "2 * inputs_of_ones()"):
        text = f"{KERNEL}\ndouble({doubled})"
        (folder / "again.py").write_text(text)
        assert main(["view", "again.py", "-o", "page.html", "--values", "none"]) == 0
        (file,) = document(Page((folder / "page.html").read_text("utf-8")))["files"]
        assert file["text"].strip() == text.strip()


def test_a_page_has_the_requested_window(folder, capsys):
    for window, first, count in (("1:3", 1, 2), ("0ns:1ns", 0, 1), ("2:99", 2, 1)):
        assert main(["view", "mine.py::double", "-o", "page.html", "--window", window]) == 0
        (core,) = document(Page((folder / "page.html").read_text("utf-8")))["cores"]
        assert (core["first"], core["count"], core["instructions"]) == (first, count, 3)
    assert main(["view", "mine.py::double", "-o", "page.html", "--window", "5:9"]) == 2
    assert "the window 5:9 has no instructions" in capsys.readouterr().err
    for wrong in ("1us", "5:2", "2us:1us", "1.2.3ns:2us"):
        with pytest.raises(SystemExit):
            main(["view", "mine.py::double", "-o", "page.html", "--window", wrong])
        said = capsys.readouterr().err
        assert f"{wrong!r} is not A:B with A less than B: two numbers" in said


def test_serve_prints_its_address_and_runs_until_it_is_stopped(monkeypatch, capsys):
    asked = []

    class Ended:
        def wait(self):
            (url,) = re.findall(r"http://\S+", capsys.readouterr().out)
            asked.append(urlopen(url).read().decode())
            raise KeyboardInterrupt

    monkeypatch.setattr(command, "until_ended", Ended().wait)
    assert main(["view", "mine.py::double", "--serve"]) == 0
    (core,) = document(Page(asked[0]))["cores"]
    assert core["kernel"] == "double" and core["values"] == {"served": True}
