"""Run a published script without the packages that it imports but that its kernels do not need.

    python bench/conformance/bystanders.py [--bare PATTERN ...] FILE|-m MODULE [ARGUMENT ...]

A file or a module is run as a script. The packages in BYSTANDERS are usually installed only on
instances that run models. If such a package is not installed, an empty module replaces it: every
name in that module is a class that does nothing. Packages that match a pattern of --bare are
imported without executing their __init__.py.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from fnmatch import fnmatch
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

BYSTANDERS = (
    "huggingface_hub",
    "libneuronxla",
    "neuronx_distributed",
    "neuronx_distributed_inference",
    "neuronx_distributed_training",
    "qiskit",
    "safetensors",
    "transformers",
    "transformers_neuronx",
    "triton_viz",
)


class Asked(type):
    """The type of a class in which every name is the class itself."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __or__(cls, other: Any) -> Any:
        return cls

    __ror__ = __or__

    def __getitem__(cls, key: Any) -> Any:
        return cls


class Nothing(metaclass=Asked):
    """The base of all classes of an empty module. As a decorator, such a class changes nothing. As
    a result, such as the result of is_available(), it is false."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __bool__(self) -> bool:
        return False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) else self


class Empty(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Nothing,), {})


class Bystanders(MetaPathFinder, Loader):
    """The last import finder: it provides empty modules for the packages in BYSTANDERS."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        known = name.partition(".")[0] in BYSTANDERS
        return ModuleSpec(name, self, is_package=True) if known else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


class Bare(MetaPathFinder):
    """An import finder for packages that match a pattern. It provides such a package as a folder of
    modules, without executing its __init__.py."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = patterns

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not any(fnmatch(name, pattern) for pattern in self.patterns):
            return None
        found = PathFinder.find_spec(name, path)
        if found is None or found.origin is None or not found.submodule_search_locations:
            return found
        bare = ModuleSpec(name, None, is_package=True)
        bare.submodule_search_locations = [str(Path(found.origin).parent)]
        return bare


def install(bare: Sequence[str] = ()) -> None:
    sys.meta_path.insert(0, Bare(bare))
    sys.meta_path.append(Bystanders())


def main() -> None:
    given, bare = sys.argv[1:], []
    while given[0] == "--bare":
        _, package, *given = given
        bare.append(package)
    install(bare)
    as_module = given[0] == "-m"
    sys.argv = given[1:] if as_module else given
    # replaces the folder of this file
    sys.path[0] = "" if as_module else str(Path(sys.argv[0]).parent)
    if as_module:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
