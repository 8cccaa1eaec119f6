"""Figures of a timeline for a verdict. The names of the figures are the names that AccelOpt and
kda-for-trainium read. These are two programs that search for fast kernels.

A what-if is the estimate of the kernel after one change: an edit of the kernel, or a limit of the
machine that is removed."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuroncore.report.summary import figures
from neuroncore.report.why import why as reasons
from neuroncore.time.schedule import Timeline

# kda-for-trainium's names, for percent and MB, and the same figures' names in AWS's profiler, which
# AccelOpt uses.
PERCENT = {
    "MFU_pct": "mfu_estimated_percent",
    "PE_pct": "tensor_engine_active_time_percent",
    "Vec_pct": "vector_engine_active_time_percent",
    "Scl_pct": "scalar_engine_active_time_percent",
    "DMA_pct": "dma_active_time_percent",
}
MEGABYTES = {"HBMrd_MB": "hbm_read_bytes", "HBMwr_MB": "hbm_write_bytes"}
BEST = 3  # the most what-ifs that are returned


def summary(timeline: Timeline) -> dict[str, Any]:
    """Return the figures of a timeline by name. The names come from AWS's profiler; AccelOpt reads
    them. Some figures are listed again with the names and units of kda-for-trainium."""
    fields = {name: _plain(value) for name, value in figures(timeline).items()}
    of_kda = {name: 100 * fields[field] for name, field in PERCENT.items()}
    megabytes = {name: fields[field] / 1e6 for name, field in MEGABYTES.items()}
    return {**fields, **of_kda, **megabytes}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def why(timeline: Timeline) -> dict[str, Any]:
    """Return the bottleneck and the best what-ifs of a timeline: first edits of the kernel, then
    removed limits of the machine. This takes longer than the rest of a verdict, because the program
    is scheduled again for each what-if."""
    answers = reasons("", timeline, BEST).answers
    if answers is None:
        return {"bound_by": "nothing", "what_ifs": []}
    ranked = [what_if for what_if in (*answers.edits, *answers.limits) if what_if.matters]
    best = [
        {"what": str(what_if), "latency_us": what_if.ns / 1e3, "saves": what_if.gain}
        for what_if in ranked[:BEST]
    ]
    return {"bound_by": answers.bound.what, "what_ifs": best}
