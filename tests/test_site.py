"""The documentation site: its generated pages, its snippets, and the site itself if it was
built."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin

import pytest
import tabs
from accepted import module

from neuroncore import cli
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.cli.documentation import HOME
from neuroncore.cli.explain import pages as explained
from neuroncore.puzzles.exercise import exercises

pytestmark = pytest.mark.source

site_pages = module("site_pages")
STARTS = sorted(Path("docs/start").glob("*.md"))
built = pytest.mark.skipif(not HOME.exists(), reason="the site is not built")


def test_each_instruction_error_and_chapter_has_a_page():
    pages = dict(site_pages.pages())
    assert {f"reference/instructions/{name}.md" for name in INSTRUCTIONS} <= pages.keys()
    assert {f"reference/errors/{name}.md" for name in explained()} <= pages.keys()
    assert all(f"\n## {name}\n" in pages["reference/commands.md"] for name in cli.COMMANDS)
    lectures = {path.name[:2] for path in Path("docs/lectures").glob("l*.md")}
    homes = {name.split(".")[0] for name in exercises() if name.startswith("l")}
    assert lectures == homes == {f"l{n}" for n in range(1, 8)}
    found = dict(site_pages.lectures())
    assert {file.name.partition("_")[0] for file in found} == lectures
    assert [file.name for file, text in found.items() if file.read_text() != text] == []
    chapters = {path.stem for path in Path("kernels").glob("ch*.py")}
    assert chapters == {Path(name).stem for name in pages if name.startswith("learn/")}


def test_each_page_is_in_the_table_of_contents():
    entries = set(Path("docs/index.md").read_text().split())
    pages = {path.relative_to("docs").with_suffix("") for path in Path("docs").rglob("*.md")}
    others = {"index", "learn", "lectures", "reference", "_build"}
    assert {str(page) for page in pages if page.parts[0] not in others} <= entries


@pytest.mark.parametrize("page", STARTS, ids=lambda page: page.stem)
def test_snippets_of_the_first_pages_run(page, tmp_path):
    for number, program in enumerate(
        re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
    ):
        file = tmp_path / f"snippet{number}.py"
        file.write_text(program)
        assert cli.main(["run", str(file)]) == 0, program


@built
def test_search_finds_each_command_instruction_and_code():
    titles = (HOME.parent / "searchindex.js").read_text()
    names = [*cli.COMMANDS, *INSTRUCTIONS, *explained()]
    assert [name for name in names if f'"{name}":[' not in titles] == []


class Parts(HTMLParser):
    """The parts of a page that can make requests, run, or be changed by the site's scripts: the
    names of the elements, the files that they load, and the scripts in the page. Scripts that
    differ only in the name of the page are equal."""

    def __init__(self, file):
        super().__init__()
        self.base, self.parts, self.script = file.as_uri(), set(), False
        self.feed(file.read_text())

    def handle_starttag(self, tag, attributes):
        self.parts.add(tag)
        self.script = tag in ("script", "style")
        given = dict(attributes)
        if tag == "a" or given.get("rel") in ("prev", "next", "index", "search"):
            return  # only loaded on a click
        for name, value in given.items():
            if name in ("src", "href", "data", "srcset", "poster"):
                self.parts.add((tag, name, urljoin(self.base, value)))
            elif name.startswith("on") or name == "srcdoc" or "url(" in (value or ""):
                self.parts.add((tag, name, value))

    def handle_data(self, data):
        if self.script:
            self.parts.add(("text", re.sub(r"pagename = '.*?'", "", data)))

    def handle_endtag(self, tag):
        self.script = False


def test_a_page_that_loads_or_runs_something_else_has_other_parts(tmp_path):
    (folder := tmp_path / "folder").mkdir()
    file, below = tmp_path / "page.html", folder / "page.html"

    def parts(text, path=file):
        path.write_text(f'<a href="x">y</a><script src="a.js"></script><p>{text}</p>')
        return Parts(path).parts

    assert parts("one") == parts('two <a href="other.html">z</a>')
    others = ["<img src='b.png'>", "<script>f()</script>", "<p onclick='f()'>", "<pre></pre>"]
    assert all(parts(other) != parts("one") for other in others)
    assert parts("one", below) != parts("one")  # another a.js, which may be missing


@built
def test_pages_open_without_errors_or_requests():
    """Opens one page of all those that have the same parts, which takes half a second each."""
    pages = sorted(f for f in HOME.parent.rglob("*.html") if "_static" not in f.parts)
    different = {frozenset(Parts(file).parts): file for file in pages}
    assert 40 < len(different) < len(pages) / 2
    with tabs.browser() as chromium, tabs.tab(chromium) as opened:
        for file in different.values():
            opened.page.goto(file.as_uri())
        assert opened.errors == []
        assert [url for url in opened.requests if not url.startswith(("file:", "data:"))] == []
