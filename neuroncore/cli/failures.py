"""What ends a run, told in one sentence where one is due; else by the traceback of the user's code,
without the frames of ours that led to it."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn

from neuroncore.base import source
from neuroncore.base.errors import REPORT, EmulatorError, UsageError
from neuroncore.core.core import running
from neuroncore.frontend.launch import launch

INTERRUPTED = 130  # as a shell has it of a program that Ctrl-C ends


class NotPython(UsageError):
    """A file that Python can't read. The message begins with file and line."""


class Unwritable(OSError):
    """Standard output takes no more."""


def write(text: str) -> None:
    """Print a line now. Raises Unwritable, which is no error of the kernel's that is being run."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritable(error.errno, error.strerror) from None


def exit_code(failure: dict[str, Any] | None) -> int:
    """Of a command, by what ended its session."""
    if failure is None:
        return 0
    return EmulatorError.exit_code if failure.get("ours") else 1


def print_our_fault(error: Exception) -> None:
    """What no command expects: the whole traceback, and what to do."""
    traceback.print_exception(error)
    print(f"neuroncore: {REPORT}", file=sys.stderr)


@contextlib.contextmanager
def leaving_told() -> Iterator[None]:
    """Let os._exit of a kernel or of the main thread be SystemExit: it would end the process with
    nothing told, and with 0. Other threads, and processes that are forked, end as ever."""
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
    """Whether a kernel has ended the process, or would have."""
    frames = (frame for frame, _ in traceback.walk_tb(leaving.__traceback__))
    return any(frame.f_code is launch.__code__ for frame in frames)


def not_python(error: SyntaxError) -> NotPython | None:
    """The error of a file that the user's code imports; None if it is of text from elsewhere."""
    file = error.filename
    if file is None or not Path(file).is_file():
        return None
    return NotPython(f"{file}:{error.lineno or 1}: {error.msg}")


def too_deep(error: RecursionError) -> str:
    """In a sentence, which function of the user's code called itself for ever."""
    frame, line = innermost(error)
    if frame is None:
        return f"RecursionError: {error}"
    code = frame.f_code
    return (
        f"{code.co_filename}:{line}: RecursionError: {code.co_name} is called again before it "
        f"returns, {sys.getrecursionlimit()} calls deep"
    )


def interrupted(error: KeyboardInterrupt) -> str:
    """In a sentence, where Ctrl-C met the user's code."""
    frame, line = innermost(error)
    where = "" if frame is None else f" at {frame.f_code.co_filename}:{line}"
    return f"neuroncore: interrupted{where}"


def innermost(error: BaseException) -> tuple[FrameType | None, int]:
    """The innermost frame of the user's that an error came through, and its line."""
    users = [(f, line) for f, line in traceback.walk_tb(error.__traceback__) if source.is_users(f)]
    return users[-1] if users else (None, 0)


def print_traceback(error: BaseException) -> None:
    """The frames of the user's. Where the error is one of the emulator's own, so are the last."""
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
