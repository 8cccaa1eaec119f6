"""Pages of failed runs, of cores and ranks, of long runs and of windows, in a browser."""

from dataclasses import replace
from pathlib import Path

import captures
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
import tabs
import viewed
from neuroncore.kernels import ch05_matmul

import neuroncore
from neuroncore.base.options import Options
from neuroncore.capture.run import load
from neuroncore.cli import main
from neuroncore.report.perfetto import throughput
from neuroncore.view.document import PageOutcome, Shown
from neuroncore.view.page import PageSide, of_measured, of_sides, page


def test_without_answers_the_page_does_not_name_the_bound(chromium, run, tmp_path):
    page = run.view(values=None, answers=False)
    (core,) = viewed.document(page)["cores"]
    assert not core.keys() & {"bound", "what_if", "sentence", "path_share"}
    assert "bound_by" not in core["figures"]
    page.save(tmp_path / "page.html")
    with tabs.tab(chromium) as opened:
        opened.open(tmp_path / "page.html", "pane=figures")
        assert "bound" not in opened.text("body") and not opened.page.is_visible("#sentence")
        assert opened.page.locator("#tabs [data-pane=whatif]").count() == 0
        assert opened.errors == []


def test_a_page_opens_at_the_requested_selection(chromium, run, tmp_path):
    run.view(None, at="step=2&pane=memory").save(tmp_path / "page.html")
    with tabs.tab(chromium) as opened:
        opened.open(tmp_path / "page.html", "")
        assert opened.page.evaluate("[view.state.step, view.state.pane]") == [2, "memory"]


HELPED = """
import nki, nki.language as nl, numpy as np
from helper import load

@nki.jit
def copied(x):
    tile = load(x)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out

def inputs():
    return (np.ones((4, 8), np.float32),)

if __name__ == "__main__":
    copied(*inputs())
"""


@pytest.mark.parametrize("named", ["helped.py", "helped.py::copied"])
def test_a_page_opens_at_a_line_of_the_kernels_file(chromium, tmp_path, monkeypatch, named):
    monkeypatch.chdir(tmp_path)
    Path("helper.py").write_text("import nki.language as nl\ndef load(x):\n    return nl.load(x)\n")
    Path("helped.py").write_text(HELPED)
    assert main(["view", named, "--line", "8", "-o", "page.html"]) == 0
    with tabs.tab(chromium) as opened:
        opened.open(tmp_path / "page.html", "")
        assert opened.page.evaluate("view.core().lines[view.state.line]?.line") == 9


def test_the_page_of_a_trace_states_that_it_is_measured(chromium, tmp_path):
    for name, data in zip(("k.ntff", "k.neff"), captures.copied()):
        (tmp_path / name).write_bytes(data)
    of_measured(*load(tmp_path / "k.ntff").shown()).save(tmp_path / "page.html")
    with tabs.tab(chromium) as opened:
        opened.open(tmp_path / "page.html", "step=2")
        text = opened.text("body")
        assert "measured on a device" in text and "an estimate" not in text
        assert "2 COPY on Vector" in " ".join(text.split()) and "waited for 1 DMA" in text
        shown = opened.page.locator("#tabs button").all_inner_texts()
        assert shown == ["Summary", "Step", "Memory", "Figures"]
        for pane in ("memory", "figures"):
            opened.does(f"view.set({{ pane: '{pane}' }})")
        assert "kernel_time" in opened.text("body") and not opened.page.is_visible("#dma")
        of_measured(*load(tmp_path / "k.neff").shown()).save(tmp_path / "e.html")
        opened.open(tmp_path / "e.html", "step=2")
        text = opened.text("body")
        assert "an estimate of the program's own instructions" in text and "measured" not in text
        assert opened.errors == []


def test_a_transfer_that_begins_where_another_ends_does_not_count_twice(chromium, tmp_path):
    given = ch05_matmul.inputs(np.random.default_rng(0))
    blocked = neuroncore.run(ch05_matmul.blocked, *given, target="trn2")
    blocked.view(values=None).save(tmp_path / "page.html")
    _, exported = throughput(blocked.timelines[0])  # of the trace for Perfetto
    assert exported.max() < blocked.machine.hbm.stack_gigabytes_per_s
    with tabs.tab(chromium) as opened:
        opened.open(tmp_path / "page.html")
        most = opened.does("view.timeline.counters[1].most")
    assert most == pytest.approx(exported.max(), rel=0.01)


@pytest.mark.parametrize("size", [(1024, 768), (390, 844)])
def test_the_outcome_is_the_first_line_and_the_line_of_an_error_is_marked(
    chromium, run, tmp_path, size
):
    last = run.timelines[0].program.place(0)
    failed = PageOutcome("failed", f"{last}:5: error[X] it fails\n  got  9", last)
    pages = [("right", [PageOutcome("right", "the results agree")]), ("failed", [None, failed])]
    for kind, outcomes in pages:
        page([replace(run.shown(None), outcome=one) for one in outcomes]).save(tmp_path / "p.html")
        with tabs.tab(chromium, {"width": size[0], "height": size[1]}) as opened:
            opened.open(tmp_path / "p.html")
            assert opened.text("#outcome").startswith(f"{kind}: ")
            assert opened.text("#said").startswith(f"{kind}: ")
            assert ("up to the error" in opened.text("#verdict")) == (kind == "failed")
            assert opened.page.locator("#text .row.wrong").count() == (kind == "failed")
            if kind == "failed":
                assert opened.text("#text .row.wrong").startswith(f"{last.line}\n")
                assert opened.text("#text .message") == "error[X] it fails"
            assert opened.errors == []


def test_an_error_before_the_first_instruction_has_a_page_of_the_source(chromium, run, tmp_path):
    place = run.timelines[0].program.place(0)
    page([Shown("product", (), (), outcome=PageOutcome("failed", "it fails", place))]).save(
        tmp_path / "p.html"
    )
    with tabs.tab(chromium) as opened:
        assert opened.open(tmp_path / "p.html") == 0
        assert opened.text("#outcome") == "failed: it fails"
        assert opened.text("#verdict").startswith("product: no timeline")
        assert opened.page.is_visible("#text .row.wrong")
        assert not opened.page.is_visible("#left")
        opened.page.click("#theme")
        assert opened.does("document.documentElement.dataset.theme") == "dark"
        assert opened.errors == []


def test_a_step_shows_its_calls_and_the_variables_of_loops(chromium, tmp_path):
    found = neuroncore.run(viewed.product, *viewed.operands(), options=Options(stacks=True))
    found.view(values=None).save(tmp_path / "page.html")
    with tabs.tab(chromium) as opened:
        opened.open(tmp_path / "page.html", "step=7")
        (row,) = (line for line in opened.text("#panes").split("\n") if line.startswith("at\t"))
        assert "in product" in row and "n = 64" in row and "depth = 128" in row
        opened.page.keyboard.press("End")
        assert "n = 192" in opened.text("#panes")


def test_both_cores_of_a_launch_can_be_chosen(chromium, tmp_path):
    both = neuroncore.run(viewed.product[2], *viewed.operands(64))
    both.view().save(tmp_path / "cores.html")
    with tabs.tab(chromium) as opened:
        opened.open(tmp_path / "cores.html")
        assert opened.text("#which").split() == [
            "core",
            "product,",
            "core",
            "0",
            "product,",
            "core",
            "1",
        ]
        opened.page.select_option("#core", "1")
        opened.does("view.drawn()")
        opened.page.keyboard.press("ArrowRight")
        assert opened.does("view.core().core") == 1
        assert "step=0" in opened.does("location.hash")
        assert opened.errors == []


def test_the_ranks_of_a_world_can_be_chosen(chromium, tmp_path):
    ranks = [(scale * a, b) for scale in (1, 2) for a, b in [viewed.operands(64)]]
    world = neuroncore.run(viewed.product, per_rank=ranks)
    page = world.view()
    page.save(tmp_path / "ranks.html")
    first, second = (core["values"]["tiles"][0]["high"] for core in viewed.document(page)["cores"])
    assert second == 2 * first
    with tabs.tab(chromium) as opened:
        opened.open(tmp_path / "ranks.html")
        assert opened.text("#core").split("\n") == ["product, rank 0", "product, rank 1"]
        opened.page.select_option("#core", "1")
        opened.does("view.drawn()")
        assert opened.does("[view.core().rank, view.core().ranks]") == [1, 2]
        assert opened.errors == []


@nki.jit
def summed(x):
    source, result, out = (
        nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name=name) for name in "abc"
    )
    nisa.dma_copy(source, x)
    ncc.all_reduce([source], [result], ncc.ReplicaGroup([[0, 1]]), nl.add)
    nisa.dma_copy(out, result)
    return out


def test_collectives_of_ranks_have_a_row(chromium, tmp_path):
    page = neuroncore.run(summed, per_rank=[(np.ones((8, 8), np.float32),)] * 2).view()
    page.save(tmp_path / "ranks.html")
    with tabs.tab(chromium) as opened:
        opened.open(tmp_path / "ranks.html", "step=1")
        rows = dict(opened.does("view.timeline.rows.map((row) => [row.name, [...row.items]])"))
        assert rows["CC-core"] == [1]
        assert [items for name, items in rows.items() if "qSync" in name and 1 in items] == []
        said = opened.text("[data-pane=step].pane")
        assert "replica_group" in said and "View(" not in said
        assert opened.errors == []


def test_ranks_are_stacked_and_a_click_opens_one(chromium, tmp_path):
    run = neuroncore.run(summed, per_rank=[(np.ones((8, 8), np.float32),)] * 2)
    run.view(values=None).save(tmp_path / "ranks.html")
    (meeting,) = run.collectives
    with tabs.tab(chromium) as opened:
        opened.open(tmp_path / "ranks.html", "pane=together")
        said = opened.text("[data-pane=together].pane")
        assert f"{meeting.name}\t2 ranks\trank {meeting.last}\t" in said
        box = opened.page.locator("[data-pane=together] canvas").bounding_box()
        opened.page.mouse.click(box["x"] + 300, box["y"] + box["height"] - 12)
        opened.does("view.drawn()")
        assert opened.does("[view.core().rank, view.state.pane]") == [1, "summary"]
        assert opened.errors == []


def test_a_comparison_has_both_sides_on_one_scale(chromium, tmp_path, run):
    other, path = viewed.run(64), tmp_path / "d.html"
    of_sides(
        PageSide(launch=run.shown(None)),
        PageSide(launch=other.shown(None)),
        run.diff(other).to_dict(),
    ).save(path)
    for name, data in zip(("k.ntff", "k.neff"), captures.copied()):
        (tmp_path / name).write_bytes(data)
    measured = load(tmp_path / "k.ntff")
    cores, files = measured.shown()
    told = {"kernels": ["a", "b"], "targets": ["x", "y"], "kernel_time": [1e-6, 2e-6], "lines": []}
    of_sides(PageSide(cores=cores, files=files), PageSide(launch=other.shown(None)), told).save(
        tmp_path / "m.html"
    )
    with tabs.tab(chromium) as opened:
        for name, said in (("d.html", "new: product"), ("m.html", "measured")):
            opened.open(tmp_path / name)
            assert opened.does("view.state.pane") == "together"
            opened.does("view.drawn()")
            assert said in " ".join(opened.does("view.together.board.labels.map((one) => one[4])"))
        assert opened.does("view.together.cores.length") == 2
        assert opened.errors == []


def test_precision_by_line_leads_to_the_line(chromium, tmp_path):
    options = Options(precision=True)
    found = neuroncore.run(viewed.product, *viewed.operands(64), options=options)
    found.view().save(tmp_path / "page.html")
    (first, *_) = viewed.document(found.view())["cores"][0]["precision"]["lines"]
    with tabs.tab(chromium) as opened:
        opened.open(tmp_path / "page.html", "pane=precision")
        shown = opened.text("[data-pane=precision].pane")
        assert first["text"] in shown and f"{100 * first['share']:.1f}%" in shown
        opened.page.click("[data-pane=precision].pane button")
        number = opened.does("view.core().lines[view.state.line].line")
        assert first["place"].endswith(f":{number}")


def test_a_picture_has_no_more_rectangles_than_pixels(chromium, tmp_path):
    long = neuroncore.run(viewed.product, *viewed.operands(64 * 800))
    path = tmp_path / "long.html"
    long.view(values=None).save(path)
    with tabs.tab(chromium) as opened:
        count = opened.open(path, "pane=memory")
        rows, width = opened.does("[view.timeline.rows.length, view.timeline.board.width]")
        drawn = opened.does("view.timeline.board.drawn")
        assert count == 4000 and 0 < drawn < (rows + 2) * width
        assert opened.errors == []


def test_a_page_of_a_window_shows_its_part_of_the_run(chromium, run, tmp_path):
    run.view(values=None, window=range(10, 15)).save(tmp_path / "page.html")
    rows = run.instructions[10:15]
    with tabs.tab(chromium) as opened:
        assert opened.open(tmp_path / "page.html", "step=1") == 5
        for shown, wanted in (
            ("begin", rows["begin_ns"]),
            ("end", rows["end_ns"]),
        ):
            found = opened.does(f"Array.from(view.core().{shown})")
            assert found == pytest.approx(wanted.tolist(), abs=0.11)
        low, high = opened.does("[view.state.from, view.state.to]")
        assert (low, high) == (min(rows["begin_ns"]), pytest.approx(max(rows["end_ns"]), abs=0.11))
        assert opened.text("#window").startswith("instructions 10 to 14 of 20; use --window A:B")
        assert opened.text("[data-pane=step].pane").startswith("11 dma_copy")
        opened.page.keyboard.press("End")
        assert opened.errors == []
