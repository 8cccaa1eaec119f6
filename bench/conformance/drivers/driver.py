"""What a driver is: a function that launches a published kernel and says what should come out."""

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

SINGLE, ROUGH, HALF = 1e-5, 1e-4, 1e-2  # relative L2: float32, many sums of it, bfloat16 on the way


@dataclass(frozen=True)
class Checkout:
    """A clone of a repository."""

    root: Path

    def module(self, file: str, *paths: str) -> ModuleType:
        """A file of it, which imports from its own folder and from `paths` of the checkout."""
        place = self.root / file
        homes = (place.parent, *(self.root / path for path in paths))
        sys.path[:0] = [str(home) for home in homes]
        return loaded(place)


@dataclass(frozen=True)
class Result:
    """What a kernel returned, what it should have, and the relative L2 error allowed."""

    name: str
    got: Any
    want: Any
    allowed: float = SINGLE


Drive = Callable[..., Iterator[Result]]
Variants = Callable[[Checkout], tuple[str, ...]]


@dataclass(frozen=True)
class Fault:
    """Why a kernel can't agree, which is its own fault: it ends with an error of that code or, for
    `differs`, with other numbers."""

    code: str
    reason: str


DIFFERS = "differs"


@dataclass(frozen=True)
class Driver:
    """`drive` takes the checkout and, of a driver with variants, the variant's name."""

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
    """List a function as the driver of a kernel, or of one for each variant. Those variants that
    `faults` names can't agree; a driver without variants has the one whose name is empty."""

    def listed(drive: Drive) -> Drive:
        variants = each if callable(each) else lambda checkout: each
        name = f"{drive.__module__.rpartition('.')[2]}.{drive.__name__}"
        DRIVERS.append(Driver(repository, name, drive, target, variants, faults or {}))
        return drive

    return listed


def normal(*shape: int, seed: int = 0) -> Any:
    """Numbers of the standard normal distribution, in float32."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def narrow(*shape: int, seed: int = 0) -> Any:
    """The same in bfloat16."""
    return normal(*shape, seed=seed).astype(ml_dtypes.bfloat16)


def silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))
