"""The page of a usual run in a browser, without a network."""

import random
from pathlib import Path

import numpy as np
import pytest
import tabs
import viewed

from neuroncore.base import units
from neuroncore.report.perfetto import throughput

CANVAS = "#timeline canvas"


@pytest.fixture(scope="module")
def file(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "a kernel's page, größer.html"
    run.view().save(path)
    return path


@pytest.fixture
def tab(chromium, file):
    """The open page, which makes no requests and has no errors."""
    with tabs.tab(chromium) as opened:
        opened.open(file)
        yield opened
        assert opened.errors == []
        assert opened.requests == [opened.requests[0]] and "gr%C3%B6%C3%9Fer" in opened.requests[0]


def test_everything_on_the_screen_is_in_the_document(tab, run):
    made = viewed.document(run.view())
    (core,) = made["cores"]
    assert " ".join(core["verdict"]["text"].split()) in tab.text("#verdict")
    assert f"{core['count']} instructions" in tab.text("#subtitle")
    tab.does("view.set({ pane: 'figures' })")
    shown = tab.text("[data-pane=figures].pane")
    figures = core["figures"]
    for name in ("dma_transfer_count", "instruction_count"):
        assert f"{name}\t{figures[name]}\n" in shown
    assert f"hbm_read_bytes\t{units.size(figures['hbm_read_bytes'])}\n" in shown
    assert f"\ntotal_time\t{units.duration(1e9 * figures['total_time'])}\n" in shown
    assert f"mfu_estimated_percent\t{100 * figures['mfu_estimated_percent']:.1f}%\n" in shown
    for line in core["lines"]:
        share = f"{100 * line['critical_ns'] / core['total_ns']:.1f}%"
        row = tab.text(f"#text .row[data-line='{line['line']}']")
        assert share in row if line["critical_ns"] else "%" not in row.split("\n")[1]


@pytest.mark.parametrize("size", [(1024, 768), (390, 844)])
def test_the_first_screen_has_the_suggestions_and_the_lines_that_cost_most(
    chromium, file, run, size
):
    rows = sorted(run.lines, key=lambda row: -row["critical_ns"])
    with tabs.tab(chromium, {"width": size[0], "height": size[1]}) as opened:
        opened.open(file)
        assert opened.does("view.state.color") == "critical"
        hot = opened.text("#hot").split("\n")
        assert f"line {rows[0]['place'].rpartition(':')[2]}" in " ".join(hot[1:3])
        (core,) = viewed.document(run.view())["cores"]
        for one in core["suggestions"]:
            assert f"{100 * one['gain']:.1f}%" in opened.text("#suggestions")
            assert one["change"] in opened.text("#suggestions")
        for shown in ("#suggestions", "#hot"):
            box = opened.page.locator(shown).bounding_box()
            assert box["y"] + box["height"] <= size[1] and box["x"] + box["width"] <= size[0]
        opened.page.click("#hot button")
        assert opened.does("view.core().lines[view.state.line].critical_ns") == pytest.approx(
            rows[0]["critical_ns"]
        )


def test_the_source_opens_at_the_most_expensive_line(tab, run):
    first = max(run.lines, key=lambda row: row["critical_ns"])["place"].rpartition(":")[2]
    assert f":{first}, the most expensive line" in tab.text("#facts")
    row, text = (
        tab.page.locator(each).bounding_box()
        for each in (f"#text .row[data-line='{first}']", "#text")
    )
    assert text["y"] <= row["y"] < text["y"] + text["height"]
    tab.page.focus("#text")
    tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("ArrowDown")
    lines = tab.does("view.core().lines.map((line) => line.line)")
    at = lines.index(int(first))
    assert tab.does("view.state.line") == min(at + 1, len(lines) - 1)


def test_a_border_can_be_moved_by_keys(tab):
    wide = tab.page.locator("#source").bounding_box()["width"]
    tab.page.focus("#along")
    tab.page.keyboard.press("ArrowLeft")
    assert tab.page.locator("#source").bounding_box()["width"] > wide


def test_suggestions_agree_with_why(tab, run):
    answers = run.why().answers
    tab.does("view.set({ pane: 'whatif' })")
    shown = tab.text("[data-pane=whatif].pane")
    assert tab.text("#sentence") == answers.sentence.replace("->", "→")
    for one in (*answers.edits[:1], answers.limits[0]):
        (row,) = (line for line in shown.split("\n") if line.startswith(f"{one}\t"))
        assert f"{100 * abs(one.gain):.1f}%" in row and row.endswith(one.bound)


def test_times_that_the_page_decodes_agree_with_the_run(tab, run):
    rows, tick = run.instructions, 0.11
    for name, wanted in (
        ("begin", rows["begin_ns"]),
        ("kept", rows["begin_ns"] + rows["busy_ns"]),
        ("end", rows["end_ns"]),
        ("cause", rows["waited_for"]),
    ):
        found = tab.does(f"Array.from(view.core().{name})")
        assert found == pytest.approx(wanted.tolist(), abs=tick)


def test_steps_forwards_and_back_show_the_same(tab):
    walk = random.Random(0)
    tab.page.keyboard.press("Home")
    for order in ("program", "time"):
        tab.does(f"view.set({{ order: '{order}', step: 0 }})")
        said = [tab.text("body")]
        for _ in range(25):
            if walk.random() < 0.6 or len(said) == 1:
                tab.page.keyboard.press("ArrowRight")
                said.append(tab.text("body"))
            else:
                tab.page.keyboard.press("ArrowLeft")
                said.pop()
                assert tab.text("body") == said[-1]


def test_every_step_shows_its_writers_and_readers(tab):
    tab.does("view.set({ step: 2 })")
    matmul = tab.text("[data-pane=step].pane")
    assert "2 nc_matmul" in matmul and "instructions that wait for it: 3 tensor_scalar" in matmul
    rows = [line for line in matmul.split("\n") if line.startswith(("reads\t", "writes\t"))]
    stationary, moving, dst = rows
    assert "0 dma_copy" in stationary and "1 dma_copy" in moving
    assert "nothing earlier" in dst and "read by 3 tensor_scalar" in dst
    tab.page.click("text=3 tensor_scalar >> nth=0")
    assert tab.does("view.state.step") == 3


def test_a_click_on_a_line_selects_its_rectangles(tab):
    line, wanted = tab.does(
        """(() => {
            const core = view.core(), index = core.lines.findIndex((line) => line.flops > 0);
            const own = [...core.call.keys()].filter((i) => core.lineOf(i) === index);
            return [core.lines[index].line, own];
        })()"""
    )
    tab.page.click(f"#text .row[data-line='{line}']")
    marked = "[...view.core().call.keys()].filter((i) => view.timeline.marked().test(i))"
    assert tab.does(marked) == wanted
    other = next(i for i in range(10) if i not in wanted)
    bright, faint = (tab.pixel(*place_of(tab, i)) for i in (wanted[0], other))
    assert bright == rgb(tab, f"view.timeline.color({wanted[0]})")
    assert faint != rgb(tab, f"view.timeline.color({other})")
    tab.page.keyboard.press("Escape")
    assert tab.does("view.timeline.marked()") is None


def place_of(tab, i):
    """The middle of an instruction's rectangle on the timeline."""
    return tab.does(f"view.timeline.placeOf({i})")


def test_rectangles_are_at_their_times(tab):
    for i in (0, 2, 3):
        x, y = place_of(tab, i)
        tab.does("view.set({ step: -1, line: -1 })")
        assert tab.pixel(x, y) == rgb(tab, f"view.timeline.color({i})")
        box = tab.page.locator(CANVAS).bounding_box()
        tab.page.mouse.click(box["x"] + x, box["y"] + y)
        assert tab.does("view.state.step") == i
    x, _ = place_of(tab, 0)
    assert tab.pixel(x, 0) != tab.pixel(*place_of(tab, 0))


def rgb(tab, script):
    color = tab.does(script).strip().removeprefix("#")
    return [int(color[k : k + 2], 16) for k in (0, 2, 4)]


def test_dma_engines_have_rows_and_a_throughput(tab, run):
    (timeline,) = run.timelines
    tab.does("view.set({ step: 1, dma: 'engines' })")
    rows = tab.does("view.timeline.rows.map((row) => [row.name, Array.from(row.items)])")
    used = [(f"DMA-E{e}", items) for e, items in enumerate(engines(timeline))]
    assert dict(rows[5:]) == dict(used)
    since, until = tab.does("[view.core().move[1], view.core().moved[1]]")
    assert until == pytest.approx(timeline.done[1], abs=0.11)
    assert until - since == pytest.approx(timeline.transfer_ns[1], abs=0.11)
    assert tab.pixel(*place_of(tab, 1)) == rgb(tab, "view.timeline.color(1)")
    _, values = throughput(timeline)
    most = tab.does("view.timeline.counters[1].most")
    assert most == pytest.approx(values.max(), rel=0.01)
    tab.page.select_option("#dma", "queues")
    assert tab.does("view.timeline.rows[5].name") == "qSyncIO0 0"


def engines(timeline):
    """The transfers whose bytes each DMA engine moves."""
    used = timeline.lane[:, 0], timeline.lane[:, 0] + timeline.engines_used
    for engine in range(int(used[1].max())):
        own = np.flatnonzero((used[0] <= engine) & (engine < used[1]) & timeline.moves)
        yield own[np.argsort(timeline.done[own], kind="stable")].tolist()


def test_a_gap_is_explained_at_the_pointer(tab, run):
    box = tab.page.locator(CANVAS).bounding_box()
    x, y = place_of(tab, 2)
    tab.page.mouse.move(box["x"] + 160, box["y"] + y)  # before the first product
    begin = run.instructions["begin_ns"][2]
    said = tab.text("#card")
    assert f"is idle for {units.duration(begin)}" in said
    assert "2 nc_matmul" in said and "waits for 1 dma_copy" in said
    tab.page.mouse.move(box["x"] + x, box["y"] + y)
    assert tab.text("#card").startswith("2 nc_matmul")


def test_wheel_drag_and_box_choose_the_window(tab):
    box, shown = tab.page.locator(CANVAS).bounding_box(), "[view.state.from, view.state.to]"
    total = tab.does("view.core().total_ns")
    middle, y = box["x"] + 150 + (box["width"] - 150) / 2, box["y"] + 40
    tab.page.mouse.move(middle, y)
    tab.page.mouse.wheel(0, -300)
    tab.page.wait_for_timeout(50)
    low, high = tab.does(shown)
    assert 0 < low < total / 2 < high < total
    assert low + high == pytest.approx(total, rel=0.01)  # the moment at the pointer stays there
    tab.page.mouse.down()
    tab.page.mouse.move(middle + 80, y)
    tab.page.mouse.up()
    moved = tab.does(shown)
    assert moved[0] < low and moved[1] - moved[0] == pytest.approx(high - low)
    tab.page.keyboard.down("Shift")
    tab.page.mouse.down()
    tab.page.mouse.move(middle + 180, y)
    tab.page.mouse.up()
    tab.page.keyboard.up("Shift")
    boxed = tab.does(shown)
    assert moved[0] < boxed[0] < boxed[1] < moved[1]
    tab.page.keyboard.press("0")
    assert tab.does(shown) == [0, total]


def test_a_search_finds_by_name_line_and_time(tab):
    count = tab.does("view.core().count")
    for query, wanted in (
        ("nc_matmul", count // 5),
        ("op:matmul busy>1ns", count // 5),
        ("busy>1s", 0),
        ("dma", 3 * count // 5),
    ):
        tab.does(f"view.set({{ query: '{query}' }})")
        assert tab.text("#matches") == f"{wanted} found"


def test_a_search_reports_words_that_it_cannot_read(tab):
    for query in ("nonsense:3", "dma wait>fast", "line:x"):
        tab.does(f"view.set({{ query: '{query}' }})")
        unknown = query.split()[-1]
        assert tab.text("#matches").startswith(f"no such word: {unknown}; use op:NAME, line:N")
        assert tab.does("view.timeline.marked().test(0)") is False


def test_an_address_leads_to_a_step_a_pane_and_a_window(chromium, file):
    with tabs.tab(chromium) as opened:
        opened.open(file, "step=3&pane=memory&from=100&to=900")
        assert opened.does("[view.state.from, view.state.to]") == [100, 900]
        assert opened.page.is_visible("[data-pane=memory].pane")
        opened.page.keyboard.press("ArrowRight")
        assert "step=4" in opened.does("location.hash")


def test_close_moments_are_distinguished(tab):
    said = "[1234.5678, 36700123.4, 0, 5e9].map((ns) => view.moment(ns))"
    assert tab.does(said) == ["1.2346 us", "36.7001234 ms", "0.0 ns", "5.0000000000 s"]
    apart = "[36700000, 36701000].map((ns) => view.moment(ns, 1000))"
    assert tab.does(apart) == ["36.700 ms", "36.701 ms"]


@pytest.mark.parametrize("scheme, width", [("light", 1800), ("dark", 500)])
def test_every_pane_draws_in_light_and_dark_wide_and_narrow(chromium, file, scheme, width):
    size = {"width": width, "height": 800}
    with tabs.tab(chromium, size, scheme) as opened:
        opened.open(file, "step=2")
        assert opened.does("document.documentElement.dataset.theme") == scheme
        for tab in opened.page.locator("#tabs button").all():
            tab.click()
            pane = tab.get_attribute("data-pane")
            assert opened.page.is_visible(f"[data-pane={pane}].pane")
        assert opened.does("document.documentElement.scrollWidth") <= width
        assert opened.errors == []


def test_a_print_has_all_panes(tab):
    tab.does("view.set({ step: 2 })")
    tab.page.emulate_media(media="print")
    tab.does("dispatchEvent(new Event('beforeprint'))")
    for pane in tab.page.locator(".pane").all():
        assert pane.is_visible()
    assert tab.does("view.memory.maps.every((map) => map.board.drawn > 0)")
    assert not tab.page.is_visible("nav") and tab.page.is_visible("#text")
    tab.does("dispatchEvent(new Event('afterprint'))")
    tab.page.emulate_media(media="screen")
    assert tab.page.locator(".pane:visible").count() == 1


def test_a_frame_in_a_notebooks_export_shows_the_page(chromium, run, tmp_path):
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><body>{run.view()._repr_html_()}</body>", "utf-8")
    with tabs.tab(chromium) as opened:
        opened.page.goto(Path(path).as_uri())
        frame = opened.page.frames[1]
        frame.wait_for_selector("#where:not(:empty)")
        assert frame.evaluate("window.ready") == len(run.instructions)
        frame.locator("#forward").click()
        assert "begins at" in frame.inner_text("#panes")
        assert opened.errors == []


def test_a_served_page_asks_for_the_values_of_the_step(chromium, run):
    server = run.serve()
    with tabs.tab(chromium, offline=False) as opened:
        opened.page.goto(f"{server.url}#step=2&pane=values")
        opened.page.wait_for_selector("#heat")
        assert "format\tbfloat16" in opened.text("[data-pane=values].pane")
        opened.does("view.set({ pane: 'array', cycle: 200 })")
        opened.page.wait_for_selector("#array")
        assert "cycle 200 of" in opened.text("[data-pane=array].pane")
        assert opened.requests == [server.url, f"{server.url}values?core=0&step=2"]
        opened.page.goto(f"{server.url}?window=5:10#step=2&pane=values")
        opened.page.wait_for_selector("#heat")
        assert opened.text("#window") == "◀ earlier instructions 5 to 9 of 20 later ▶"
        assert opened.requests[-1] == f"{server.url}values?core=0&step=7"
        opened.does("view.set({ pane: 'step' })")
        shown = opened.text("[data-pane=step].pane")
        assert shown.startswith("7 nc_matmul") and "waited for 6 dma_copy" in shown
        opened.does("view.set({ step: 0 })")
        assert "not in this window" in opened.text("[data-pane=step].pane")
        opened.page.click("text=later")
        opened.page.wait_for_function("window.ready !== undefined")  # of the page that it opens
        assert opened.does("window.ready.then(() => view.core().first)") == 10
        assert opened.errors == []
    server.close()


def test_the_browser_enforces_the_content_policy(chromium, file, tmp_path):
    """In a page with a script and a picture from another site, neither is run or requested."""
    other = tmp_path / "other.html"
    more = "<script>window.ran = true</script><img src='http://127.0.0.1:9/x.png'>"
    other.write_text(file.read_text("utf-8").replace("</body>", f"{more}</body>"), "utf-8")
    with tabs.tab(chromium, offline=False) as opened:
        opened.open(other)
        assert opened.does("window.ran === undefined")
        assert all("violates" in error for error in opened.errors) and len(opened.errors) == 2


@pytest.mark.parametrize(
    ("pane", "cell", "picture"), [("values", "element", "heat"), ("array", "cell", "array")]
)
def test_arrow_keys_choose_a_cell_and_keep_the_step(tab, pane, cell, picture):
    step = tab.does(
        "Array.from({ length: view.core().count }, (_, i) => i)"
        ".find((i) => view.core().callOf(i).array)"
    )
    tab.does(f"(view.set({{ step: {step}, pane: '{pane}', {cell}: '1,1' }}), view.drawn())")
    tab.page.locator(f"#{picture}").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft"):
        tab.page.keyboard.press(key)
        tab.does("view.drawn()")
    assert tab.does(f"[view.state.step, view.state.{cell}, document.activeElement.id]") == [
        step,
        "2,2",
        picture,
    ]
    tab.page.keyboard.press("Home")  # other keys still mean the run
    assert tab.does("view.state.step") == 0
