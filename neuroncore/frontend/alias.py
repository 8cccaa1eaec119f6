"""The import alias: while it is active, `import nki` imports neuroncore.frontend.nki.

The alias also imports packages that only the vendor ships. They come from a checkout that the user
names (`run --with`, or an environment variable), or are placeholders.

neuroncore never installs a top-level package `nki`, because that name belongs to the vendor.
Frameworks launch kernels through the vendor's packages in `STAND_INS`. A module of neuroncore.hosts
replaces each of these packages that is not installed."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from neuroncore.base.errors import UsageError, did_you_mean
from neuroncore.frontend import dialects, vendor
from neuroncore.frontend.vendor import Checkout, Package, holding

HOMES = ("neuroncore.frontend.", "neuroncore.hosts.")  # modules that users import by another name


class VendorFinder(MetaPathFinder):
    """An import finder for packages that only the vendor ships. It finds the modules that no other
    finder finds. A checkout named by `--with` takes precedence over an installed package."""

    def __init__(self) -> None:
        self.loaded: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        find = self._behind_alias if name.startswith(HOMES) else self._vendors
        spec = find(name, path, target)
        if spec is not None:
            self.loaded.add(name)
        return spec

    def forget(self) -> None:
        """Remove the modules that this finder has loaded from sys.modules and from their
        packages."""
        inside = tuple(f"{name}." for name in self.loaded)
        for name in [n for n in sys.modules if f"{n}.".startswith(inside)]:
            parent, _, last = name.rpartition(".")
            if parent in sys.modules:
                vars(sys.modules[parent]).pop(last, None)
            del sys.modules[name]
        self.loaded.clear()

    def _vendors(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        """Return the spec of a module in a package of `vendor.PACKAGES`. The module is in a
        checkout, or is a placeholder. Return None if another finder has to find the module."""
        package = holding(name)
        if package is None:
            return None
        is_root = name == package.name
        if package.stand_in and is_root:
            return None  # the finder Alias finds it
        real_or_none = package.is_whole or package.stand_in
        if real_or_none and not is_root and not _is_ours(_parent(name)):
            return None  # the installed package has all of its modules
        checkout = package.repository and vendor.named(package.repository)
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
        """Return the spec of a module that a program imports by the alias, as in `from nki import
        name`.

        Python searches for neuroncore.frontend.nki.name, because the module object `nki` is
        neuroncore.frontend.nki. Return None for other imports. Raises ImportError if neither
        neuroncore nor the vendor has the module."""
        alias = name.partition(".")[2].partition(".")[2]  # the name without the prefix in HOMES
        module, _, last = alias.rpartition(".")
        root = sys.modules.get(module.partition(".")[0])
        aliased = root is not None and root.__name__.startswith(HOMES)
        if not aliased or self._elsewhere(name, path, target):
            return None
        if holding(alias) is not None:
            return ModuleSpec(name, Same(alias), is_package=True)
        hint = did_you_mean(last, dir(_parent(name)))
        near = f"; {hint}" if hint else ""
        raise ImportError(f"cannot import name {last!r} from {module!r}{near}", name=module)

    def _elsewhere(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        """Return the spec that another finder returns, or None if no other finder finds the
        module."""
        others = [f for f in sys.meta_path if f is not self and hasattr(f, "find_spec")]
        specs = (finder.find_spec(name, path, target) for finder in others)
        return next((spec for spec in specs if spec is not None), None)


def _parent(name: str) -> ModuleType:
    """Return the package that contains the module `name`, which is being imported."""
    return sys.modules[name.rpartition(".")[0]]


def _is_ours(module: ModuleType) -> bool:
    return isinstance(module, vendor.PlaceholderModule) or module.__name__.startswith(HOMES)


class Empty(Loader):
    """Makes a placeholder for a module that only the vendor's package has."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return vendor.PlaceholderModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: a placeholder has no code."""


class Same(Loader):
    """Loads the module `name` under a second name, as the same module object."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        real = importlib.import_module(self.name)
        self._spec = real.__spec__  # importlib will overwrite it
        return real

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


class InCheckout(SourceFileLoader):
    """Loads a module of a checkout. Placeholders replace the names that only the vendor's module
    has."""

    def exec_module(self, module: ModuleType) -> None:
        package = holding(module.__name__)
        assert package is not None
        super().exec_module(module)
        is_root = module.__name__ == package.name

        def absent(name: str) -> Any:
            if is_root and name in package.exports:
                home = importlib.import_module(f"{package.name}.{package.exports[name]}")
                return getattr(home, name)
            placeholder = vendor.missing(module.__name__, name)
            setattr(module, name, placeholder)
            return placeholder

        module.__dict__.setdefault("__getattr__", absent)


def _served(package: Package, checkout: Checkout) -> ModuleSpec | None:
    """Return the spec of a package in a checkout. Raises UsageError if the checkout lacks it."""
    folder = checkout.package()
    spec = spec_from_file_location(
        package.name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    return _completed(spec) if package.public else spec


def _completed(spec: ModuleSpec | None) -> ModuleSpec | None:
    """Change the loader in a spec so that it adds placeholders to the module. Return the spec."""
    if spec is not None and isinstance(spec.loader, SourceFileLoader):
        spec.loader = InCheckout(spec.loader.name, spec.loader.path)
    return spec


ROOTS = {"nki": "neuroncore.frontend.nki", "neuronxcc": "neuroncore.frontend.neuronxcc"}
STAND_INS = {
    name: f"neuroncore.hosts.{name}" for name in ("jax_neuronx", "torch_neuronx", "torch_xla")
}
OURS = {**ROOTS, **STAND_INS}
PATH = (
    Path(__file__).parents[1] / "hosts" / "alias"
)  # the folder that `neuroncore alias-path` prints


class Alias(MetaPathFinder, Loader):
    """The import finder that imports `nki.x` as the module object `neuroncore.frontend.nki.x`. It
    also finds the replacement for a framework's package that is not installed, and adds the
    emulated device to torch."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "torch":
            return _with_device()
        root, dot, rest = name.partition(".")
        if root not in OURS or (root in STAND_INS and rest and not _is_alias(root)):
            return None
        if name in STAND_INS and (installed := _installed(name)) is not None:
            _print_once(
                f"neuroncore: using the installed {name} ({installed.origin}), not the stand-in"
            )
            return installed
        real = OURS[root] + dot + rest
        if rest and real not in sys.modules:
            parent = sys.modules.get(real.rpartition(".")[0])
            if PathFinder.find_spec(real, getattr(parent, "__path__", ())) is None:
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
    """Return a placeholder for the attribute `name`, which neuroncore's module lacks. Raises
    AttributeError if the vendor's module `home` can't have it either. `home` is the name by which
    the user imports the module."""
    if holding(home) is not None:
        return vendor.missing(home, name)
    raise dialects.unknown(home, name, dir(module))


class TorchLoader(SourceFileLoader):
    """Loads torch, and makes it accept the device "neuron"."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        if hasattr(module, "_C"):  # else it is a user's module of this name, such as a stub
            importlib.import_module("neuroncore.hosts.devices").stand_in(module)


def _with_device() -> ModuleSpec | None:
    """Return the spec of torch, with a loader that adds the emulated device.

    torch imports the installed packages that add a device, as torch_neuronx does, unless
    TORCH_DEVICE_BACKEND_AUTOLOAD is 0. Published scripts use the device without another import
    (dstair/neuron-pytorch-native). Return None to load torch unchanged."""
    spec = _installed("torch")
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0" or _installed("torch_neuronx"):
        return None
    if spec is not None and isinstance(spec.loader, SourceFileLoader):
        spec.loader = TorchLoader(spec.loader.name, spec.loader.path)
    return spec


@functools.cache
def _print_once(text: str) -> None:
    """Print a text to standard error at the first call only. One import searches for a package
    several times."""
    print(text, file=sys.stderr)


def _is_alias(root: str) -> bool:
    """Return whether an imported package is neuroncore's."""
    return root in sys.modules and sys.modules[root].__name__ == OURS[root]


def _installed(name: str) -> ModuleSpec | None:
    """Return the spec of an installed package outside the alias folder, or None."""
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
        module = sys.modules.get(root)
        if module is not None and module.__name__ != ours:
            raise UsageError(
                f"{root!r} is already imported, from {getattr(module, '__file__', 'elsewhere')}; "
                "activate neuroncore before this import, or do not import that package"
            )
    sys.meta_path[:0] = [VendorFinder(), Alias()]


def deactivate() -> None:
    """Deactivate the alias, and remove every module that was imported through it."""
    for finder in [f for f in sys.meta_path if isinstance(f, VendorFinder)]:
        finder.forget()
    sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, Alias | VendorFinder)]
    roots = [root for root in OURS if root in ROOTS or _is_alias(root)]
    for name in [n for n in sys.modules if n.partition(".")[0] in roots]:
        del sys.modules[name]


def step_aside(name: str) -> None:
    """Replace a module of the alias folder (hosts/alias) by the module that the active alias finds.
    The replaced module calls this function while Python imports it."""
    del sys.modules[name]
    activate()
    importlib.import_module(name)


@contextmanager
def activated() -> Iterator[None]:
    """A context manager: `import nki` finds neuroncore inside the `with` block only."""
    already = any(isinstance(finder, Alias) for finder in sys.meta_path)
    activate()
    try:
        yield
    finally:
        if not already:
            deactivate()
