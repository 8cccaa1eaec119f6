"""What tensors of the older API do by instructions: Python's operators, astype and broadcast_to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from neuroncore.frontend.neuronxcc.nki import language
from neuroncore.frontend.neuronxcc.nki.index import Index
from neuroncore.frontend.neuronxcc.nki.parts import Shifted
from neuroncore.frontend.neuronxcc.nki.results import update
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor

BOTH_SIDES = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "pow": "power",
    "mod": "mod",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
}
COMPARISONS = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}


def _defined(name: str, swapped: bool = False) -> Callable[[Tensor, Any], Any]:
    def method(self: Tensor, other: Any) -> Any:
        if name == "add" and isinstance(other, Index) and self.size == 1:
            return Shifted(self, other)
        function = getattr(language, name)
        return function(other, self) if swapped else function(self, other)

    return method


def _in_place(name: str) -> Callable[[Tensor, Any], Tensor]:
    def method(self: Tensor, other: Any) -> Tensor:
        update(self, name, other)
        return self

    return method


def _equal(name: str, of_none: bool) -> Callable[[Tensor, object], Any]:
    def method(self: Tensor, other: object) -> Any:
        return of_none if other is None else getattr(language, name)(self, other)

    return method


def _astype(self: Tensor, dtype: Any) -> Tensor:
    """A copy in another format, as nl.copy."""
    copy: Tensor = language.copy(self, dtype=dtype)
    return copy


def _broadcast_to(self: Tensor, shape: Sequence[int]) -> Tensor:
    """The tile with axes of size 1 repeated, as nl.broadcast_to."""
    return language.broadcast_to(self, shape=shape)


def install() -> None:
    """Give tensors these methods; the functions behind them are made of tensors themselves."""
    for symbol, name in BOTH_SIDES.items():
        setattr(Tensor, f"__{symbol}__", _defined(name))
        setattr(Tensor, f"__r{symbol}__", _defined(name, swapped=True))
        setattr(Tensor, f"__i{symbol}__", _in_place(name))
    for symbol, name in COMPARISONS.items():
        setattr(Tensor, f"__{symbol}__", _defined(name))
    methods = {
        "__eq__": _equal("equal", of_none=False),
        "__ne__": _equal("not_equal", of_none=True),
        "astype": _astype,
        "broadcast_to": _broadcast_to,
    }
    for method, function in methods.items():
        setattr(Tensor, method, function)


install()
