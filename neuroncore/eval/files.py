"""Executes trusted Python files in this process: specifications, and references of benchmarks."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from types import ModuleType

from neuroncore.base.errors import UsageError
from neuroncore.base.source import imported


def module(file: Path, **names: object) -> ModuleType:
    """Execute a Python file, and return its module. `names` are defined in the module before the
    file is executed. Raise UsageError if the file can't be read or fails."""
    name = f"neuroncore_spec_{file.stem}"
    if not file.exists():
        raise UsageError(f"there is no file {file}")
    if file.suffix != ".py" or not file.is_file():
        raise UsageError(f"{file} is not a Python file")
    sys.modules.pop(name, None)  # another file of this name
    try:
        return imported(name, file, **names)
    except Exception as error:
        raise failure(file, error) from error


def failure(file: Path, error: Exception) -> UsageError:
    """Return a UsageError which states that `file` failed with `error`, and at which line.

    The line of a SyntaxError is in the source that Python can't read, not in the traceback."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place, message = f"{last.filename}:{last.lineno}", str(error)
    if isinstance(error, SyntaxError) and error.filename is not None:
        place, message = f"{error.filename}:{error.lineno or 1}", error.msg
    return UsageError(f"{file} fails at {place}: {type(error).__name__}: {message}")
