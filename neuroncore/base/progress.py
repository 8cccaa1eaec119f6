"""Reports the progress of long operations on standard error: a description and the time so far."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property

from neuroncore.base import jit

# The first line is printed after this time. In a log, each further line is printed after twice the
# time of the line before it.
QUIET_SECONDS = 2.0
POLL_SECONDS = 0.5
IDLE_POLLS = 4  # the thread ends if it polls more often than this without finding a task

Describe = Callable[[], str]


class _Task:
    """The work of one thread. `parts` lists a function for each running operation, outermost first.
    A function returns the description of its operation. Only the innermost operation is
    reported."""

    def __init__(self) -> None:
        self.parts: list[Describe] = []
        self.begun, self.due = time.monotonic(), QUIET_SECONDS
        self.compiled_before = jit.seconds_compiling()
        self.stream = sys.stderr
        self.has_reported = False

    @cached_property
    def on_a_terminal(self) -> bool:
        return self.stream.isatty()

    def print_line(self) -> None:
        """Print a line about the innermost operation if one is due. On a terminal, it replaces the
        previous line."""
        elapsed = time.monotonic() - self.begun
        # compilations are not counted, because they are reported separately
        working = elapsed - (jit.seconds_compiling() - self.compiled_before)
        if working < self.due:
            return
        self.has_reported = True
        description = self.parts[-1]() + "; compiling loops (once per install)" * jit.compiling()
        if self.on_a_terminal:
            print(f"\r{elapsed:.0f} s, {description}\033[K", end="", file=self.stream, flush=True)
        else:
            print(f"neuroncore: {elapsed:.0f} s, {description}", file=self.stream, flush=True)
            self.due = 2 * working

    def erase(self) -> None:
        if self.has_reported and self.on_a_terminal:
            print("\r\033[K", end="", file=self.stream, flush=True)


class _Watcher:
    """One thread that reports the progress of all tasks. Starting a thread for each task would take
    half as long as a small kernel."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: list[_Task] = []
        self._thread: threading.Thread | None = None
        self._leaving = threading.Event()

    def add(self, task: _Task) -> None:
        with self._lock:
            self._tasks.append(task)
            if self._thread is None:
                self._leaving = threading.Event()
                thread = threading.Thread(target=self._watch, args=(self._leaving,), daemon=True)
                self._thread = thread
                thread.start()

    def remove(self, task: _Task) -> None:
        with self._lock:
            self._tasks.remove(task)
            task.erase()

    def leave(self) -> None:
        """End the thread before the process is forked, because a fork does not copy threads."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._leaving.set()
        if thread is not None:
            thread.join()

    def _watch(self, leaving: threading.Event) -> None:
        idle = 0
        while not leaving.wait(POLL_SECONDS):
            with self._lock:
                idle = 0 if self._tasks else idle + 1
                if idle > IDLE_POLLS:
                    self._thread = None
                    return
                for task in self._tasks:
                    task.print_line()


_watcher = _Watcher()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_watcher.leave)


class _CurrentTask(threading.local):
    """The task of this thread."""

    task: _Task | None = None


_current = _CurrentTask()


class _Operation:
    """The context manager for one operation that `progress` reports. The outermost operation of a
    thread adds the thread's task to the watcher, and removes it at the end."""

    def __init__(self, describe: Describe) -> None:
        self._describe = describe

    def __enter__(self) -> None:
        self._task, self._is_outermost = _current.task, False
        if self._task is None and jit.tells():
            self._task, self._is_outermost = _Task(), True
        if self._task is None:
            return
        self._task.parts.append(self._describe)
        if self._is_outermost:
            _current.task = self._task
            _watcher.add(self._task)

    def __exit__(self, *error: object) -> None:
        if self._task is None:
            return
        if self._is_outermost:  # remove the task first: the watcher needs at least one part
            _current.task = None
            _watcher.remove(self._task)
        self._task.parts.pop()


def progress(describe: Describe) -> AbstractContextManager[None]:
    """Return a context manager that reports an operation while it is active.

    `describe` returns the description of the operation. On a terminal, the report is one line,
    which is updated and then erased. In notebooks and logs, the report is a few lines. If
    operations are nested, only the innermost is reported. NEURONCORE_PROGRESS=0 turns reports
    off."""
    return _Operation(describe)
