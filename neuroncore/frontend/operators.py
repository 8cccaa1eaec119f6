"""The operators of the API, such as `nl.add`. Kernels pass them to instructions of nki.isa, or call
them as functions of tiles.

Both APIs (dialects) have these operators, but turn calls into different instructions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from neuroncore.base.errors import OperatorError, SignatureError, UsageError
from neuroncore.clause.alu import FUNCTIONS, OPERATORS, SIMULATED, Function, Operator
from neuroncore.core.core import running
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import FORMATS, OPAQUE, Format, lookup


class Operation:
    """An operator of the API such as `nl.add`, in `nisa.tensor_tensor(..., op=nl.add)` or in
    `nl.add(x, y)`.

    `lowered`: the function of tiles that a call of the operator runs; if None, a call raises
        OperatorError
    `operator`: the name of the ALU operator, if it differs from `name`"""

    operator: Operator  # its row in the table of ALU operators, if it has one
    function: Function  # its row in the table of activation functions, if it has one

    def __init__(
        self, name: str, lowered: Callable[..., Any] | None, doc: str, operator: str = ""
    ) -> None:
        self.__name__, self.__doc__ = name, doc
        self.lowered = lowered
        if lowered is not None:
            self.__signature__ = inspect.signature(lowered)
        if (operator or name) in OPERATORS:
            self.operator = OPERATORS[operator or name]
        if name in FUNCTIONS:
            self.function = FUNCTIONS[name]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.lowered is None:
            raise OperatorError(
                f"{self!r} is only an argument of nki.isa instructions, not a function of tiles",
                hint=f"pass {self!r} to an instruction as its operator",
            )
        return self.lowered(*args, **kwargs)

    def __repr__(self) -> str:
        return f"nl.{self.__name__}"


class Simulated(Operation):
    """An operator of the vendor's simulator that no engine has. Kernels may use the operator with
    Options.simulator_operators."""

    @property
    def accepted(self) -> bool:
        core = running()
        return core is not None and core.options.simulator_operators

    @property
    def operator(self) -> Operator:  # type: ignore[override]
        if not self.accepted:
            raise AttributeError(f"{self!r} is not an operator of an engine")
        return SIMULATED[self.__name__]


class ByNumber(NamedTuple):
    """A function of a tile: it applies an operator to the tile and the constant `number`. If
    `number` is None, the operator is unary. In the older API, the function named by `of_bools` is
    used instead for a tile of conditions."""

    doc: str
    number: float | None = None
    operator: str = ""  # the name of the operator, if it differs from the function's name
    of_bools: str = ""


OF_TWO = (
    *("add", "subtract", "multiply", "maximum", "minimum", "power", "abs_max", "abs_min"),
    *("equal", "not_equal", "greater", "greater_equal", "less", "less_equal"),
    *("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"),
    *("left_shift", "right_shift"),
)
ACTIVATIONS = (
    *("exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "relu", "silu", "silu_dx", "softplus"),
    *("gelu", "gelu_dx", "gelu_apprx_tanh", "gelu_apprx_sigmoid", "gelu_apprx_sigmoid_dx"),
    *("mish", "erf", "erf_dx", "square", "sign", "arctan"),
)
BY_NUMBER = {
    "abs": ByNumber("|x|"),
    # like numpy.invert: the page of err_ambiguous_tensor_truth_value negates a comparison by ~
    "invert": ByNumber("x with every bit inverted", of_bools="logical_not"),
    "logical_not": ByNumber("1 where x is 0, else 0", 0.0, "equal"),
    "negative": ByNumber("-x", -1.0, "multiply"),
}
# added to the API after the older dialect
LATER = frozenset({"abs_max", "abs_min", "gelu_apprx_sigmoid_dx"})


def operations(
    of_two: Callable[[str], Operation],
    activation: Callable[[str], Operation],
    by_number: Callable[[str, ByNumber], Operation],
    without: frozenset[str] = frozenset(),
) -> dict[str, Operation]:
    """Return the operators of a dialect by name, except the operators in `without`. `of_two` makes
    an operator of two operands, `activation` an activation function, and `by_number` an operator in
    BY_NUMBER."""
    by_name = {name: of_two(name) for name in OF_TWO if name not in without}
    by_name |= {name: activation(name) for name in ACTIVATIONS if name not in without}
    return by_name | {name: by_number(name, row) for name, row in BY_NUMBER.items()}


# the widest float first; formats that engines only move are refused later
WIDTHS = [*FORMATS, *OPAQUE]


def format_of(dtype: Any, position: int) -> Format:
    """Return the format that the argument `dtype` names. Raises SignatureError if there is no such
    format. `position` is the argument's position in the call, for the message."""
    try:
        return lookup(dtype)
    except UsageError as error:
        raise SignatureError(str(error), argument="dtype", position=position) from None


def common(x: Any, y: Any) -> Format:
    """Return the format of x <op> y: the wider format if both are tiles, or the format of the only
    tile."""
    if isinstance(x, Tile) and isinstance(y, Tile) and x.dtype is y.dtype:
        return x.dtype
    formats = [lookup(t.dtype) for t in (x, y) if isinstance(t, Tile)]
    return min(formats, key=WIDTHS.index)
