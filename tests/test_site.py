"""The documentation site: its generated pages, its snippets, and the site itself if it was
built."""

import re
from pathlib import Path

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


@built
def test_pages_open_without_errors_or_requests():
    with tabs.browser() as chromium, tabs.tab(chromium) as opened:
        pages = (f for f in HOME.parent.rglob("*.html") if "_static" not in f.parts)
        for file in sorted(pages):
            opened.page.goto(file.as_uri())
        assert opened.errors == []
        assert [url for url in opened.requests if not url.startswith(("file:", "data:"))] == []
