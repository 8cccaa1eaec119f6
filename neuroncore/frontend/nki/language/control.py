"""Loops, the launch grid, printing, and the base of classes that kernels define."""

from __future__ import annotations

import builtins
import contextlib
import inspect
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from neuroncore.base.errors import DynamicControlError
from neuroncore.core.core import current, running
from neuroncore.frontend import limits
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.memory.register import VirtualRegister

__all__ = [
    "affine_range", "device_print", "dynamic_range", "fori_loop", "no_reorder", "num_programs",
    "program_id", "program_ndim", "range", "sequential_range", "static_range", "while_loop",
]  # fmt: skip


Bound = int | VirtualRegister


def static_range(start: int, stop: int | None = None, step: int = 1) -> builtins.range:
    """Return Python's range. The loop is unrolled when the kernel is compiled."""
    for bound in (start, stop, step):
        if isinstance(bound, VirtualRegister):
            raise DynamicControlError(
                "a register bounds a loop that is unrolled when the kernel is compiled",
                hint="use nl.dynamic_range or nl.fori_loop",
            )
    return limits.loop(start) if stop is None else limits.loop(start, stop, step)


affine_range = static_range
sequential_range = static_range
range = static_range


def _value(bound: Bound) -> int:
    """Return a bound of a loop, which may be in a register, as an int."""
    return bound.decide() if isinstance(bound, VirtualRegister) else int(bound)


def _record_iterations(count: int) -> None:
    """Record on the core that the loop at the kernel's current line has `count` iterations."""
    core = current()
    core.iterations.setdefault(core.birthplace(), []).append(count)


def dynamic_range(
    start: Bound, stop: Bound | None = None, step: int = 1
) -> Iterator[VirtualRegister]:
    """Return the iterations of a loop that the device runs. The loop variable is a register that
    can't be written."""
    if isinstance(step, VirtualRegister) or step < 1:
        raise DynamicControlError(
            "the step of a dynamic loop must be a positive constant",
            argument="step",
            got=repr(step),
        )
    first, last = (0, _value(start)) if stop is None else (_value(start), _value(stop))
    values = builtins.range(first, last, step)
    # recorded here, because in a generator the current line would differ at each next()
    _record_iterations(len(values))
    return _iterations(values)


def _iterations(values: builtins.range) -> Iterator[VirtualRegister]:
    """Yield the variable of each iteration of a loop that the device runs."""
    for i in values:
        yield VirtualRegister(i, frozen=True)
        _end_iteration()


def _end_iteration() -> None:
    program = current().program
    if program is not None:
        program.data.loop_ends.append(len(program))


def fori_loop(
    lower: Bound, upper: Bound, body_fun: Callable[[VirtualRegister], Any], step: int = 1
) -> None:
    """Call body_fun(i) for i = lower, lower + step, and so on, below `upper`, as a loop of the
    device."""
    for i in dynamic_range(lower, upper, step):
        body_fun(i)


def while_loop(
    init: VirtualRegister, body_fun: Callable[[VirtualRegister], VirtualRegister]
) -> None:
    """Run `r = init; while r != 0: r = body_fun(r)`, as a loop of the device.

    `body_fun` gets the value in a new register. It may write this register and return it."""
    register, count = init, 0
    while register.decide() != 0:
        count += 1
        register = body_fun(VirtualRegister(register.value))
        _end_iteration()
        if not isinstance(register, VirtualRegister):
            raise DynamicControlError(
                "the body of a while_loop must return the next condition",
                argument="body_fun",
                expected="a register",
                got=repr(register),
            )
    _record_iterations(count)


# Outside of kernels, the functions of the published package have no body and return None. The three
# functions below return None there too, because nki-library's tests of 2.28 call them.


def program_id(axis: int = 0) -> int | None:
    """Return the index of this program along an axis of the launch grid, or None outside
    kernels."""
    core = running()
    if core is None:
        return None
    (at,), grid = limits.axes(axis, position=0), core.grid or (1,)
    return int(np.unravel_index(core.program_id, grid)[at]) if at < len(grid) else 0


def num_programs(axes: int | tuple[int, ...] | None = 0) -> int | None:
    """Return the number of programs along some axes of the launch grid, or None outside kernels. If
    `axes` is None, return the number in the whole grid. Axes that the grid does not have count as
    1."""
    core = running()
    if core is None:
        return None
    grid = core.grid or (1,)
    if axes is None:
        return prod(grid)
    numbers = limits.axes(axes, "axes", position=0)
    return prod(grid[a] for a in numbers if a < len(grid))


def program_ndim() -> int | None:
    """Return the number of axes of the launch grid: 0 without a grid, None outside kernels."""
    core = running()
    return len(core.grid) if core is not None else None


def no_reorder() -> contextlib.AbstractContextManager[None]:
    """Return a context manager without an effect. On a device it keeps the instructions of its body
    in program order. neuroncore always executes instructions in this order."""
    return contextlib.nullcontext()


def device_print(print_prefix: str, tensor: NkiTensor) -> None:
    """Print a prefix and the values of a tensor."""
    print(print_prefix, tensor.resolved().numpy())


class NKIObject:
    """A base class whose subclasses accept attributes as keywords, with or without the decorator
    `dataclass`.

    Published kernels need three things that a plain dataclass doesn't offer. Keywords become
    attributes of any subclass, fields need no annotation, and a field without a default may be
    omitted (it is None)."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        annotations = inspect.get_annotations(cls)
        for name, value in list(cls.__dict__.items()):
            data = not (callable(value) or isinstance(value, property | classmethod | staticmethod))
            if data and not name.startswith("_"):
                annotations.setdefault(name, Any)
        for name in annotations:
            if name not in cls.__dict__:
                setattr(cls, name, None)
        cls.__annotations__ = annotations

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        names = [n for c in reversed(type(self).__mro__) for n in inspect.get_annotations(c)]
        for name, value in [*zip(names, args, strict=False), *kwargs.items()]:
            setattr(self, name, value)
        post = getattr(self, "__post_init__", None)
        if post is not None:
            post()
