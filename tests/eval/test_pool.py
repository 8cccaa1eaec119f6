"""Processes of a pool that are killed, and processes whose pool is killed."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from candidates import killed_once

from neuroncore.eval import Candidate, ProcessLimits, pool

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="isolation needs Linux")
SCRIPT = """
import os, signal
from neuroncore.eval import ProcessLimits
from neuroncore.eval.court import Court

court = Court(lambda asked, parts: {"error": None, "process": os.getpid()}, ProcessLimits())
print(court.judged(None, []).entries["process"], flush=True)
signal.pause()
"""


def test_a_killed_process_loses_no_candidate(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "judged_batch", killed_once)
    setting = pool.JudgingSetting(str(tmp_path / "mark"), 0, "process", ProcessLimits(), why=False)
    batches = [(Candidate(str(n), ""),) for n in range(4)]
    found = [name for each in pool.Processes(1).run(setting, batches) for name in each]
    assert sorted(found) == ["0", "1", "2", "3"] and (tmp_path / "mark").exists()


def test_the_process_that_judges_ends_with_its_pool():
    parent = subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True)
    with parent:
        judge = int(parent.stdout.readline())
        parent.kill()
    ends = time.monotonic() + 20
    while is_alive(judge) and time.monotonic() < ends:
        time.sleep(0.01)
    assert not is_alive(judge)


def is_alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
