"""`neuroncore check` without its separate process, which takes half a second to start. Tests of the
process are in tests/checks/test_check.py."""

from dataclasses import replace

from neuroncore.checks import execution


def stay_here(monkeypatch):
    """Make checks run a file in this process."""
    given = execution.run

    def run(*arguments):
        *arguments, limits = arguments
        return given(*arguments, replace(limits, here=True))

    monkeypatch.setattr(execution, "run", run)
