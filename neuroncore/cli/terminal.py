"""Text for a terminal, in color and wrapped to its width. Text for files and pipes is unchanged."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable
from typing import Any, TextIO

NARROWEST = 40  # columns
RESET = "\x1b[0m"
RED, GREEN, YELLOW, CYAN, BOLD, DIM = (f"\x1b[{n}m" for n in ("31;1", "32", "33", "36", "1", "2"))
LABEL = re.compile(r" *(?:[a-z]+|result \d+) {2,}(?=\S)")  # "  estimate   "
EXCERPT = re.compile(r"\s*(?:\d+ )?\s*\|")  # source text, and the marks below it
COLORS = (
    (re.compile(r"\b(?:error\[\w+\]|\w*Error:|DIFFERS)"), RED),
    (re.compile(r"\bwarning\[\w+\]"), YELLOW),
    (re.compile(r"\b(?:note|advice)\[\w+\]"), CYAN),
    (re.compile(r"\bagrees\b|(?<= )-\d+%"), GREEN),
    (re.compile(r"^\S+ on \w+(?=$|,|   )"), BOLD),
    (re.compile(r"^ *(?:[a-z]+|result \d+)(?= {2,}\S)"), DIM),
)


def shown(text: str, stream: TextIO | None = None) -> str:
    """Return the form of a text for a stream, by default standard output.

    For a terminal, the text is wrapped. It is colored too, unless NO_COLOR is set (no-color.org) or
    the terminal has no colors. For other streams, the text is unchanged."""
    stream = sys.stdout if stream is None else stream
    if stream is None or not stream.isatty():
        return text
    width = max(shutil.get_terminal_size().columns, NARROWEST)
    lines = [part for line in text.split("\n") for part in _wrapped(line, width)]
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return "\n".join(lines if plain else map(_painted, lines))


class Unwritable(OSError):
    """An error: standard output can't be written."""


def write(text: str) -> None:
    """Print a line immediately.

    Raise Unwritable if printing fails, so that the failure is not reported as an error of the
    kernel. BrokenPipeError is passed on."""
    try:
        print(shown(text), flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritable(error.errno, error.strerror) from None


def write_json(document: Any) -> None:
    """Print a JSON object. Raise ValueError for numbers that JSON does not have."""
    print(json.dumps(document, indent=2, allow_nan=False), flush=True)


def answer(arguments: argparse.Namespace, document: Any, lines: Iterable[str]) -> None:
    """Print the answer of a command: a JSON object with --json, lines without."""
    if arguments.json:
        write_json(document)
        return
    for line in lines:
        write(line)


def complain(text: Any) -> None:
    """Print a text on standard error."""
    print(shown(str(text), sys.stderr), file=sys.stderr)


def _wrapped(line: str, width: int) -> list[str]:
    """Return the lines of a text. Each line is at most `width` columns wide if it can be broken.

    All lines but the first are indented to the column after the first line's label."""
    if len(line) <= width or EXCERPT.match(line):
        return [line]
    label = LABEL.match(line)
    margin = label.end() if label else len(line) - len(line.lstrip()) + 2
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * min(margin, width // 2),
        replace_whitespace=False,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _painted(line: str) -> str:
    for pattern, color in COLORS:
        line = pattern.sub(lambda match, color=color: f"{color}{match[0]}{RESET}", line)  # type: ignore[misc]
    return line
