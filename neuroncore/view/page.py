"""The page: the document of a run and its script in a single file.

Its content security policy forbids all requests, and all scripts and styles but those in the file.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from neuroncore.base.lazy import version
from neuroncore.base.structs import dataclass
from neuroncore.view import columns
from neuroncore.view.document import SCHEMA, USUAL, Opening, document
from neuroncore.view.document import Shown as Shown

WEB = Path(__file__).parent / "web"
IMPORT = re.compile(r'^import {([^}]+)} from "\./(\w+)\.js";\n', re.MULTILINE)
REMARK = re.compile(r"^ *(?://.*|/\*(?:.|\n)*?\*/ *)\n|^ +", re.MULTILINE)  # and indents
EXPORT = re.compile(r"^export (?:async function|function|class|const) ([\w$]+)", re.MULTILINE)
FRAME_HEIGHT = 720  # pixels of a page in a notebook


@dataclass(frozen=True)
class Page:
    """A page as text; a notebook displays it."""

    html: str

    def save(self, path: Path | str) -> None:
        """Write the page to a file. Raise OSError on failure."""
        Path(path).write_text(self.html, "utf-8")

    def _repr_html_(self) -> str:
        size = f'width="100%" height="{FRAME_HEIGHT}" style="border:0"'
        text = html.escape(self.html).encode("ascii", "xmlcharrefreplace").decode()
        return f'<iframe {size} srcdoc="{text}"></iframe>'

    def __repr__(self) -> str:
        return f"<Page of {len(self.html)} characters: save(path) writes it>"


def page(launches: Iterable[Shown], opening: Opening = USUAL, served: bool = False) -> Page:
    """Return the page of launches. A `served` page may request data from its server."""
    shown = list(launches)
    title = ", ".join(dict.fromkeys(launch.kernel for launch in shown))
    return _written(document(shown, opening, served), title, served)


def of_measured(cores: Sequence[dict[str, Any]], files: Sequence[dict[str, Any]]) -> Page:
    """Return the page of a device's trace: its cores, with columns as `columns.of_measured` takes
    them, and the files of their lines."""
    packed = [core | {"columns": columns.of_measured(core["columns"])} for core in cores]
    told = {
        "schema": SCHEMA,
        "version": version("neuroncore"),
        "served": False,
        "opens": vars(USUAL),
        "error": None,
        "cores": packed,
        "files": files,
    }
    return _written(told, ", ".join(dict.fromkeys(core["kernel"] for core in cores)), False)


def _written(told: dict[str, Any], title: str, served: bool) -> Page:
    style, script = REMARK.sub("", (WEB / "page.css").read_text("utf-8")), _script()
    policy = f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}"
    policy += "; connect-src 'self'" if served else ""
    parts = {
        "policy": policy,
        "title": html.escape(title),
        "style": style,
        "document": json.dumps(told, separators=(",", ":")).replace("<", "\\u003c"),
        "script": script,
    }
    # in one pass, so that text of a kernel cannot match a placeholder of the template
    template = (WEB / "page.html").read_text("utf-8")
    return Page(re.sub(r"@(\w+)@", lambda match: parts[match[1]], template))


def _hash(text: str) -> str:
    """Return the hash that a policy uses to allow a text."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


@cache
def _script() -> str:
    """Return the modules as one script, each in a separate scope after its imports."""
    order: dict[str, str] = {}
    _add("main", order)
    return "\n".join(order.values())


def _add(name: str, order: dict[str, str]) -> None:
    text = (WEB / f"{name}.js").read_text("utf-8")
    for _, needed in IMPORT.findall(text):
        if needed not in order:
            _add(needed, order)
    names = ", ".join(EXPORT.findall(text))
    body = REMARK.sub("", IMPORT.sub(r"const {\1} = module_\2;\n", text))
    body = re.sub(r"^export ", "", body, flags=re.MULTILINE)
    order[name] = f"const module_{name} = (() => {{\n{body}return {{ {names} }};\n}})();"
