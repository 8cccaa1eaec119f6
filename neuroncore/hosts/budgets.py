"""Budgets of kernels in tests: limits on the estimates of launches, and a file that keeps them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from neuroncore.base.errors import UsageError

SLACK = 1.0 + 1e-9  # of numbers that went through JSON
UNITS = {"us": "us", "hbm_bytes": "bytes of HBM traffic", "sbuf_kib": "KiB of SBUF per partition"}
Figures = dict[str, float]


def figures(runs: Sequence[Any]) -> Figures:
    """Return what launches need: estimated microseconds and bytes read from and written to HBM, of
    all together, and the peak of SBUF per partition in KiB, of the largest."""
    each = [run.summary for run in runs]
    moved = sum(one["hbm_read_bytes"] + one["hbm_write_bytes"] for one in each)
    peak = max((one["sbuf_peak_bytes_per_partition"] for one in each), default=0)
    time = sum(run.estimate.seconds for run in runs)
    return {"us": 1e6 * time, "hbm_bytes": float(moved), "sbuf_kib": peak / 1024}


def over(found: Figures, limits: Figures) -> str:
    """Return the figures that are above their limits, as text; empty if none is."""
    return "; ".join(
        f"{found[name]:,.6g} {UNITS[name]}, the budget is {limit:,.6g}"
        for name, limit in limits.items()
        if found[name] > SLACK * limit
    )


def read(file: Path) -> dict[str, Figures]:
    """Return the budgets of a file by name; none if it is not there. Raises UsageError for a file
    that has something else."""
    try:
        kept: Any = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} can't be read: {error}") from None
    fits = isinstance(kept, dict) and all(map(_fits, kept.values()))
    if not fits:
        raise UsageError(f"{file} has no budgets: numbers {', '.join(UNITS)} by name")
    return dict(kept)


def _fits(limits: Any) -> bool:
    return isinstance(limits, dict) and all(
        name in UNITS and isinstance(one, int | float) for name, one in limits.items()
    )


def write(file: Path, budgets: dict[str, Figures]) -> None:
    """Write budgets, and replace those with the same names. Raises UsageError as `read` does, and
    if the file cannot be written."""
    kept = dict(sorted({**read(file), **budgets}.items()))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(kept, indent=2) + "\n", "utf-8")
    except OSError as error:
        raise UsageError(f"{file} can't be written: {error.strerror}") from None
