"""The launch of a kernel that was measured, as a row of a table describes it: the kernel, in a file
of a checkout, and its arguments."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from neuroncore.numerics.formats import lookup

Row = Mapping[str, str]
Kernels = Callable[[Path], ModuleType]


class Hole(Exception):
    """The reason why the kernel of a row can't be run."""


class Random(NamedTuple):
    """An array argument of a kernel: its format and shape. Floats are drawn from the normal
    distribution, integers uniformly from 0 to `below` - 1."""

    dtype: str
    shape: tuple[int, ...]
    below: int = 0

    def made(self, rng: np.random.Generator) -> Any:
        form = lookup(self.dtype)
        if form.is_integer:
            return rng.integers(0, self.below, self.shape).astype(form.numpy)
        return rng.standard_normal(self.shape, np.float32).astype(form.numpy)


@dataclass(frozen=True)
class Case:
    """A launch of one kernel. `module` makes a module of the file; `function` is the name of the
    kernel in it, or "" if the module itself launches the kernel.

    `arguments` and `keywords` are the arguments of the kernel; a Random describes an array. Two
    cases share a record if the contents of their files and all other fields except `module` are
    equal.
    """

    file: Path
    function: str
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    grid: tuple[Any, ...] = ()
    module: Kernels | None = None
    # what `module` depends on, and anything else that affects the launch
    settings: tuple[Any, ...] = ()

    def key(self, target: str, version: object) -> str:
        """Return a hash of the case, the machine `target` and the `version` of the file format.
        Rows with equal hashes share a record."""
        given = (self.function, self.arguments, dict(self.keywords), self.grid, self.settings)
        told = hashlib.sha256(repr((target, version, given)).encode())
        told.update(self.file.read_bytes())
        return told.hexdigest()[:20]

    def launch(self) -> None:
        """Run the kernel once, with the current settings."""
        with suppress(SystemExit):
            module = (self.module or loaded)(self.file)
        if not self.function:
            return
        kernel = getattr(module, self.function)
        rng = np.random.default_rng(0)
        arguments = [made(value, rng) for value in self.arguments]
        keywords = {name: made(value, rng) for name, value in self.keywords.items()}
        (kernel[self.grid] if self.grid else kernel)(*arguments, **keywords)


def made(value: Any, rng: np.random.Generator) -> Any:
    """Return an argument of the kernel. If `value` only describes an argument, such as an array,
    make the argument."""
    return value.made(rng) if hasattr(value, "made") else value


def loaded(file: Path, **names: Any) -> ModuleType:
    """Execute a file and return it as a module. The file can import from its folder, and its
    `names` are defined before it is executed."""
    return executed(file.read_text(), file, **names)


def executed(text: str, file: Path, **names: Any) -> ModuleType:
    sys.path.insert(0, str(file.parent))
    module = ModuleType(file.stem)
    vars(module).update(names, __file__=str(file))
    sys.modules[file.stem] = module
    exec(compile(text, file, "exec"), vars(module))
    return module


def with_constants(values: Mapping[str, int]) -> Kernels:
    """Return a function that sets constants in the text of a file to these values, and executes the
    text. The authors of such files ask readers to change the constants. The function raises Hole if
    the file lacks a constant."""

    def changed(file: Path) -> ModuleType:
        text = file.read_text()
        for name, value in values.items():
            text, found = re.subn(rf"^(\s*{name} = )\d+", rf"\g<1>{value}", text, flags=re.M)
            if not found:
                raise Hole(f"{file.name} sets no {name}")
        return executed(text, file)

    return changed


def sizes(row: Row) -> dict[str, int]:
    """Return the sizes in the column `shapes` of a row, which lists them as NAME=NUMBER."""
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", row["shapes"])}


DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def dtype(row: Row) -> str:
    return DTYPES[row["dtype"]]


def inside(checkout: Path, path: str) -> Path:
    file = checkout / path
    if not file.is_file():
        raise Hole(f"the checkout has no {path}")
    return file
