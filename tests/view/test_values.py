"""The contents of tiles on the page agree with the run."""

import base64
import zlib
from pathlib import Path

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
import tabs
import viewed

import neuroncore
from neuroncore.numerics.formats import lookup
from neuroncore.report.heat_maps import BINS
from neuroncore.view.elements import layout, picture


def of(core, instruction, name):
    """The tile of an operand in a document, decoded by the Python equivalent of the page's
    script."""
    call = core["calls"][viewed.column(core, "call")[instruction]]
    names = [*call["reads"], *call["indices"], *call["writes"]]
    widths = [
        len(c["reads"] + c["indices"] + c["writes"])
        for c in (core["calls"][k] for k in viewed.column(core, "call"))
    ]
    at = sum(widths[:instruction]) + names.index(name)
    values = {"columns": {"of_operand": core["values"]["of_operand"]}}
    number = viewed.column(values, "of_operand")[at]
    return core["values"]["tiles"][number - 1]


def elements(tile):
    content = zlib.decompress(base64.b64decode(tile["data"]))
    return np.frombuffer(content, lookup(tile["format"]).numpy).reshape(tile["shape"])


def test_operands_have_their_values_before_and_after_their_instruction(run):
    (core,) = viewed.document(run.view())["cores"]
    a_t, b = viewed.operands()
    np.testing.assert_array_equal(elements(of(core, 2, "stationary")), a_t)
    np.testing.assert_array_equal(elements(of(core, 2, "moving")), b[:, :64])
    stored = elements(of(core, 9, "dst"))
    np.testing.assert_array_equal(stored, run.results[:, 64:128])
    assert of(core, 3, "data") is of(core, 2, "dst")  # the data that is read was written before
    tile = of(core, 9, "dst")
    assert (tile["low"], tile["high"]) == (stored.min(), stored.max())
    assert sum(tile["bins"]) == stored.size and len(tile["bins"]) == BINS


def test_figures_count_infinite_nan_and_uninitialized_elements():
    numbers = np.arange(64, dtype=np.float32).reshape(8, 8)
    numbers[0, :3], numbers[1, 0] = np.nan, -np.inf
    lost = np.zeros((8, 8), np.bool_)
    lost[0, 0] = True
    found = picture(numbers, lost)
    assert (found["nan"], found["infinite"], found["unwritten"]) == (2, 1, 1)
    assert (found["low"], found["high"]) == (3, 63) and sum(found["bins"]) == 60
    small = np.frombuffer(zlib.decompress(base64.b64decode(found["small"])), np.uint8)
    assert (small[0], small[1], small[8], small[3], small[63]) == (0, 255, 255, 1, 254)


@pytest.mark.parametrize("value", [np.nan, np.inf, 7.0, -0.0])
def test_a_tile_of_one_number_has_figures(value):
    found = picture(np.full((4, 4), value, np.float32), None)
    assert found["low"] == (value if np.isfinite(value) else None)
    assert sum(found.get("bins", [])) == (16 if np.isfinite(value) else 0)


def test_named_steps_have_all_values_and_others_have_pictures():
    found = viewed.run()
    shown = found.view(values=range(2, 3))
    (core,) = viewed.document(shown)["cores"]
    assert "data" in of(core, 2, "moving") and "data" not in of(core, 9, "src")
    assert "small" in of(core, 9, "src")


def test_a_page_without_values_states_this(run):
    (core,) = viewed.document(run.view(values=None))["cores"]
    assert core["values"] == {"reason": "the page was written without values"}


FORMATS = ["float8_e4m3", "float8_e5m2", "float8_e4m3fn", "bfloat16", "float16", "int8", "uint16",
           "int16", "float8_e8m0fnu"]  # fmt: skip


def test_codes_of_every_format_are_decoded_correctly(chromium, run, tmp_path):
    run.view().save(tmp_path / "page.html")
    with tabs.tab(chromium) as tab:
        tab.open(tmp_path / "page.html")
        for name in FORMATS:
            form = lookup(name)
            codes = np.arange(1 << form.bits).astype(form.code_type)
            with np.errstate(invalid="ignore"):  # signalling NaNs
                wanted = codes.view(form.numpy).astype(np.float64)
            row = layout(form, form.itemsize)
            script = """([row, count]) => {
                const decode = view.decoder(row);
                return [...Array(count).keys()].map((code) => String(decode(code))).join(" ");
            }"""
            found = np.array(tab.page.evaluate(script, [row, len(codes)]).split(), np.float64)
            np.testing.assert_array_equal(found, wanted, err_msg=name)


def test_an_element_is_shown_in_bits(chromium, run, tmp_path):
    run.view().save(tmp_path / "page.html")
    code = int(viewed.operands()[0].view(np.uint16)[3, 4])
    with tabs.tab(chromium) as tab:
        tab.open(tmp_path / "page.html", "step=2&pane=values&element=3,4")
        tab.does("view.drawn()")
        shown = tab.text("#element")
        assert f"{code:016b}" in shown and f"0x{code:04x}" in shown
        assert tab.text("[data-pane=values].pane").count("before") == 2


# --- the array ------------------------------------------------------------------------------------


@nki.jit
def one_product(stationary, moving, mode="none"):
    s = nl.ndarray(stationary.shape, stationary.dtype, buffer=nl.sbuf)
    x = nl.ndarray(moving.shape, moving.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=s, src=stationary)
    nisa.dma_copy(dst=x, src=moving)
    total = nl.ndarray((stationary.shape[-1], moving.shape[-1]), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=s, moving=x, perf_mode=mode)
    result = nl.ndarray(total.shape, nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total)
    out = nl.ndarray(total.shape, nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def one_transpose(data):
    d = nl.ndarray(data.shape, data.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=d, src=data)
    turned = nl.ndarray(data.shape[::-1], data.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=d)
    result = nl.ndarray(turned.shape, data.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=turned)
    out = nl.ndarray(turned.shape, data.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=result)
    return out


def random(*shape, dtype):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(lookup(dtype).numpy)


PRODUCTS = {
    "bfloat16": (one_product, [(128, 64), (128, 40)], "bfloat16", {}),
    "float16 of few rows": (one_product, [(24, 7), (24, 9)], "float16", {}),
    "float32 in four passes": (one_product, [(128, 16), (128, 12)], "float32", {}),
    "two rows at a time": (
        one_product, [(64, 2, 32), (64, 2, 16)], "float8_e4m3", {"mode": "double_row"}
    ),
    "a transpose": (one_transpose, [(96, 32)], "bfloat16", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_results_of_the_array_agree_with_psum_in_the_run(chromium, tmp_path, name):
    kernel, shapes, dtype, more = PRODUCTS[name]
    given = [random(*shape, dtype=dtype) for shape in shapes]
    run = neuroncore.run(kernel, *given, **more)
    run.view().save(tmp_path / "page.html")
    step = run.instructions["opcode"].tolist().index("MATMUL")
    with tabs.tab(chromium) as tab:
        tab.open(tmp_path / "page.html", f"step={step}&pane=array")
        sums = """async () => {
            const { systolic } = await view.product(view.core()), { columns, count } = systolic;
            const all = (n) => [...Array(n).keys()];
            return all(columns).map((m) => all(count).map((n) => systolic.result(m, n)));
        }"""
        found = np.array(tab.page.evaluate(sums), np.float32)
        np.testing.assert_array_equal(found, np.asarray(run.results).astype(np.float32))
        last = tab.does("view.product(view.core()).then((found) => found.systolic.cycles)")
        m = len(found) - 1
        tab.does(f"view.set({{ cycle: {last}, cell: '0,{m}' }}), view.drawn()")
        shown = tab.text("[data-pane=array].pane")
        assert f"cycle {last} of {last}" in shown
        slider = tab.page.query_selector("#cycle")
        tab.does(f"view.set({{ cycle: {last - 1} }}), view.drawn()")
        assert slider.input_value() == str(last - 1)  # it stays while it is moved
        shown = tab.text("[data-pane=array].pane")
        assert f"dst after\t[{m}, " in shown and "the same" in shown
        assert tab.errors == []


def test_a_cell_works_one_cycle_after_the_cells_above_and_to_the_left(chromium, tmp_path):
    run = neuroncore.run(one_product, *(random(4, n, dtype="bfloat16") for n in (3, 5)))
    run.view().save(tmp_path / "page.html")
    with tabs.tab(chromium) as tab:
        tab.open(tmp_path / "page.html", "step=2&pane=array")
        at = """async (cycle) => {
            const { systolic } = await view.product(view.core());
            const rows = [...Array(4).keys()], columns = [...Array(3).keys()];
            return rows.map((r) => columns.map((c) => systolic.at(cycle, r, c)?.moving ?? null));
        }"""
        loading = 4
        assert tab.page.evaluate(at, loading - 1) == [[None] * 3] * 4
        for since in range(12):
            wanted = [
                [n if 0 <= (n := since - r - c) < 5 else None for c in range(3)] for r in range(4)
            ]
            assert tab.page.evaluate(at, loading + since) == wanted


def test_a_product_without_values_plays_and_is_saved_as_a_picture(chromium, run, tmp_path):
    run.view(values=None).save(tmp_path / "page.html")
    with tabs.tab(chromium) as tab:
        tab.open(tmp_path / "page.html", "pane=array&speed=60")
        tab.page.wait_for_selector("#array")
        assert "cycle 128 of" in tab.text("[data-pane=array].pane")  # the weights are loaded
        tab.page.click("#corner")
        tab.page.click("#play")
        tab.page.wait_for_timeout(150)
        tab.page.click("#play")
        assert tab.does("view.state.cycle") > 128
        assert "no values for this step" in tab.text("[data-pane=array].pane")
        for what, wanted in (("pane", "PSUM"), ("array", "<animate"), ("timeline", "Vector")):
            with tab.page.expect_download() as download:
                tab.page.select_option("#save", what)
            assert wanted in Path(download.value.path()).read_text("utf-8")
        assert tab.errors == []
