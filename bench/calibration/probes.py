"""Kernels that scripts of voyager-compiler generate: chains of short instructions, and maxima over
tiles of rows."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

from case import Case, Hole, Random, Row, executed, inside, loaded, sizes

IMAGE = Random("float32", (4096, 4096))


def case(row: Row, checkout: Path, path: str) -> Case:
    """Return the launch for a row. The end of the kernel's name has the arguments for the function
    `source` of the script, which generates the kernel."""
    file, name = inside(checkout, path), row["kernel"].removeprefix("voyager/")
    if pool := re.fullmatch(r"maxpool_tile(\d+)", name):
        return written(file, (IMAGE,), int(pool[1]))
    if chain := re.fullmatch(r"fusion_(\w+)_(separate|fused)", name):
        size = sizes(row)
        wide, column = (Random("float32", (128, width)) for width in (size["w"], 1))
        given = chain[1], size["w"], chain[2] == "fused", size["steps"]
        return written(file, (wide, wide, column), *given)
    raise Hole(f"it is not known how {path} generates {row['kernel']}")


def written(file: Path, arguments: tuple[Random, ...], *given: object) -> Case:
    def module(script: Path) -> ModuleType:
        kernel = Path("generated.py")  # in the current folder, which belongs to this case
        kernel.write_text(loaded(script).source(*given))
        return executed(kernel.read_text(), kernel)

    return Case(file, "kernel", arguments, module=module, settings=given)
