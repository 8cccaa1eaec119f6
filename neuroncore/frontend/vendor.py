"""Packages that only the vendor ships: addresses of public source, checkouts that the user names,
and placeholders for missing packages.

Published modules import such packages too: they use imported names as decorators, base classes,
enumerations and defaults. A placeholder allows all of these, and has every attribute. Only uses of
the vendor's code are refused, such as calls of a kernel."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

from neuroncore.base import source
from neuroncore.base.errors import NotEmulated, UsageError


@dataclass(frozen=True)
class Repository:
    """A public repository that contains the source of a package."""

    name: str  # the NAME in `--with NAME=FOLDER`
    url: str
    places: tuple[str, ...]  # the package's folder, in different releases
    holds: tuple[str, ...]  # files that this folder has in every release
    commit: str = ""  # the last commit that has the package, if later ones lack it

    @property
    def variable(self) -> str:
        """Return the name of the environment variable with the folder of a checkout."""
        return "NEURONCORE_" + self.name.upper().replace("-", "_")

    @property
    def folder(self) -> str:
        """Return the name of the folder that `git clone` makes."""
        return self.url.rpartition("/")[2]

    @property
    def advice(self) -> str:
        """Return a text that says how to get the package."""
        older = f" && git -C {self.folder} checkout {self.commit}" if self.commit else ""
        return (
            f"git clone {self.url}{older}; then neuroncore run --with {self.name}={self.folder}, "
            f"or {self.variable}={self.folder}"
        )


# The folder is src/nkilib_standalone in the first release (2.27), and src/nkilib_src in 2.28 and
# 2.29.
NKI_LIBRARY = Repository(
    "nkilib",
    "https://github.com/aws-neuron/nki-library",
    ("src/nkilib_src/nkilib", "src/nkilib_standalone/nkilib"),
    ("__init__.py", "core"),
)
# src/reference is the folder of SDK 2.20. The README calls the folder the source code of
# neuronxcc.nki.kernels. The commit after 8370e11 (January 2026) removed the folder.
NKI_SAMPLES = Repository(
    "nki-samples",
    "https://github.com/aws-neuron/nki-samples",
    ("src/nki_samples/reference", "src/reference"),
    ("__init__.py", "attention.py"),
    commit="8370e11",
)
REPOSITORIES = {repository.name: repository for repository in (NKI_LIBRARY, NKI_SAMPLES)}


@dataclass(frozen=True)
class Package:
    """A package that only the vendor ships."""

    name: str
    because: str  # a description, and why neuroncore does not have it
    repository: Repository | None = None
    # public names by module; () means all
    public: dict[str, tuple[str, ...]] = field(default_factory=dict)
    stand_in: bool = False  # whether neuroncore has a stand-in for it

    @property
    def is_whole(self) -> bool:
        """Return whether all of the package's source is public."""
        return self.repository is not None and not self.public

    def is_public(self, path: str) -> bool:
        """Return whether the repository contains the source of `path`. `path` is a module in the
        package, an object such as attention.flash_fwd, or a member of an object."""
        first, *rest = path.split(".")
        names = self.public.get(first)
        if names is None:
            return self.is_whole or first in self.exports
        return not names or not rest or rest[0] in names

    @property
    def exports(self) -> dict[str, str]:
        """Return the names that can be imported from the package itself, each with its module."""
        return {name: module for module, names in self.public.items() for name in names}


CLOSED = "it is part of neuronx-cc, the vendor's compiler, whose source is not public"
KERNELS = {
    "allocated_attention": ("allocated_fused_self_attn_for_SD_small_head_size",),
    "allocated_fused_linear": ("allocated_fused_rms_norm_qkv",),
    "attention": (
        *("FlashConfig", "flash_attn_bwd", "flash_fwd"),
        "fused_self_attn_for_SD_small_head_size",
    ),
    "double_row_matmul": ("quantized_double_row_matmul",),
    "rmsnorm_quant": (),  # a package, which is public as a whole
    "tutorial": ("add_kernel_nx8x128x512",),
    "util": (),
    "vision": (
        *("adaptive_avg_pool2d_kernel", "resize_nearest_fixed_dma_kernel"),
        "select_and_scatter_kernel",
    ),
}
RANKS = "use neuronxcc.nki.nccl, or today's nki.collectives"
COMPILER = "it compiles a program for a device, and neuroncore runs kernels without compiling them"
FRAMEWORKS = ("jax_neuronx", "torch_neuronx", "torch_xla")
LAUNCHING = (
    "{} is not installed, and neuroncore's replacement has only what launching kernels needs"
)
STAGES = ("_internal", "backends", "driver", "frontend", "kernel_builder", "ncc_driver", "target")
PACKAGES = (
    Package("nkilib", "nki-library is a separate, public package", NKI_LIBRARY),
    Package("neuronxcc.nki.kernels", CLOSED, NKI_SAMPLES, KERNELS),
    Package("neuronxcc.nki._private_kernels", CLOSED),
    Package("neuronxcc.nki._pre_prod_kernels", CLOSED),
    Package("neuronxcc.nki._pre_prod_nkl", CLOSED),
    Package("neuronxcc.nki._private", CLOSED),
    Package("neuronxcc.nki.compiler.backends", CLOSED),
    Package("neuronxcc.nki.collectives", RANKS),
    Package("neuronxcc.nki.distributed", RANKS),
    Package("neuronxcc.starfish", CLOSED),
    *(Package(f"nki.compiler.{name}", COMPILER) for name in STAGES),
    Package("nki.framework", COMPILER),
    Package("libneuronxla", COMPILER),
    Package("libtorch_neuronx_lite", LAUNCHING.format("libtorch_neuronx_lite")),
    Package("neuron_dtypes", CLOSED),
    *(Package(name, LAUNCHING.format(name), stand_in=True) for name in FRAMEWORKS),
    Package("torch.classes.neuron", LAUNCHING.format("torch_neuronx")),
    Package("torch.neuron", LAUNCHING.format("torch_neuronx")),
)


# Names of missing packages that mean the same as a name that neuroncore has. Launches of one kernel
# show this: releases of NeuronX Distributed Inference write grid = (vnc(n),) or (nc(n),), NeuronX
# Distributed writes VNC(2), and vllm-neuron imports wrap_nki from either of two packages.
SAME = {
    "neuronxcc.nki.compiler.backends.neuron.dimensions.VNC": ("neuronxcc.nki.language", "nc"),
    "neuronxcc.starfish.penguin.targets.nki.private_api.vnc": ("neuronxcc.nki.language", "nc"),
    "neuronxcc.nki._private.private_api.cc_div": ("neuronxcc.nki.nccl.collectives", "cc_div"),
    "libtorch_neuronx_lite.nki.nki_hop.wrap_nki": ("torch_neuronx.nki_hop", "wrap_nki"),
    "neuron_dtypes.static_cast": ("neuronxcc.starfish.support.dtype", "static_cast"),
}


def holding(module: str) -> Package | None:
    """Return the package to which a module belongs, or None."""
    return next((p for p in PACKAGES if f"{module}.".startswith(f"{p.name}.")), None)


# The environment variable that passes the values of `neuroncore run --with` to the programs that
# the command starts. Each value is NAME=FOLDER; they are separated as in PATH.
WITH = "NEURONCORE_WITH"


@dataclass(frozen=True)
class Checkout:
    """A folder that the user names as a checkout of a repository. `source` is the environment
    variable that names the folder, or `--with`."""

    repository: Repository
    folder: str
    source: str

    @property
    def before_installed(self) -> bool:
        """Return whether `--with` names the checkout. Such a checkout is used even if the package
        is installed."""
        return self.source == "--with"

    def package(self) -> Path:
        """Return the folder of the package, inside the named folder or around it. Raises UsageError
        if there is no such folder."""
        folder = Path(self.folder).expanduser()
        for place in _places(self.repository, folder):
            if all((place / name).exists() for name in self.repository.holds):
                return place
        raise UsageError(self._wrong(folder))

    def passed_over(self, origin: str | None) -> str:
        """Return the warning that the installed package in file `origin` is used instead of the
        checkout."""
        name = self.repository.name
        return (
            f"neuroncore: using the installed {name} ({origin}), not the checkout of "
            f"{self.source}={self.folder}; to use the checkout: neuroncore run --with "
            f"{name}={self.folder}"
        )

    def _wrong(self, folder: Path) -> str:
        """Return the text of the error for a folder without the package."""
        repository = self.repository
        name = f"{self.source} {repository.name}" if self.before_installed else self.source
        lines = [
            f"{name}={self.folder}",
            f"  {'expected':9} a checkout of {repository.url}: "
            f"{' or '.join(repository.places)} in it, with {' and '.join(repository.holds)}",
            f"  {'got':9} {_seems(folder)}",
        ]
        if repository.commit and _is_of(folder, repository):
            lines.append(f"  {'because':9} later commits no longer have that folder")
            lines.append(f"  {'hint':9} git -C {folder} checkout {repository.commit}")
        return "\n".join(lines)


def named(repository: Repository) -> Checkout | None:
    """Return the checkout of a repository that the user names, or None. `--with` takes precedence
    over the environment variable."""
    for entry in os.environ.get(WITH, "").split(os.pathsep):
        name, _, folder = entry.partition("=")
        if name == repository.name:
            return Checkout(repository, folder, "--with")
    folder = os.environ.get(repository.variable, "")
    return Checkout(repository, folder, repository.variable) if folder else None


def parsed(text: str) -> Checkout:
    """Return the checkout that the text NAME=FOLDER names. Raises UsageError if no repository has
    this name, or if the folder does not have the package."""
    name, equals, folder = text.partition("=")
    if not equals or not folder or name not in REPOSITORIES:
        raise UsageError(
            f"--with {text}\n  {'expected':9} NAME=FOLDER, a checkout; "
            f"NAME is {' or '.join(REPOSITORIES)}"
        )
    checkout = Checkout(REPOSITORIES[name], os.path.abspath(os.path.expanduser(folder)), "--with")
    checkout.package()
    return checkout


def _places(repository: Repository, folder: Path) -> list[Path]:
    """Return the folders in which the package may be. `folder` may be the checkout, a folder
    between the checkout and the package, or a folder in the package."""
    below = []
    for place in repository.places:
        parts = PurePosixPath(place).parts
        below += [folder.joinpath(*parts[skipped:]) for skipped in range(len(parts) + 1)]
    around = [above / place for above in folder.absolute().parents for place in repository.places]
    return below + around


def _is_of(folder: Path, repository: Repository) -> bool:
    """Return whether a folder looks like a checkout of a repository, at any commit."""
    return any((folder / place).parent.is_dir() for place in repository.places[:1])


def _seems(folder: Path) -> str:
    """Return a description of a folder that does not have the package."""
    if not folder.exists():
        return "there is no such folder"
    if not folder.is_dir():
        return "a file"
    urls = [other.url for other in REPOSITORIES.values() if _is_of(folder, other)]
    if urls:
        return f"what seems to be a checkout of {urls[0]}"
    inside = sorted(entry.name for entry in folder.iterdir() if entry.name[0] != ".")
    shown = ", ".join(inside[:5]) + (", ..." if len(inside) > 5 else "")
    return f"a folder with {shown}" if shown else "an empty folder"


class PlaceholderModule(ModuleType):
    """A placeholder for a module that only the vendor's package has. Each of its attributes is a
    placeholder too."""

    def __getattr__(self, name: str) -> Any:
        placeholder = missing(self.__name__, name)
        setattr(self, name, placeholder)
        return placeholder

    def __repr__(self) -> str:
        return f"<module {self.__name__!r}, which exists only in the vendor's package>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse the call. `from neuronxcc.starfish.support import name` makes this placeholder
        even if `name` is a function."""
        raise refusal(missing(*self.__name__.rpartition(".")[::2]))


class Absent(type):
    """A placeholder for a name that only the vendor's package has. It is a class, so that it can be
    a base class, an annotation and an argument of isinstance."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Refuse the call of a missing function.

        A capitalized name is a class: its call returns a placeholder, because published modules
        create objects for defaults. Functions that a missing function decorates can't be called."""
        if cls.__name__[:1].isupper():
            return super().__call__(*args, **kwargs)
        if len(args) == 1 and not kwargs and callable(args[0]):
            return cls
        raise refusal(cls)

    def __getattr__(cls, name: str) -> Any:
        """Return the placeholder for a member, such as the member of an enumeration. Each access
        returns the same object."""
        if _is_special(name):
            raise AttributeError(f"{spelt(cls)} has no {name!r}")
        placeholder = _absent(cls.__module__, f"{cls.__qualname__}.{name}")
        setattr(cls, name, placeholder)
        return placeholder

    def __getitem__(cls, grid: Any) -> Any:
        """Return the placeholder itself, for a launch grid or the parameters of a type."""
        return cls

    def __iter__(cls) -> Any:
        raise refusal(cls)

    def __repr__(cls) -> str:
        return f"<{spelt(cls)}, which exists only in the vendor's package>"


class Thing(metaclass=Absent):
    """A placeholder for an object of a missing class."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Accept any arguments."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise refusal(type(self))

    __getitem__ = __iter__ = __mul__ = __rmul__ = __call__

    def __getattr__(self, name: str) -> Any:
        if _is_special(name):
            raise AttributeError(f"{spelt(type(self))} has no {name!r}")
        raise refusal(type(self), f".{name}")


def missing(module: str, name: str) -> Any:
    """Return the placeholder of a name in a module, or the API's object with the same meaning
    (SAME). Raises AttributeError for Python's special names."""
    if _is_special(name):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    if same := SAME.get(f"{module}.{name}"):
        return getattr(importlib.import_module(same[0]), same[1])
    return _absent(module, name)


def _absent(module: str, name: str) -> Absent:
    placeholder = Absent(name.rpartition(".")[2], (Thing,), {"__module__": module})
    placeholder.__qualname__ = name
    return placeholder


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def spelt(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def refusal(cls: type, member: str = "") -> NotEmulated:
    """Return the error for a use of a missing package, at the user's line. The error says how to
    get the package."""
    absent = next(base for base in cls.__mro__ if holding(base.__module__))
    package = holding(absent.__module__)
    assert package is not None
    frame = source.user_frame()
    at = ""
    if frame is not None and source.is_users(frame):
        at = f"{source.place(frame.f_code, source.instruction_of(frame))}: "
    lines = [f"{at}{spelt(absent)}{member} is not part of neuroncore"]
    lines += [f"  {label:9} {text}" for label, text in _where(package, absent)]
    return NotEmulated("\n".join(lines))


def _where(package: Package, absent: type) -> list[tuple[str, str]]:
    """Return pairs of a label and a text: why the package is missing, and how to get it."""
    path = spelt(absent).removeprefix(f"{package.name}.")
    if package.repository is None or not package.is_public(path):
        return [("because", package.because)]
    return [
        ("because", f"its source is public, in {package.repository.url}"),
        ("hint", package.repository.advice),
    ]
