"""The first screen of pages at three sizes: what it says, and that it can be read: no overflow, no
labels over each other or cut, enough contrast, and everything by keyboard."""

import importlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tabs
import viewed

import neuroncore
from neuroncore.cli import main
from neuroncore.report.compare import agreement
from neuroncore.view.document import PageOutcome, compared
from neuroncore.view.page import PageSide, of_sides, page

SIZES = (1400, 900), (1024, 768), (390, 844)
KERNELS = (
    ("ch01_add", "add"),
    ("ch02_softmax", "softmax"),
    ("ch03_rmsnorm", "rmsnorm"),
    ("ch04_layernorm", "layernorm"),
    ("ch05_matmul", "blocked"),
    ("ch06_transpose", "transpose"),
    ("ch07_attention", "attention"),
    ("ch08_mlp", "swiglu"),
    ("ch09_digits", "classify"),
    ("ch10_rounding", "running_sums"),
)
FAILING = """
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def shapes(x):
    t = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.tensor_scalar(dst=t[:, 0:4], data=t, op0=nl.add, operand0=1.0)  # shapes

@nki.jit
def partitions(x):
    return nl.ndarray((256, 8), x.dtype, buffer=nl.sbuf)  # partitions

@nki.jit
def python(x):
    t = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    return [][3]  # python
"""
LOOK = Path(__file__).with_name("look.js").read_text("utf-8").partition("\n")[2]


def chapter(file, name):
    home = importlib.import_module(f"neuroncore.kernels.{file}")
    return neuroncore.run(getattr(home, name), *home.inputs(np.random.default_rng(0)))


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory):
    return tmp_path_factory.mktemp("looks")


def looked_at(chromium, path, said):
    """Look at a page at each size, in light and dark, in each of its panes."""
    for number, (width, height) in enumerate(SIZES):
        scheme = "dark" if number == 1 else "light"
        size = {"width": width, "height": height}
        with tabs.tab(chromium, viewport=size, color_scheme=scheme) as opened:
            opened.open(path)
            text = " ".join(opened.text("body").split())
            assert all(" ".join(word.split()) in text for word in said)
            panes = opened.does(
                "[...document.querySelectorAll('#tabs button')].map((b) => b.dataset.pane)"
            )
            for pane in panes if width != 1400 else panes[:1]:
                opened.does(f"view.set({{ pane: '{pane}' }}), view.drawn()")
                assert (pane, width, opened.page.evaluate(LOOK)) == (pane, width, [])
            assert opened.errors == []


@pytest.mark.parametrize(("file", "name"), KERNELS)
def test_kernels_of_the_chapters(chromium, folder, file, name):
    found = chapter(file, name)
    path = folder / f"{name}.html"
    page([replace(found.shown(None), outcome=PageOutcome("right", "they agree"))]).save(path)
    (core,) = viewed.document(found.view(values=None))["cores"]
    gains = [f"{100 * one['gain']:.1f} %" for one in core["suggestions"]]
    looked_at(chromium, path, [core["verdict"]["text"], core["sentence"], "right: ", *gains])


def test_a_wrong_result(chromium, folder, run):
    wanted = run.results.astype(np.float64)
    wanted[3, 5] += 100
    outcome = compared(agreement([run.results], [wanted]))
    page([replace(run.shown(), outcome=outcome)]).save(folder / "wrong.html")
    looked_at(
        chromium, folder / "wrong.html", ["worst element at (3, 5)", "Where result 0 differs"]
    )


def test_a_failed_run(chromium, folder, run):
    place = run.timelines[0].program.place(0)
    outcome = PageOutcome("failed", f"{place}:5: error[X] it fails\n  got  9", place)
    page([replace(run.shown(None), answers=False, outcome=outcome)]).save(folder / "failed.html")
    looked_at(
        chromium, folder / "failed.html", ["failed: ", "error[X] it fails", "up to the error"]
    )


@pytest.mark.parametrize("kernel", ["shapes", "partitions", "python"])
def test_kernels_that_fail(chromium, folder, monkeypatch, kernel):
    monkeypatch.chdir(folder)
    (folder / "failing.py").write_text(FAILING)
    command = ["view", f"failing.py::{kernel}", "--args", "float32[128,8]", "-o", "page.html"]
    assert main(command) == 1
    looked_at(chromium, folder / "page.html", ["failed: "])
    with tabs.tab(chromium) as opened:
        opened.open(folder / "page.html")
        assert opened.text("#text .row.wrong").endswith(f"# {kernel}")
        marked = opened.page.locator("#text .row.wrong").bounding_box()
        assert marked["y"] + marked["height"] < 900


def test_ranks_and_a_comparison(chromium, folder, run):
    ranks = [(scale * a, b) for scale in (1, 2) for a, b in [viewed.operands(64)]]
    world = neuroncore.run(viewed.product, per_rank=ranks)
    world.view(values=None).save(folder / "ranks.html")
    looked_at(chromium, folder / "ranks.html", ["product, rank 1"])
    other = viewed.run(64)
    sides = (PageSide(launch=one.shown(None)) for one in (run, other))
    of_sides(*sides, run.diff(other).to_dict()).save(folder / "sides.html")
    looked_at(chromium, folder / "sides.html", ["faster with a probability of"])


def test_the_look_finds_faults(chromium, folder, run):
    run.view(values=None).save(folder / "faults.html")
    with tabs.tab(chromium) as opened:
        opened.open(folder / "faults.html")
        assert opened.page.evaluate(LOOK) == []
        opened.does("document.getElementById('subtitle').style.color = '#aaaaaa'")
        opened.does("document.getElementById('sentence').style.marginTop = '-20px'")
        opened.does("document.getElementById('fit').tabIndex = -1")
        opened.does("view.timeline.board.labels.push([0, 20, 90, 11, 'label'])")
        found = " ".join(opened.page.evaluate(LOOK))
    for fault in ("contrast 2.32", "over each other: ", "by keyboard: whole", "on a canvas: label"):
        assert fault in found
