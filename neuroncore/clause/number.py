"""Numbers in the place of a tile: what of them only their value tells."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuroncore.clause.arithmetic import Operator
from neuroncore.clause.instruction import require
from neuroncore.errors import DtypeError, OperatorError, SignatureError
from neuroncore.memory.tile import Tile


def unary_operand(op: Operator, operand: Any, name: str) -> None:
    """An operator of one operand leaves the other out. Raises OperatorError, and DtypeError for
    a fraction where bit patterns are taken."""
    require(
        op.arity == 2 or operand is None or (not isinstance(operand, Tile) and operand == 0),
        f"{name} must be None or 0: {op} has one operand",
        OperatorError,
        argument=name,
        got=repr(operand),
    )
    require(
        op.kind == "arithmetic" or operand is None or isinstance(operand, Tile)
        or float(operand).is_integer(),
        f"{name} must be an integer for {op}",
        DtypeError,
        argument=name,
        got=repr(operand),
        because="bitvec operators work on bit patterns; nothing is converted",
    )  # fmt: skip
    require(
        op.arity == 1 or operand is not None,
        f"{op} needs {name}",
        OperatorError,
        argument=name,
        got="None",
    )


def a_value_of(call: str, name: str, value: Any, dst: Tile) -> None:
    """The constants of integer tiles are integers in their range (NKI 0.3.0 release notes).

    0.0 is one: no bit of it is set in any format, and published kernels zero integer tiles by it.
    Raises SignatureError and DtypeError.
    """
    require(
        isinstance(value, int | float | np.integer | np.floating),
        f"{call}: {name} must be a number",
        SignatureError,
        argument=name,
        got=f"{type(value).__name__} {value!r:.60}",
    )
    require(
        not dst.dtype.element or value == 0,
        f"{call}: a constant of {dst.dtype} can only be 0",
        DtypeError,
        argument=name,
        expected="0",
        got=repr(value),
        because="an element of a packed format is four numbers",
        hint="memset a view of the tile as integers: tensor.view(nl.uint32)",
    )
    if not dst.dtype.is_integer or value == 0:
        return
    low, high = dst.dtype.range
    require(
        isinstance(value, int | np.integer) and low <= int(value) <= high,
        f"{call}: {value!r} is not a value of {dst.dtype}",
        DtypeError,
        argument=name,
        expected=f"an integer from {low} to {high}",
        got=repr(value),
        because="the constant is stored in the format of dst; nothing is converted",
    )
