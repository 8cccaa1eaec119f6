"""Makes specifications from NKIBench, the benchmark of AccelOpt. Each problem has a reference in
numpy, and a baseline: a kernel for the older API (`neuronxcc.nki`).

The file of a reference defines get_inputs, forward, transform_to_nki_inputs and
transform_nki_outputs.
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

TOLERANCE = 2e-5  # relative L2 error; source: accelopt/kernel_wrapper.py
TOLERANCES = {"mamba": 3e-5}  # source: accelopt/eval_numpy.py
CONSTANTS = 8 << 20  # bytes; the constants of baselines are masks and identity matrices
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
    files of its reference and its baseline."""

    operator: str
    case: str
    reference: Path
    baseline: Path


def problems(folder: Path) -> dict[str, list[Problem]]:
    """Return the problems of each operator, by the operator's name. Raise UsageError if there is no
    summary file.

    `folder`: a clone of AccelOpt, or the folder NKIBench in a clone"""
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
    """Return the problem with the name OPERATOR or OPERATOR/CASE. Raise UsageError if there is
    none."""
    known = problems(folder)
    operator, _, case = name.partition("/")
    for candidate in known.get(operator, ()):
        if case in ("", candidate.case):
            return candidate
    raise UsageError(f"NKIBench has no {name!r}; it has {', '.join(known)}")


def spec(name: str, folder: Path) -> Spec:
    """Return the specification of a problem, with the benchmark's inputs, reference and tolerance.
    `name` is OPERATOR or OPERATOR/CASE. Raise UsageError if the problem can't be read."""
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
