"""Parameters that are not tiles: numbers that are compiled into an instruction, and registers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from operator import index
from typing import Annotated, Any

import numpy as np

from neuroncore.base.errors import DtypeError, DynamicControlError, SignatureError
from neuroncore.memory.register import VirtualRegister

INT32 = (-(2**31), 2**31 - 1)


@dataclass(frozen=True)
class Immediate:
    """Declares a parameter: a number from `low` to `high`. With `depth` 1 it is a list of such
    numbers, with 2 a list of lists."""

    kind: type[int] | type[float] = int
    low: float = -inf
    high: float = inf
    depth: int = 0
    single: bool = False  # a number is accepted for a list with this number
    optional: bool = False  # None is accepted
    floats: bool = False  # whole numbers of type float are accepted
    keyed: bool = False  # legality, engine or cost depends on it

    def take(self, instruction: str, name: str, value: Any) -> Any:
        """Return the value as Python numbers and tuples. Raises SignatureError for a value of
        another kind, and DtypeError for a number that does not fit."""
        if value is None and self.optional:
            return None
        single = self.single and not isinstance(value, Iterable)
        try:
            taken = self._nested(instruction, name, value, self.depth - single)
            return (taken,) if single else taken
        except DynamicControlError as fault:
            raise DynamicControlError(
                f"{instruction}: {name} must be {self}",
                argument=name,
                got=_shown(value),
                because=fault.statement,
                hint=fault.hint,
            ) from None
        except DtypeError:
            raise
        except (TypeError, ValueError):
            raise SignatureError(
                f"{instruction}: {name} must be {self}", argument=name, got=_shown(value)
            ) from None

    def _nested(self, instruction: str, name: str, value: Any, depth: int) -> Any:
        if depth:
            if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
                raise TypeError
            return tuple(self._nested(instruction, name, item, depth - 1) for item in value)
        number = self._number(value)
        if not self.low <= number <= self.high and number == number:
            raise DtypeError(
                f"{instruction}: {name} can't be {value}",
                argument=name,
                expected=f"a number from {self.low} to {self.high}",
                got=str(value),
            )
        return number

    def _number(self, value: Any) -> int | float:
        if self.kind is int:
            floats = self.floats and isinstance(value, float | np.floating)
            number: Any = int(value) if floats and float(value).is_integer() else value
            return index(number)
        if isinstance(value, VirtualRegister):
            index(value)
        if not isinstance(value, int | float | np.integer | np.floating):
            raise TypeError
        real: int | float = value if isinstance(value, int | float) else value.item()
        return real

    def __str__(self) -> str:
        singular = "an integer" if self.kind is int else "a number"
        plural = "integers" if self.kind is int else "numbers"
        text = (singular, f"a list of {plural}", f"a list of lists of {plural}")[self.depth]
        if self.low > -inf and (self.low, self.high) != INT32:
            text += f" from {self.low} to {self.high}"
        return text + (" or None" if self.optional else "")


def _shown(value: Any) -> str:
    return f"{type(value).__name__} {' '.join(repr(value).split()):.60}"


@dataclass(frozen=True)
class Register:
    """Declares a parameter that takes a scalar register of a sequencer. If `number` is True, the
    parameter also takes an integer of the format `numbers`."""

    number: bool = False
    written: bool = False
    numbers: Immediate = Immediate(int)
    keyed = False

    def take(self, instruction: str, name: str, value: Any) -> Any:
        """Return the register or the integer. Raises DynamicControlError for other values, and for
        the variable of a loop if the instruction writes the register."""
        if isinstance(value, VirtualRegister):
            if self.written:
                value.check_writable()
            return value
        if self.number:
            return self.numbers.take(instruction, name, value)
        raise DynamicControlError(
            f"{instruction}: {name} must be a register",
            argument=name,
            got=repr(value),
            hint="allocate a register with nisa.register_alloc",
        )

    def __str__(self) -> str:
        return "a register or an integer" if self.number else "a register"


Integer = Annotated[int, Immediate(int, *INT32)]
Constant = Annotated[float, Immediate(float)]
Pattern = Annotated[tuple[tuple[int, int], ...], Immediate(int, *INT32, depth=2, keyed=True)]
OutRegister = Annotated[VirtualRegister, Register(written=True)]
InRegister = Annotated[VirtualRegister, Register()]
InRegisterOrNumber = Annotated[VirtualRegister | int, Register(number=True)]
