"""The documentation site: CONTRIBUTING.md has the command that builds it.

Pages in docs/learn and docs/lectures are executed; a page that did not change is not executed
again. `docs/generate/site_pages.py` writes the pages of the reference at the start of a build.
"""

import os
import re
import sys
from importlib.metadata import version as version_of
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "generate"))

import site_pages  # noqa: E402

os.environ["NEURONCORE_PROGRESS"] = "0"  # pages show results, not how long they took

project = "neuroncore"
version = release = version_of("neuroncore")
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["generate", "_build"]
html_static_path = ["_static"]
html_js_files = ["slides.js"]
html_css_files = ["slides.css"]
html_theme = "sphinx_book_theme"
html_title = f"neuroncore {version}"
html_theme_options = {
    "collapse_navbar": True,
    "navbar_persistent": [],
    "use_download_button": False,
    "home_page_in_toc": True,
    "footer_content_items": [],
}
html_context = {"default_mode": "auto"}  # else the theme warns in the console
html_copy_source = False

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
nb_execution_mode = "cache"
nb_execution_cache_path = str(DOCS / "_build" / "executed")
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_show_tb = True
suppress_warnings = ["misc.highlighting_failure"]

NAMED = re.compile(r"\[`(\w+)`\]\(\.\./neuroncore/plain/\w+\.py#L\d+\)")
OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]*\)")


def _links(app: Sphinx, name: str, source: list[str]) -> None:
    """Make each link to the plain function of an instruction a link to the page of the instruction.
    Turn links to other files of the repository into text, because the site lacks these files."""
    if "/" not in name:
        text = NAMED.sub(r"[`\1`](reference/instructions/\1.md)", source[0])
        source[0] = OUTSIDE.sub(r"\1", text)


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", lambda app: site_pages.write(DOCS))
    app.connect("source-read", _links)
