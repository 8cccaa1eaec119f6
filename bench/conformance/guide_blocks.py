"""The kernels in the code blocks of the SDK's guides, unmodified."""

from __future__ import annotations

import ast
import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OPENING = re.compile(r"^(\s*)\.\. code(?:-block)?::")
OPTION = re.compile(r"^\s*:[\w-]+:")
Function = ast.FunctionDef


@dataclass(frozen=True)
class Kernel:
    """A kernel in a code block. `number` counts the kernels with this name on the page. `source` is
    the code block without later kernels that have the same name. If the block is not Python,
    `parses` is False and `source` is the reason."""

    page: str
    line: int
    name: str
    number: int
    source: str
    parses: bool = True

    @property
    def key(self) -> str:
        return f"{self.page}:{self.name}" + (f"#{self.number}" if self.number > 1 else "")


def kernels(checkout: Path) -> Iterator[Kernel]:
    """Yield each function under @nki.jit in the code blocks of nki/**/*.rst, in order."""
    guides = checkout / "nki"
    for page in sorted(guides.rglob("*.rst")):
        name = str(page.relative_to(guides).with_suffix(""))
        yield from _of_page(name, page.read_text(errors="replace").splitlines())


def _of_page(page: str, lines: list[str]) -> Iterator[Kernel]:
    seen: Counter[str] = Counter()
    for line, block in _blocks(lines):
        if "@nki.jit" not in block and "nki.jit(" not in block:
            continue
        try:
            tree = ast.parse(block)
        except SyntaxError as error:
            seen["?"] += 1
            yield Kernel(page, line, "?", seen["?"], f"not Python: {error.msg}", parses=False)
            continue
        for function in _decorated(tree):
            seen[function.name] += 1
            source = _with_only(function, tree, block)
            yield Kernel(page, line, function.name, seen[function.name], source)


def _blocks(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield, for each code block, the line of its directive, counted from 1, and its contents
    without the indentation."""
    for at, line in enumerate(lines):
        if opening := OPENING.match(line):
            yield at + 1, textwrap.dedent("\n".join(_content(lines[at + 1 :], len(opening[1]))))


def _content(lines: list[str], outside: int) -> list[str]:
    body: list[str] = []
    for line in lines:
        if line.strip() and len(line) - len(line.lstrip()) <= outside:
            break
        if body or not OPTION.match(line):
            body.append(line)
    return body


def _decorated(tree: ast.Module) -> list[Function]:
    functions = [node for node in tree.body if isinstance(node, Function)]
    return [f for f in functions if any("nki.jit" in ast.unparse(d) for d in f.decorator_list)]


def _with_only(kept: Function, tree: ast.Module, block: str) -> str:
    """Return the source of a block without later kernels that have the name of the kernel `kept`.
    The other lines keep their numbers."""
    lines = block.splitlines()
    for other in _decorated(tree):
        if other.name == kept.name and other.lineno > kept.lineno:
            first = min(d.lineno for d in other.decorator_list)
            lines[first - 1 : other.end_lineno] = [""] * ((other.end_lineno or first) - first + 1)
    return "\n".join(lines) + "\n"
