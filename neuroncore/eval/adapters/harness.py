"""Makes specifications from problems of autocomp. A problem is a harness: a Python file with a
reference kernel, a place for a candidate, and a test that calls both on random inputs.

The inputs for a seed are the arguments of the test's first call. This process runs the reference
kernel. A candidate may use all names of the harness that do not need torch."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np

from neuroncore.base.errors import UsageError, reading
from neuroncore.eval import files
from neuroncore.eval.adapters import tensors
from neuroncore.eval.spec import Spec
from neuroncore.frontend import alias

TOLERANCE = 1e-2  # for a harness that does not compare by numpy.allclose
LOOSEST = 0.1  # the relative L2 error that is allowed if a harness compares by numpy.allclose
RTOL, ATOL = 1e-5, 1e-8  # defaults of numpy.allclose
TEST = "test_nki"
OLDER = "neuronxcc"  # the package of the older API
LEFT_OUT = {TEST, "benchmark_nki"}  # functions that candidates don't need
ELSEWHERE = {"torch", "torch_xla", "torch_neuronx", "xm", "F"}  # names that kernels don't use
FORMATS = ("float32", "bfloat16", "float16", "tfloat32")  # a harness does not restrict formats


class _FirstCall(Exception):
    """Raised at the first call of a kernel in the test of a harness, to end the test."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__("the first call")
        self.arguments = args, kwargs


def spec(name: str, folder: Path) -> Spec:
    """Return the specification of a harness in `folder`, which is a clone of autocomp. `name` is
    SUITE/NUMBER or SUITE/NUMBER_NAME. Raise UsageError if there is no such harness."""
    suite, _, number = name.partition("/")
    root = folder / "harnesses" if (folder / "harnesses").is_dir() else folder
    candidates = [root / suite / f"{number}.py", *sorted((root / suite).glob(f"{number}_*.py"))]
    file = next((file_name for file_name in candidates if file_name.is_file()), None)
    if file is None:
        raise UsageError(f"{root} has no harness {name!r}")
    return of_file(file)


def of_file(file: Path) -> Spec:
    """Return the specification of the harness in a file. Raise UsageError if the file can't be
    read, or does not call its test."""
    with reading(file):
        source = file.read_text("utf-8")
    names = re.search(rf"{TEST}\(\s*(\w+)\s*,\s*(\w+)\s*\)\s*$", source, re.MULTILINE)
    if names is None:
        raise UsageError(f"{file} has no call {TEST}(REFERENCE, CANDIDATE)")
    reference, entry = names.groups()
    with alias.activated():
        module = files.module(file)
    kernel = getattr(module, reference)
    near = allclose(source)
    return Spec(
        reference=_trusted(kernel),
        inputs=lambda seed, _: _inputs(module, kernel, seed),
        shapes=[file.stem],
        name=f"{file.parent.name}/{file.stem}",
        tol=TOLERANCE if near is None else LOOSEST,
        largest_error=0.1,
        allclose=near,
        target=_target(source),
        order="compiled" if OLDER in source else "scheduled",
        entry=(entry,),
        keywords=_keywords(module, kernel),
        narrow=FORMATS,
        constants=8 << 20,
        prelude=prelude(source),
        files=(file,),
    )


def allclose(source: str) -> tuple[float, float] | None:
    """Return rtol and atol of the calls of numpy.allclose in a harness. Return None if there are no
    calls, if their tolerances differ, or if a tolerance is not a number."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    try:
        tolerances = {
            _tolerances(call) for call in calls if ast.unparse(call.func) == "np.allclose"
        }
    except ValueError:
        return None
    return tolerances.pop() if len(tolerances) == 1 else None


def _tolerances(call: ast.Call) -> tuple[float, float]:
    arguments = {keyword.arg: float(ast.literal_eval(keyword.value)) for keyword in call.keywords}
    return arguments.get("rtol", RTOL), arguments.get("atol", ATOL)


def _target(source: str) -> str:
    """Return the machine that a harness sets. If it sets none, return trn2 for today's API (`nki`),
    and trn1 for the older API (`neuronxcc.nki`), because autocomp measured these kernels on
    trn1."""
    match = re.search(r"NEURON_PLATFORM_TARGET_OVERRIDE\W+(trn\d)", source)
    return match[1] if match else "trn1" if OLDER in source else "trn2"


def _trusted(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls a harness's kernel in this process. Harnesses are trusted."""

    def called(*arguments: Any, **named: Any) -> Any:
        with alias.activated():
            results = kernel(*arguments, **named)
        return tuple(results) if isinstance(results, tuple | list) else results

    return called


def _keywords(module: ModuleType, kernel: Any) -> tuple[str, ...]:
    """Return the names of the arguments that must be passed to the reference by keyword."""
    parameters = inspect.signature(kernel).parameters.values()
    if not any(
        parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD)
        for parameter in parameters
    ):
        return ()
    return tuple(_bound(module, kernel, 0).kwargs)


def _inputs(module: ModuleType, kernel: Any, seed: int) -> Sequence[Any]:
    """Return the arguments of the test's first call for a seed, in the order of the reference's
    parameters. Arguments for a `**` parameter are last."""
    bound = _bound(module, kernel, seed)
    return tuple(map(tensors.as_array, (*bound.args, *bound.kwargs.values())))


def _bound(module: ModuleType, kernel: Any, seed: int) -> inspect.BoundArguments:
    """Return the arguments of the test's first call, with random numbers for `seed`. The test may
    set a seed itself, which has no effect."""
    np.random.seed(seed)
    torch = getattr(module, "torch", None)
    if torch is not None:
        torch.manual_seed(seed)
    with alias.activated(), mock.patch.object(np.random, "seed"), _unseeded(torch):
        try:
            getattr(module, TEST)(_first, _first)
        except _FirstCall as called:
            args, kwargs = called.arguments
            bound = inspect.signature(kernel).bind(*args, **kwargs)
            bound.apply_defaults()
            return bound
    raise UsageError(f"{module.__file__}: {TEST} calls no kernel")


def _unseeded(torch: Any) -> Any:
    return mock.patch.object(torch or mock, "manual_seed", create=True)


def _first(*args: Any, **kwargs: Any) -> Any:
    raise _FirstCall(args, kwargs)


def prelude(source: str) -> str:
    """Return the source to execute before a candidate's source. It contains the imports, constants
    and functions of a harness, except its tests and everything that needs torch."""
    kept = [node for node in ast.parse(source).body if not _is_left_out(node)]
    return "\n".join(map(ast.unparse, kept))


def _is_left_out(node: ast.stmt) -> bool:
    if isinstance(node, ast.If) or getattr(node, "name", None) in LEFT_OUT:
        return True
    if isinstance(node, ast.Import | ast.ImportFrom):
        modules = [module_alias.name for module_alias in node.names]
        roots = [node.module or ""] if isinstance(node, ast.ImportFrom) else modules
        return any(root.partition(".")[0] in ELSEWHERE for root in roots)
    return any(isinstance(part, ast.Name) and part.id in ELSEWHERE for part in ast.walk(node))
