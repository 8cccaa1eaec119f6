"""For notebooks: `%load_ext neuroncore` serves `import nki` and brings `%%neuroncore`.

Errors of kernels are told alone and by their cells; the magic shows the runs of a cell.
"""

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
from neuroncore.core.core import Core
from neuroncore.frontend import misuse
from neuroncore.frontend.alias import activate
from neuroncore.frontend.outcome import Launch
from neuroncore.frontend.settings import current_settings, settings
from neuroncore.hosts.api import Run, of
from neuroncore.report.progress import issued, progress

display: Any = Lazy("IPython.display")
TOLD = (*misuse.WRONG, ImportError)
MAGIC = "neuroncore"
LAST = "_run"  # the user's variable with the last Run of a cell


class Words(argparse.ArgumentParser):
    """What stands behind the magic's name."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%%{MAGIC}: {message}")


class Launches:
    """Keeps the launches of a cell."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.core: Core | None = None

    def begun(self, core: Core) -> None:
        self.core = core

    def done(self, *ranks: Launch) -> None:
        self.runs.append(of(*ranks))


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext neuroncore` calls. Kernels can be imported and written in cells from then."""
    activate()

    def name(file: str) -> str | None:
        told = shell.compile.format_code_name(file)
        return None if told is None else " ".join(told)

    def tell(_: Any, kind: type, error: BaseException, trace: Any, tb_offset: Any = None) -> None:
        said = error if isinstance(error, NeuronError) else misuse.told(error)
        shell.showtraceback((kind, error, trace) if said is None else (type(said), said, trace))

    def run_cell(line: str, cell: str) -> None:
        """%%neuroncore [--target MACHINE]: run the cell, and show what it launched. The last Run is
        `_run`."""
        _run_cell(shell, line, cell)

    source.cell_name = name
    shell.set_custom_exc(TOLD, tell)
    shell.register_magic_function(run_cell, "cell", MAGIC)


def unload_ipython_extension(shell: Any) -> None:
    """What `%unload_ext neuroncore` calls; nki stays."""
    source.cell_name = None
    shell.set_custom_exc((), None)
    del shell.magics_manager.magics["cell"][MAGIC]


def _run_cell(shell: Any, line: str, cell: str) -> None:
    words = Words(prog=f"%%{MAGIC}", add_help=False)
    words.add_argument("--target")
    asked, seen = words.parse_args(shlex.split(line)), Launches()
    file = _file_of_cell()
    # a comment in the place of the magic's own line, so that lines are those of the notebook
    tree = shell.compile.ast_parse(shell.transform_cell(f"#\n{cell}"), filename=file)
    parts = ast.Module(tree.body[:-1], []), ast.Interactive(tree.body[-1:])  # which is displayed
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
    """What Python takes for the file of the cell that is being run."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if source.cell_name is not None and source.cell_name(file) is not None:
            return file
        frame = frame.f_back
    return "<cell>"
