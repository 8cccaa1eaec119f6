"""Starts the process that forks candidates (`eval.zygote`), and exchanges requests and answers with
it."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

from neuroncore.eval import frames
from neuroncore.eval.isolation import Level, ProcessLimits
from neuroncore.eval.zygote import READY, Assignment, CandidateWork, End, readable

PROGRAM = "from neuroncore.eval.zygote import main; main()"
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
TRIES = 2  # how often a request is tried if the process that forks candidates ends


class Zygote:
    """The process that forks a process for each request to run a candidate. It has loaded the
    modules that candidates need. A Zygote must be closed."""

    def __init__(
        self,
        work: CandidateWork,
        limits: ProcessLimits,
        level: Level,
        folders: tuple[str, ...] = (),
    ) -> None:
        """Start the process. Candidates may read `folders`, in addition to the folders of Python
        and of this package."""
        places = (*readable(), *folders)
        self._assignment = Assignment(work, limits, level, places, _environment())
        self._process = self._started()

    def kill(self) -> None:
        """End the process at once. The next request starts a new process."""
        self._process.kill()

    def close(self) -> None:
        """Ask the process to end after its current request, and wait until it ends."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        root = str(Path(__file__).parents[2])
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**_environment(), "PYTHONPATH": root},
            start_new_session=True,
            bufsize=0,
        )
        assert process.stdin is not None and process.stdout is not None
        frames.send(process.stdin.fileno(), pickle.dumps(self._assignment))
        if frames.receive(process.stdout.fileno()) != READY:
            raise RuntimeError("the process that forks candidates did not start")
        return process

    def played(self, request: Any) -> tuple[bytes, End]:
        """Run a candidate as `request` says. Return the bytes of the answer, and how the
        candidate's process ended. If the process that forks candidates has ended, start a new one
        first."""
        for _ in range(TRIES):
            try:
                return self._asked(request)
            except (EOFError, OSError, ValueError):
                self.kill()
                self.close()
                self._process = self._started()
        return b"", End("KILLED", 0, 0, 0.0, 0.0, 0)

    def _asked(self, request: Any) -> tuple[bytes, End]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        frames.send(stdin.fileno(), pickle.dumps(request))
        end = End(**json.loads(frames.receive(stdout.fileno())))
        return frames.receive(stdout.fileno()), end


def meaning(end: End, limits: ProcessLimits) -> str:
    """Return a sentence that states why a candidate's process was refused."""
    if end.refusal == "TIME":
        return (
            f"the process took more than {limits.cpu_seconds} s of CPU time, or more than "
            f"{limits.seconds:g} s of wall time"
        )
    if end.refusal == "LINGERS":
        return "the process continued after its answer, and was ended"
    if end.refusal == "BAD_ANSWER":
        return f"the process wrote an answer of more than {limits.answer >> 20} MiB"
    if end.signal:
        return f"the process ended by signal {end.signal}"
    return "the process ended"


def _environment() -> dict[str, str]:
    """Return the environment variables for candidates. From the user's environment, only the
    variables that determine the folder of compiled loops are passed on."""
    from_user = {
        name: os.environ[name]
        for name in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "HOME")
        if name in os.environ
    }
    fixed = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "NEURONCORE_PROGRESS": "0"}
    return {**fixed, **dict.fromkeys(ONE_THREAD, "1"), **from_user}
