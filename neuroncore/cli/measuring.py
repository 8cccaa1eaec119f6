"""The option --harness: the time that a tool which measures kernels would report."""

from __future__ import annotations

import argparse
from typing import Any

from neuroncore.hosts.api import Run
from neuroncore.machine import harness
from neuroncore.machine.harness import HarnessTime


def add_harness(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--harness",
        choices=(*harness.NAMES, "none"),
        default="none",
        help="also report the time that this tool would measure: the estimate and the overhead of "
        "the tool (default: none)",
    )


def measured(arguments: argparse.Namespace, run: Run) -> HarnessTime | None:
    """Return the time of the slowest core with the requested harness, or None without one. Not
    every command has the option."""
    name = getattr(arguments, "harness", "none")
    if name == "none":
        return None
    slowest = max((timeline.total_ns for timeline in run.timelines), default=0.0)
    return harness.harness_time(name, run.machine.name, slowest)


def fields(found: HarnessTime | None) -> dict[str, Any]:
    """Return the entry of a launch in --json."""
    return {} if found is None else {"harness": found.to_dict()}
