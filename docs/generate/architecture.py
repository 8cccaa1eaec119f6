"""Write docs/architecture.md from the docstrings of the packages.

python docs/generate/architecture.py
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
PAGE = DOCS / "architecture.md"

# The path of an instruction; tests/test_architecture.py runs these lines.
PATH = """\
from neuroncore import machine
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.core.core import Core, on
from neuroncore.frontend.nki import isa as nisa, language as nl
from neuroncore.base.options import Options
from neuroncore.report.summary import summary
from neuroncore.time.schedule import schedule

trn2 = machine.load("trn2")
clause = INSTRUCTIONS["tensor_tensor"]
core = Core(trn2, Options())
with on(core):
    a, b, c = (nl.full((128, 64), value, nl.float32) for value in (1, 2, 0))
    nisa.tensor_tensor(dst=c, data1=a, data2=b, op=nl.add)
call = core.program.calls[-1]
assert call.instruction is clause and (c.numpy() == 3).all()
cost = clause.cost(call, trn2)
timeline = schedule(core.program, trn2)
assert timeline.busy[-1] == cost.busy_ns
print(summary(timeline)["total_time"])
"""

HEAD = """\
# Architecture

This page follows a line of a kernel, step by step, until it becomes a figure in a report. The facts
about the hardware are in three places, and all other code reads these facts:

* a clause in `isa/` defines an *instruction*
* a file in `isa/machines/` defines a *machine*
* a row in `neuroncore/numerics/formats.py` defines a number *format*

[CONTRIBUTING.md](../CONTRIBUTING.md) explains how to add an instruction, a machine or a format.
The [glossary](glossary.md) defines the terms of the code.

## The path

```python
{path}```

* **The machine** is data: limits, clocks and rates, each with its source. No other code contains
  the capabilities of a generation.
* **The clause** is a function in `isa/`. Annotations define the legal operands. The decorator
  defines the engines, the rules and the cost. The docstring states the equation. `isa/` is
  installed as `neuroncore.isa`; the first use of an instruction loads all clauses into one table.
* **The core** contains the memories, the options, the findings and the record. A launch
  (`frontend/launch.py`) creates one or two cores, turns the argument arrays into tensors in HBM,
  and calls the kernel. `on` makes a core the current core, which the functions of the API use.
* **Tiles** are views of storage: an offset, a shape and strides, in a memory and a format. All
  tiles that differ only in their offset share one `Geometry` (`memory/geometry.py`). For each
  `Geometry`, three things are computed only once: checks of calls, numpy strides, and the meanings
  of indices. So it takes little time to create a tile with a known `Geometry`.
* **The instruction runs** in two generated functions of its clause. `docs/generate/functions.py`
  writes the files of these functions.
  * The kernel calls the first function (`frontend/instructions.py`). It binds the arguments, checks
    the call unless an equal call was checked before (`core/legality.py`), and appends a row to the
    record.
  * The second function (`core/execute.py`) computes the result and writes it to the destination
    immediately, in program order. A replay calls this function too.
  * A `Call` is a use of an instruction with certain shapes, formats and operators, but without
    data. Some clauses make every decision that depends on the Call only once, and return a `Run`,
    which is a function of the data. The Call keeps the Run for its later uses (`core/binding.py`).
* **The record** (`Program`) contains a row of numbers for each instruction. The row identifies the
  Call of the instruction, its source line, and its windows, which are the elements of tensors that
  it reads and writes. The row also contains the numbers that may differ between uses of the Call.
  Other data, such as which instructions touch the same bytes, are computed when they are needed.
  The file of a record (`record/saved.py`) consists of JSON and columns of integers. The file is
  checked when it is read.
* **The replay** (`replay/cursor.py`) executes a record again, with the same functions but without
  the kernel. A replay may have other inputs, or inspect tiles before and after any instruction. A
  Run may list its steps (`clause/alu.py`), which are the loops that it calls. Consecutive
  instructions with steps are executed by one call of compiled code (`replay/batches.py`), with
  the same loops.
* **The compiled program** (`time/compiled.py`) is the record with the changes that the device's
  compiler would make, as far as they are known. The compiler leaves out repeated loads and
  unnecessary copies. It chooses an engine for instructions for which the kernel names none. It
  spills to HBM the tiles that do not fit into SBUF. The schedule, the counters and the reports all
  read the compiled program, so they agree.
* **The schedule** (`time/schedule.py`) reads only the compiled program. It combines the costs of
  the clauses, the dependencies of the bytes and the order of a compiler into a timeline.
* **Reports** are functions of the timeline and the record.

NKI has two dialects: today's API, and the older API `neuronxcc.nki`. Both issue the same
instructions, under different names. With `--precision`, each instruction is also executed in
float64. `neuroncore score` schedules saved records.

## Packages

Each package (a folder of `neuroncore/`) is in a layer, and imports only from lower layers. The
layers are listed in `pyproject.toml`, and `lint-imports` checks them. The table has the first
sentence of each package's docstring.

"""

TAIL = """
Other contracts of `lint-imports`:

{contracts}

`kernels/` has programs to read, `tests/` checks every claim, `bench/` measures, and
`docs/generate/` writes generated pages.

`docs/generate/architecture.py` writes this page. A test fails if it is stale.
"""


def sentence(module: str) -> str:
    """Return the first sentence of the docstring of a module or a folder."""
    place = ROOT.joinpath(*module.split("."))
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    first = paragraph.partition(". ")[0]
    return first.rstrip(".:") + "."


def linter() -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = tomllib.loads(
        (ROOT / "pyproject.toml").read_text("utf-8")
    )["tool"]["importlinter"]
    return found


def layers() -> list[list[str]]:
    """Return the modules of each layer, from the top."""
    listed = linter()["contracts"][0]["layers"]
    assert isinstance(listed, list)
    return [layer.replace(" ", "").split("|") for layer in listed]


def packages() -> Iterator[str]:
    yield "| layer | package | contents |"
    yield "| --- | --- | --- |"
    count = len(layers())
    for number, modules in enumerate(layers()):
        for module in (package for each in modules for package in inside(each)):
            name = module.removeprefix("neuroncore.")
            yield f"| {count - number} | `{name}` | {sentence(module)} |"


def inside(module: str) -> list[str]:
    """Return a package and the packages in it."""
    place = ROOT.joinpath(*module.split("."))
    files = sorted(place.rglob("__init__.py")) if place.is_dir() else [place.with_suffix(".py")]
    files = [file for file in files if "alias" not in file.relative_to(ROOT).parts]
    found = (file.parent if place.is_dir() else file.with_suffix("") for file in files)
    return [".".join(package.relative_to(ROOT).parts) for package in found]


def page() -> str:
    others = "\n".join(f"* {contract['name']}" for contract in linter()["contracts"][1:])
    return HEAD.format(path=PATH) + "\n".join(packages()) + "\n" + TAIL.format(contracts=others)


if __name__ == "__main__":
    PAGE.write_text(page())
