"""Commands of neuroncore that run in isolated processes, for `neuroncore mcp`.

The isolation is the same as for candidates of `neuroncore eval`."""

from __future__ import annotations

import contextlib
import io
import os
import traceback
from collections.abc import Sequence
from typing import NamedTuple

from neuroncore.cli import check as check
from neuroncore.cli import main
from neuroncore.cli import run as run
from neuroncore.cli import why as why
from neuroncore.eval import answers
from neuroncore.eval.answers import Isolation
from neuroncore.eval.forking import Zygote, meaning
from neuroncore.eval.isolation import Level, ProcessLimits
from neuroncore.eval.refusals import Refused


class Commands(NamedTuple):
    """The work of an isolated process: it executes commands of neuroncore in a folder."""

    folder: str
    target: str = "trn2"

    def answer(self, words: Sequence[str]) -> bytes:
        """Execute the words of a command. Return the exit code and the output, as bytes."""
        os.chdir(self.folder)
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            code = _code(words)
        printed = text.getvalue().encode("utf-8", "replace")
        return answers.encoded(answers.RECORDS, [str(code).encode(), printed])


def _code(words: Sequence[str]) -> int:
    try:
        return int(main(words))
    except SystemExit as end:  # argparse exits
        return end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 1


class Printed(NamedTuple):
    """The output of a command, its exit code, and the isolation that its process had."""

    text: str
    code: int
    held: Isolation


class IsolatedCommands:
    """Executes commands of neuroncore, each in an isolated process. Must be closed.

    The process may read `folder` and the paths in `readable`."""

    def __init__(
        self, folder: str, level: Level, limits: ProcessLimits, readable: Sequence[str]
    ) -> None:
        self._limits = limits
        self._zygote = Zygote(Commands(folder), limits, level, (folder, *readable))

    def close(self) -> None:
        self._zygote.close()

    def printed(self, words: Sequence[str]) -> Printed:
        """Execute a command. Raise Refused if its process was ended or did not answer."""
        content, end = self._zygote.played(tuple(words))
        if end.refusal:
            raise Refused(end.refusal, meaning(end, self._limits))
        parts = answers.records(content)
        if len(parts) != 2 or not parts[0].isdigit():
            raise Refused("BAD_ANSWER", "the process did not write its result")
        return Printed(
            parts[1].decode("utf-8", "replace"), int(parts[0]), answers.isolation(content)
        )
