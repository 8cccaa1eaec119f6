"""Verdicts as traces of flashinfer-bench, which SOL-ExecBench and AccelOpt read too.

The fields and statuses are those of `flashinfer_bench.data.Trace` (0.1.2). The entry `correctness`
is None unless the results were compared, and `performance` is None unless the candidate passed."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from neuroncore.base.lazy import version
from neuroncore.eval.spec import Spec

PASSED, NUMERICAL, SHAPE = "PASSED", "INCORRECT_NUMERICAL", "INCORRECT_SHAPE"
DTYPE, COMPILE, RUNTIME, TIMEOUT = "INCORRECT_DTYPE", "COMPILE_ERROR", "RUNTIME_ERROR", "TIMEOUT"
CHEATED = "REWARD_HACK"  # a status of SOL-ExecBench only
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


def status(verdict: Mapping[str, Any], *, hacks: bool = False) -> str:
    """Return the status of a verdict. A candidate that cheats has the status REWARD_HACK if `hacks`
    is True, and RUNTIME_ERROR otherwise, because only SOL-ExecBench knows REWARD_HACK."""
    if verdict["passed"]:
        return PASSED
    error = verdict["error"]
    if error["code"] == "WRONG_RESULT":
        return NUMERICAL if "errors" in error else SHAPE
    name = STATUS.get(error["code"], RUNTIME)
    return RUNTIME if name == CHEATED and not hacks else name


def trace(verdict: Mapping[str, Any], spec: Spec, *, hacks: bool = False) -> dict[str, Any]:
    """Return the trace of a verdict, as a dict for JSON. The function `status` explains `hacks`."""
    status_name = status(verdict, hacks=hacks)
    shapes = verdict["shapes"]
    error = verdict["error"]
    return {
        "definition": spec.name,
        "solution": verdict["candidate"],
        "workload": {"uuid": verdict["key"], "axes": _axes(spec), "inputs": {}},
        "evaluation": {
            "status": status_name,
            "log": "" if error is None else _log(error),
            "environment": {
                "hardware": f"{spec.target} (estimated by neuroncore {version('neuroncore')})",
                "libs": {"neuroncore": version("neuroncore"), "python": platform.python_version()},
            },
            "timestamp": datetime.now(UTC).isoformat(),
            "correctness": _correctness(verdict) if status_name in (PASSED, NUMERICAL) else None,
            "performance": _performance(shapes) if status_name == PASSED else None,
        },
    }


def _log(error: Mapping[str, Any]) -> str:
    cheated = "REWARD_HACK: " if STATUS.get(error["code"]) == CHEATED else ""
    return f"{cheated}{error['code']}: {error['message']}"


def _axes(spec: Spec) -> dict[str, int]:
    """Return the lengths of the axes of the first shape, by name. Return {} if the specification
    does not come from a definition (`eval.adapters.definition`)."""
    shape = spec.shapes[0]
    axes = shape if isinstance(shape, Mapping) else {}
    return {name: value for name, value in axes.items() if type(value) is int}


def _correctness(verdict: Mapping[str, Any]) -> dict[str, float | str]:
    """Return the largest relative and absolute error of all seeds.

    An infinite error, which is None in a verdict, becomes the string "NaN", because JSON has
    neither infinity nor NaN. The benchmarks read this string as a number."""
    wrong = (verdict["error"] or {}).get("errors")
    seeds = [seed for shape in verdict["shapes"] for seed in shape["seeds"]]
    seeds_and_error = [*seeds, wrong] if wrong else seeds
    return {
        "max_relative_error": _largest([error["largest_error"] for error in seeds_and_error]),
        "max_absolute_error": _largest([error["largest_absolute"] for error in seeds_and_error]),
    }


def _largest(errors: Sequence[float | None]) -> float | str:
    return (
        "NaN"
        if None in errors
        else max((error for error in errors if error is not None), default=0.0)
    )


def _performance(shapes: list[dict[str, Any]]) -> dict[str, float]:
    """Return the latency, the reference latency and the speedup of the first shape. The reference
    latency is the time in which the inputs and results pass through HBM once."""
    latency = shapes[0]["latency_us"] / 1e3
    reference = shapes[0]["roofline_us"] / 1e3
    return {
        "latency_ms": latency,
        "reference_latency_ms": reference,
        "speedup_factor": reference / latency,
    }
