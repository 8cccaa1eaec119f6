"""Run one kernel of a file by `neuroncore run --json`, with inputs and a reference from this
folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from outcome import Outcome, blamed, normalised, run


def kernel_case(
    name: str,
    file: str,
    *,
    inputs: str = "",
    reference: str = "",
    options: tuple[str, ...] = (),
    says: tuple[str, ...] = (),
    seconds: float = 900.0,
    gigabytes: float = 12.0,
    env: Mapping[str, str] | None = None,
) -> Outcome:
    """Run a kernel and return the outcome. `file` is FILE.py or FILE.py::KERNEL; `inputs` and
    `reference` are FILE.py:FUNCTION. `says` has lines that must be printed in this order."""
    command = [sys.executable, "-m", "neuroncore", "run", "--json", *options, file]
    command += ["--inputs", inputs] if inputs else []
    command += ["--ref", reference] if reference else []
    finished = run(command, seconds=seconds, gigabytes=gigabytes, env=env)
    if finished.code is None:
        return Outcome(name, "timed out", "", finished.seconds)
    if not finished.stdout:
        return Outcome(name, *blamed(finished), finished.seconds, (finished.stderr.strip(),))
    report: dict[str, Any] = json.loads(finished.stdout)
    details = tuple(line for launch in report["launches"] for line in _lines(launch))
    verdict, cause = _judged(report)
    printed = iter(finished.stderr.splitlines())
    if verdict == "passed" and not all(line in printed for line in says):
        verdict, cause = "failed", "the expected lines are not printed"
        details += (f"expected {says}", finished.stderr.strip())
    if report["error"]:
        details += (report["error"]["statement"],)
    return Outcome(name, verdict, cause, finished.seconds, details)


def _judged(report: dict[str, Any]) -> tuple[str, str]:
    error = report["error"]
    if report["passed"]:
        return "passed", ""
    if error is None:
        return "failed", "a result disagrees with its reference"
    statement = normalised(error["statement"])
    return (
        ("refused", f"{error['code']}: {statement}") if "code" in error else ("failed", statement)
    )


def _lines(launch: dict[str, Any]) -> list[str]:
    """Return a line with the estimated time of a launch on the device, and the errors of its
    results."""
    time = launch["estimate"]["total_time"] * 1e6
    errors = [f"relative L2 {float(r['rel_l2']):.2g}" for r in launch["results"]]
    return [", ".join([f"{launch['kernel']} on {launch['target']}: {time:.4g} us", *errors])]
