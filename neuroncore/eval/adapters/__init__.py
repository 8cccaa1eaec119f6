"""Makes specifications from the files of published benchmarks, for `--spec ADAPTER:NAME@FOLDER`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from neuroncore.base.errors import UsageError
from neuroncore.eval.adapters import cs149, definition, harness, kernelbench, nkibench
from neuroncore.eval.course import Assignment
from neuroncore.eval.spec import Spec


class Adapter(NamedTuple):
    """An adapter for a benchmark.

    `make`: takes the name of a problem and the folder of the benchmark, and returns a specification
    `variable`: the environment variable that names the default folder; None for a benchmark without
        files"""

    make: Callable[[str, Path], Spec]
    variable: str | None


ADAPTERS = {
    "nkibench": Adapter(nkibench.spec, "NKIBENCH_ROOT"),
    "autocomp": Adapter(harness.spec, "AUTOCOMP_ROOT"),
    "cs149": Adapter(cs149.spec, None),
    "kernelbench": Adapter(kernelbench.spec, "KERNELBENCH_ROOT"),
    "flashinfer": Adapter(definition.spec, "FIB_DATASET_PATH"),
}


def adapted(source: str) -> Spec | None:
    """Return the specification for `source`, which is ADAPTER:NAME or ADAPTER:NAME@FOLDER. Return
    None if `source` does not begin with the name of an adapter. Raise UsageError if the benchmark
    has no such problem, or if its folder is unknown."""
    kind, colon, rest = source.partition(":")
    if not colon or kind not in ADAPTERS:
        return None
    adapter = ADAPTERS[kind]
    name, _, text = rest.partition("@")
    if adapter.variable is None:
        return replace(adapter.make(name, Path()), source=source)
    folder = Path(text or os.environ.get(adapter.variable, "")).resolve()
    if not (text or adapter.variable in os.environ) or not folder.is_dir():
        raise UsageError(
            f"{kind}:{name} needs the folder of the benchmark: --spec {kind}:{name}@FOLDER, or the "
            f"environment variable {adapter.variable}"
        )
    return replace(adapter.make(name, folder), source=f"{kind}:{name}@{folder}")


def assigned(source: str) -> Assignment | None:
    """Return the assignment for `source`, which is cs149:YEAR; None for any other source."""
    kind, _, name = source.partition(":")
    return cs149.assignment(name) if kind == "cs149" else None
