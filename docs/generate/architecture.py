"""Writes docs/architecture.md: how the parts fit, from what the parts say of themselves.

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

# The one path, as a kernel goes it; tests/test_architecture.py runs these lines.
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

One path leads from a line of a kernel to a figure of a report. What stands on it is in few places:
what an *instruction* is, in its clause in `isa/`; what a *machine* is, in its file in
`isa/machines/`; what a number *format* is, in its row in `neuroncore/numerics/formats.py`.
Everything else asks these. [CONTRIBUTING.md](../CONTRIBUTING.md) says how to add one of each.

## The path

```python
{path}```

* **The machine** is data: limits, clocks and rates, each with its source. Nothing else says what a
  generation can do.
* **The clause** is a function in `isa/`: annotations say what each operand may be, the decorator
  which engines run it, what is refused and what it costs, the docstring what it computes. The
  folder is installed as `neuroncore.isa`, and loaded into one table when a row of it is asked for.
* **The core** holds the memories, the options, the findings and the record. A launch
  (`frontend/launch.py`) makes one or two of them, enters arrays as tensors in HBM and calls the
  kernel; `on` is what makes an API function find its core.
* **Tiles** are views of storage: an offset, a shape and strides, in a memory and a format. What is
  the same of all tiles that lie alike, wherever they begin, is one `Geometry`
  (`memory/geometry.py`): what a call knows of them, the numpy strides, what an index means. What
  depends on it is found by identity, so that a kernel's new tiles cost little.
* **The instruction happens** in two generated functions of its clause. The one that the kernel
  calls (`frontend/instructions.py`) binds the arguments, recognizes the call or checks it
  (`core/legality.py`), and appends a row to the record. The other (`core/execute.py`) computes into
  the destination at once, in the program's order; a replay calls it too. The Call keeps the
  function to run (`core/staging.py`): a clause that returns a `Run` has decided everything that
  shapes, formats and operators decide, once. `docs/generate/functions.py` writes both files.
* **The record** (`Program`) is numbers: which distinct call, from which line, on which windows of
  which tensors, with which values. What readers need beside, such as boxes of bytes, is made when
  they ask; a file of it (`record/saved.py`) is JSON and columns, checked when it is read.
* **The replay** executes a record again (`replay/cursor.py`), without the kernel, through the same
  functions: on other inputs, or to look at tiles before and after any instruction.
* **The compiled program** (`time/compiled.py`) is what is left of the record on the device: what is
  loaded once, which copies are written in place, which engine takes what the kernel leaves open,
  what SBUF can't hold. The schedule, the counters and the reports read it, so that they can't
  disagree.
* **The schedule** (`time/schedule.py`) looks at that only. It takes costs from the clauses,
  dependencies from the bytes and an order from what a compiler would do, and gives a timeline.
* **Reports** are functions of the timeline and the record.

The other dialect, `neuronxcc.nki`, has the same clauses under older names; `--precision` follows
the same calls in float64 beside; `neuroncore score` schedules records that were saved.

## Rooms

A room is a folder, or a module that every room reads. It imports only from floors below its own;
`lint-imports` holds that, from `pyproject.toml`, from which this list is made, with what each room
says of itself.

"""

TAIL = """
Beside the floors:

{contracts}

`kernels/` are programs to read, `tests/` holds every claim, `bench/` measures, `docs/generate/`
writes the pages that say so.

This page is written by `docs/generate/architecture.py`; a test fails when it is stale.
"""


def sentence(module: str) -> str:
    """The first sentence of what a module or a folder says of itself."""
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


def floors() -> list[list[str]]:
    """The modules of each floor, from the top."""
    layers = linter()["contracts"][0]["layers"]
    assert isinstance(layers, list)
    return [layer.replace(" ", "").split("|") for layer in layers]


def rooms() -> Iterator[str]:
    yield "| floor | room | what it is |"
    yield "| --- | --- | --- |"
    count = len(floors())
    for number, modules in enumerate(floors()):
        for module in (room for each in modules for room in inside(each)):
            name = module.removeprefix("neuroncore.")
            yield f"| {count - number} | `{name}` | {sentence(module)} |"


def inside(module: str) -> list[str]:
    """A room and the rooms in it."""
    place = ROOT.joinpath(*module.split("."))
    files = sorted(place.rglob("__init__.py")) if place.is_dir() else [place.with_suffix(".py")]
    files = [file for file in files if "alias" not in file.relative_to(ROOT).parts]
    found = (file.parent if place.is_dir() else file.with_suffix("") for file in files)
    return [".".join(room.relative_to(ROOT).parts) for room in found]


def page() -> str:
    others = "\n".join(f"* {contract['name']}" for contract in linter()["contracts"][1:])
    return HEAD.format(path=PATH) + "\n".join(rooms()) + "\n" + TAIL.format(contracts=others)


if __name__ == "__main__":
    PAGE.write_text(page())
