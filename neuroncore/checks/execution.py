"""Runs a checked file in a separate process, and reads its output.

`python -m neuroncore.checks.execution BYTES WORD ...` runs neuroncore's command line with the
words, in a process that has at most BYTES of address space.
"""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuroncore.base import processes
from neuroncore.base.errors import UsageError
from neuroncore.base.findings import Finding
from neuroncore.base.source import Place

PROGRAM = "neuroncore.checks.execution"
WRONG_USAGE, PREFIX = 2, "neuroncore: "  # the exit code and the message of wrong usage


@dataclass(frozen=True)
class ExecutionLimits:
    """The limits of the process that runs a file.

    `seconds`: wall time
    `memory`: bytes of address space
    `here`: if True, the file runs in the present process, which must already have limits"""

    seconds: float = 300.0
    memory: int = 16 << 30
    here: bool = False


@dataclass(frozen=True)
class FileRun:
    """The outcome of running a file.

    `launches`: how many launches finished
    `unfinished`: a sentence with the reason if the run ended early
    `orders`: a sentence for each launch that was replayed in other orders; empty unless requested
    `verified`: a sentence for each launch whose record was compared with the plain reading
        (`neuroncore.plain`); empty unless requested
    `raised`: whether the Python code of a kernel raised an exception
    `ours`: whether a fault of neuroncore ended the run"""

    findings: Sequence[Finding]
    launches: int
    unfinished: str | None = None
    orders: Sequence[str] = ()
    verified: Sequence[str] = ()
    raised: bool = False
    ours: bool = False


def run(
    file: Path,
    kernel: str | None,
    target: str | None,
    words: Sequence[str],
    limits: ExecutionLimits,
) -> FileRun:
    """Run a file, or one of its kernels, with `neuroncore run --json` and the options `words`.

    An error that refuses the kernel becomes a finding. If there is no result, `FileRun.unfinished`
    states the reason. Raise UsageError for wrong usage of the command."""
    what_runs = f"{file}::{kernel}" if kernel else str(file)
    arguments = ["run", "--json", what_runs, *(["--target", target] if target else []), *words]
    if limits.here:
        return _here(arguments)
    try:
        process = processes.run(
            [sys.executable, "-m", PROGRAM, str(limits.memory), *arguments], limits.seconds
        )
    except subprocess.TimeoutExpired:
        return FileRun([], 0, f"stopped after {limits.seconds:g} s")
    return _file_run(process.stdout.decode("utf-8", "replace"), process.returncode, process.stderr)


def _here(words: Sequence[str]) -> FileRun:
    """Run neuroncore's command line with `words` in this process."""
    output, errors, code = io.StringIO(), io.StringIO(), 0
    before, sys.argv = sys.argv, ["neuroncore", *words]
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            # run_module fails under `python -m pytest`, whose loader has no code of modules
            runpy.run_path(str(Path(__file__).parents[1] / "__main__.py"), run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.argv = before
    return _file_run(output.getvalue(), code, errors.getvalue().encode())


def _file_run(output: str, code: int, errors: bytes) -> FileRun:
    """Return the outcome of a run from the command's output, exit code and standard error."""
    try:
        document = json.loads(output)
        launches = document["launches"]
    except (KeyError, ValueError):  # after wrong usage, the output is another document
        last = errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
        if code == WRONG_USAGE and last.startswith(PREFIX):
            raise UsageError(last.removeprefix(PREFIX)) from None
        return FileRun([], 0, f"the process ended with code {code} and without a result: {last}")
    findings = [Finding.from_dict(fields) for launch in launches for fields in launch["findings"]]
    failure = document["error"]
    if failure and failure.get("code"):
        findings.append(_refused(failure))
        failure = None
    orders = [launch["orders"] for launch in launches if "orders" in launch]
    verified = [launch["verify"]["text"] for launch in launches if "verify" in launch]
    if failure is None:
        return FileRun(findings, len(launches), None, orders, verified)
    raised, ours = failure.get("line") is not None, failure.get("ours", False)
    where = f"{failure['file']}:{failure['line']}: " if raised else ""
    reason = where + failure["statement"]
    return FileRun(findings, len(launches), reason, orders, verified, raised, ours)


def _refused(failure: dict[str, Any]) -> Finding:
    """Return the finding for an error (`KernelError.to_dict`) that refused a kernel."""
    place = None
    if failure["line"] is not None:
        column = failure["column"] - 1
        place = Place(failure["file"], failure["line"], column, failure["line"], column + 1, "")
    values = [f"{name} {failure[name]}" for name in ("expected", "got") if failure[name]]
    return Finding(
        failure["code"],
        "; ".join([failure["statement"], *values, *_frames(failure["stack"])]),
        place,
        severity="error",
        because=failure["because"] or "",
        hint=failure["hint"] or "",
        source=f"neuroncore explain {failure['code']}",
    )


def _frames(stack: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the frames of a kernel's error as text, innermost first. Each text has the frame's
    place, and its integer variables such as loop variables."""
    for depth, frame in enumerate(stack):
        numbers = [f"{name}={v}" for name, v in frame.items() if name not in ("function", "place")]
        inside = f" ({', '.join(numbers[:8])})" if numbers else ""
        if depth:
            yield f"called at {frame['place']}{inside}"
        elif inside:
            yield f"in {frame['function']}{inside}"


if __name__ == "__main__":
    _, memory, *words = sys.argv
    with contextlib.suppress(ImportError, ValueError):  # Windows has no such limits, macOS refuses
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    sys.argv = ["neuroncore", *words]
    runpy.run_module("neuroncore", run_name="__main__")
