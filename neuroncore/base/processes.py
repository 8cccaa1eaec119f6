"""Runs programs for a limited time, and ends them together with the processes that they start."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence


def run(words: Sequence[str], seconds: float) -> subprocess.CompletedProcess[bytes]:
    """Run a program in a new process group, with empty standard input. Return its output.

    Raises subprocess.TimeoutExpired, with the output so far, if the program takes more than
    `seconds`. In this case, and if this process is interrupted, the program and all processes that
    it has started are ended."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True
    ) as process:
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            _end(process)
            output, errors = process.communicate()
            raise subprocess.TimeoutExpired(words, seconds, output, errors) from None
        except BaseException:
            _end(process)
            raise
    return subprocess.CompletedProcess(words, process.returncode, output, errors)


def _end(process: subprocess.Popen[bytes]) -> None:
    if os.name == "posix":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
