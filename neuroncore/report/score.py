"""How estimates compare with measurements."""

from __future__ import annotations

from collections.abc import Mapping

Row = Mapping[str, str]


def is_usable(row: Row) -> bool:
    """Whether a row is a latency that is well enough known, of a kernel that is published."""
    return (
        row["metric"] == "latency_us"
        and row["quality"] in ("A", "B")
        and row["kernel_source_available"] == "yes"
    )
