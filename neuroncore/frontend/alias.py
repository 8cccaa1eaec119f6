"""Makes `import nki` find this package while the alias is active.

The distribution never installs a top-level `nki`: the name is the vendor's. Frameworks launch
kernels by packages with other names of the vendor; the stand-ins here replace those that are not
installed.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from neuroncore.base.errors import UsageError
from neuroncore.frontend import exports
from neuroncore.frontend.vendor import placeholders
from neuroncore.frontend.vendor.finder import VendorFinder
from neuroncore.frontend.vendor.packages import holding

ROOTS = {"nki": "neuroncore.frontend.nki", "neuronxcc": "neuroncore.frontend.neuronxcc"}
STAND_INS = {
    name: f"neuroncore.hosts.{name}" for name in ("jax_neuronx", "torch_neuronx", "torch_xla")
}
OURS = {**ROOTS, **STAND_INS}
PATH = (
    Path(__file__).parents[1] / "hosts" / "alias"
)  # the folder that `neuroncore alias-path` prints


class Alias(MetaPathFinder, Loader):
    """Finds `nki.x` as the same module object as `neuroncore.frontend.nki.x`, and a framework's
    package that is not installed as its stand-in."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        root, dot, rest = name.partition(".")
        if root not in OURS or (root in STAND_INS and rest and not _is_ours(root)):
            return None
        if name in STAND_INS and (installed := _installed(name)) is not None:
            _tell(f"neuroncore: {name} is the one in {installed.origin}")
            return installed
        real = OURS[root] + dot + rest
        if rest and real not in sys.modules:
            around = sys.modules.get(real.rpartition(".")[0])
            if PathFinder.find_spec(real, getattr(around, "__path__", ())) is None:
                return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        root, dot, rest = spec.name.partition(".")
        real = importlib.import_module(OURS[root] + dot + rest)
        self._spec = real.__spec__  # importlib will overwrite it with the spec of the alias
        return real

    def exec_module(self, module: ModuleType) -> None:
        home = module.__spec__.name if module.__spec__ else module.__name__
        module.__spec__ = self._spec
        module.__dict__.setdefault("__getattr__", lambda name: _other(name, home, module))


def _other(name: str, home: str, module: ModuleType) -> Any:
    """Return a placeholder for a name that a stand-in doesn't have. Raises AttributeError, with the
    user's spelling, for a name that another module doesn't have."""
    if holding(home) is not None:
        return placeholders.missing(home, name)
    raise exports.unknown(home, name, dir(module))


@functools.cache
def _tell(what: str) -> None:
    """Report the use of a stand-in once, although an import looks for a package several times."""
    print(what, file=sys.stderr)


def _is_ours(root: str) -> bool:
    """Return whether an imported package is part of neuroncore."""
    return root in sys.modules and sys.modules[root].__name__ == OURS[root]


def _installed(name: str) -> ModuleSpec | None:
    """Return the spec of an installed package of this name, outside the alias folder."""
    folders = [folder for folder in sys.path if Path(folder or ".").resolve() != PATH]
    others = (finder for finder in sys.meta_path if not isinstance(finder, Alias))
    specs = (other.find_spec(name, folders) for other in others if hasattr(other, "find_spec"))
    return next((spec for spec in specs if spec is not None and spec.loader is not None), None)


def activate() -> None:
    """Make `import nki` find neuroncore in this process. A second call changes nothing.

    Raises UsageError if the vendor's package has been imported already.
    """
    if any(isinstance(finder, Alias) for finder in sys.meta_path):
        return
    for root, ours in ROOTS.items():
        taken = sys.modules.get(root)
        if taken is not None and taken.__name__ != ours:
            raise UsageError(
                f"{root!r} is already imported, from {getattr(taken, '__file__', 'elsewhere')}; "
                "activate neuroncore before anything imports it, or do not import that package"
            )
    sys.meta_path[:0] = [VendorFinder(), Alias()]


def deactivate() -> None:
    """Forget the alias and every module that was imported through it."""
    for finder in [f for f in sys.meta_path if isinstance(f, VendorFinder)]:
        finder.forget()
    sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, Alias | VendorFinder)]
    roots = [root for root in OURS if root in ROOTS or _is_ours(root)]
    for name in [n for n in sys.modules if n.partition(".")[0] in roots]:
        del sys.modules[name]


def step_aside(name: str) -> None:
    """Replace the module `name` of the alias folder, which is being imported, by the module that
    `import name` finds while the alias is active."""
    del sys.modules[name]
    activate()
    importlib.import_module(name)


@contextmanager
def activated() -> Iterator[None]:
    """Make `import nki` find neuroncore inside the `with` block only."""
    already = any(isinstance(finder, Alias) for finder in sys.meta_path)
    activate()
    try:
        yield
    finally:
        if not already:
            deactivate()
