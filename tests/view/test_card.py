"""What a notebook shows of a run."""

import html
import re

import viewed

import neuroncore
from neuroncore.base.options import Options


def test_a_run_shows_its_estimate_bound_engines_and_lines():
    run = viewed.run()
    shown = run._repr_html_()
    assert f"product on trn2: {run.estimate.time}" in shown
    assert html.escape(run.why().answers.sentence) in shown
    assert re.search(r">DMA</td><td align='left'>█+</td><td align='left'>\d+% busy<", shown)
    first = run.lines[0]
    share = first["critical_ns"] / run.timelines[0].total_ns
    assert f"{share:.0%} of the critical path" in shown and "viewed.py:" in shown
    assert f"{len(run.findings)} findings" in shown
    assert len(shown) < 4000 and "<script" not in shown


def test_a_run_without_a_record_shows_what_repr_says():
    options = Options(record=False)
    assert (
        neuroncore.run(viewed.product, *viewed.operands(64), options=options)._repr_html_() is None
    )
