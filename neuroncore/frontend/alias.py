"""Make `import nki` find this package, and only while asked to.

The distribution never installs a top-level `nki`: the name is the vendor's.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from neuroncore.errors import UsageError

ROOTS = {"nki": "neuroncore.frontend.nki", "neuronxcc": "neuroncore.frontend.neuronxcc"}


class Alias(MetaPathFinder, Loader):
    """Finds `nki.x` as the very module `neuroncore.frontend.nki.x`."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        root, dot, rest = name.partition(".")
        if root not in ROOTS:
            return None
        real = ROOTS[root] + dot + rest
        try:
            importlib.import_module(real)
        except ModuleNotFoundError as error:
            if error.name != real:
                raise
            return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        root, dot, rest = spec.name.partition(".")
        real = importlib.import_module(ROOTS[root] + dot + rest)
        self._spec = real.__spec__  # importlib is about to overwrite it with the alias's
        return real

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


def activate() -> None:
    """From now on, in this process, `import nki` is ours. Doing it twice changes nothing.

    Raises UsageError if the vendor's package has been imported already.
    """
    if any(isinstance(finder, Alias) for finder in sys.meta_path):
        return
    for root, ours in ROOTS.items():
        taken = sys.modules.get(root)
        if taken is not None and taken.__name__ != ours and not hasattr(taken, "__neuroncore__"):
            raise UsageError(
                f"{root!r} is already imported, from {getattr(taken, '__file__', 'elsewhere')}; "
                "activate neuroncore before anything imports it, or leave that package out"
            )
    sys.meta_path.insert(0, Alias())


def deactivate() -> None:
    """Forget the alias and every module that was imported through it."""
    sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, Alias)]
    for name in [n for n in sys.modules if n.partition(".")[0] in ROOTS]:
        del sys.modules[name]


@contextmanager
def activated() -> Iterator[None]:
    """`import nki` is ours inside; outside, it is as it was."""
    already = any(isinstance(finder, Alias) for finder in sys.meta_path)
    activate()
    try:
        yield
    finally:
        if not already:
            deactivate()
