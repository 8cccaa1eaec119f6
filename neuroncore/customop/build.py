"""Compile the sources of a library of operators, with neuroncore's headers, into one program. The
limits and costs of operators are in `isa/customop.toml`.

A compiled program is cached. Its key is a hash of the compiler's command, the output of the
preprocessor, and the generated source.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from neuroncore.base.errors import UsageError
from neuroncore.base.options import cache_folder
from neuroncore.machine import FactReader


@dataclass(frozen=True)
class OperatorLimits:
    """Limits on operators. Sizes are in bytes. A tensor has at most `axes` axes of at most
    `axis_elements` elements, or at most `long_axes` axes of at most `long_axis_elements`."""

    cores: int
    functions: int
    tcm_bytes: int
    stream_bytes: int
    stack_bytes: int
    printed_bytes: int
    axes: int
    axis_elements: int
    long_axes: int
    long_axis_elements: int

    def allow(self, shape: tuple[int, ...]) -> bool:
        """Return whether a tensor of this shape may be passed to an operator or returned by it."""
        largest = max(shape, default=0)
        return (len(shape) <= self.axes and largest <= self.axis_elements) or (
            len(shape) <= self.long_axes and largest <= self.long_axis_elements
        )


@dataclass(frozen=True)
class Time:
    """Times in ns: one access to HBM (`touch_ns`); and one element that is copied to TCM, a memory
    on each processor of GpSimd, used there and copied back (`tcm_element_ns`)."""

    touch_ns: float
    tcm_element_ns: float


@cache
def _reader() -> FactReader:
    reader = FactReader.of("customop.toml")
    reader.exactly(reader.raw, ("sources", "limits", "time"), "")
    return reader


@cache
def limits() -> OperatorLimits:
    """Return the limits. Raises DefinitionError if the file is wrong."""
    return _reader().section(OperatorLimits, "limits", _reader().raw["limits"])


@cache
def time() -> Time:
    """Return the times. Raises DefinitionError if the file is wrong."""
    return _reader().section(Time, "time", _reader().raw["time"])


COMPILERS = ("g++", "clang++", "c++")
HEADERS = Path(__file__).with_name("headers")
# The device's compiler uses C++14. size_t has 32 bits there, so sizes in braces are not narrowed.
FLAGS = ("-std=c++14", "-O1", "-w", "-Wno-narrowing")
DEFINITION = re.compile(r"\.\s*def\s*\(\s*\"([^\"]+)\"\s*,\s*&?\s*[\w:]+\s*,\s*\"([^\"]+)\"\s*\)")


@dataclass(frozen=True)
class Sources:
    """The source files and options of a library, with absolute paths. `compute` are the files that
    define kernel functions, and `shape` the files that register operators. `flags` are more options
    of the compiler."""

    compute: tuple[Path, ...]
    shape: tuple[Path, ...]
    cores: int
    flags: tuple[str, ...]


def compiler(chosen: str | None) -> list[str]:
    """Return the command of a C++ compiler: the chosen one, $CXX, an installed one, or the zig
    package.

    Raises UsageError if there is none.
    """
    for command in (chosen, os.environ.get("CXX")):
        if command:
            words = shlex.split(command)
            if shutil.which(words[0]) is None:
                raise UsageError(f"there is no C++ compiler called {words[0]!r}")
            return words
    for name in COMPILERS:
        if shutil.which(name):
            return [name]
    if find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "c++"]
    raise UsageError(
        "custom operators need a C++ compiler: install g++ or clang (apt install g++), or "
        "zig's with pip install 'neuroncore[customop]'"
    )


def build(sources: Sources, chosen: str | None, verbose: bool) -> Path:
    """Return the file of a library's program. The program is compiled if it is not in the cache.
    `chosen` is the command of the compiler; None selects one (`compiler`).

    Raises UsageError if a source is missing or does not compile, or if a registered kernel is not
    defined.
    """
    for path in (*sources.compute, *sources.shape):
        if not path.is_file():
            raise UsageError(f"there is no source {path}")
    command = _command(sources, compiler(chosen))
    parts = [f'#include "{path}"' for path in (*sources.shape, *sources.compute)]
    parts.append("#include <neuroncore/program.h>")
    preprocessed = _compiled([*command, "-E", "-P"], "\n".join(parts), verbose=False)
    text = "\n".join([*parts, _table(sources, preprocessed)])
    key = hashlib.sha256("\0".join([*command, preprocessed, text]).encode()).hexdigest()
    program = _cache() / f"{key[:32]}.so"
    if not program.is_file():
        unfinished = program.with_suffix(f".{os.getpid()}")
        _compiled([*command, "-o", str(unfinished)], text, verbose)
        unfinished.replace(program)
    return program


def _command(sources: Sources, command: list[str]) -> list[str]:
    operator_limits = limits()
    defined = {
        "NEURONCORE_CORES": sources.cores,
        "NEURONCORE_TCM_BYTES": operator_limits.tcm_bytes,
        "NEURONCORE_STREAM_BYTES": operator_limits.stream_bytes,
    }
    definitions = [f"-D{name}={value}" for name, value in defined.items()]
    included = ["-I", str(HEADERS)]
    return [*command, *FLAGS, *definitions, *included, *sources.flags, "-x", "c++", "-"]


def _table(sources: Sources, preprocessed: str) -> str:
    """Return the C++ source of the function that lists the registered kernels by name. Raises
    UsageError if no operator is registered, or if a registered kernel is not defined."""
    registered = DEFINITION.findall(preprocessed)
    if not registered:
        files = ", ".join(path.name for path in sources.shape)
        raise UsageError(
            f"{files} registers no operator; use NEURON_LIBRARY(name, m) {{ m.def(...); }}"
        )
    names = list(dict.fromkeys(kernel for _, kernel in registered))
    code = "".join(path.read_text(errors="replace") for path in sources.compute)
    for operator, kernel in registered:
        if not re.search(rf"\b{re.escape(kernel.rpartition(':')[2])}\s*\(", code):
            files = ", ".join(path.name for path in sources.compute)
            raise UsageError(
                f"the kernel function of {operator!r} is {kernel!r}, which {files} does not define"
            )
    rows = ", ".join(f'{{"{name}", neuroncore::function(&{name})}}' for name in names)
    return f"std::vector<neuroncore::Kernel> neuroncore::kernels() {{ return {{{rows}}}; }}\n"


def _compiled(command: list[str], text: str, verbose: bool) -> str:
    if verbose:
        print(shlex.join(command))
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode:
        raise UsageError(f"the sources do not compile ({command[0]}):\n{done.stderr.strip()}")
    return done.stdout


def _cache() -> Path:
    """Return the folder of the cache."""
    folder = cache_folder() / "customop"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def absolute(paths: Sequence[str | os.PathLike[str]]) -> tuple[Path, ...]:
    return tuple(Path(path).resolve() for path in paths)
