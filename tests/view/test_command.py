"""`neuroncore view` and `run --html`."""

import re
import sys
from urllib.request import urlopen

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
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    (tmp_path / "mine.py").write_text(KERNEL)
    (tmp_path / "script.py").write_text(f"{KERNEL}\nx = inputs_of_ones()\ndouble(x), in_place(x)")
    return tmp_path


def test_view_writes_a_page_of_a_kernel(folder, capsys):
    assert main(["view", "mine.py::double", "-o", "my page.html", "--target", "trn1"]) == 0
    assert "page       my page.html (open it in a browser)" in capsys.readouterr().out
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


def test_a_scripts_values_are_those_before_its_kernels_changed_them(folder):
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
def test_values_are_there_as_asked_for(folder, values):
    command = ["view", "mine.py::double", "-o", "page.html", "--values", values, "--ref", "zeros"]
    assert main(command) == 1  # it differs, and the page is there all the same
    (core,) = document(Page((folder / "page.html").read_text("utf-8")))["cores"]
    assert ("reason" in core["values"]) == (values == "none")
    if values == "0:1":
        assert ["data" in tile for tile in core["values"]["tiles"]] == [True, False]


def test_values_that_are_no_range_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["view", "mine.py::double", "-o", "page.html", "--values", "5"])
    assert "'5' is not A:B, some or none" in capsys.readouterr().err


def test_view_wants_to_know_where(capsys):
    with pytest.raises(SystemExit):
        main(["view", "mine.py::double"])
    assert "no output given: use -o OUT.html or --serve" in capsys.readouterr().err


def test_a_page_has_the_window_that_was_asked_for(folder, capsys):
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
        assert f"{wrong!r} is not A:B, in instructions or times with B after A" in said


def test_serve_tells_where_until_it_is_ended(monkeypatch, capsys):
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
