"""Measure the time before a kernel runs: the import, the command line, the compilation at the first
use, and one more variant of a kernel."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
from issuing import REPEATS, Line, yardstick
from measure import least, least_of_programs, spent

from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.report.summary import summary
from neuroncore.time.schedule import schedule

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
COMMAND = [sys.executable, "-m", "neuroncore"]
COMPILING = 16.6 / 2  # limit in seconds for the first command of the README; it once took 16.6
HELP = 0.05  # the help may take 1.2 times Python's start, plus these seconds


def lines() -> Iterator[Line]:
    yield from start_lines()
    yield from first_use_lines()
    yield from variant_lines()


def first_kernel() -> str:
    """Return the program of the README that is called first.py."""
    return README.read_text().partition("```python\n# first.py\n")[2].partition("```")[0]


def start_lines() -> Iterator[Line]:
    def importing(modules: str) -> list[str]:
        return [sys.executable, "-c", f"import {modules}"]

    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder, "first.py")
        first.write_text(first_kernel())
        python, packages, ours, kernels, told, ran = least_of_programs(
            importing("sys"),
            importing("numpy, ml_dtypes"),
            importing("neuroncore"),
            [sys.executable, "-c", "import neuroncore; neuroncore.activate(); import nki"],
            [*COMMAND, "--help"],
            [*COMMAND, "run", str(first)],
        )
    remark = f"{ours:.3f} s; numpy and ml_dtypes {packages:.3f}, Python {python:.3f}"
    remark += f"; with `import nki` {kernels:.3f}"
    yield "import neuroncore, of numpy and ml_dtypes", ours / packages, 1.3, remark
    yield "neuroncore run first.py, of the same", ran / packages, 3.5, f"{ran:.3f} s"
    allowed = 1.2 * python + HELP
    yield "neuroncore --help, of the time allowed", told / allowed, 1.0, f"{told:.3f} s"


def first_use_lines() -> Iterator[Line]:
    """Yield the line about the compilation by the first command of the README. It happens once
    after an installation."""
    command = [*COMMAND, "run", str(ROOT / "kernels/ch05_matmul.py::blocked")]
    with tempfile.TemporaryDirectory() as folder:
        first, again = (spent(command, NUMBA_CACHE_DIR=folder) for _ in range(2))
    took = first - again
    yield "compiled at first use, of the time allowed", took / COMPILING, 1.0, f"{took:.2f} s"


VARIANT = """
@nki.jit
def variant(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for row in range(0, x.shape[0], {rows}):
        for column in range(0, x.shape[1], {columns}):
            part = slice(row, row + {rows}), slice(column, column + {columns})
            tile = nl.load(x[part])
            nisa.activation(dst=tile, op=nl.exp, data=tile, scale=0.5)
            nl.store(out[part], tile)
    return out
"""


def variant_lines() -> Iterator[Line]:
    """Yield the line about a variant of a kernel in a search: the variant is compiled, run and
    timed in a process that has run other variants."""
    x = np.ones((256, 1024), np.float32)
    sizes = [(rows, columns) for rows in (64, 128) for columns in (256, 512, 1024)]

    def variants() -> None:
        for rows, columns in sizes:
            names: dict[str, Any] = {"nki": nki, "nisa": nisa, "nl": nl}
            text = VARIANT.format(rows=rows, columns=columns)
            exec(compile(text, f"<{rows} x {columns}>", "exec"), names)
            run = launch(names["variant"].function, [x], tensor=NkiTensor)
            program = run.cores[0].program
            assert program is not None
            summary(schedule(program, run.machine))

    add, spent = least(yardstick(), variants)
    each = spent / len(sizes)
    remark = f"{each * 1e3:.1f} ms"
    yield "a variant of a small kernel, of np.add", each / add * REPEATS, 6_000.0, remark
