"""Specifications from files, and from benchmarks by their adapters."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from dataclasses import replace
from pathlib import Path

from neuroncore.base.errors import UsageError
from neuroncore.eval.spec import Spec

NAME = "SPEC"  # the variable of a file that holds a Spec


def load_spec(path: str | Path) -> Spec:
    """Load the variable SPEC of a Python file, which is executed in this process: a specification
    is trusted. Raises UsageError if the file can't be read, fails, or has no SPEC."""
    file = Path(path).resolve()
    name = f"neuroncore_spec_{file.stem}"
    made = importlib.util.spec_from_file_location(name, file)
    if made is None or made.loader is None or not file.is_file():
        raise UsageError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(made)
    sys.modules[name] = module
    try:
        made.loader.exec_module(module)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise UsageError(
            f"{path} fails at {last.filename}:{last.lineno}: {type(error).__name__}: {error}"
        ) from error
    spec = getattr(module, NAME, None)
    if not isinstance(spec, Spec):
        raise UsageError(f"{path} has no variable {NAME} that is a neuroncore.eval.Spec")
    return replace(spec, name=spec.name or file.stem, source=str(file), files=(file,))
