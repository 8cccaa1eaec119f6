"""The first screen of pages at three sizes: its text, and that it can be read: no overflow, no
labels that overlap or are cut off, enough contrast, and everything accessible by keyboard."""

import importlib
from dataclasses import replace
from pathlib import Path

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
import tabs
import viewed
from looks import FAULTS, Eyes

import neuroncore
from neuroncore.cli import main
from neuroncore.cli.explain import pages
from neuroncore.report.compare import agreement
from neuroncore.view.document import PageOutcome, compared
from neuroncore.view.page import Page, PageSide, of_sides, page

KERNELS = {
    "ch01_add": ["add"],
    "ch02_softmax": ["softmax"],
    "ch03_rmsnorm": ["rmsnorm"],
    "ch04_layernorm": ["layernorm"],
    "ch05_matmul": ["naive", "hoisted", "blocked_free", "blocked"],
    "ch06_transpose": ["transpose"],
    "ch07_attention": ["attention", "causal_attention"],
    "ch08_mlp": ["swiglu"],
    "ch09_digits": ["classify"],
    "ch10_rounding": ["running_sums", "trained", "narrowed"],
    "ch11_model": ["late", "early"],
}
HOME = Path(importlib.import_module("neuroncore.kernels").__file__).parent
# These are tested in all sizes. The pages of the others have their layout, and sizes alternate.
IN_ALL_SIZES = ("add", "attention")
PUZZLES = sorted(path.stem for path in HOME.glob("puzzles/p*.py"))
ALL = [(file, name) for file, names in KERNELS.items() for name in names]
ALL += [(f"puzzles.{file}", "kernel") for file in PUZZLES]
GIVEN = {  # inputs of kernels that don't take those of their chapter
    "narrowed": lambda home, rng: [np.full((128, 64), 1.001, np.float32)],
    "trained": lambda home, rng: home.training_inputs(rng, epochs=1),
    "late": lambda home, rng: home.inputs(),
    "early": lambda home, rng: home.inputs(),
}
TOLD = "UNINIT_READ", "OUTPUT_NOT_WRITTEN", "HBM_FILL", "LOOP_CARRIED"  # in a warning
REFUSED = {
    one.code: one.bad
    for one in reversed(pages().values())
    if one.bad and not one.severity and one.code not in TOLD
}
PYTHON = """
import nki, nki.isa as nisa, nki.language as nl, numpy as np

@nki.jit
def kernel(x):
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return [][3]

kernel(np.zeros((128, 8), np.float32))
"""
FAILING = REFUSED | {"IndexError": PYTHON}


@nki.jit
def steps(x, count):
    """`count` iterations of a load, up to three steps and a store."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for n in range(count):
        part = slice(8 * (n % 64), 8 * (n % 64) + 8)
        tile = nl.ndarray((128, 8), x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, part])
        other = nl.ndarray((128, 8), x.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=other, data=tile, op0=nl.add, operand0=1.0)
        if n % 7 < 3:
            nisa.activation(dst=other, data=other, op=nl.relu)
        if n % 5 == 0:
            nisa.tensor_tensor(dst=other, data1=other, data2=tile, op=nl.multiply)
        nisa.dma_copy(dst=out[:, part], src=other)
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("looks")


@pytest.fixture(scope="module")
def eyes(chromium):
    with tabs.tab(chromium) as tab:
        yield Eyes(tab)


def answers(core):
    """The text that the first screen must have for a core that ran."""
    hot = max(core["lines"], key=lambda line: line["critical_ns"])
    gains = [f"{100 * one['gain']:.1f}%" for one in core["suggestions"]]
    before = "line " if len({line["file"] for line in core["lines"]}) == 1 else ".py:"
    return [
        core["verdict"]["text"],
        core["sentence"].replace("->", "→"),
        *gains,
        f"{before}{hot['line']}",
    ]


@pytest.mark.parametrize(("file", "name"), ALL)
def test_kernels_of_the_chapters_and_the_puzzles(eyes, folder, file, name):
    home, rng = importlib.import_module(f"neuroncore.kernels.{file}"), np.random.default_rng(0)
    given = GIVEN[name](home, rng) if name in GIVEN else home.inputs(rng)
    shown = neuroncore.run(getattr(home, name), *given).shown(None)
    made = page([replace(shown, outcome=PageOutcome("right", "they agree"))])
    made.save(folder / f"{file}.{name}.html")
    (core,) = viewed.document(made)["cores"]
    look = eyes.look if name in IN_ALL_SIZES else eyes.glance
    assert look(folder / f"{file}.{name}.html", [*answers(core), "right: they agree"]) == []


def test_a_hundred_thousand_instructions(eyes, folder):
    made = neuroncore.run(steps, np.ones((128, 512), np.float32), 27_560).view(values=None)
    made.save(folder / "long.html")
    (core,) = viewed.document(made)["cores"]
    assert core["count"] >= 100_000 and len(made.html) < 1_500_000
    assert eyes.look(folder / "long.html", answers(core)) == []


def test_a_wrong_result(eyes, folder, run):
    wanted = run.results.astype(np.float64)
    wanted[3, 5] += 100
    outcome = compared(agreement([run.results], [wanted]))
    page([replace(run.shown(), outcome=outcome)]).save(folder / "wrong.html")
    assert (
        eyes.look(folder / "wrong.html", ["worst element at (3, 5)", "Where result 0 differs"])
        == []
    )


def test_kernels_that_fail(eyes, folder, monkeypatch):
    """The page of every error names it and its line. The browser shows the pages with the longest
    message and the most lines, and that of a Python error."""
    monkeypatch.chdir(folder)
    errors, lines = {}, {}
    for code, text in FAILING.items():
        Path(f"{code.lower()}.py").write_text(text)
        assert main(["view", f"{code.lower()}.py", "-o", f"{code}.html"]) == 1
        made = viewed.document(Page(Path(f"{code}.html").read_text("utf-8")))
        errors[code], lines[code] = made["error"]["text"], text.splitlines()
        assert made["files"][made["error"]["file"]]["text"].splitlines() == lines[code]
        assert code in errors[code].partition("\n")[0]
        lines[code] = lines[code][made["error"]["line"] - 1]
    longest = max(errors, key=lambda code: len(errors[code]))
    for code in {longest, max(FAILING, key=lambda code: FAILING[code].count("\n")), "IndexError"}:
        said = ["failed: ", errors[code].partition("\n")[0], lines[code]]
        assert eyes.glance(folder / f"{code}.html", said) == []


def test_ranks_and_a_comparison(eyes, folder, run):
    ranks = [(scale * a, b) for scale in (1, 2) for a, b in [viewed.operands(64)]]
    world = neuroncore.run(viewed.product, per_rank=ranks)
    world.view(values=None).save(folder / "ranks.html")
    assert eyes.look(folder / "ranks.html", ["product on trn2: "]) == []
    other = viewed.run(64)
    sides = (PageSide(launch=one.shown(None)) for one in (run, other))
    of_sides(*sides, run.diff(other).to_dict()).save(folder / "sides.html")
    assert eyes.look(folder / "sides.html", ["faster with a probability of"]) == []


WALK = """() => {
    const all = document.querySelectorAll("button, select, input, [tabindex='0']");
    return [...all].filter((one) => one.checkVisibility() && !one.seen)
        .map((one) => one.id || one.textContent);
}"""


def test_tab_and_enter_lead_everywhere(chromium, folder, run):
    run.view(values=None).save(folder / "keys.html")
    with tabs.tab(chromium) as opened:
        opened.open(folder / "keys.html")
        assert len(opened.does(WALK)) > 20
        for _ in range(80):
            opened.page.keyboard.press("Tab")
            opened.does("document.activeElement.seen = true")
        assert opened.does(WALK) == []
        opened.page.focus("#suggestions button")
        opened.page.keyboard.press("Enter")
        assert opened.does("view.state.line") >= 0


def test_the_checks_find_faults(chromium, folder, run):
    run.view(values=None).save(folder / "faults.html")
    with tabs.tab(chromium) as opened:
        opened.open(folder / "faults.html")
        assert opened.page.evaluate(FAULTS) == []
        opened.does("document.getElementById('subtitle').style.color = '#aaaaaa'")
        opened.does("document.getElementById('sentence').style.marginTop = '-20px'")
        opened.does("document.getElementById('fit').tabIndex = -1")
        opened.does("view.timeline.board.labels.push([0, 20, 90, 11, 'label'])")
        found = " ".join(opened.page.evaluate(FAULTS))
    for fault in ("contrast 2.32", "over each other: ", "by keyboard: whole", "on a canvas: label"):
        assert fault in found
