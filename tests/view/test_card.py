"""The display of a run in a notebook."""

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
    assert re.search(r">DMA</td><td[^>]*>█+</td><td[^>]*>\d+% busy<", shown)
    first = run.lines[0]
    share = first["critical_ns"] / run.timelines[0].total_ns
    assert f"{share:.0%} of the critical path" in shown and "viewed.py:" in shown
    assert f"{len(run.findings)} findings" in shown
    assert len(shown) < 4000 and "<script" not in shown


def test_a_run_without_a_record_shows_its_repr():
    options = Options(record=False)
    assert (
        neuroncore.run(viewed.product, *viewed.operands(64), options=options)._repr_html_() is None
    )


def test_answers_differences_estimates_and_precision_are_displayed():
    """Each display has the contents of the text, without scripts."""
    run = viewed.run()
    found, other = run.why(), run.diff(run)
    errors = neuroncore.precision_of(viewed.product, *viewed.operands(64))
    for one, words in (
        (found, [found.answers.sentence, found.lines[0].name, *map(str, found.answers.edits[:1])]),
        (other, ["inside the noise", "equal bit for bit"]),
        (run.estimate, [run.estimate.time, str(run.estimate.bound)]),
        (errors, [f"{errors.results[0].rel_l2:.3g}"]),
    ):
        shown = one._repr_html_()
        assert all(html.escape(word) in shown for word in words) and "<script" not in shown
