"""An operator of the API: a token for nki.isa, and when called a function of tiles."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from neuroncore.clause.arithmetic import FUNCTIONS, OPERATORS, SIMULATED, Function, Operator
from neuroncore.core.core import running
from neuroncore.errors import OperatorError


class Operation:
    """`nl.add`: `nisa.tensor_tensor(..., op=nl.add)` or `nl.add(x, y)`."""

    operator: Operator  # its row in the table of ALU operators, if it has one
    function: Function  # its row in the table of activation functions, if it has one

    def __init__(self, name: str, lowered: Callable[..., Any] | None, doc: str) -> None:
        self.__name__, self.__doc__ = name, doc
        self.lowered = lowered
        if lowered is not None:
            self.__signature__ = inspect.signature(lowered)
        if name in OPERATORS:
            self.operator = OPERATORS[name]
        if name in FUNCTIONS:
            self.function = FUNCTIONS[name]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.lowered is None:
            raise OperatorError(
                f"{self!r} is a token for nki.isa instructions, not a function of tiles"
            )
        return self.lowered(*args, **kwargs)

    def __repr__(self) -> str:
        return f"nl.{self.__name__}"


class Simulated(Operation):
    """An operator of the vendor's simulator, which no engine has: one only in runs that are asked
    to take it (Options.simulator_operators)."""

    @property
    def taken(self) -> bool:
        core = running()
        return core is not None and core.options.simulator_operators

    @property
    def operator(self) -> Operator:  # type: ignore[override]
        if not self.taken:
            raise AttributeError(f"{self!r} is no operator of an engine")
        return SIMULATED[self.__name__]
