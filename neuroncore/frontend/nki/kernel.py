"""nki.jit, nki.simulate, and the kernel object that they make.

Kernels of NKI 0.1 and 0.2 use the names sbuf, psum and hbm without importing them: "The sbuf
keyword is available in any NKI kernel" (quickstart of SDK 2.27 and 2.28,
nki/get-started/quickstart-implement-run-kernel.rst). The quickstart of 2.29 uses nl.sbuf instead.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from threading import Lock
from types import MethodType
from typing import Any

from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import SignatureError, UsageError
from neuroncore.base.units import plural
from neuroncore.core.core import running
from neuroncore.frontend import limits
from neuroncore.frontend.arguments import Arguments, disagreements
from neuroncore.frontend.dialects import PickledByName, dialect, takes_self
from neuroncore.frontend.launch import (
    Launch,
    Way,
    finish,
    in_graph,
    is_traced,
    launch,
    launch_ranks,
)
from neuroncore.frontend.nki.language.creation import MemoryName
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.frontend.vendor import Absent

WORDS = {
    "sbuf": MemoryName(MemoryRegion.sbuf),
    "psum": MemoryName(MemoryRegion.psum),
    "hbm": MemoryName(MemoryRegion.private_hbm),
}


_lock, _running = Lock(), 0


@contextmanager
def known() -> Iterator[None]:
    """A context manager in which kernels can use the API's names without importing them. Python's
    builtins contain these names while a kernel runs in any thread."""
    global _running
    with _lock:
        _running += 1
        for name, word in WORDS.items():
            setattr(builtins, name, word)
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            for name in () if _running else WORDS:
                delattr(builtins, name)


SIZES = "a positive int, or a tuple of positive ints"


class Kernel(PickledByName):
    """A kernel function and its launch grid. A call by the host launches the kernel on emulated
    cores. A call by another kernel runs the function as a part of that kernel."""

    def __init__(self, function: Callable[..., Any], grid: tuple[int, ...] = ()) -> None:
        functools.update_wrapper(self, function)
        self.function, self.grid = function, grid
        self.func = function  # kernels call another kernel's function by this name of the vendor's

    def __getitem__(self, grid: Any) -> Kernel:
        """Return the kernel with a launch grid, an int or a tuple of ints."""
        sizes = limits.grid_axes(grid, SIZES)
        return type(self)(
            self.function,
            tuple(limits.grid_size(n, "the size of a launch grid's axis", 1, SIZES) for n in sizes),
        )

    def with_schedule(self, edges: Iterable[tuple[str, str | Sequence[str]]]) -> Kernel:
        """Return the kernel with a schedule. An edge of the schedule is a pair: the name of an
        instruction, and the name or names of the instructions that it waits for.

        On a device, the edges restrict how the compiler may reorder instructions. neuroncore runs
        instructions in the order of the program. Edges change neither results nor the estimate of
        time."""
        for edge in edges:
            later, earlier = edge if isinstance(edge, tuple) and len(edge) == 2 else (None, None)
            before = [earlier] if isinstance(earlier, str) else earlier
            if not (isinstance(later, str) and isinstance(before, list | tuple)) or not all(
                isinstance(name, str) for name in before
            ):
                raise SignatureError(
                    f"{edge!r} is not an edge of a schedule",
                    argument="edges",
                    expected="(name, names): an instruction, and the instructions that it waits "
                    "for",
                )
        return type(self)(self.function, self.grid)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if running() is not None:
            return self.function(*args, **kwargs)
        if is_traced(args, kwargs):
            return in_graph(self, args, kwargs)
        try:
            with known():
                run = launch(self.function, args, kwargs, tensor=NkiTensor, grid=self.grid)
        except SignatureError as error:
            _explain(error, self.function)
            raise
        run.findings.extend(disagreements(self.function, args, kwargs))
        return finish(run)

    def on_ranks(
        self, per_rank: Sequence[Arguments], lnc: int | None = None, **options: Any
    ) -> list[Launch]:
        """Launch the kernel on several ranks together, and return the launches. Each rank has its
        own arguments and `lnc` cores. `options` are the arguments `target`, `options` and
        `instance` of `launch_ranks`. Raises the errors of `launch_ranks`."""
        cores = lnc or prod(self.grid)
        if self.grid and cores != prod(self.grid):
            has = f"a rank has {plural(cores, 'core')}"
            raise UsageError(f"the kernel's grid is {self.grid}, but {has}")
        way = Way(NkiTensor, [[program] for program in range(cores)])
        grid = self.grid or (cores,)
        with known():
            return launch_ranks(self.function, per_rank, way, grid=grid, **options)

    def __get__(self, instance: Any, owner: type | None = None) -> Kernel:
        if instance is None or not takes_self(self.function):
            return self
        return type(self)(MethodType(self.function, instance), self.grid)


def _explain(error: SignatureError, function: Callable[..., Any]) -> None:
    """Add a reason and a hint to an instruction's error if the kernel `function` is written for the
    older API, neuronxcc.nki."""
    if dialect(function) == "neuronxcc.nki":
        error.because = (
            "a kernel of neuronxcc.nki is launched through nki.jit, which belongs to the other API"
        )
        error.hint = "launch it through neuronxcc.nki.jit, or torch_neuronx's nki_jit"


def jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a kernel from a function: `@nki.jit` or `@nki.jit(...)`.

    Options of the device's compiler are accepted and ignored.
    """
    if fn is None:
        return lambda function: jit(function, **options)
    return fn if isinstance(fn, Kernel | Absent) else Kernel(fn)


def simulate(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs the kernel on numpy arrays or torch tensors. Its results are
    arrays or tensors of the same library. Arrays that the kernel writes are updated in place."""
    simulated: Kernel = jit(kernel)
    return simulated
