"""The times and ratios that the handouts of CS149's assignment 4 ask for, for docs/calibration.md:
estimates next to those that students published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from docs.generate.tables import Json, table

CLOSE, CLOSE_RATIO = 0.15, 0.2  # relative errors that are not marked

# Each figure of part 1, and the rows that published it
FIGURES = (
    ("trn1: vector_add_tiled, ROW_CHUNK = 1, 25,600 elements", ("M0290",)),
    ("trn1: vector_add_tiled, ROW_CHUNK = 128", ("M0291",)),
    ("trn1: vector_add_stream, FREE_DIM = 2", ("M0292",)),
    ("trn1: vector_add_stream, FREE_DIM = 200", ("M0293",)),
    ("trn1: vector_add_stream, FREE_DIM = 2000, 256,000 elements", ("M0278", "M0294")),
    ("trn1: vector_add_stream, FREE_DIM = 1000, 256,000 elements", ("M0295",)),
    ("trn1: vector_add_direct_allocation, 256,000 elements", ("M0296",)),
    ("trn2: vector_add_tiled, ROW_CHUNK = 1, 25,600 elements", ("M0320",)),
    ("trn2: vector_add_tiled, ROW_CHUNK = 128", ("M0321",)),
    ("trn2: vector_add_stream, FREE_DIM = 2", ("M0322",)),
    ("trn2: vector_add_stream, FREE_DIM = 200", ("M0323",)),
    (
        "trn2: vector_add_stream, FREE_DIM = 2000, 256,000 elements",
        ("M0308", "M0324", "M0332", "M0335"),
    ),
    ("trn2: vector_add_stream, FREE_DIM = 1000, 256,000 elements", ("M0325", "M0331", "M0334")),
    ("trn2: matrix_transpose, 1024 x 1024", ("M0326", "M0333")),
)

# Each ratio that a handout asks for: the slower one over the faster one
RATIOS = (
    ("trn1: ROW_CHUNK = 1 over 128", "M0290", "M0291"),
    ("trn1: ROW_CHUNK = 128 over FREE_DIM = 2", "M0291", "M0292"),
    ("trn1: FREE_DIM = 2 over 200", "M0292", "M0293"),
    ("trn1: FREE_DIM = 2000 over 1000", "M0294", "M0295"),
    ("trn1: direct allocation over FREE_DIM = 1000", "M0296", "M0295"),
    ("trn2: ROW_CHUNK = 1 over 128", "M0320", "M0321"),
    ("trn2: ROW_CHUNK = 128 over FREE_DIM = 2", "M0321", "M0322"),
    ("trn2: FREE_DIM = 2 over 200", "M0322", "M0323"),
    ("trn2: ROW_CHUNK = 128 over FREE_DIM = 200", "M0321", "M0323"),
    ("trn2: FREE_DIM = 2000 over 1000", "M0324", "M0325"),
    ("trn2: FREE_DIM = 2000 over 1000, another student", "M0332", "M0331"),
)

TEXT = """
## Figures of the CS149 assignment

The handouts of Stanford's CS149 (assignment 4, part 1) ask students for the times in the first
table, on trn1 (2024) and trn2 (2025), and for the ratios in the second table. The measurements come
from profiles in the handouts, and from students who published their measurements.

A time is marked "off" if its estimate differs from the measurement by more than {close:.0%}. A
ratio of times is marked "off" if its estimate differs from the measured ratio by more than
{close_ratio:.0%}. The [known errors](#known-errors-of-the-model) have the reason.

If several people measured a time, the table has a line for each of them. The estimates of these
lines differ if the kernels, the flags of the compiler or the overheads of the tools differ.

{figures}
{ratios}"""


def handouts(rows: Sequence[Json]) -> str:
    """Return the section, if the rows of `neuroncore score` have all of its figures, else ""."""
    by_id = {row["id"]: row for row in rows}
    if not all(row in by_id for _, ids in FIGURES for row in ids):
        return ""
    return TEXT.format(
        close=CLOSE,
        close_ratio=CLOSE_RATIO,
        figures=table(
            "time | estimate, us | measured, us | ratio | ",
            (_figure(text, by_id[row]) for text, ids in FIGURES for row in ids),
        ),
        ratios=table(
            "ratio of times | estimate | measured | ratio | ",
            (_ratio(text, by_id[over], by_id[under]) for text, over, under in RATIOS),
        ),
    ).replace("%", " %")


def _figure(text: str, row: Mapping[str, Any]) -> Sequence[object]:
    ratio = row["estimated_us"] / row["measured_us"]
    mark = "off" if abs(ratio - 1) > CLOSE else ""
    return text, f"{row['estimated_us']:.1f}", f"{row['measured_us']:g}", f"{ratio:.2f}", mark


def _ratio(text: str, over: Mapping[str, Any], under: Mapping[str, Any]) -> Sequence[object]:
    ours, theirs = (over[key] / under[key] for key in ("estimated_us", "measured_us"))
    mark = "off" if abs(ours / theirs - 1) > CLOSE_RATIO else ""
    return text, f"{ours:.2f}", f"{theirs:.2f}", f"{ours / theirs:.2f}", mark
