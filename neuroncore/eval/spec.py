"""Specifications. A specification defines what a kernel has to compute, on which inputs, and which
formats, constants and options the kernel may use."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.errors import UsageError
from neuroncore.base.options import Options, Order
from neuroncore.eval.families import FAMILIES, varied

Array = npt.NDArray[Any]
Shape = Any  # any value that `inputs` accepts


@dataclass(frozen=True)
class Spec:
    """A specification of a kernel.

    `reference`: reference(*arguments) returns the expected result: an array, or a tuple of arrays
    `inputs`: inputs(seed, shape) returns the arguments of the reference: arrays and other values
    `adapt`: changes the arguments for the kernel; by default they are the same
    `shapes`, `hidden_shapes`: the shapes on which a candidate runs, with seed 0. The first of
        `shapes` gives the candidate's latency.
    `seeds`: the number of hidden seeds on which the record of each shape is replayed
    `families`: hidden seed n uses entry n (`eval.families`); they repeat if there are too few"""

    reference: Callable[..., Any]
    inputs: Callable[[int, Shape], Sequence[Any]]
    shapes: Sequence[Shape]
    hidden_shapes: Sequence[Shape] = ()
    name: str = ""
    families: Sequence[str] = ("usual",)
    seeds: int = 3
    secret: int | None = None
    """The number that determines the hidden seeds, together with the name and the shape. If it is
    None, `evaluate` draws a random secret and writes it into each verdict."""
    tol: float = 2e-5
    """The allowed relative L2 error of each result."""
    largest_error: float = 1e-2
    """The allowed error of an element, relative to the largest element of the reference."""
    allclose: tuple[float, float] | None = None
    """The arguments `rtol` and `atol` of numpy.allclose. If they are given, `largest_error` has no
    effect: an element may differ from the reference by atol + rtol * |reference|."""
    target: str = "trn2"
    cores: int = 1
    order: Order = "scheduled"
    """The order of instructions that the estimate assumes: "compiled" for kernels of the older
    API."""
    entry: Sequence[str] = ("kernel",)
    """Names that the kernel may have in the candidate's file. The first name that exists is
    used."""
    keywords: Sequence[str] = ()
    """Names of the last arguments. The kernel and the reference take these arguments by keyword."""
    in_place: Sequence[int] = ()
    """Inputs that the kernel may write, as positions among the array arguments."""
    narrow: Sequence[str] = ("float32",)
    """Formats that operands of matrix products may have in addition to the formats of the inputs.
    Results may have these formats too, even if they are narrower than the reference's."""
    constants: int = 1 << 20
    """The most bytes of constants that the host may add to the program."""
    dynamic: bool = False
    """True if loops and conditions that the device executes may depend on the inputs. The candidate
    is then recorded separately for each hidden seed. It receives the values on which its loops and
    conditions depend, but no more than 64 values."""
    options: Options = field(default_factory=Options)
    adapt: Callable[[Sequence[Any]], Sequence[Any]] | None = None
    """A function that turns the arguments of the reference into the arguments of the kernel."""
    finish: Callable[[Any, Any], Any] | None = None
    """A function that receives the kernel's results and the expected results. It returns the
    kernel's results in the form of the expected results."""
    prelude: str = ""
    """Python source that is executed in a candidate's module before the candidate's source, such as
    the imports that a benchmark supplies."""
    source: str | None = None
    """The argument with which `load_spec` loads this specification: a file, or ADAPTER:NAME."""
    files: Sequence[Path] = ()
    """The files that define this specification."""

    def __post_init__(self) -> None:
        """Raise UsageError if a field has an illegal value."""
        if not self.shapes:
            raise UsageError("a Spec needs at least one shape")
        if self.seeds < 1:
            raise UsageError(f"a Spec needs one hidden seed or more, not {self.seeds}")
        if unknown := set(self.families) - set(FAMILIES):
            known = ", ".join(FAMILIES)
            raise UsageError(f"there is no family {min(unknown)!r}; families are {known}")
        if self.dynamic and self.cores > 1:
            raise UsageError("a Spec of several cores can't be dynamic")
        if not self.tol >= 0 or not self.largest_error >= 0:
            raise UsageError("tolerances of a Spec must be 0 or more")

    @property
    def all_shapes(self) -> Sequence[Shape]:
        """Return the public shapes and then the hidden shapes."""
        return (*self.shapes, *self.hidden_shapes)

    def arguments(self, seed: int, shape: Shape, family: str = "usual") -> tuple[Any, ...]:
        """Return the arguments of the reference for a seed, changed as `family` says."""
        arguments_of_seed = tuple(self.inputs(seed, shape))
        return tuple(varied(family, seed, value) for value in arguments_of_seed)

    def expected(self, arguments: Sequence[Any]) -> Any:
        """Call the reference with these arguments, and return its results."""
        positional, named = split(arguments, self.keywords)
        return self.reference(*positional, **named)

    def kernel_arguments(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Return the kernel's arguments that correspond to these arguments of the reference."""
        return tuple(arguments if self.adapt is None else self.adapt(arguments))

    def with_secret(self) -> Spec:
        """Return this specification if it has a secret; otherwise return a copy with a random
        secret."""
        return self if self.secret is not None else replace(self, secret=secrets.randbits(63))

    def hidden_seeds(self, shape: Shape) -> list[tuple[int, str]]:
        """Return pairs (seed, family) for the hidden seeds of a shape. Raise UsageError if the
        specification has no secret."""
        if self.secret is None:
            raise UsageError("hidden seeds need a secret: use Spec.with_secret()")
        text = repr((self.name, shape, self.secret)).encode()
        entropy = int.from_bytes(hashlib.sha256(text).digest()[:16], "little")
        seeds = np.random.default_rng(entropy).integers(1, 1 << 31, self.seeds).tolist()
        return [(seed, self.families[n % len(self.families)]) for n, seed in enumerate(seeds)]

    def fingerprint(self) -> str:
        """Return a hash of the contents of `files`, and of all fields except `source`, `files` and
        functions."""
        plain: Mapping[str, Any] = {
            name: value for name, value in vars(self).items()
            if name not in ("source", "files") and not callable(value)
        }  # fmt: skip
        digest = hashlib.sha256(repr(sorted(plain.items())).encode())
        for file in self.files:
            digest.update(file.read_bytes())
        return digest.hexdigest()[:16]


def split(
    arguments: Sequence[Any], keywords: Sequence[str]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional arguments as a tuple, and the keyword arguments as a dict.

    `keywords`: the names of the last arguments, which are the keyword arguments"""
    positional = len(arguments) - len(keywords)
    return tuple(arguments[:positional]), dict(zip(keywords, arguments[positional:], strict=True))
