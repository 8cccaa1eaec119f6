"""The candidates of autocomp's published searches, on what the harness of their problem makes."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from types import ModuleType

sys.path.append(str(Path(__file__).parents[1] / "conformance"))

import autocomp_candidates as published
from case import Case, Hole, Row, inside, loaded


def case(row: Row, checkout: Path, path: str) -> Case:
    """`path` is that of a trace; the kernel's name ends with the number of a candidate."""
    _, numbered, candidate = row["kernel"].rpartition("#")
    if not numbered:
        raise Hole(f"{row['kernel']} is no candidate of a search")
    number = int(candidate)
    search = path.removeprefix("examples/").removesuffix("_trace.py")
    if search not in published.SEARCHES:
        raise Hole(f"no harness is known for {path}")

    def module(file: Path) -> ModuleType:
        with tempfile.TemporaryDirectory() as scratch:
            script = Path(scratch, f"{Path(search).name}_{number}.py")
            script.write_text(published.script(checkout, search, number))
            return loaded(script)  # which ends it before its folder goes

    return Case(inside(checkout, path), "", module=module, settings=(number,))
