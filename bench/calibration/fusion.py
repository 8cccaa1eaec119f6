"""The attention of trainium-kernel-fusion, as three kernels and as one fused kernel."""

from __future__ import annotations

from pathlib import Path

from case import Case, Random, Row, dtype, inside, sizes


def case(row: Row, checkout: Path, path: str) -> Case:
    kind = row["kernel"].removeprefix("attention_")
    size = sizes(row)
    part = Random(dtype(row), (size["d_head"], size["seqlen"]))
    return Case(inside(checkout, path), f"{kind}_attention", (part, part, part))
