"""The candidates of autocomp's published searches, with the inputs of the harness of their problem,
and solutions with which searches begin."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from types import ModuleType

sys.path.append(str(Path(__file__).parents[1] / "conformance"))

import autocomp_candidates as published
from case import Case, Hole, Random, Row, executed, inside, loaded

PREAMBLE = """\
import math
import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
"""
SOLUTIONS: dict[str, tuple[Random | float, ...]] = {
    "1_layernorm_ref.py": (
        *(Random("float32", (4096, 8192)), 1e-5),
        *(Random("float32", (8192,)),) * 2,
    ),
    "2_maxpool_ref.py": (Random("float32", (4096, 4096)), 3),
}


def case(row: Row, checkout: Path, path: str) -> Case:
    """Return the launch for a row. `path` is the file of a solution, or of the trace of a search.
    For a trace, the kernel's name ends with the number of the candidate."""
    if Path(path).name in SOLUTIONS:
        return Case(inside(checkout, path), "solution", SOLUTIONS[Path(path).name], module=solution)
    _, numbered, candidate = row["kernel"].rpartition("#")
    if not numbered:
        raise Hole(f"{row['kernel']} is not a candidate of a search")
    number = int(candidate)
    search = path.removeprefix("examples/").removesuffix("_trace.py")
    if search not in published.SEARCHES:
        raise Hole(f"no harness is known for {path}")

    def module(file: Path) -> ModuleType:
        with tempfile.TemporaryDirectory() as scratch:
            script = Path(scratch, f"{Path(search).name}_{number}.py")
            script.write_text(published.script(checkout, search, number))
            return loaded(script)  # the script ends before its folder is removed

    return Case(inside(checkout, path), "", module=module, settings=(number,))


def solution(file: Path) -> ModuleType:
    """Return the module of a solution, executed after the imports that the search puts before
    it."""
    return executed(PREAMBLE + file.read_text(), file)
