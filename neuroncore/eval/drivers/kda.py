"""A program with the interface of verify.py in kda-for-trainium: it judges candidates for
NKIBench's problems, and prints their speedups over the baselines.

    python -m neuroncore.eval.drivers.kda --op silu --candidate candidate.py

The environment variable NKIBENCH_ROOT names the folder of NKIBench; the default is
../AccelOpt/NKIBench. The exit code is 0 if the candidates for all problems pass, 1 if one fails,
and 2 if an option or a file is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from neuroncore.base.errors import UsageError
from neuroncore.eval.adapters import nkibench
from neuroncore.eval.isolation import ProcessLimits
from neuroncore.eval.pool import Pool, evaluate

PILOT = ("matmul", "silu", "rmsnorm_matmul")
BASELINES = Path("baselines.json")  # in the current folder, as the program expects
SEEDS, FAST = 5, 1


def verified(operator: str, candidate: Path, folder: Path, seeds: int, timeout: int) -> Any:
    """Judge a candidate for a problem. Return the fields that verify.py has for the problem:
    passed, latency_ms, error and summary_metrics. `timeout` is the limit of CPU time in seconds."""
    spec = replace(nkibench.spec(operator, folder), seeds=seeds)
    limits = ProcessLimits(cpu_seconds=timeout, seconds=2.0 * timeout)
    (verdict,) = evaluate(spec, [candidate], Pool(limits=limits))
    error, latency = verdict["error"], verdict["latency_us"]
    return {
        "passed": verdict["passed"],
        "latency_ms": None if latency is None else latency / 1e3,
        "error": None if error is None else f"{error['code']}: {error['message']}",
        "summary_metrics": verdict["shapes"][0]["summary"] if verdict["passed"] else {},
    }


def main(words: Sequence[str] | None = None) -> int:
    """Judge the candidate or the baselines that the options name. Return the exit code."""
    arguments = _parser().parse_args(words)
    try:
        return _main(arguments)
    except UsageError as error:
        print(f"verify: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="verify", description=(__doc__ or "").split("\n\n")[0])
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--op", help="judge only this problem (default: all problems)")
    group.add_argument("--pilot", action="store_true", help="judge only the pilot problems")
    parser.add_argument("--candidate", type=Path, help="a kernel for --op (default: the baseline)")
    parser.add_argument("--build-baselines", action="store_true", help=f"write {BASELINES}")
    parser.add_argument("--fast", action="store_true", help="use one hidden seed, not five")
    parser.add_argument("--num-cores", type=int, choices=(1, 2, 4, 8), default=1)
    parser.add_argument(
        "--timeout", type=int, default=900, help="limit of a candidate's CPU time, in seconds"
    )
    return parser


def _main(arguments: argparse.Namespace) -> int:
    if arguments.candidate and (not arguments.op or arguments.build_baselines):
        raise UsageError("--candidate needs --op, and can't be used with --build-baselines")
    if arguments.num_cores != 1:
        raise UsageError("problems of NKIBench run on one core: use --num-cores 1")
    folder = Path(os.environ.get("NKIBENCH_ROOT", "../AccelOpt/NKIBench"))
    operators = (
        [arguments.op]
        if arguments.op
        else [*(PILOT if arguments.pilot else nkibench.problems(folder))]
    )
    baselines: dict[str, Any] = json.loads(BASELINES.read_text()) if BASELINES.exists() else {}
    speedups: list[float] = []
    passed = 0
    for operator in operators:
        problem = nkibench.problem(operator, folder)
        file, seeds = arguments.candidate or problem.baseline, FAST if arguments.fast else SEEDS
        fields = verified(operator, file, folder, seeds, arguments.timeout)
        passed += fields["passed"]
        if arguments.build_baselines and fields["passed"]:
            baselines[operator] = baseline(problem, fields)
        speedup = _speedup(baselines.get(operator), fields)
        speedups += [] if speedup is None else [speedup]
        print(line(operator, fields, speedup), flush=True)
    if arguments.build_baselines:
        BASELINES.write_text(json.dumps(baselines, indent=1) + "\n")
    if speedups:
        print(f"geomean {statistics.geometric_mean(speedups):.3f}x of {len(speedups)} problems")
    return int(passed < len(operators))


def baseline(problem: nkibench.Problem, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the entry for a problem in the file of baselines. `fields` is the result of `verified`
    for the problem's baseline."""
    return {
        "baseline_latency_ms": fields["latency_ms"],
        "case_id": problem.case,
        "kernel": str(problem.baseline),
    }


def _speedup(before: dict[str, Any] | None, fields: dict[str, Any]) -> float | None:
    if before is None or not fields["passed"]:
        return None
    return float(before["baseline_latency_ms"] / fields["latency_ms"])


def line(operator: str, fields: dict[str, Any], speedup: float | None) -> str:
    """Return the line to print for a problem. If the candidate passed, it is PASS with the latency,
    the speedup, and the percentages of the time in which engines are active. Otherwise it is FAIL
    with the error."""
    if not fields["passed"]:
        return f"FAIL {operator:24s} {fields['error']}"
    metrics = fields["summary_metrics"]
    shares = "  ".join(f"{name} {metrics[name]:.0f}" for name in metrics if name.endswith("_pct"))
    over = "" if speedup is None else f"  {speedup:.3f}x"
    return f"PASS {operator:24s} {fields['latency_ms']:.4f} ms (estimated){over}  {shares}"


if __name__ == "__main__":
    raise SystemExit(main())
