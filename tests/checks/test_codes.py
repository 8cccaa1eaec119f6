"""The table of codes: every row is complete, and every example has the finding of its row."""

import ast
import inspect

import pytest

from neuroncore.base.findings import rules
from neuroncore.checks.check import check
from neuroncore.cli.explain import pages
from neuroncore.lint import api_calls, constructs, dynamic
from neuroncore.lint.modules import is_in

PAGES = pages()
# codes of modules that read the source; their examples are not run
# codes whose examples no command prints (test_spellings.py, test_static.py)
TRIED = {
    "DYNAMIC_CTRL",
    "MISSING_ARGUMENT",
    "NAME_OF_RELEASE",
    "PARAMETER_OF_RELEASE",
    "UNKNOWN_NAME",
}
OF_SOURCE = [code for code, one in rules().items() if one.releases and one.example]


def test_every_row_has_a_reason_a_remedy_and_a_source():
    for one in rules().values():
        assert all(len(text) > 10 for text in (one.sentence, one.because, one.hint, one.source))
        assert not any(text.endswith(".") for text in (one.sentence, one.because, one.hint))


def test_every_code_has_an_example_with_a_finding_and_one_without():
    assert all(PAGES[code].bad and PAGES[code].good for code in rules())


@pytest.mark.parametrize("code", OF_SOURCE)
def test_the_finding_is_at_a_marked_line_and_the_legal_twin_has_none(code, tmp_path):
    page, path = PAGES[code], tmp_path / "example.py"
    path.write_text(page.bad, "utf-8")
    lines = page.bad.splitlines()
    found = [one for one in check(path, static=True).findings if one.code == code]
    marked = {line[1:] for line in page.diff.splitlines() if line.startswith("-")}
    path.write_text(page.good, "utf-8")
    left = [one for one in check(path, static=True).findings if one.severity != "note"]
    assert {lines[one.place.line - 1] for one in found} & marked
    assert not [one for one in left if one.code == code]


def test_releases_are_ranges():
    assert is_in("0.3-", "0.6") and is_in("", "0.1") and is_in("0.1", "0.1")
    assert not is_in("0.3-0.5", "0.6") and not is_in("0.1", "0.2")


@pytest.mark.parametrize("module", [constructs, dynamic, api_calls])
def test_every_code_of_a_source_rule_has_an_example_that_is_tested(module):
    nodes = ast.walk(ast.parse(inspect.getsource(module)))
    named = {one.value for one in nodes if isinstance(one, ast.Constant)} & set(rules())
    assert named and named - set(OF_SOURCE) <= TRIED
