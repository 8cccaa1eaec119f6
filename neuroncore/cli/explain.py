"""neuroncore explain: the meaning of an error or a finding, with a wrong and a correct example.

A page is a section of a file in explanations/: a line `## NAME (CODE)`, a text, and an example as a
diff. With the "-" lines the example is refused; with the "+" lines it runs. The Python block at the
top of a file begins each of its examples. Tests execute all examples. The pages of other findings
come from the table of codes (`findings.CodeRule`)."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from neuroncore.base import errors
from neuroncore.base.errors import KernelError, unknown
from neuroncore.base.findings import CodeRule, rules

LEGAL = "legal here"
SYMPTOMS = re.compile(r"^AWS's tools report .+? as (.+)$", re.MULTILINE)  # codes of other tools


@dataclass(frozen=True)
class ExplainPage:
    """The page about a name.

    `code`: the error code, or LEGAL if nothing is refused.
    `severity`: "" for errors that are raised.
    `header`: the Python code before the example.
    `diff`: the example, or ""."""

    name: str
    code: str
    text: str
    header: str
    diff: str
    severity: str = ""

    @property
    def bad(self) -> str:
        """Return the script that is refused, or ""."""
        return self._with("-") if self.diff and self.code != LEGAL else ""

    @property
    def good(self) -> str:
        """Return the script that runs, or ""."""
        return self._with("+") if self.diff else ""

    def _with(self, sign: str) -> str:
        lines = [line[1:] for line in self.diff.splitlines() if line[:1] in ("", " ", sign)]
        return f"{self.header}\n\n" + "\n".join(lines) + "\n"

    @property
    def symptoms(self) -> list[str]:
        """Return the codes that the vendor's compiler or runtime reports for the same problem."""
        return re.findall(r"[A-Z][A-Z_0-9]+", " ".join(SYMPTOMS.findall(self.text)))


@cache
def pages() -> dict[str, ExplainPage]:
    """Return all pages by name."""
    folder = Path(__file__).with_name("explanations")
    texts = [file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(".md")]
    of_rules = {code: _page_of(rule) for code, rule in rules().items()}
    return of_rules | {page.name: page for text in texts for page in _pages(text)}


def _page_of(rule: CodeRule) -> ExplainPage:
    parts = {"because": rule.because, "hint": rule.hint, "source": rule.source}
    fields = "\n".join(f"  {name:9} {text}" for name, text in parts.items())
    text = f"{rule.severity}: {rule.sentence}\n{fields}"
    return ExplainPage(rule.code, rule.code, text, rule.header.strip(), rule.example, rule.severity)


def _pages(text: str) -> Iterator[ExplainPage]:
    top, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    header = _block(top, "python")
    for section in sections:
        title, _, body = section.partition("\n")
        name, _, code = title.partition(" ")
        words = body.partition("```")[0].strip()
        yield ExplainPage(name, code.strip("()") or name, words, header, _block(body, "diff"))


def _block(text: str, language: str) -> str:
    match = re.search(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return match[1].rstrip("\n") if match else ""


def codes() -> set[str]:
    """Return the codes of all kinds of KernelError."""
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type)} - {KernelError}
    return {kind.code for kind in kinds if issubclass(kind, KernelError)}


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", nargs="?", help="a code, a name of nki.errors, or a code that AWS's tools report"
    )
    parser.set_defaults(command=explain)


def explain(arguments: argparse.Namespace) -> int:
    name = arguments.name
    if name is None:
        print("\n".join(_list()))
        return 0
    matching = [pages()[name]] if name in pages() else []
    matching += [page for page in pages().values() if name in page.symptoms]
    if not matching:
        raise unknown(f"unknown error code {name!r}", name, pages())
    print("\n\n".join("\n".join(_printed(page)) for page in matching))
    return 0


def _list() -> Iterator[str]:
    for name in sorted(pages(), key=lambda n: (n.startswith("err_"), n)):
        page = pages()[name]
        yield name if page.code == name else f"{name}  ({page.code})"


def _printed(page: ExplainPage) -> Iterator[str]:
    yield page.name if page.code == page.name else f"{page.name}  ({page.code})"
    yield ""
    yield page.text
    names = [other.name for other in pages().values() if other.code == page.name != other.name]
    if names:
        yield ""
        yield f"Names of this error on AWS's page nki.errors: {', '.join(names)}"
    if not page.diff:
        return
    yield ""
    yield _caption(page)
    yield ""
    yield from (f"    {line}".rstrip() for line in _indented(page))


def _caption(page: ExplainPage) -> str:
    if not page.bad:
        return "This kernel runs:"
    if page.severity:
        return "The lines marked - cause this finding, and the lines marked + avoid it:"
    return "The lines marked - cause this error, and the lines marked + avoid it:"


def _indented(page: ExplainPage) -> Iterator[str]:
    yield from (f" {line}" for line in page.header.splitlines())
    yield ""
    yield from page.diff.splitlines()
