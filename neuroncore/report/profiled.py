"""The figures of a run as neuron-profile reports them: its time includes its overhead."""

from __future__ import annotations

from typing import Any

from neuroncore.machine.harness import PROFILE, harness_time

TIMES = ("total_time", "total_time_p10", "total_time_p90")
UTILIZATION = tuple(f"{name}_estimated_percent" for name in ("mfu", "mfu_inst", "hfu", "mbu"))


def profiled(figures: dict[str, Any], machine: str) -> dict[str, Any]:
    """Return figures of `summary.figures` whose `total_time` is that of the profiler, with
    `kernel_time` for the kernel's. Shares and cycles are relative to `total_time`, as in published
    profiles."""
    kernel = figures["total_time"]
    time = harness_time(PROFILE, machine, 1e9 * kernel)
    added = time.total_ns / 1e9 - kernel
    share = kernel / ((kernel + added) or 1.0) or 1.0  # of a run without instructions: 0 stays 0
    changed = {name: figures[name] + added for name in TIMES if name in figures}
    changed |= {name: value * share for name, value in figures.items() if _is_share(name)}
    cycles = round(figures["neuroncore_cycle_count"] / share)
    return {
        "neuroncore_total_time": time.parts,
        **figures,
        **changed,
        "kernel_time": kernel,
        "neuroncore_cycle_count": cycles,
    }


def _is_share(field: str) -> bool:
    """Return whether a field is a share of the total time."""
    return field.endswith("_active_time_percent") or field in UTILIZATION
