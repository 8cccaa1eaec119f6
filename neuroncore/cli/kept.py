"""The one launch that a command looks at, where several commands ask for one."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from neuroncore.base.errors import UsageError
from neuroncore.base.options import Options
from neuroncore.cli.run import launch
from neuroncore.cli.session import Session
from neuroncore.frontend.settings import environment_options
from neuroncore.hosts.api import Run
from neuroncore.report.compare import Agreement


class KeptRun:
    """A document that keeps the launches of one side."""

    def __init__(self) -> None:
        self.failure: dict[str, Any] | None = None
        self.runs: list[Run] = []

    def header(self) -> None:
        """Print nothing before both sides have run."""

    def add(self, run: Run, found: Agreement | None) -> None:
        self.runs.append(run)


def kept_run(arguments: argparse.Namespace, file: str) -> KeptRun:
    """Return the launch of one side, or the exit code if it failed (and was reported)."""
    kept, own = KeptRun(), argparse.Namespace(**{**vars(arguments), "file": file})
    launch(own, Session(own, kept, keeps=True), options(own))
    if kept.failure is None and len(kept.runs) != 1:
        raise UsageError(f"{file} launches {len(kept.runs)} kernels: name one, {file}::KERNEL")
    return kept


def options(arguments: argparse.Namespace) -> Options:
    """Return the options of the environment, with the order of the command."""
    chosen = environment_options()
    return replace(chosen, order=arguments.order) if arguments.order else chosen
