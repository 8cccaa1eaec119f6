"""A limit on the time of a command: --time-limit."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from neuroncore.base import source
from neuroncore.base.errors import UsageError, with_notes

AGAIN = 1.0  # seconds until a script that continues is interrupted again


class TimeLimit(KeyboardInterrupt):
    """The time limit of a command has been reached. Programs handle it like Ctrl-C."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def __str__(self) -> str:
        place = source.innermost_place(self.__traceback__)
        where = "" if place is None else f" at {place}"
        return with_notes(f"--time-limit: ended after {self.seconds:g} s{where}", self, "; ")


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """A context manager that raises TimeLimit after this many seconds.

    Raises UsageError if the operating system has no alarms."""
    if not hasattr(signal, "SIGALRM"):
        raise UsageError("--time-limit needs alarms, which this operating system does not have")

    def end(*_: Any) -> None:
        raise TimeLimit(seconds)

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
