"""Executes trusted Python files in this process: specifications, and references of benchmarks."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from neuroncore.base.errors import UsageError


def module(file: Path, **names: object) -> ModuleType:
    """Execute a Python file, and return its module. `names` are defined in the module before the
    file is executed. Raise UsageError if the file can't be read or fails."""
    name = f"neuroncore_spec_{file.stem}"
    module_spec = importlib.util.spec_from_file_location(name, file)
    if module_spec is None or module_spec.loader is None or not file.is_file():
        raise UsageError(f"{file} is not a Python file")
    loaded = importlib.util.module_from_spec(module_spec)
    sys.modules[name] = loaded
    vars(loaded).update(names)
    try:
        module_spec.loader.exec_module(loaded)
    except Exception as error:
        raise failure(file, error) from error
    return loaded


def failure(file: Path, error: Exception) -> UsageError:
    """Return a UsageError which states that `file` failed with `error`, and at which line."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return UsageError(f"{file} fails at {last.filename}:{last.lineno}: {_with_type(error)}")


def _with_type(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
