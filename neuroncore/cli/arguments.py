"""Kernel arguments from the command line, and functions that the command line names."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import sys
from collections.abc import Callable
from math import prod
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from neuroncore.base.errors import UsageError, reading, unknown
from neuroncore.base.lazy import Lazy
from neuroncore.base.source import encoding_error, imported
from neuroncore.frontend.arguments import with_rank
from neuroncore.frontend.settings import target_machine
from neuroncore.numerics.formats import Format, lookup

if TYPE_CHECKING:
    from neuroncore.capture import files
else:
    files = Lazy("neuroncore.capture.files")

ARRAY = re.compile(r"(\w+)\[(\s*\d+\s*(?:,\s*\d+\s*)*),?\s*\]")


class NotPython(UsageError):
    """Python cannot read a file. The message begins with file and line."""


def argument(text: str, rng: np.random.Generator) -> Any:
    """Return an array of random numbers for `float32[128,512]`, or the value of a Python literal.

    Raises UsageError for other texts, and for arrays that exceed the machine's HBM.
    """
    match = ARRAY.fullmatch(text.strip())
    if match is None:
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            raise UsageError(
                f"--args {text!r} is neither an array such as float32[128,512] nor a Python literal"
            ) from None
    form = lookup(match[1])
    shape = tuple(int(n) for n in match[2].split(","))
    target, size = target_machine(), prod(shape) * form.itemsize
    if size > target.hbm.stack_bytes:
        room = f"the HBM of {target.name} has {target.hbm.stack_bytes}"
        raise UsageError(f"--args {text!r} can't be created: it has {size:,} bytes, and {room}")
    try:
        return _random(form, shape, rng)
    except (MemoryError, ValueError) as error:
        raise UsageError(f"--args {text!r} can't be created: {error}") from None


def _random(form: Format, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    if form.is_float:
        return rng.standard_normal(shape, np.float32).astype(form.numpy)
    low, high = form.range
    return rng.integers(max(low, -8), min(high, 8), shape, endpoint=True).astype(form.numpy)


def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file.

    Raise UsageError if the file cannot be read or is a saved run. Raise NotPython if Python cannot
    read its text."""
    if not path.is_file():
        raise UsageError(f"{path} is a folder" if path.is_dir() else f"there is no file {path}")
    linecache.checkcache(str(path.absolute()))  # the file may have changed since the last run
    linecache.checkcache(str(path))
    with reading(path):
        content = path.read_bytes()
    try:
        if b"\0" not in content and encoding_error(content) is None:
            compile(content, str(path), "exec", dont_inherit=True)
            return ast.parse(content, str(path))
    except SyntaxError as error:
        raise NotPython(f"{path}:{error.lineno or 1}: {error.msg}") from None
    except (RecursionError, MemoryError):
        raise NotPython(f"{path}:1: nested too deeply for Python") from None
    if saved := files.saved_run(path, content):
        raise UsageError(saved)
    if files.is_capture(path):
        raise UsageError(
            f"{path} is a file from a device, not a Python file: `neuroncore why`, `view` and "
            "`diff` read it"
        )
    raise _not_text(path, content)


def _not_text(path: Path, content: bytes) -> NotPython:
    """Return the error for the first byte that is not UTF-8. If all bytes are UTF-8, return the
    error for the first null byte.

    Python's own error about a null byte has no line number."""
    if (found := encoding_error(content)) is None:
        line = content.partition(b"\0")[0].count(b"\n") + 1
        found = line, "a null byte, which Python does not allow"
    return NotPython(f"{path}:{found[0]}: {found[1]}")


def module(path: Path) -> ModuleType:
    """Import a file as a module.

    The file's folder becomes the first of `sys.path`, as when Python runs the file. Raise
    UsageError if the name does not end in .py, and the errors of `parsed`."""
    parsed(path)
    name = re.sub(r"\W", "_", path.stem)
    if path.suffix != ".py":
        raise UsageError(f"{path} is not a Python file: its name does not end in .py")
    if (folder := str(path.parent.resolve())) not in sys.path:
        sys.path.insert(0, folder)
    return imported(name, path.absolute())


def function(text: str, home: ModuleType) -> Callable[..., Any]:
    """Return the function that `text` names: NAME in the kernel's file, or FILE.py:NAME."""
    file, _, name = text.rpartition(":")
    return member(module(Path(file.rstrip(":"))) if file else home, name)


def member(home: ModuleType, name: str) -> Callable[..., Any]:
    """Return a function of a module.

    If there is no such function, raise UsageError, which suggests the most similar name."""
    attribute = getattr(home, name, None)
    if not callable(attribute):
        functions = [n for n, value in vars(home).items() if callable(value)]
        raise unknown(f"{home.__file__} has no function {name!r}", name, functions)
    return attribute  # type: ignore[no-any-return]


def check_call(
    called: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Raise UsageError if a kernel or a reference does not accept these arguments."""
    try:
        signature = inspect.signature(called)
    except ValueError:  # a built-in function without a signature
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        count = len(args) + len(kwargs)
        passed = "1 argument was passed" if count == 1 else f"{count} arguments were passed"
        raise UsageError(f"{name}{signature}: {error}; {passed}") from None


def arguments_from(
    make: Callable[..., Any], rng: np.random.Generator, rank: int = 0
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and keyword arguments that `make` returns.

    The result of `make` is a dict, a tuple, a list or one argument. If `make` has a parameter
    `rank`, the rank is passed to it. If it has another parameter, a random generator is passed."""
    _, named = with_rank(make, ((), {}), rank)
    wants = inspect.signature(make).parameters.keys() - {"rank"}
    values = make(rng, **named) if wants else make(**named)
    if isinstance(values, dict):
        return (), values
    return (tuple(values) if isinstance(values, tuple | list) else (values,)), {}
