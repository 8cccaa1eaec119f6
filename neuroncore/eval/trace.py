"""Verdicts as traces of flashinfer-bench, which SOL-ExecBench and AccelOpt read too.

The fields and the statuses are those of `flashinfer_bench.data.Trace` (0.1.2). Correctness and
performance are present only for the statuses that define them.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from neuroncore.base.lazy import version
from neuroncore.eval.spec import Spec

PASSED, NUMERICAL, SHAPE = "PASSED", "INCORRECT_NUMERICAL", "INCORRECT_SHAPE"
DTYPE, COMPILE, RUNTIME, TIMEOUT = "INCORRECT_DTYPE", "COMPILE_ERROR", "RUNTIME_ERROR", "TIMEOUT"
CHEATED = "REWARD_HACK"  # of SOL-ExecBench
STATUS = {
    "WRONG_DTYPE": DTYPE,
    "SyntaxError": COMPILE,
    "TIME": TIMEOUT,
    **dict.fromkeys(
        (
            *("CONSTANTS", "RESULT_IS_INPUT", "RESULT_NOT_WRITTEN", "NO_INSTRUCTIONS", "NARROW"),
            *("WRONG_TARGET", "WRONG_CORES", "WRONG_ORDER", "WRONG_INPUTS", "NO_SUCH_OPERATOR"),
            *("BAD_ANSWER", "RECORD_REFUSED", "BELOW_ROOFLINE", "INPUT_WRITTEN", "LINGERS"),
            "RESULT_IS_VIEW",
        ),
        CHEATED,
    ),
}


def status(verdict: Mapping[str, Any]) -> str:
    """Return the status of a verdict."""
    if verdict["passed"]:
        return PASSED
    error = verdict["error"]
    if error["code"] == "WRONG_RESULT":
        return SHAPE if "shape" in error["message"] else NUMERICAL
    return STATUS.get(error["code"], RUNTIME)


def trace(verdict: Mapping[str, Any], spec: Spec) -> dict[str, Any]:
    """Return the trace of a verdict."""
    found = status(verdict)
    shapes = verdict["shapes"]
    seeds = [seed for shape in shapes for seed in shape["seeds"]]
    correctness = {
        "max_relative_error": max((seed["largest_error"] for seed in seeds), default=0.0),
        "max_absolute_error": max((seed["largest_absolute"] for seed in seeds), default=0.0),
    }
    error = verdict["error"]
    return {
        "definition": spec.name,
        "solution": verdict["candidate"],
        "workload": {"uuid": verdict["key"], "axes": {}, "inputs": {}},
        "evaluation": {
            "status": found,
            "log": "" if error is None else f"{error['code']}: {error['message']}",
            "environment": {
                "hardware": f"{spec.target} (estimated by neuroncore {version('neuroncore')})",
                "libs": {"neuroncore": version("neuroncore"), "python": platform.python_version()},
            },
            "timestamp": datetime.now(UTC).isoformat(),
            "correctness": correctness if found in (PASSED, NUMERICAL) and seeds else None,
            "performance": _performance(shapes) if found == PASSED else None,
        },
    }


def _performance(shapes: list[dict[str, Any]]) -> dict[str, float]:
    """The latency, and the time of the roofline in the place of the reference."""
    latency = shapes[0]["latency_us"] / 1e3
    reference = shapes[0]["roofline_us"] / 1e3
    return {
        "latency_ms": latency,
        "reference_latency_ms": reference,
        "speedup_factor": reference / latency,
    }
