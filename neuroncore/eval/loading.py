"""Loads specifications from files and, with adapters, from published benchmarks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from neuroncore.base.errors import UsageError
from neuroncore.eval import files
from neuroncore.eval.adapters import adapted
from neuroncore.eval.spec import Spec

NAME = "SPEC"  # the variable of a file that holds a Spec


def load_spec(source: str | Path) -> Spec:
    """Load a specification from a Python file with the variable SPEC, or from a problem of a
    benchmark as ADAPTER:NAME@FOLDER (`eval.adapters`). The files are executed in this process,
    because specifications are trusted.

    Raises UsageError if a file can't be read, fails, or has no SPEC."""
    known = adapted(str(source))
    if known is not None:
        return known
    file = Path(source).resolve()
    spec = getattr(files.module(file), NAME, None)
    if not isinstance(spec, Spec):
        raise UsageError(f"{source} has no variable {NAME} that is a neuroncore.eval.Spec")
    return replace(spec, name=spec.name or file.stem, source=str(file), files=(file,))
