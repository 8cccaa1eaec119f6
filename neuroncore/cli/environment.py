"""neuroncore env: versions and settings of this installation, for a bug report."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import neuroncore
from neuroncore.base.lazy import version as own_version
from neuroncore.base.options import cache_folder
from neuroncore.cli import terminal
from neuroncore.frontend.settings import target_machine

SCHEMA = "neuroncore.env/1"
NEEDED = ("numpy", "numba", "ml_dtypes")
OPTIONAL = (
    *("torch", "jax", "distributed", "mcp", "pytest", "pytest-xdist", "ipykernel", "shtab"),
    *("scikit-learn", "ziglang", "nki", "neuronx-cc", "torch-neuronx"),
)
OURS = ("NEURONCORE_", "NEURON_PLATFORM_TARGET_OVERRIDE", "NUMBA_", "XDG_CACHE_HOME", "NO_COLOR")


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = "Print versions and settings of this installation, for a bug report."
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    parser.set_defaults(command=command)


def command(arguments: argparse.Namespace) -> int:
    facts = environment()
    terminal.answer(arguments, {"schema": SCHEMA, **facts}, lines(facts))
    return 0


def environment() -> dict[str, Any]:
    """Return versions, the properties of this computer, and settings."""
    names = {name: installed(name) for name in (*NEEDED, *OPTIONAL)}
    return {
        "neuroncore": own_version("neuroncore"),
        "folder": str(Path(neuroncore.__file__).parent),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "executable": sys.executable,
        "system": platform.platform(),
        "processor": platform.machine(),
        "processors": os.cpu_count() or 1,
        "packages": {name: number for name, number in names.items() if number is not None},
        "cache": str(cache_folder()),
        "target": target_machine().name,
        "variables": {name: os.environ[name] for name in sorted(os.environ) if _is_ours(name)},
    }


def installed(name: str) -> str | None:
    """Return the version of an installed distribution, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _is_ours(name: str) -> bool:
    return name.startswith(OURS)


def lines(facts: dict[str, Any]) -> Iterator[str]:
    for name, value in facts.items():
        if isinstance(value, dict):
            yield f"{name:16}{'' if value else 'none'}"
            yield from (f"  {key:14}{entry}" for key, entry in value.items())
        else:
            yield f"{name:16}{value}"
