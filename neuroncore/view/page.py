"""The page: one HTML file with the document of a run and the script that shows it.

The content security policy of the page forbids all requests. The policy also forbids all scripts
and styles that are not in the file."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from neuroncore.base.lazy import version
from neuroncore.base.units import duration
from neuroncore.view import columns
from neuroncore.view.document import SCHEMA, USUAL, document
from neuroncore.view.document import Opening as Opening
from neuroncore.view.document import Shown as Shown

WEB = Path(__file__).parent / "web"
IMPORT = re.compile(r'^import {([^}]+)} from "\./(\w+)\.js";\n', re.MULTILINE)
REMARK = re.compile(r"^ *(?://.*|/\*(?:.|\n)*?\*/ *)\n|^ +", re.MULTILINE)  # comments and indents
EXPORT = re.compile(r"^export (?:async function|function|class|const) ([\w$]+)", re.MULTILINE)
FRAME_HEIGHT = 720  # pixels of a page in a notebook


@dataclass(frozen=True)
class Page:
    """The text of a page; a notebook displays it."""

    html: str

    def save(self, path: Path | str) -> None:
        """Write the page to a file. Raises OSError on failure."""
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
    """Return the page of a device's trace. `cores` are cores as in a document, except that their
    columns are the arrays that `columns.of_measured` takes. `files` are the source files of their
    lines."""
    packed = [core | {"columns": columns.of_measured(core["columns"])} for core in cores]
    fields = {
        "schema": SCHEMA,
        "version": version("neuroncore"),
        "served": False,
        "opens": vars(USUAL),
        "error": None,
        "meetings": [],
        "sides": None,
        "first": 0,
        "cores": packed,
        "files": files,
    }
    return _written(fields, ", ".join(dict.fromkeys(core["kernel"] for core in cores)), False)


@dataclass(frozen=True)
class PageSide:
    """One side of a comparison. For a run on the emulator this is a `launch`. For a device's trace,
    `launch` is None, and `cores` and `files` are the cores and source files of the trace."""

    launch: Shown | None = None
    cores: Sequence[dict[str, Any]] = ()
    files: Sequence[dict[str, Any]] = ()


def of_sides(old: PageSide, new: PageSide, difference: dict[str, Any]) -> Page:
    """Return the page of two runs, which are below each other on the same time scale. `difference`
    is their comparison as a JSON object. Source lines that only one side has on its critical path
    are marked."""
    fields = document([side.launch for side in (old, new) if side.launch is not None])
    estimated = list(fields["cores"])
    cores: list[dict[str, Any]] = []
    for side in (old, new):
        first, count = len(cores), len(side.cores)
        if side.launch is None:
            cores += [_moved(core, len(fields["files"])) for core in side.cores]
            fields["files"] = [*fields["files"], *side.files]
        else:
            count = len(side.launch.timelines)
            cores += [estimated.pop(0) for _ in range(count)]
        slowest = max(range(first, first + count), key=lambda n: float(cores[n]["total_ns"]))
        fields["sides"] = {"cores": [*(fields["sides"] or {"cores": []})["cores"], slowest]}
    fields["sides"] |= _difference(difference)
    return _written(fields | {"cores": cores}, " and ".join(difference["kernels"]), False)


def _moved(core: dict[str, Any], by: int) -> dict[str, Any]:
    """Return a core of a device's trace with packed columns. The numbers of its source files are
    increased by `by`, the number of files that come before them."""
    return core | {
        "columns": columns.of_measured(core["columns"]),
        "sites": [[site[0] + by, *site[1:]] for site in core["sites"]],
        "lines": [line | {"file": line["file"] + by} for line in core["lines"]],
    }


MOVED = 0.005  # smallest change of a line's share of the critical path that is shown


def _difference(difference: dict[str, Any]) -> dict[str, Any]:
    """Return fields of a page about a difference.

    `text`: sentences
    `moved`: the lines whose share of the critical path changed by at least MOVED
    `lines`: the places of the lines in `moved` that only one side has"""
    seconds = difference["total_time"] if "total_time" in difference else difference["kernel_time"]
    sides = zip(difference["kernels"], difference["targets"], seconds, strict=True)
    text = " ".join(f"{name} on {target}: {duration(1e9 * each)}." for name, target, each in sides)
    faster = difference.get("new_is_faster")
    if faster is not None:
        text += f" The new run is faster with a probability of {faster:.0%}."
    rows = [line for line in difference["lines"] if "place" in line]
    changed = [line for line in rows if abs((line["old"] or 0) - (line["new"] or 0)) >= MOVED]
    single = [line["place"] for line in changed if None in (line["old"], line["new"])]
    return {"text": [text], "moved": changed, "lines": single}


NUMBER = re.compile(r"0|[1-9]\d{,8}")
HOLE = "\n"  # replaces a number; JSON without spaces has no line breaks


def _compressed(core: dict[str, Any]) -> dict[str, Any]:
    parts = {"calls": forms_of(core["calls"]), "patterns": core["patterns"]}
    return core | {name: columns.text(_json(part).encode()) for name, part in parts.items()}


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def forms_of(calls: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return calls in a form that takes less space.

    `forms`: the distinct JSON texts of calls, with a hole for each number. Each hole has a column
        with the numbers of all calls of the form, or the index of an equal column before it.
    `of`: the index of each call's form"""
    rows: dict[str, list[list[int]]] = {}
    of: list[str] = []
    for call in calls:
        text = _json(call)
        of.append(NUMBER.sub(HOLE, text))
        rows.setdefault(of[-1], []).append([int(number) for number in NUMBER.findall(text)])
    place = {form: number for number, form in enumerate(rows)}
    forms = [{"text": form, "columns": _once(zip(*rows[form], strict=True))} for form in rows]
    return {"forms": forms, "of": [place[form] for form in of]}


def _once(columns_of_form: Iterable[tuple[int, ...]]) -> list[tuple[int, ...] | int]:
    """Return columns. A column that equals an earlier column is replaced by the index of the first
    equal column."""
    first: dict[tuple[int, ...], int] = {}
    kept: list[tuple[int, ...] | int] = []
    for number, column in enumerate(columns_of_form):
        at = first.setdefault(column, number)
        kept.append(column if at == number else at)
    return kept


def _written(fields: dict[str, Any], title: str, served: bool) -> Page:
    fields = fields | {"cores": [_compressed(core) for core in fields["cores"]]}
    style = REMARK.sub("", (WEB / "page.css").read_text("utf-8"))
    start, script, packed = _scripts()
    scripts = f"{_hash(start)} {_hash(script)}"
    policy = f"default-src 'none'; script-src {scripts}; style-src {_hash(style)}"
    policy += "; connect-src 'self'" if served else ""
    parts = {
        "policy": policy,
        "title": html.escape(title),
        "style": style,
        "document": _json(fields).replace("<", "\\u003c"),
        "script": packed,
        "start": start,
    }
    # in one pass, so that text of a kernel cannot match a placeholder of the template
    template = (WEB / "page.html").read_text("utf-8")
    return Page(re.sub(r"@(\w+)@", lambda match: parts[match[1]], template))


def _hash(text: str) -> str:
    """Return the hash by which a content security policy allows a script or a style."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


@cache
def _scripts() -> tuple[str, str, str]:
    """Return three scripts: the script that starts a page, the main script, and the compressed main
    script. The page contains the compressed script, and the starting script decompresses it. Each
    module of a script is in a separate scope, after the modules that it imports."""
    order: dict[str, str] = {}
    _add("start", order)
    first = len(order)
    _add("main", order)
    modules = ['"use strict";', *order.values()]
    script = "\n".join([modules[0], *modules[first + 1 :]])
    return "\n".join(modules[: first + 1]), script, columns.text(script.encode())


def _add(name: str, order: dict[str, str]) -> None:
    text = (WEB / f"{name}.js").read_text("utf-8")
    for _, needed in IMPORT.findall(text):
        if needed not in order:
            _add(needed, order)
    names = ", ".join(EXPORT.findall(text))
    body = REMARK.sub("", IMPORT.sub(r"const {\1} = module_\2;\n", text))
    body = re.sub(r"^export ", "", body, flags=re.MULTILINE)
    order[name] = f"const module_{name} = (() => {{\n{body}return {{ {names} }};\n}})();"
