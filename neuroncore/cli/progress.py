"""A line on the terminal about work that takes longer than two seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

QUIET_SECONDS = 2.0


@contextmanager
def progress(issued: Callable[[], int]) -> Iterator[None]:
    """While something runs, tell how many instructions it has issued; on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    finished = threading.Event()
    watcher = threading.Thread(target=_watch, args=(finished, issued), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        finished.set()
        watcher.join()


def _watch(finished: threading.Event, issued: Callable[[], int]) -> None:
    begun = time.monotonic()
    shown = False
    while not finished.wait(0.5):
        elapsed = time.monotonic() - begun
        if elapsed > QUIET_SECONDS:
            shown = True
            _show(f"\r{elapsed:.0f} s, {issued()} instructions")
    if shown:
        _show("\r\033[K")


def _show(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)
