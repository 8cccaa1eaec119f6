"""A published script, unmodified, with every kernel that it launches held against a reference.

    python bench/conformance/held.py FILE MODULE:TABLE [ARGUMENT ...]

runs FILE as a script. MODULE, of this folder, has a dict TABLES, and TABLE in it is a dict as well:
the name of a kernel ("*" for any) -> a Reference. Each
launch gets copies of its arguments put to the reference; what it returns has to agree. A kernel
that the table doesn't have, or that the script never launches, is a failure as well: a script that
only prints, or compares one kernel with another, proves nothing.
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
    """What a kernel computes, and the relative L2 error allowed: by default 1e-5 for a result in
    float32 and the gap between 1 and the next number for a narrower format. A kernel that rounds
    on its way says here to what. Where entries of the first axis have nothing to do with each
    other, `part` says how many of them are enough."""

    function: Callable[..., Any]
    tolerance: float | None = None
    part: int | None = None


class Disagreement(AssertionError):
    """A launch that doesn't agree with its reference."""


class Held:
    """Launches so far, by kernel, and the worst error of each."""

    def __init__(self, references: Mapping[str, Reference]) -> None:
        self.references = references
        self.launched: Counter[str] = Counter()
        self.worst: dict[str, float] = {}

    @contextmanager
    def launches(self) -> Any:
        """Hold every launch from here on against its reference."""
        launches = {kind: kind.__call__ for kind in (Kernel, OlderKernel)}

        def held(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            launch = next(launches[kind] for kind in launches if isinstance(kernel, kind))
            if running() is not None:  # part of a kernel
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
            raise Incomparable(f"{kernel} returns {len(got)} arrays, its reference {len(want)}")
        for number, (a, b) in enumerate(zip(got, want)):
            error = compare(numpy_of(_first(a, reference.part)), b)
            self.worst[kernel] = max(self.worst.get(kernel, 0.0), error.rel_l2)
            allowed = tolerance(a) if reference.tolerance is None else reference.tolerance
            if not error.rel_l2 <= allowed:
                raise Disagreement(
                    f"{kernel} result {number} is off by relative L2 "
                    f"{error.rel_l2:.3g} of {allowed:.3g} allowed, most at {error.worst}: "
                    f"{error.got} for {error.want}"
                )

    def finish(self) -> None:
        for kernel in self.references:
            if not (self.launched[kernel] if kernel != "*" else self.launched):
                raise Incomparable(f"the script never launched {kernel}")
        for kernel, error in self.worst.items():
            print(f"held {kernel}: launches {self.launched[kernel]}, relative L2 {error:.2g}")


def _arguments(bound: inspect.BoundArguments) -> dict[str, Any]:
    """By name, those of **kwargs too."""
    kinds = bound.signature.parameters
    given: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        given |= value if kinds[name].kind is inspect.Parameter.VAR_KEYWORD else {name: value}
    return given


def _first(value: Any, count: int | None) -> Any:
    """The first entries of an array."""
    return value[:count] if count is not None and getattr(value, "ndim", 0) else value


def numpy_of(value: Any, copied: bool = False) -> Any:
    """An argument or result for numpy; what numpy has no name for (bfloat16 of torch) as float32.

    Torch's integers stay as they are. Anything but an array is returned as it is.
    """
    if isinstance(value, tuple | list):
        return type(value)(numpy_of(v, copied) for v in value)
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
        plain = value.detach().cpu()
        floating = plain.is_floating_point() and str(plain.dtype) != "torch.float64"
        return np.array((plain.float() if floating else plain).numpy())
    return value.copy() if copied and isinstance(value, np.ndarray) else value


def tolerance(result: Any) -> float:
    """The relative L2 error that one rounding to the result's format explains."""
    form = lookup(str(result.dtype).removeprefix("torch."))
    if form.is_integer:
        return 0.0
    return 1e-5 if form == "float32" else float(form.eps)


def _arrays(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [array for item in value for array in _arrays(item)]
    return [value] if hasattr(value, "dtype") else []


class Documented(MetaPathFinder):
    """The vendor's package has the tutorials' kernels as neuronxcc.nki.docs.examples: here they are
    the files beside the script."""

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
    """MODULE:TABLE, of a module of this folder."""
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
    sys.modules["held"] = sys.modules["__main__"]  # so that the tables' References are ours
    main()
