"""A limit on the time of a command: --time-limit."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from neuroncore.base import source
from neuroncore.base.errors import UsageError

AGAIN = 1.0  # seconds after which a script that goes on is ended again


class TimeLimit(KeyboardInterrupt):
    """The time of a command is over. Programs treat it as Ctrl-C."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def __str__(self) -> str:
        place = source.innermost_place(self.__traceback__)
        where = "" if place is None else f" at {place}"
        return f"--time-limit: ended after {self.seconds:g} s{where}"


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--time-limit",
        type=positive,
        metavar="SECONDS",
        help="end the command after this time, with the line that it has reached (exit code 1)",
    )


def positive(text: str) -> float:
    """Return a positive number. Raises ArgumentTypeError for others."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return seconds


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Raise TimeLimit inside after so many seconds. Raises UsageError where the operating system
    has no alarms."""
    if seconds is None:
        yield
        return
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
