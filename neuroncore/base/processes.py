"""Programs that are run for a limited time, with all that they start."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence


def run(words: Sequence[str], seconds: float) -> subprocess.CompletedProcess[bytes]:
    """Run a program in a new process group, without input, and return its output.

    Raises subprocess.TimeoutExpired, with what was printed until then, if it takes longer. Then,
    and if this process is interrupted, the program is ended with all that it has started.
    """
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
