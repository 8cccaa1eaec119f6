"""Text and tables in HTML that every viewer of notebooks keeps when it sanitizes a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

BLOCKS = 24  # the number of characters of a bar for 100 %


def block(head: str, *parts: str) -> str:
    """Return HTML: a headline in bold, and the parts (also HTML) below it."""
    return f"<div><b>{escape(head)}</b></div>{''.join(parts)}"


def line(text: str) -> str:
    return f"<div>{escape(text)}</div>" if text else ""


def table(rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> str:
    """Return an HTML table of rows of cells, below the names of the columns; "" if there are no
    rows."""
    body = "".join(_row(row, "td") for row in rows)
    return f"<table>{_row(head, 'th') if head else ''}{body}</table>" if body else ""


def _row(cells: Sequence[str], kind: str) -> str:
    cells_html = (f"<{kind} style='text-align:left'>{escape(cell)}</{kind}>" for cell in cells)
    return f"<tr>{''.join(cells_html)}</tr>"


def bar(share: float) -> str:
    return "█" * max(1, round(BLOCKS * min(share, 1.0)))
