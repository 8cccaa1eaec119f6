"""Record one kernel: python bench/calibration/one.py ROW FILE [NAME=]PATH ...

ROW is a row of the table as JSON. The record is written to FILE. The paths are checkouts, as for
record.py.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import neuroncore

neuroncore.activate()

import cases
import record

from neuroncore.base.options import Options
from neuroncore.core.core import Core
from neuroncore.frontend.launch import Launch
from neuroncore.frontend.settings import settings
from neuroncore.record.program import Record
from neuroncore.record.saved import save


class Launches:
    """Keeps the launches of a kernel."""

    def __init__(self) -> None:
        self.runs: list[Launch] = []

    def begun(self, core: Core) -> None:
        pass

    def done(self, *ranks: Launch) -> None:
        self.runs += ranks


def main() -> None:
    row, file, *sources = sys.argv[1:]
    wanted = json.loads(row)
    launches, begun = Launches(), time.perf_counter()
    options = Options(matmul="blas")
    checkouts = record.checkouts(sources)
    sys.path += cases.importable(checkouts)
    with settings(wanted["generation"], options, launches, in_every_thread=True):
        cases.case(wanted, checkouts).launch()
    seconds = time.perf_counter() - begun
    (run,) = launches.runs
    programs = [core.program for core in run.cores if core.program is not None]
    about = {
        "kernel": run.kernel,
        "target": run.machine.name,
        "api": "legacy" if wanted["api"].startswith("legacy") else "nki",
        "seconds": seconds,
        "findings": [str(finding) for finding in run.findings],
    }
    save(Record(programs, about), Path(file))
    print(f"{sum(map(len, programs))} instructions in {seconds:.1f} s")


if __name__ == "__main__":
    main()
