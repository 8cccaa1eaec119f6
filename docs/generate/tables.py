"""Tables in Markdown, for docs/calibration.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Json = dict[str, Any]


def table(head: str, rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; columns after the first are numbers."""
    columns = head.split(" | ")
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)
