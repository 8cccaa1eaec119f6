"""Progress lines of work that takes long."""

import os
import re
import sys
import threading

import pytest

from neuroncore.base import jit
from neuroncore.base import progress as module
from neuroncore.base.progress import progress


@pytest.fixture
def work_until_asked(monkeypatch):
    """A function that works until its progress text was requested so many times."""
    module._watcher.leave()
    monkeypatch.delenv("NEURONCORE_PROGRESS")
    monkeypatch.setattr(module, "QUIET_SECONDS", 0.001)
    monkeypatch.setattr(module, "POLL_SECONDS", 0.001)

    def work(times):
        asked, enough = [], threading.Event()

        def said():
            asked.append(len(asked) + 1)
            if len(asked) == times:
                enough.set()
            return f"{len(asked)} instructions"

        with progress(said):
            assert enough.wait(60)

    yield work
    module._watcher.leave()


def test_a_log_has_a_line_whenever_the_time_has_doubled(work_until_asked, capsys):
    work_until_asked(3)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == [f"neuroncore: 0 s, {n} instructions" for n in (1, 2, 3)]


def test_on_a_terminal_the_line_is_erased_at_the_end(work_until_asked, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    work_until_asked(1)
    said = capsys.readouterr().err
    assert re.fullmatch(r"(\r\d+ s, \d instructions\033\[K)+\r\033\[K", said)


def test_short_work_prints_nothing(monkeypatch, capsys):
    monkeypatch.delenv("NEURONCORE_PROGRESS")
    with progress(lambda: "1 instruction"):
        pass
    assert capsys.readouterr().err == ""


def test_progress_lines_can_be_turned_off(monkeypatch, capsys):
    monkeypatch.setenv("NEURONCORE_PROGRESS", "0")
    before = threading.active_count()
    with progress(lambda: "1 instruction"), progress(lambda: "a part"):
        assert threading.active_count() == before and module._current.task is None
    jit.say_that_it_compiles.__wrapped__()
    assert capsys.readouterr().err == ""


def test_the_progress_of_a_part_replaces_that_of_the_whole(work_until_asked, capsys):
    with progress(lambda: "the whole"):
        work_until_asked(2)
    said = capsys.readouterr().err
    assert "2 instructions" in said and module._current.task is None


def test_compilation_is_reported(work_until_asked, capsys, monkeypatch):
    monkeypatch.setattr(jit, "compiling", lambda: True)
    work_until_asked(2)
    assert "1 instructions; compiling loops (once per install)" in capsys.readouterr().err


def test_the_time_of_compiling_loops_does_not_count(work_until_asked, capsys, monkeypatch):
    hours = iter(range(0, 10**9, 3600))
    polled = threading.Event()

    def seconds():
        passed = next(hours)
        if passed > 3600:
            polled.set()
        return passed

    monkeypatch.setattr(jit, "seconds_compiling", seconds)
    with progress(lambda: "1 instruction"):
        assert polled.wait(60)
    assert capsys.readouterr().err == ""


def test_an_error_of_the_work_ends_its_lines(work_until_asked):
    with pytest.raises(ZeroDivisionError), progress(lambda: ""):
        raise ZeroDivisionError
    assert module._current.task is None and not module._watcher._tasks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_no_thread_runs_during_a_fork(work_until_asked):
    work_until_asked(1)
    assert module._watcher._thread is not None
    module._watcher.leave()
    assert module._watcher._thread is None
    work_until_asked(1)
