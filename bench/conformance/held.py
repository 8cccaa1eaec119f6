"""Run an unmodified published script, and compare every kernel that it launches with a reference.

    python bench/conformance/held.py FILE MODULE:TABLE [ARGUMENT ...]

FILE is run as a script. MODULE is a module of this folder with a dict TABLES, whose entry TABLE is
a dict too: it maps the name of a kernel, or "*" for any kernel, to a Reference. The reference gets
copies of the arguments of each launch, and the results of the launch must agree with the results of
the reference. The run also fails if a kernel is not in the table, or if the script never launches a
kernel of the table. These comparisons are necessary because many scripts only print numbers, or
compare one kernel with another.
"""

from __future__ import annotations

import importlib
import inspect
import runpy
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np

import neuroncore

neuroncore.activate()

from neuroncore.core.core import running
from neuroncore.frontend.neuronxcc.nki.kernel import Kernel as OlderKernel
from neuroncore.frontend.nki.kernel import Kernel
from neuroncore.numerics.formats import lookup
from neuroncore.report.compare import Incomparable, compare


@dataclass(frozen=True)
class Reference:
    """The function that a kernel computes, and the allowed relative L2 error. The default is 1e-5
    for float32 results, and the gap between 1 and the next number for narrower formats. A kernel
    that rounds intermediate values to a narrower format needs another `tolerance`. If entries of
    the first axis are independent, only the first `part` of them are compared."""

    function: Callable[..., Any]
    tolerance: float | None = None
    part: int | None = None


class Disagreement(AssertionError):
    """The results of a launch do not agree with the reference."""


class Held:
    """Compares launches with their references. It keeps the number of launches of each kernel, and
    the worst error."""

    def __init__(self, references: Mapping[str, Reference]) -> None:
        self.references = references
        self.launched: Counter[str] = Counter()
        self.worst: dict[str, float] = {}

    @contextmanager
    def launches(self) -> Any:
        """A context manager in which every launch is compared with its reference."""
        launches = {kind: kind.__call__ for kind in (Kernel, OlderKernel)}

        def held(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            launch = next(launches[kind] for kind in launches if isinstance(kernel, kind))
            if running() is not None:  # called by another kernel, as a part of it
                return launch(kernel, *args, **kwargs)
            bound = inspect.signature(kernel.function).bind(*args, **kwargs)
            bound.apply_defaults()
            part = self.reference(kernel.function.__name__).part
            given = {
                name: numpy_of(_first(v, part), copied=True)
                for name, v in _arguments(bound).items()
            }
            result = launch(kernel, *args, **kwargs)
            self.hold(kernel.function.__name__, given, result)
            return result

        for kind in launches:
            kind.__call__ = held  # type: ignore[method-assign]
        try:
            yield
        finally:
            for kind, launch in launches.items():
                kind.__call__ = launch  # type: ignore[method-assign]

    def reference(self, kernel: str) -> Reference:
        found = self.references.get(kernel) or self.references.get("*")
        if found is None:
            raise Incomparable(f"no reference for the kernel {kernel}")
        return found

    def hold(self, kernel: str, given: dict[str, Any], result: Any) -> None:
        reference = self.reference(kernel)
        self.launched[kernel] += 1
        got, want = _arrays(result), _arrays(reference.function(*given.values()))
        if len(got) != len(want):
            raise Incomparable(
                f"{kernel} returns {len(got)} arrays, its reference returns {len(want)}"
            )
        for number, (a, b) in enumerate(zip(got, want)):
            error = compare(numpy_of(_first(a, reference.part)), b)
            self.worst[kernel] = max(self.worst.get(kernel, 0.0), error.rel_l2)
            allowed = tolerance(a) if reference.tolerance is None else reference.tolerance
            if not error.rel_l2 <= allowed:
                raise Disagreement(
                    f"{kernel} result {number} has a relative L2 error of {error.rel_l2:.3g}; "
                    f"{allowed:.3g} is allowed. The error is largest at {error.worst}: "
                    f"got {error.got}, want {error.want}"
                )

    def finish(self) -> None:
        for kernel in self.references:
            if not (self.launched[kernel] if kernel != "*" else self.launched):
                raise Incomparable(f"the script never launched {kernel}")
        for kernel, error in self.worst.items():
            print(f"held {kernel}: launches {self.launched[kernel]}, relative L2 {error:.2g}")


def _arguments(bound: inspect.BoundArguments) -> dict[str, Any]:
    """Return the arguments of a call by name, including those in **kwargs."""
    kinds = bound.signature.parameters
    given: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        given |= value if kinds[name].kind is inspect.Parameter.VAR_KEYWORD else {name: value}
    return given


def _first(value: Any, count: int | None) -> Any:
    """Return the first `count` entries of an array. Return other values unchanged, and every value
    if `count` is None."""
    return value[:count] if count is not None and getattr(value, "ndim", 0) else value


def numpy_of(value: Any, copied: bool = False) -> Any:
    """Return an argument or a result as a numpy array. Torch's floats become float32, except
    float64; torch's integers keep their type.

    Values that are not arrays are returned unchanged.
    """
    if isinstance(value, tuple | list):
        return type(value)(numpy_of(v, copied) for v in value)
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
        plain = value.detach().cpu()
        floating = plain.is_floating_point() and str(plain.dtype) != "torch.float64"
        return np.array((plain.float() if floating else plain).numpy())
    return value.copy() if copied and isinstance(value, np.ndarray) else value


def tolerance(result: Any) -> float:
    """Return the relative L2 error that one rounding to the format of the result explains; at least
    1e-5 for float32."""
    form = lookup(str(result.dtype).removeprefix("torch."))
    if form.is_integer:
        return 0.0
    return 1e-5 if form == "float32" else float(form.eps)


def _arrays(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [array for item in value for array in _arrays(item)]
    return [value] if hasattr(value, "dtype") else []


class Documented(MetaPathFinder):
    """An import finder for neuronxcc.nki.docs.examples, where the vendor's package has the kernels
    of the tutorials. It finds the files in the folder of the script."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not name.startswith("neuronxcc.nki.docs"):
            return None
        file = self.home / f"{name.rpartition('.')[2]}.py"
        if file.is_file():
            return spec_from_file_location(name, file)
        return ModuleSpec(name, None, is_package=True)


def table(place: str) -> Mapping[str, Reference]:
    """Return the table that a text MODULE:TABLE names. MODULE is a module of this folder."""
    module, _, name = place.partition(":")
    found: Mapping[str, Reference] = importlib.import_module(module).TABLES[name]
    return found


def main() -> None:
    file, place, *arguments = sys.argv[1:]
    held = Held(table(place))
    sys.argv = [file, *arguments]
    home = Path(file).parent.resolve()
    sys.path.insert(0, str(home))
    sys.meta_path.insert(0, Documented(home))
    with held.launches():
        try:
            runpy.run_path(file, run_name="__main__")
        except SystemExit as leaving:
            if leaving.code:
                raise
    held.finish()


if __name__ == "__main__":
    # so that tables that import `held` use the classes of this module
    sys.modules["held"] = sys.modules["__main__"]
    main()
