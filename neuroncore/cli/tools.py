"""neuroncore tools-path and alias-path: folders with the vendor's commands and with `import nki`.

Programs, and the programs that they start, find the commands and the module in these folders."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import neuroncore
from neuroncore.base.lazy import Lazy
from neuroncore.base.options import cache_folder
from neuroncore.frontend.alias import PATH
from neuroncore.frontend.vendor import WITH, Checkout

hashlib: Any = Lazy("hashlib")

NAMES = ("neuron-profile", "neuron-explorer")


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=tools_path)


def tools_path(_: argparse.Namespace) -> int:
    print(_folder())
    return 0


@contextmanager
def on_the_path() -> Iterator[None]:
    """A context manager: programs started in its block find neuron-profile and `import nki`.

    They do not find neuron-profile if no file can be written, as in an isolated process."""
    alias = str(PATH)
    with ExitStack() as stack:
        stack.enter_context(_first("PYTHONPATH", alias, ""))
        with suppress(OSError):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="neuroncore-"))
            write(Path(folder))
            stack.enter_context(_first("PATH", folder, os.defpath))
        sys.path.append(alias)  # worker processes of multiprocessing inherit this path
        try:
            yield
        finally:
            sys.path.remove(alias)


@contextmanager
def serving(named: Sequence[Checkout]) -> Iterator[None]:
    """A context manager: these checkouts can be imported in this process and in programs that it
    starts."""
    with ExitStack() as stack:
        for checkout in reversed(named):
            stack.enter_context(_first(WITH, f"{checkout.repository.name}={checkout.folder}", ""))
        yield


@contextmanager
def _first(variable: str, folder: str, default: str) -> Iterator[None]:
    """A context manager that puts a folder first in an environment variable."""
    before = os.environ.get(variable)
    rest = default if before is None else before
    os.environ[variable] = os.pathsep.join([folder, rest] if rest else [folder])
    try:
        yield
    finally:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before


def write(folder: Path) -> None:
    """Write the programs neuron-profile and neuron-explorer into a folder.

    The programs start the Python interpreter that is running now. They contain its path, so they
    are written at run time and are not a part of the package."""
    root = str(Path(neuroncore.__file__).parents[1])
    on_windows = os.name == "nt"
    program = batch_file(sys.executable, root) if on_windows else shell_script(sys.executable, root)
    for name in NAMES:
        unfinished = folder / f".{name}.{os.getpid()}"
        unfinished.write_text(program, newline="")
        unfinished.chmod(0o755)
        file = folder / (f"{name}.cmd" if on_windows else name)
        unfinished.replace(file)  # replace, because the old program may be running


def shell_script(python: str, root: str) -> str:
    """Return a program for a POSIX shell. `root` is the folder that contains neuroncore."""
    return (
        "#!/bin/sh\n"
        f'PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}"{shlex.quote(root)} '
        f'exec {shlex.quote(python)} -P -m neuroncore profile "$@"\n'
    )


def batch_file(python: str, root: str) -> str:
    """Return the program of `shell_script` for Windows. Percent signs in paths are doubled."""
    python, root = (text.replace("%", "%%") for text in (python, root))
    return (
        "@echo off\r\n"
        "setlocal\r\n"
        f'if defined PYTHONPATH (set "PYTHONPATH=%PYTHONPATH%;{root}") '
        f'else (set "PYTHONPATH={root}")\r\n'
        f'"{python}" -P -m neuroncore profile %*\r\n'
    )


def _folder() -> Path:
    """Return the folder for this interpreter's programs: in the user's cache, or a new temporary
    one."""
    digest = hashlib.sha256(f"{sys.executable}\n{neuroncore.__file__}".encode()).hexdigest()[:12]
    folder = cache_folder() / f"tools-{digest}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write(folder)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="neuroncore-tools-"))
        write(folder)
    return folder


def add_alias_path(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=alias_path)


def alias_path(_: argparse.Namespace) -> int:
    print(PATH)
    return 0
