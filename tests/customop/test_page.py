"""The program of docs/customop.md runs."""

import re
import shutil
from pathlib import Path

import pytest

from neuroncore.customop.build import COMPILERS
from neuroncore.customop.library import REASONS

PAGE = Path(__file__).parents[2] / "docs/customop.md"

pytestmark = pytest.mark.source


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler is installed")
def test_the_program_of_the_page_runs(tmp_path, monkeypatch):
    blocks = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for language, text in blocks:
        if language == "cpp":
            (tmp_path / text.partition("\n")[0].removeprefix("// ")).write_text(text)
    monkeypatch.chdir(tmp_path)
    (program,) = (text for language, text in blocks if language == "python")
    exec(compile(program, str(PAGE), "exec"), {})


def test_the_page_lists_every_code():
    text = PAGE.read_text()
    assert all(code in text for code in set(REASONS) - {"CRASH", "TIME_LIMIT"})
