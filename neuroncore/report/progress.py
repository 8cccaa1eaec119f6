"""Lines on standard error about work that takes long: what it is, and for how long so far."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from neuroncore.core.core import Core

QUIET_SECONDS = 2.0  # on a terminal, where someone waits
LOG_SECONDS = 10.0  # elsewhere, for the first line; each next one is due after twice the time


@contextmanager
def progress(said: Callable[[], str]) -> Iterator[None]:
    """While something runs, tell what it has done so far: on a terminal in one line that changes
    and goes away, in notebooks and logs in a few lines that stay."""
    watch = _on_a_terminal if sys.stderr.isatty() else _in_a_log
    finished = threading.Event()
    watcher = threading.Thread(target=watch, args=(finished, said, sys.stderr), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        finished.set()
        watcher.join()


def issued(core: Core | None) -> str:
    """What has been done by a launch under way, or by the last, which begins on this core."""
    program = core.program if core is not None else None
    return f"{program.issued if program is not None else 0} instructions"


def _on_a_terminal(finished: threading.Event, said: Callable[[], str], stream: TextIO) -> None:
    begun = time.monotonic()
    shown = False
    while not finished.wait(0.5):
        elapsed = time.monotonic() - begun
        if elapsed > QUIET_SECONDS:
            shown = True
            print(f"\r{elapsed:.0f} s, {said()}\033[K", end="", file=stream, flush=True)
    if shown:
        print("\r\033[K", end="", file=stream, flush=True)


def _in_a_log(finished: threading.Event, said: Callable[[], str], stream: TextIO) -> None:
    waited, more = 0.0, LOG_SECONDS
    while not finished.wait(more):
        waited += more
        print(f"neuroncore: {waited:.0f} s, {said()}", file=stream, flush=True)
        more = waited
