"""A driver is a function that launches a published kernel, and yields its results with the expected
ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
from published import loaded

# allowed relative L2 errors: for float32, for long sums in float32, and with bfloat16 in between
SINGLE, ROUGH, HALF = 1e-5, 1e-4, 1e-2


@dataclass(frozen=True)
class Checkout:
    """A clone of a repository."""

    root: Path

    def module(self, file: str, *paths: str) -> ModuleType:
        """Return the module of a file of the clone. The file can import from its own folder and
        from the folders `paths` of the clone."""
        place = self.root / file
        homes = (place.parent, *(self.root / path for path in paths))
        sys.path[:0] = [str(home) for home in homes]
        return loaded(place)


@dataclass(frozen=True)
class Result:
    """A result of a kernel (`got`), the expected result (`want`), and the largest allowed relative
    L2 error."""

    name: str
    got: Any
    want: Any
    allowed: float = SINGLE


Drive = Callable[..., Iterator[Result]]
Variants = Callable[[Checkout], tuple[str, ...]]


@dataclass(frozen=True)
class Fault:
    """A fault of a kernel, because of which the kernel can't agree with its reference. The kernel
    ends with an error that has this code; if the code is `differs`, it returns other numbers."""

    code: str
    reason: str


DIFFERS = "differs"


@dataclass(frozen=True)
class Driver:
    """The driver of a kernel. `drive` gets the checkout, and the name of the variant if the driver
    has variants."""

    repository: str
    name: str
    drive: Drive
    target: str
    variants: Variants
    faults: Mapping[str, Fault] = field(default_factory=dict)


DRIVERS: list[Driver] = []


def drives(
    repository: str,
    *,
    target: str = "trn2",
    each: tuple[str, ...] | Variants = ("",),
    faults: Mapping[str, Fault] | None = None,
) -> Callable[[Drive], Drive]:
    """Return a decorator that adds a function to DRIVERS, as the driver of a kernel or of one
    kernel for each variant in `each`. `faults` has, by name of the variant, the faults because of
    which a kernel can't agree with its reference. A driver without variants has a single variant,
    with the name ""."""

    def listed(drive: Drive) -> Drive:
        variants = each if callable(each) else lambda checkout: each
        name = f"{drive.__module__.rpartition('.')[2]}.{drive.__name__}"
        DRIVERS.append(Driver(repository, name, drive, target, variants, faults or {}))
        return drive

    return listed


def normal(*shape: int, seed: int = 0) -> Any:
    """Return float32 numbers with the standard normal distribution."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def narrow(*shape: int, seed: int = 0) -> Any:
    """Return bfloat16 numbers with the standard normal distribution."""
    return normal(*shape, seed=seed).astype(ml_dtypes.bfloat16)


def silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))
