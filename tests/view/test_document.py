"""The document agrees with the run."""

import json

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from neuroncore.kernels import ch05_matmul
from viewed import column, document, filled, operands, product, run, signed_order

import neuroncore
from neuroncore.base.errors import UsageError
from neuroncore.base.options import Options
from neuroncore.view.columns import CRITICAL, IN_TURN, TRANSFER, addresses
from neuroncore.view.document import Shown
from neuroncore.view.loops import KEPT, ranks
from neuroncore.view.page import forms_of, page


@pytest.fixture(scope="module")
def shown():
    found = run()
    return found, document(found.view())


def decoded(core):
    """The columns of instructions, combined like the page does."""
    queue, since = column(core, "queue"), signed_order(column(core, "begin"))
    move, moving = column(core, "move"), column(core, "moving")
    busy, rest, engines = column(core, "busy"), column(core, "rest"), column(core, "engines")
    turn, back = column(core, "flags") & IN_TURN, signed_order(column(core, "cause"))
    cause = np.where(back != 0, np.arange(len(back)) - back, -1)
    begin, end, last = np.zeros_like(since), np.zeros_like(since), [0] * len(core["queues"])
    for i, by in enumerate(cause.tolist()):
        over = last[queue[i]]
        if 0 <= by < i:
            over = begin[by] + busy[by] if turn[i] else end[by]
        begin[i] = last[queue[i]] = over + since[i]
        end[i] = begin[i] + (move[i] + moving[i] if engines[i] else busy[i]) + rest[i]
    return begin, end, cause


def test_times_and_causes_agree_with_the_run(shown):
    found, made = shown
    (core,), rows = made["cores"], found.instructions
    begin, end, cause = decoded(core)
    tick = core["tick_ns"]
    np.testing.assert_allclose(begin * tick, rows["begin_ns"], atol=tick)
    np.testing.assert_allclose(end * tick, rows["end_ns"], atol=tick)
    np.testing.assert_allclose(column(core, "busy") * tick, rows["busy_ns"], atol=2 * tick)
    np.testing.assert_array_equal(cause, rows["waited_for"])
    flags = column(core, "flags")
    np.testing.assert_array_equal(flags & CRITICAL > 0, rows["critical"])
    np.testing.assert_array_equal(flags & TRANSFER > 0, rows["name"] == "dma_copy")
    assert (flags & IN_TURN > 0).any()
    names = [core["calls"][c]["name"] for c in column(core, "call")]
    assert names == rows["name"].tolist()


def test_figures_and_shares_of_lines_agree_with_the_run(shown):
    found, made = shown
    (core,) = made["cores"]
    assert core["figures"] == json.loads(json.dumps(found.summary))
    assert core["verdict"]["text"] == found.estimate.time
    assert core["sentence"] == found.why().answers.sentence
    table = {row["place"]: row for row in found.lines}
    assert len(core["lines"]) == len(table)
    for line in core["lines"]:
        row = table[f"{made['files'][line['file']]['name']}:{line['line']}"]
        assert line["critical_ns"] == pytest.approx(row["critical_ns"])
        assert sum(line["busy_ns"]) == pytest.approx(row["busy_ns"])
        counts = line["count"], line["transfers"], line["transfer_bytes"]
        assert counts == (row["count"], row["transfers"], row["transfer_bytes"])
        assert 0 <= line["efficiency"] <= 1
        assert line["flying_ns"] <= found.timelines[0].total_ns
    assert sum(line["flops"] for line in core["lines"]) == core["figures"]["model_flops"]


@nki.jit
def multiplied(a, kind):
    """A product of the kind `kind`, in 50 instructions."""
    out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray(out.shape, nl.float32, buffer=nl.psum)
    weights, moving = nl.load(a), nl.zeros((128, *a.shape[1:-1], 512), a.dtype)
    scales = nl.zeros((128, 512), nl.uint8)
    for n in range(50):
        if kind == "double_row":
            nisa.nc_matmul(total, weights, moving, perf_mode=kind, accumulate=n > 0)
        elif kind:
            parts = (one.view(getattr(nl, kind)) for one in (weights, moving))
            nisa.nc_matmul_mx(total, *parts, scales[:, :128], scales, accumulate=n > 0)
        else:
            nisa.nc_matmul(total, weights, moving, accumulate=n > 0)
    nl.store(out, nl.copy(total))
    return out


@pytest.mark.parametrize(
    ("dtype", "kind", "target", "named", "peak"),
    [
        ("float32", "", "trn2", "float32", 20),
        ("bfloat16", "", "trn3", "bfloat16", 79),
        ("float8_e5m2", "", "trn1", "float8_e5m2", 92),
        ("float8_e4m3fn", "", "trn3", "float8_e4m3fn", 79),
        ("float8_e4m3", "double_row", "trn2", "float8_e4m3 double_row", 158),
        ("uint32", "float8_e4m3fn_x4", "trn3", "float8_e4m3fn_x4", 315),
        ("uint16", "float4_e2m1fn_x4", "trn3", "float4_e2m1fn_x4", 315),
    ],
)
def test_the_roofline_has_the_roof_of_the_kinds_of_products(dtype, kind, target, named, peak):
    a = np.ones((128, 2, 128) if kind == "double_row" else (128, 128), dtype)
    (core,) = document(neuroncore.run(multiplied, a, kind, target=target).view())["cores"]
    roofline = core["roofline"]
    assert (roofline["format"], roofline["peak_tflops"]) == (named, {named: peak})
    assert 0.1 * peak < roofline["tflops"] < peak
    assert {line["format"] for line in core["lines"] if line["flops"]} == {named}


def test_edits_are_the_suggestions_and_come_first_of_the_what_ifs():
    given = ch05_matmul.inputs(np.random.default_rng(0))
    found = neuroncore.run(ch05_matmul.hoisted, *given, target="trn2")
    (core,) = document(found.view(values=None))["cores"]
    first, *_ = found.why().answers.edits
    row = {"change": str(first), "ns": first.ns, "gain": first.gain, "bound": first.bound}
    assert core["what_if"][0] == row and core["suggestions"][0] == row | {"space": first.space}


def test_text_of_a_kernel_cannot_end_the_document_or_fill_the_template(shown):
    name = "</script><!-- @script@"
    found = Shown(name, shown[0].timelines, ())
    assert document(page([found]))["cores"][0]["kernel"] == name


@given(
    st.lists(st.dictionaries(st.sampled_from("ab1"), st.text("07%#\n.", max_size=12)), max_size=9)
)
def test_calls_written_by_form_are_complete(calls):
    assert filled(**json.loads(json.dumps(forms_of(calls)))) == calls


def test_a_page_is_small_and_smaller_per_instruction_for_long_runs(shown):
    few = len(shown[0].view(values=None).html)
    many = neuroncore.run(product, *operands(64 * 400))
    assert len(many.instructions) == 2000
    assert len(many.view(values=None).html) - few < 30 * 2000
    assert few < 80_000


def test_without_a_record_there_is_no_page():
    found = neuroncore.run(product, *operands(64), options=Options(record=False))
    with pytest.raises(UsageError, match="product ran without a record"):
        found.view()


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20), st.integers(1, 40)), max_size=40))
def test_tiles_in_use_at_the_same_time_do_not_overlap(tiles):
    begin, length, size = (np.array([t[i] for t in tiles], np.int64) for i in range(3))
    for bank in (0, 32):
        at = addresses(begin, begin + length, size, bank)
        for i in range(len(tiles)):
            for j in range(i):
                together = begin[i] < begin[j] + length[j] and begin[j] < begin[i] + length[i]
                apart = at[i] + size[i] <= at[j] or at[j] + size[j] <= at[i]
                assert apart or not together
        if bank:
            small = size <= bank
            assert (at[small] // bank == (at[small] + size[small] - 1) // bank).all()


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, KEPT + 2)), max_size=60))
def test_a_box_has_its_rank_among_the_last_ones_of_an_operand(uses):
    key, box = np.array(uses, np.int64).reshape(-1, 2).T
    last = [[], []]
    for (own, used), rank in zip(uses, ranks(key, box, 2).tolist(), strict=True):
        there = last[own][:KEPT]
        assert rank == (there.index(used) + 1 if used in there else 0)
        last[own] = [used, *(one for one in last[own] if one != used)]
