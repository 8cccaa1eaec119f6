"""What ends a run, told in one sentence where one is due; else by the traceback of the user's code,
without the frames of ours that led to it."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from types import FrameType, TracebackType

from neuroncore import source
from neuroncore.errors import UsageError

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
