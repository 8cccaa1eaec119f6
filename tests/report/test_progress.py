"""Lines about work that takes long."""

import re
import sys
import threading

import pytest

from neuroncore.report import progress as module
from neuroncore.report.progress import progress


@pytest.fixture
def told(monkeypatch):
    """Does some work, until it has been asked so many times for what to say."""
    monkeypatch.setattr(module, "LOG_SECONDS", 0.001)

    def work(times):
        asked, enough = [], threading.Event()

        def said():
            asked.append(len(asked) + 1)
            if len(asked) == times:
                enough.set()
            return f"{len(asked)} instructions"

        with progress(said):
            assert enough.wait(60)

    return work


def test_a_log_has_a_line_each_time_that_it_took_twice_as_long(told, capsys):
    told(3)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == [f"neuroncore: 0 s, {n} instructions" for n in (1, 2, 3)]


def test_on_a_terminal_the_line_goes_away(told, capsys, monkeypatch):
    monkeypatch.setattr(module, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    told(1)
    said = capsys.readouterr().err
    assert re.fullmatch(r"(\r\d+ s, \d instructions\033\[K)+\r\033\[K", said)


def test_what_is_soon_done_says_nothing(capsys):
    with progress(lambda: "1 instruction"):
        pass
    assert capsys.readouterr().err == ""


def test_an_error_of_the_work_ends_the_lines(told):
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError), progress(lambda: ""):
        raise ZeroDivisionError
    assert threading.active_count() <= before
