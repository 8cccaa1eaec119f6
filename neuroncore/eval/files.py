"""Trusted Python files that this process executes: specifications, and references of benchmarks."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from neuroncore.base.errors import UsageError


def module(file: Path, **names: object) -> ModuleType:
    """Execute a Python file as a module in which `names` are defined already. Raises UsageError if
    the file can't be read or fails."""
    name = f"neuroncore_spec_{file.stem}"
    made = importlib.util.spec_from_file_location(name, file)
    if made is None or made.loader is None or not file.is_file():
        raise UsageError(f"{file} is not a Python file")
    found = importlib.util.module_from_spec(made)
    sys.modules[name] = found
    vars(found).update(names)
    try:
        made.loader.exec_module(found)
    except Exception as error:
        raise failure(file, error) from error
    return found


def failure(file: Path, error: Exception) -> UsageError:
    """Return the error to raise for a trusted file that fails."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return UsageError(f"{file} fails at {last.filename}:{last.lineno}: {_said(error)}")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
