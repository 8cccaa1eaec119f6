"""NKIBench of AccelOpt: problems with a numpy reference, and with baselines that use the older API.

A reference file defines get_inputs, forward, transform_to_nki_inputs and transform_nki_outputs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from neuroncore.base.errors import UsageError
from neuroncore.eval import files
from neuroncore.eval.spec import Spec

TOLERANCE = 2e-5  # relative L2, of accelopt/kernel_wrapper.py
TOLERANCES = {"mamba": 3e-5}  # of accelopt/eval_numpy.py
CONSTANTS = 8 << 20  # bytes: baselines bring masks and identity matrices
SUMMARY = "summary.json"
PRELUDE = """
import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
from neuronxcc.nki import trace
from neuronxcc.nki.language import par_dim
"""  # the names that the benchmark defines before a kernel


class Problem(NamedTuple):
    """A problem: the names of its operator and its case in the benchmark's summary file, and the
    files of its reference and baseline."""

    operator: str
    case: str
    reference: Path
    baseline: Path


def problems(folder: Path) -> dict[str, list[Problem]]:
    """Return the problems by operator. `folder` is a clone of AccelOpt, or NKIBench in it. Raises
    UsageError if it has no summary."""
    root = folder / "NKIBench" if (folder / "NKIBench").is_dir() else folder
    try:
        summary = json.loads((root / SUMMARY).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{root / SUMMARY} can't be read: {error}") from None
    return {operator: [*_cases(root, operator, entry)] for operator, entry in summary.items()}


def _cases(root: Path, operator: str, entry: dict[str, Any]) -> Sequence[Problem]:
    return [
        Problem(operator, case, root / implementation["task"], root / implementation["kernel"])
        for case, case_entry in entry["cases"].items() for implementation in case_entry["impls"][:1]
    ]  # fmt: skip


def problem(name: str, folder: Path) -> Problem:
    """Return the problem OPERATOR or OPERATOR/CASE. Raises UsageError if there is none."""
    known = problems(folder)
    operator, _, case = name.partition("/")
    for candidate in known.get(operator, ()):
        if case in ("", candidate.case):
            return candidate
    raise UsageError(f"NKIBench has no {name!r}; it has {', '.join(known)}")


def spec(name: str, folder: Path) -> Spec:
    """Return the specification of OPERATOR or OPERATOR/CASE: the benchmark's inputs, reference and
    tolerance. Raises UsageError if it can't be read."""
    named_problem = problem(name, folder)
    task = files.module(named_problem.reference)
    return Spec(
        reference=task.forward,
        inputs=lambda seed, _: _inputs(task, seed),
        shapes=[name],
        name=name,
        tol=TOLERANCES.get(named_problem.operator, TOLERANCE),
        order="compiled",
        entry=("kernel", "optimized_kernel"),
        constants=CONSTANTS,
        adapt=task.transform_to_nki_inputs,
        finish=task.transform_nki_outputs,
        prelude=PRELUDE,
        files=(named_problem.reference,),
    )


def _inputs(task: ModuleType, seed: int) -> Sequence[Any]:
    np.random.seed(seed)
    return tuple(task.get_inputs())
