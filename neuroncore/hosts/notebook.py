"""The notebook extension. `%load_ext neuroncore` loads it, and provides `import nki` and the magic
command `%%neuroncore`, which shows the runs of a cell.

Errors of kernels are printed without a traceback, and name the cell and the line."""

from __future__ import annotations

import argparse
import ast
import shlex
import sys
from types import FrameType
from typing import Any, NoReturn

from neuroncore.base import source
from neuroncore.base.errors import NeuronError, UsageError
from neuroncore.base.lazy import Lazy
from neuroncore.base.progress import progress
from neuroncore.core.core import Core
from neuroncore.frontend import misuse
from neuroncore.frontend.alias import activate
from neuroncore.frontend.launch import issued
from neuroncore.frontend.outcome import Launch
from neuroncore.frontend.settings import current_settings, settings
from neuroncore.hosts.api import Run, of

display: Any = Lazy("IPython.display")
EXPLAINED = (*misuse.WRONG, ImportError)  # errors that may have an explanation
MAGIC = "neuroncore"
LAST = "_run"  # the user's variable for the last Run of a cell


class Words(argparse.ArgumentParser):
    """Parses the arguments of the magic command."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%%{MAGIC}: {message}")


class Launches:
    """Collects the launches of a cell."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.core: Core | None = None

    def begun(self, core: Core) -> None:
        self.core = core

    def done(self, *ranks: Launch) -> None:
        self.runs.append(of(*ranks))


def load_ipython_extension(shell: Any) -> None:
    """Load the extension (`%load_ext neuroncore`); kernels can then be written in cells."""
    activate()

    def name(file: str) -> str | None:
        parts = shell.compile.format_code_name(file)
        return None if parts is None else " ".join(parts)

    def show(_: Any, kind: type, error: BaseException, trace: Any, tb_offset: Any = None) -> None:
        explained = error if isinstance(error, NeuronError) else misuse.explanation(error)
        if explained is not None:
            kind, error = type(explained), explained
        shell.showtraceback((kind, error, trace))

    def run_cell(line: str, cell: str) -> None:
        """%%neuroncore [--target MACHINE]: run the cell, and show its launches. The variable `_run`
        is the last Run."""
        _run_cell(shell, line, cell)

    source.cell_name = name
    shell.set_custom_exc(EXPLAINED, show)
    shell.register_magic_function(run_cell, "cell", MAGIC)


def unload_ipython_extension(shell: Any) -> None:
    """Unload the extension (`%unload_ext neuroncore`). `import nki` still finds neuroncore."""
    source.cell_name = None
    shell.set_custom_exc((), None)
    del shell.magics_manager.magics["cell"][MAGIC]


def _run_cell(shell: Any, line: str, cell: str) -> None:
    words = Words(prog=f"%%{MAGIC}", add_help=False)
    words.add_argument("--target")
    asked, seen = words.parse_args(shlex.split(line)), Launches()
    file = _file_of_cell()
    # The comment replaces the line of the magic command, so that all lines keep their numbers.
    tree = shell.compile.ast_parse(shell.transform_cell(f"#\n{cell}"), filename=file)
    # the value of the last statement is displayed
    parts = ast.Module(tree.body[:-1], []), ast.Interactive(tree.body[-1:])
    options = current_settings().options
    with (
        settings(asked.target, options, seen, keeps=True, in_every_thread=True),
        progress(lambda: issued(seen.core)),
    ):
        try:
            for part, mode in zip(parts, ("exec", "single"), strict=True):
                exec(shell.compile(part, file, mode), shell.user_ns)
        finally:
            for run in seen.runs:
                shell.user_ns[LAST] = run
                display.display(run)


def _file_of_cell() -> str:
    """Return the file name that Python uses for the running cell."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if source.cell_name is not None and source.cell_name(file) is not None:
            return file
        frame = frame.f_back
    return "<cell>"
