"""Lines about work that takes long."""

import os
import re
import sys
import threading

import pytest

from neuroncore.base import jit
from neuroncore.base import progress as module
from neuroncore.base.progress import progress


@pytest.fixture
def told(monkeypatch):
    """Does some work, until it has been asked so many times for what to say."""
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


def test_a_log_has_a_line_each_time_that_it_took_twice_as_long(told, capsys):
    told(3)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == [f"neuroncore: 0 s, {n} instructions" for n in (1, 2, 3)]


def test_on_a_terminal_the_line_goes_away(told, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    told(1)
    said = capsys.readouterr().err
    assert re.fullmatch(r"(\r\d+ s, \d instructions\033\[K)+\r\033\[K", said)


def test_what_is_soon_done_says_nothing(monkeypatch, capsys):
    monkeypatch.delenv("NEURONCORE_PROGRESS")
    with progress(lambda: "1 instruction"):
        pass
    assert capsys.readouterr().err == ""


def test_who_wants_no_lines_has_none(monkeypatch, capsys):
    monkeypatch.setenv("NEURONCORE_PROGRESS", "0")
    before = threading.active_count()
    with progress(lambda: "1 instruction"), progress(lambda: "a part"):
        assert threading.active_count() == before and module._current.task is None
    jit.say_that_it_compiles.__wrapped__()
    assert capsys.readouterr().err == ""


def test_a_part_is_told_of_in_place_of_the_whole(told, capsys):
    with progress(lambda: "the whole"):
        told(2)
    said = capsys.readouterr().err
    assert "2 instructions" in said and module._current.task is None


def test_compiling_is_told_of(told, capsys, monkeypatch):
    monkeypatch.setattr(jit, "compiling", lambda: True)
    told(2)
    assert "1 instructions; compiling loops (once per install)" in capsys.readouterr().err


def test_time_that_loops_take_to_compile_does_not_count(told, capsys, monkeypatch):
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


def test_an_error_of_the_work_ends_the_lines(told):
    with pytest.raises(ZeroDivisionError), progress(lambda: ""):
        raise ZeroDivisionError
    assert module._current.task is None and not module._watcher._tasks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_before_a_fork_there_is_no_thread(told):
    told(1)
    assert module._watcher._thread is not None
    module._watcher.leave()
    assert module._watcher._thread is None
    told(1)
