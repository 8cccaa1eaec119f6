"""Budgets of kernels in tests. A budget is a set of limits on the estimates of launches. A file
contains the budgets of all tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from neuroncore.base.errors import UsageError, writing

SLACK = 1.0 + 1e-9  # a figure may exceed its limit by this factor, because JSON may round numbers
UNITS = {"us": "us", "hbm_bytes": "bytes of HBM traffic", "sbuf_kib": "KiB of SBUF per partition"}
Figures = dict[str, float]


def figures(runs: Sequence[Any]) -> Figures:
    """Return the figures of several launches, as a dict:

    `us`: the sum of the estimated times, in microseconds
    `hbm_bytes`: the sum of the bytes that all cores read from HBM and write to HBM
    `sbuf_kib`: the largest use of SBUF by a core, in KiB per partition"""
    each = [summary for run in runs for summary in run.summaries]
    moved = sum(summary["hbm_read_bytes"] + summary["hbm_write_bytes"] for summary in each)
    peak = max((summary["sbuf_peak_bytes_per_partition"] for summary in each), default=0)
    time = sum(run.estimate.seconds for run in runs)
    return {"us": 1e6 * time, "hbm_bytes": float(moved), "sbuf_kib": peak / 1024}


def over(measured: Figures, limits: Figures) -> str:
    """Return the figures that are above their limits as text, or ""."""
    return "; ".join(
        f"{measured[name]:,.6g} {UNITS[name]}, the budget is {limit:,.6g}"
        for name, limit in limits.items()
        if measured[name] > SLACK * limit
    )


def read(file: Path) -> dict[str, Figures]:
    """Return the budgets in a file, by the name of the test. Return an empty dict if the file does
    not exist. Raises UsageError if the file can't be read, or is not a file of budgets."""
    try:
        kept: Any = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} can't be read: {error}") from None
    fits = isinstance(kept, dict) and all(map(_fits, kept.values()))
    if not fits:
        raise UsageError(
            f'{file} is not a file of budgets: it must be a JSON object such as {{"NAME": '
            f'{{"us": 12.5}}}}, with the figures {", ".join(UNITS)}'
        )
    return dict(kept)


def _fits(limits: Any) -> bool:
    return isinstance(limits, dict) and all(
        name in UNITS and isinstance(limit, int | float) for name, limit in limits.items()
    )


def write(file: Path, budgets: dict[str, Figures]) -> None:
    """Add budgets to a file, where they replace budgets with the same names. Raises the errors of
    `read`, and UsageError if the file can't be written."""
    kept = dict(sorted({**read(file), **budgets}.items()))
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(kept, indent=2) + "\n", "utf-8")
