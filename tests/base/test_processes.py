"""Programs that take too long are ended with all that they have started."""

import os
import subprocess
import sys
import time

import pytest

from neuroncore.base import processes

# starts a program, says which one, and waits
STARTING = """
import subprocess, sys, time
inner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(inner.pid, flush=True)
time.sleep(60)
"""


def test_what_it_printed_and_its_code_are_given():
    done = processes.run([sys.executable, "-c", "print('told'); raise SystemExit(3)"], 60)
    assert (done.stdout, done.stderr, done.returncode) == (b"told\n", b"", 3)


@pytest.mark.skipif(os.name != "posix", reason="process groups")
def test_what_a_late_program_started_ends_with_it():
    with pytest.raises(subprocess.TimeoutExpired) as late:
        processes.run([sys.executable, "-c", STARTING], 2.0)
    inner = int(late.value.stdout)
    for _ in range(200):
        if not _runs(inner):
            return
        time.sleep(0.01)
    raise AssertionError(f"{inner} runs on")


def _runs(process):
    """Whether a process is there, and not just waits to be asked how it ended."""
    try:
        os.kill(process, 0)
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
