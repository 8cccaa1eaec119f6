"""Problems of NKIBench at small sizes: copies of a kernel and its reference, with other numbers in
their source.

The sources of the kernels contain the sizes. nkibench_small.toml has the numbers to replace, and
the new numbers.
"""

from __future__ import annotations

import io
import re
import tokenize
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SIZES: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())


class NotThere(ValueError):
    """A problem is unknown, or a text that is to be replaced does not occur in it."""


def shrunk(name: str, kernel: str, reference: str) -> tuple[str, str]:
    """Return the sources of a problem's kernel and reference at small sizes. Raises NotThere."""
    if name not in SIZES:
        raise NotThere(f"nkibench_small.toml has no {name}")
    sizes = SIZES[name]
    for old, new in sizes.get("texts", {}).items():
        if old not in kernel + reference:
            raise NotThere(f"{name} has no {old!r}")
        kernel, reference = kernel.replace(old, new), reference.replace(old, new)
    numbers = {str(old): str(new) for old, new in sizes.get("numbers", {}).items()}
    kernel, reference = with_numbers(kernel, numbers), with_numbers(reference, numbers)
    for variable, count in sizes.get("loops", {}).items():
        loop = rf"(for {variable} in \w+\.\w+)\(\d+\)"
        kernel, found = re.subn(loop, rf"\1({count})", kernel)
        if not found:
            raise NotThere(f"{name} has no loop of {variable}")
    return kernel, reference


def with_numbers(source: str, numbers: Mapping[str, str]) -> str:
    """Return a source in which each numeric literal that is a key of `numbers` is replaced."""
    lines = source.splitlines(keepends=True)
    tokens = [*tokenize.generate_tokens(io.StringIO(source).readline)]
    for token in reversed(tokens):
        if token.type == tokenize.NUMBER and token.string in numbers:
            row, column = token.start
            line = lines[row - 1]
            lines[row - 1] = line[:column] + numbers[token.string] + line[token.end[1] :]
    return "".join(lines)
