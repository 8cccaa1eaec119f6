"""Scalar registers: values that a kernel has only while it runs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from neuroncore.base import source
from neuroncore.base.errors import DynamicControlError
from neuroncore.base.lazy import Lazy

if TYPE_CHECKING:
    from neuroncore.base import syntax
else:
    syntax = Lazy("neuroncore.base.syntax")

WIDTH = 32  # bits of a register (nki.isa.register_alloc)


def wrapped(value: int) -> int:
    """Return `value` as a signed 32-bit integer that wraps around."""
    return (value + (1 << WIDTH - 1)) % (1 << WIDTH) - (1 << WIDTH - 1)


class Recorder(Protocol):
    """The record of a core's instructions."""

    @property
    def issued(self) -> int: ...
    def wait(self, consumer: int, producer: int) -> None: ...
    def decide(self, load: Load, value: int) -> None: ...
    def derive(self, operation: str, left: int, right: int) -> int: ...


class Load(NamedTuple):
    """The origin of a register's value.

    `record`: the record of the core
    `row`: the row of the last load instruction on which the value depends
    `number`: the number of the value among the registers of the record"""

    record: Recorder
    row: int
    number: int


def loaded(record: Recorder) -> Load:
    """Return the Load for the value that the next instruction of a record loads."""
    return Load(record, record.issued, record.derive("load", record.issued, 0))


_chosen: ContextVar[Iterator[int] | None] = ContextVar("chosen", default=None)


@contextmanager
def deciding(values: Iterable[int]) -> Iterator[None]:
    """A context manager in which loaded registers have these `values` in loops and conditions, one
    after the other. Afterwards they have their own values."""
    token = _chosen.set(iter(values))
    try:
        yield
    finally:
        _chosen.reset(token)


class VirtualRegister:
    """A 32-bit integer of an engine's sequencer.

    It may be a tensor's index, a bound of a dynamic loop, the condition of `while reg:`, or an
    operand of arithmetic. A loop variable is frozen: it can't be written. Where Python needs a
    constant, a register raises DynamicControlError, because the device's compiler traces the
    kernel. `load` is the last load on which the value depends. A core executes its loads in
    order."""

    __slots__ = ("_value", "frozen", "load")

    def __init__(
        self, value: int | None = None, frozen: bool = False, load: Load | None = None
    ) -> None:
        self._value = None if value is None else wrapped(int(value))
        self.frozen = frozen
        self.load = load

    @property
    def value(self) -> int:
        """The value of the register. Raises DynamicControlError if it was never set."""
        if self._value is None:
            raise DynamicControlError(
                "the register has no value yet",
                hint="initialize the register with nisa.register_alloc(0) or nisa.register_load",
            )
        return self._value

    def decide(self) -> int:
        """Return the value for a loop or a condition. All later instructions wait until the value
        is loaded."""
        if self.load is None:
            return self.value
        chosen = _chosen.get()
        value = self.value if chosen is None else next(chosen, self.value)
        self.load.record.decide(self.load, value)
        return value

    def check_writable(self) -> None:
        """Raise DynamicControlError if the register is the variable of a loop."""
        if self.frozen:
            raise DynamicControlError(
                "the kernel writes to the variable of a dynamic loop",
                because="the loop counts its iterations in this register",
                hint="copy the variable into another register with nisa.register_move",
            )

    def set(self, value: int, load: Load | None = None) -> None:
        self.check_writable()
        self._value, self.load = wrapped(value), load

    def __bool__(self) -> bool:
        """Return whether the value is not 0, for `while register:`, a loop that the device runs.

        Raises DynamicControlError for other conditions: Python would choose one branch for all
        ranks and runs (the page of nki.isa.VirtualRegister). Without source text, a condition is
        assumed to be a `while`."""
        frame = source.user_frame()
        asker = syntax.question(frame).by if frame is not None else None
        if asker is not None and not isinstance(asker, ast.While):
            raise _needs_constant(
                "a register is used as a Python condition",
                "compute both cases and select with nl.where, or select the data with "
                "nl.ds(register, size); only `while register:` is allowed, as a device loop",
            )
        return self.decide() != 0

    def __index__(self) -> int:
        raise _needs_constant(
            "a register is used where a constant is needed",
            "for a loop, use nl.dynamic_range, nl.fori_loop or nl.while_loop; for a slice, use "
            "nl.ds(register, size)",
        )

    __int__ = __index__
    # == makes a register, so dictionaries must compare registers by identity
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"VirtualRegister({self._value})"


def _needs_constant(statement: str, hint: str) -> DynamicControlError:
    because = "the value of a register is known only while the kernel runs on the device"
    return DynamicControlError(statement, because=because, hint=hint)


ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "lshift": lambda a, b: a << b,
    "rshift": lambda a, b: a >> b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}
COMPARISONS: dict[str, Callable[[int, int], int]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}
COMPUTE = ARITHMETIC | COMPARISONS
OPERATIONS = ("constant", "load", *COMPUTE)
"""The operations that make a register, in the order of their numbers in a record."""


def _arithmetic(name: str, swapped: bool) -> None:
    def method(self: VirtualRegister, other: Any) -> Any:
        if not isinstance(other, int | VirtualRegister):
            return NotImplemented
        left, right = (other, self) if swapped else (self, other)
        numbers = [r.value if isinstance(r, VirtualRegister) else r for r in (left, right)]
        return VirtualRegister(int(COMPUTE[name](*numbers)), load=_derived(name, left, right))

    setattr(VirtualRegister, f"__{'r' if swapped else ''}{name}__", method)


def _derived(name: str, left: VirtualRegister | int, right: VirtualRegister | int) -> Load | None:
    """Return the Load on which the result of an operation depends, or None."""
    loads = [r.load for r in (left, right) if isinstance(r, VirtualRegister) and r.load]
    if not loads:
        return None
    last = max(loads, key=lambda load: load.row)

    def number(operand: VirtualRegister | int) -> int:
        if not isinstance(operand, VirtualRegister):
            return last.record.derive("constant", operand, 0)
        if operand.load is None:
            return last.record.derive("constant", operand.value, 0)
        return operand.load.number

    return Load(last.record, last.row, last.record.derive(name, number(left), number(right)))


for _name in COMPUTE:
    _arithmetic(_name, swapped=False)
for _name in ARITHMETIC:
    _arithmetic(_name, swapped=True)
