"""The report about rounding errors, as text and as JSON: which source lines introduce them."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any

from neuroncore.base.units import plural
from neuroncore.core.precision.findings import LineError, Precision

SHOWN = 20  # lines in the text
WIDTH = 100  # characters of a source line
LEAST = 1e-3  # smallest ulps that count as an error


def lines_of(precision: Precision) -> list[LineError]:
    """Return the lines that introduce errors, the largest share of the error first."""
    touched = [line for line in precision.lines if line.max_ulps >= LEAST or line.share]
    return sorted(touched, key=lambda line: -line.share)


def text(precision: Precision) -> Iterator[str]:
    """Yield the errors of the results, and a table of lines.

    Then yield the first instruction whose result has an error above the bound."""
    for number, result in enumerate(precision.results):
        error = f"float64    result {number}: relative L2 error {result.rel_l2:.3g}"
        if result.lost:
            error += (
                f"; {result.lost:,} of {result.exact.size:,} elements are finite in float64 only"
            )
        yield error
    lines = lines_of(precision)
    if not lines:
        yield "           no line introduces an error"
        return
    yield "           error of each line: share (an estimate), and ulps (rms, max)"
    for line in lines[:SHOWN]:
        ulps = [_ulps(ulps) if line.count else "-" for ulps in (line.rms_ulps, line.max_ulps)]
        figures = f"{line.share:7.1%} {ulps[0]:>8} {ulps[1]:>8}"
        yield f"{figures}  {line.place.short:<22} {line.place.text.strip()}"[:WIDTH]
    if len(lines) > SHOWN:
        yield f"           and {plural(len(lines) - SHOWN, 'more line')}"
    if precision.beyond is not None:
        first = precision.beyond
        yield (
            f"           first error above {first.bound:.3g}: {first.line.place}, "
            f"{first.instruction}, relative L2 error {first.rel_l2:.3g}"
        )


def _ulps(value: float) -> str:
    return f"{value:.3g}" if value < 1e4 else f"{value:.1e}"


def document(precision: Precision) -> dict[str, Any]:
    """Return all lines for JSON; infinite numbers are null."""
    first = precision.beyond
    return {
        "results": [
            {"name": r.name, "rel_l2": _number(r.rel_l2), "lost": r.lost} for r in precision.results
        ],
        "lines": [_row(line) for line in lines_of(precision)],
        "first_beyond": first
        and {
            "place": str(first.line.place),
            "instruction": first.instruction,
            "rel_l2": _number(first.rel_l2),
            "bound": first.bound,
        },
        "warnings": [{"code": w.code, "place": str(w.place)} for w in precision.warnings],
    }


def _row(line: LineError) -> dict[str, Any]:
    return {
        "place": str(line.place),
        "text": line.place.text.strip(),
        "instructions": sorted(line.instructions),
        "formats": sorted(line.formats),
        "share": line.share,
        "ulps_rms": line.rms_ulps,
        "ulps_max": line.max_ulps,
    }


def _number(value: float) -> float | None:
    return value if isfinite(value) else None
