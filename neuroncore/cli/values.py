"""Kernel arguments from the command line, and functions named there."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from neuroncore.errors import UsageError, did_you_mean
from neuroncore.numerics.formats import lookup

ARRAY = re.compile(r"(\w+)\[([\d,\s]+)\]")


def argument(text: str, rng: np.random.Generator) -> Any:
    """`float32[128,512]` is an array of random numbers; anything else is a Python literal."""
    match = ARRAY.fullmatch(text.strip())
    if match is None:
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            raise UsageError(
                f"--args {text!r} is neither an array such as float32[128,512] nor a Python literal"
            ) from None
    form = lookup(match[1])
    shape = tuple(int(n) for n in match[2].split(",") if n.strip())
    if form.is_float:
        return rng.standard_normal(shape, np.float32).astype(form.numpy)
    low, high = form.range
    return rng.integers(max(low, -8), min(high, 8), shape, endpoint=True).astype(form.numpy)


def module(path: Path) -> ModuleType:
    """A file as a module; its folder goes first on the path, as when Python runs it."""
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    name = re.sub(r"\W", "_", path.stem)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file")
    if str(path.parent.resolve()) not in sys.path:
        sys.path.insert(0, str(path.parent.resolve()))
    loaded = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, loaded)
    spec.loader.exec_module(loaded)
    return loaded


def function(text: str, home: ModuleType) -> Callable[..., Any]:
    """NAME in the kernel's file, or FILE.py:NAME."""
    file, _, name = text.rpartition(":")
    return member(module(Path(file.rstrip(":"))) if file else home, name)


def member(home: ModuleType, name: str) -> Callable[..., Any]:
    found = getattr(home, name, None)
    if not callable(found):
        functions = [n for n, value in vars(home).items() if callable(value)]
        hint = did_you_mean(name, functions)
        message = f"{home.__file__} has no function {name!r}"
        raise UsageError(f"{message}; {hint}" if hint else message)
    return found  # type: ignore[no-any-return]


def arguments_from(
    make: Callable[..., Any], rng: np.random.Generator
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments from a function; it gets a generator if it takes one."""
    made = make(rng) if inspect.signature(make).parameters else make()
    if isinstance(made, dict):
        return (), made
    return (tuple(made) if isinstance(made, tuple | list) else (made,)), {}
