"""A notebook that nbconvert has converted to HTML, in a browser."""

import warnings
from pathlib import Path

import pytest
import tabs

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what it is made of
    nbconvert = pytest.importorskip("nbconvert", reason="nbconvert is not installed")
    nbformat = pytest.importorskip("nbformat")
    formatters = pytest.importorskip("IPython.core.formatters")
    paths = pytest.importorskip("jupyter_core.paths")

# where it was installed, if that is not what Python calls its prefix
TEMPLATES = Path(nbconvert.__file__).parents[4] / "share/jupyter/nbconvert/templates"
PLACES = [str(TEMPLATES), *paths.jupyter_path("nbconvert", "templates")]
pytestmark = pytest.mark.skipif(
    not any(Path(place, "lab").is_dir() for place in PLACES),
    reason="the templates of nbconvert are not installed",
)


def exported(*values):
    """A notebook as HTML, with a cell for each value, which displays it."""
    form = formatters.DisplayFormatter().format
    cells = []
    for number, value in enumerate(values):
        data, metadata = form(value)
        output = nbformat.v4.new_output("execute_result", data, metadata=metadata)
        output["execution_count"] = number
        cells.append(nbformat.v4.new_code_cell(f"value{number}", outputs=[output]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exporter = nbconvert.HTMLExporter(
            extra_template_basedirs=PLACES, extra_template_paths=PLACES
        )
        text, _ = exporter.from_notebook_node(nbformat.v4.new_notebook(cells=cells))
    return text


def test_an_exported_notebook_shows_runs_answers_tiles_and_pages(chromium, run, tmp_path):
    path = tmp_path / "notebook.html"
    values = run, run.why(), run.tile(2, "stationary"), run.view(values=None)
    path.write_text(exported(*values), "utf-8")
    with tabs.tab(chromium) as opened:
        opened.page.goto(path.as_uri(), wait_until="commit")
        opened.page.wait_for_selector("iframe")
        frame = opened.page.frames[1]
        frame.wait_for_selector("#where:not(:empty)")
        assert frame.evaluate("window.ready") == len(run.instructions)
        frame.locator("#forward").click()
        assert "begins at" in frame.inner_text("#panes")
        said = opened.page.inner_text("body")
        assert f"product on trn2: {run.estimate.time}" in said  # the card
        assert "on the critical path" in said and "limit\testimate" in said
        picture = opened.page.locator("img[alt^='from ']")
        assert picture.evaluate("image => image.complete && image.naturalWidth") == 96
        theirs = ("cdnjs", "ERR_INTERNET_DISCONNECTED", "require", "MathJax")
        ours = [e for e in opened.errors if not any(word in e for word in theirs)]
        assert ours == []
