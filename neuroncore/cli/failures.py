"""Report the error that ends a run: in one sentence, by the traceback of the user's code without
neuroncore's frames, or as a page with all instructions up to the error."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from neuroncore.base import source
from neuroncore.base.errors import REPORT, EmulatorError, KernelError, UsageError
from neuroncore.core.core import Core, running
from neuroncore.frontend.launch import launch
from neuroncore.record.program import Program
from neuroncore.time.schedule import schedule_cores
from neuroncore.view import document as documents
from neuroncore.view import page as pages

if TYPE_CHECKING:
    from neuroncore.view.document import Shown


INTERRUPTED = 130  # the code of a shell for a program that Ctrl-C ended


class NotPython(UsageError):
    """Python cannot read a file. The message begins with file and line."""


class Unwritable(OSError):
    """Standard output cannot be written."""


def write(text: str) -> None:
    """Print a line now. Raise Unwritable, which is not an error of the kernel."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritable(error.errno, error.strerror) from None


def exit_code(failure: dict[str, Any] | None) -> int:
    """Return the exit code for the error that ended a session."""
    if failure is None:
        return 0
    return EmulatorError.exit_code if failure.get("ours") else 1


def print_our_fault(error: Exception) -> None:
    """Report an unexpected error: the whole traceback, and how to report it."""
    traceback.print_exception(error)
    print(f"neuroncore: {REPORT}", file=sys.stderr)


@contextlib.contextmanager
def leaving_told() -> Iterator[None]:
    """Turn os._exit in a kernel or in the main thread into SystemExit: it would end the process
    silently, with exit code 0. Other threads and forked processes are unchanged."""
    leave, own = os._exit, os.getpid()

    def left(status: int) -> NoReturn:
        mine = running() is not None or threading.current_thread() is threading.main_thread()
        if mine and os.getpid() == own:
            raise SystemExit(status)
        leave(status)

    os._exit = left
    try:
        yield
    finally:
        os._exit = leave


def left_in_a_launch(leaving: SystemExit) -> bool:
    """Return whether a kernel tried to end the process."""
    frames = (frame for frame, _ in traceback.walk_tb(leaving.__traceback__))
    return any(frame.f_code is launch.__code__ for frame in frames)


def not_python(error: SyntaxError) -> NotPython | None:
    """Return the error of an imported file, or None if the text is not from a file."""
    file = error.filename
    if file is None or not Path(file).is_file():
        return None
    return NotPython(f"{file}:{error.lineno or 1}: {error.msg}")


def too_deep(error: RecursionError) -> str:
    """Return a sentence that names the function of the user that recursed forever."""
    place = source.innermost_place(error.__traceback__)
    if place is None:
        return f"RecursionError: {error}"
    return (
        f"{place}: RecursionError: {place.function} is called again before it returns, "
        f"{sys.getrecursionlimit()} calls deep"
    )


def interrupted(error: KeyboardInterrupt) -> str:
    """Return a sentence that names the line of the user's code that Ctrl-C interrupted."""
    place = source.innermost_place(error.__traceback__)
    return f"neuroncore: interrupted{'' if place is None else f' at {place}'}"


def print_traceback(error: BaseException) -> None:
    """Print the user's frames; for a fault of the emulator, the last frames too."""
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = _of_the_user(link.__traceback__)
        link = link.__cause__ or link.__context__
    traceback.print_exception(error)


def _of_the_user(trace: TracebackType | None) -> TracebackType | None:
    links = []
    while trace is not None:
        links.append(trace)
        trace = trace.tb_next
    own = max((n for n, link in enumerate(links) if source.is_users(link.tb_frame)), default=-1)
    kept: TracebackType | None = None
    for number, link in reversed([*enumerate(links)]):
        if number > own or source.is_users(link.tb_frame):
            kept = TracebackType(kept, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return kept


def shown(kernel: str, core: Core | None, error: BaseException, text: str) -> Shown:
    """Return what a page shows of a launch that an error ended on a core, or of a session that an
    error ended outside of a launch. Without instructions the page has only the error and its
    source. A launch on several cores has no timeline: its cores stop at different places."""
    outcome = documents.Outcome("failed", text, _place(error))
    program = _program(core)
    if core is None or program is None:
        return pages.Shown(kernel, (), (), outcome=outcome)
    count = len(program)
    return pages.Shown(
        kernel,
        schedule_cores([program], core.machine),
        core.findings,
        answers=False,  # the bottleneck of a part says little of the whole
        window=documents.PageWindow(max(0, count - documents.MOST), count),
        outcome=outcome,
    )


def _program(core: Core | None) -> Program | None:
    """Return the record of a core that runs alone, if it has instructions."""
    if core is None or not core.program or core.world.ranks * core.world.cores > 1:
        return None
    return core.program


def _place(error: BaseException) -> source.Place | None:
    """Return the innermost line of the user's code."""
    if isinstance(error, KernelError) and error.place is not None:
        return error.place
    return source.innermost_place(error.__traceback__)
