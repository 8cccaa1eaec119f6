"""Makes texts and tables in HTML that viewers of notebooks leave unchanged when they sanitize a
page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

BLOCKS = 24  # the number of characters in a bar for 100 %


def block(head: str, *parts: str) -> str:
    """Return HTML with the text `head` in bold, above the `parts`, which are HTML too."""
    return f"<div><b>{escape(head)}</b></div>{''.join(parts)}"


def line(text: str) -> str:
    return f"<div>{escape(text)}</div>" if text else ""


def table(rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> str:
    """Return an HTML table of the texts `rows`, or "" without rows. `head` lists the names of the
    columns."""
    body = "".join(_row(row, "td") for row in rows)
    return f"<table>{_row(head, 'th') if head else ''}{body}</table>" if body else ""


def _row(cells: Sequence[str], kind: str) -> str:
    cells_html = (f"<{kind} style='text-align:left'>{escape(cell)}</{kind}>" for cell in cells)
    return f"<tr>{''.join(cells_html)}</tr>"


def bar(share: float) -> str:
    return "█" * max(1, round(BLOCKS * min(share, 1.0)))
