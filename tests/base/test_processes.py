"""Programs that take too long are ended, with all processes that they have started."""

import os
import subprocess
import sys
import time

import pytest

from neuroncore.base import processes

# starts a program, prints its id, and waits
STARTING = """
import subprocess, sys, time
inner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(inner.pid, flush=True)
time.sleep(60)
"""


def test_the_output_and_the_exit_code_are_returned():
    done = processes.run([sys.executable, "-c", "print('text'); raise SystemExit(3)"], 60)
    assert (done.stdout, done.stderr, done.returncode) == (b"text\n", b"", 3)


@pytest.mark.skipif(os.name != "posix", reason="process groups")
def test_processes_of_a_program_that_takes_too_long_end_with_it():
    with pytest.raises(subprocess.TimeoutExpired) as late:
        processes.run([sys.executable, "-c", STARTING], 2.0)
    inner = int(late.value.stdout)
    for _ in range(200):
        if not _runs(inner):
            return
        time.sleep(0.01)
    raise AssertionError(f"{inner} runs on")


def _runs(process):
    """Return whether a process is running, and is not a zombie."""
    try:
        os.kill(process, 0)
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
