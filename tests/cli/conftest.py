"""A kernel and a script, as files in the working directory."""

import sys

import pytest
from cli_files import KERNEL, SCRIPT


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "")  # what the script sets is undone
    monkeypatch.delitem(sys.modules, "mine", raising=False)  # another test's
    (tmp_path / "mine.py").write_text(KERNEL)
    (tmp_path / "script.py").write_text(KERNEL + SCRIPT)
    return tmp_path / "mine.py"
