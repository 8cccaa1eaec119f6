"""What the source of a kernel tells, of the file and of all that it calls; nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from neuroncore.errors import UsageError
from neuroncore.findings import Finding

RELEASES = ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6")


@dataclass(frozen=True)
class Read:
    """What was found in which files, for which release, and whether the file, or the kernel that
    is asked for, can be run without being given arguments."""

    findings: Sequence[Finding]
    files: Sequence[str]
    api: str
    runs: bool


def read(file: Path, kernel: str | None, api: str | None, target: str | None) -> Read:
    """Read a file. Raises UsageError as `check` does."""
    if api is not None and api not in RELEASES:
        raise UsageError(f"{api!r} is no release of the API: {', '.join(RELEASES)}")
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except OSError as error:
        raise UsageError(f"{file} can't be read: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise UsageError(f"{file}:{line}: {getattr(error, 'msg', error)}") from None
    return Read([], [str(file)], api or RELEASES[-1], _runs(tree, kernel))


def _runs(tree: ast.Module, kernel: str | None) -> bool:
    """Whether there is something to run: a function `inputs` for a kernel, or a part of the file
    that asks if it is run."""
    if kernel is not None:
        return any(isinstance(one, ast.FunctionDef) and one.name == "inputs" for one in tree.body)
    return any(isinstance(one, ast.If) and _asks_if_run(one.test) for one in tree.body)


def _asks_if_run(test: ast.expr) -> bool:
    names = {one.id for one in ast.walk(test) if isinstance(one, ast.Name)}
    return "__name__" in names
