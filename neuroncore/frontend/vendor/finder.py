"""Finds packages that only the vendor ships, while neuroncore serves `import nki`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import Any

from neuroncore.base.errors import did_you_mean
from neuroncore.frontend.vendor import checkouts, placeholders
from neuroncore.frontend.vendor.checkouts import Checkout
from neuroncore.frontend.vendor.packages import Package, holding

HOMES = ("neuroncore.frontend.", "neuroncore.hosts.")  # of modules with a name for users


class VendorFinder(MetaPathFinder):
    """Finds what other finders don't, and before them what `--with` names."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        find = self._behind_alias if name.startswith(HOMES) else self._vendors
        found = find(name, path, target)
        if found is not None:
            self.found.add(name)
        return found

    def forget(self) -> None:
        """Leave no module that came from here, and no trace in the packages around them."""
        inside = tuple(f"{name}." for name in self.found)
        for name in [n for n in sys.modules if f"{n}.".startswith(inside)]:
            around, _, last = name.rpartition(".")
            if around in sys.modules:
                vars(sys.modules[around]).pop(last, None)
            del sys.modules[name]
        self.found.clear()

    def _vendors(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        package = holding(name)
        if package is None:
            return None
        is_root = name == package.name
        if package.stand_in and is_root:
            return None  # the alias has it
        real_or_none = package.is_whole or package.stand_in
        if real_or_none and not is_root and not _is_ours(_around(name)):
            return None  # a real one is there, and has what it has
        checkout = package.repository and checkouts.named(package.repository)
        if checkout and not is_root and (inside := PathFinder.find_spec(name, path)):
            return _completed(inside)
        installed = self._elsewhere(name, path, target)
        if checkout and is_root:
            if installed is None or checkout.before_installed:
                return _served(package, checkout)
            print(checkout.passed_over(installed.origin), file=sys.stderr)
        return None if installed else ModuleSpec(name, Empty(), is_package=True)

    def _behind_alias(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        """The module that `from nki import name` looks for, by its name inside neuroncore."""
        own = name.partition(".")[2].partition(".")[2]
        module, _, last = own.rpartition(".")
        root = sys.modules.get(module.partition(".")[0])
        aliased = root is not None and root.__name__.startswith(HOMES)
        if not aliased or self._elsewhere(name, path, target):
            return None
        if holding(own) is not None:
            return ModuleSpec(name, Same(own), is_package=True)
        hint = did_you_mean(last, dir(_around(name)))
        near = f"; {hint}" if hint else ""
        raise ImportError(f"cannot import name {last!r} from {module!r}{near}", name=module)

    def _elsewhere(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        """The spec that another finder returns."""
        others = [f for f in sys.meta_path if f is not self and hasattr(f, "find_spec")]
        specs = (finder.find_spec(name, path, target) for finder in others)
        return next((spec for spec in specs if spec is not None), None)


def _around(name: str) -> ModuleType:
    return sys.modules[name.rpartition(".")[0]]


def _is_ours(module: ModuleType) -> bool:
    return isinstance(module, placeholders.PlaceholderModule) or module.__name__.startswith(HOMES)


class Empty(Loader):
    """Makes a module of which nothing is here."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return placeholders.PlaceholderModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


class Same(Loader):
    """Gives a module that has another name already."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        real = importlib.import_module(self.name)
        self._spec = real.__spec__  # importlib is about to overwrite it
        return real

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


class InCheckout(SourceFileLoader):
    """Loads a module of a checkout, and puts placeholders where the vendor's module has more."""

    def exec_module(self, module: ModuleType) -> None:
        package = holding(module.__name__)
        assert package is not None
        super().exec_module(module)
        is_root = module.__name__ == package.name

        def other(name: str) -> Any:
            if is_root and name in package.exports:
                home = importlib.import_module(f"{package.name}.{package.exports[name]}")
                return getattr(home, name)
            made = placeholders.missing(module.__name__, name)
            setattr(module, name, made)
            return made

        module.__dict__.setdefault("__getattr__", other)


def _served(package: Package, checkout: Checkout) -> ModuleSpec | None:
    """A package from the user's checkout. Raises UsageError if it isn't there."""
    folder = checkout.package()
    found = spec_from_file_location(
        package.name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    return _completed(found) if package.public else found


def _completed(found: ModuleSpec | None) -> ModuleSpec | None:
    if found is not None and isinstance(found.loader, SourceFileLoader):
        found.loader = InCheckout(found.loader.name, found.loader.path)
    return found
