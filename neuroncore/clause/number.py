"""Numbers instead of a tile: rules that depend on their values."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuroncore.base.errors import DtypeError, OperatorError
from neuroncore.clause import arithmetic
from neuroncore.clause.alu import Operator
from neuroncore.clause.instruction import Run, require
from neuroncore.memory.tile import Tile


def number_for(op: Operator | None, operand: Any, name: str) -> None:
    """Raises OperatorError for a number other than 0 with an operator of one operand, and
    DtypeError for a fraction if bit patterns are required."""
    if op is None or operand is None or isinstance(operand, Tile):
        return
    if op.arity == 1:
        left_out(name, operand, f"{op} has one operand")
    require(
        op.kind == "arithmetic" or float(operand).is_integer(),
        f"{name} must be an integer for {op}",
        DtypeError,
        argument=name,
        got=repr(operand),
        because="bitvec operators work on bit patterns; nothing is converted",
    )


def numbers_for(run: Run, *operands: tuple[Operator | None, Any, str]) -> Run:
    """Return the run after a check that the numbers instead of its last tiles fit their operators,
    as `number_for` does; each with its operator and its name."""
    if not any(_asks(op, operand) for op, operand, _ in operands):
        return run
    named = [(op, name) for op, _, name in operands]

    def checked(*tiles: Any) -> None:
        for (op, name), operand in zip(named, tiles[-len(named) :], strict=True):
            number_for(op, operand, name)
        run(*tiles)

    return checked


def _asks(op: Operator | None, operand: Any) -> bool:
    """Return whether an operator takes only some numbers."""
    a_number = operand is not None and not isinstance(operand, Tile)
    return a_number and op is not None and (op.arity == 1 or op.kind != "arithmetic")


def left_out(name: str, value: Any, because: str) -> None:
    """Raises OperatorError for a parameter that a call has no use for, unless it is a number 0."""
    require(
        not isinstance(value, Tile) and value == 0,
        f"{name} must be None or 0: {because}",
        OperatorError,
        argument=name,
        expected="None or 0",
        got=repr(value),
    )


def constant_of(dst: Tile, value: Any, instruction: str, name: str) -> Any:
    """A number as a code of dst's format: of integers one in their range (NKI 0.3.0 release notes),
    else DtypeError is raised.

    0.0 is an integer: no bit of it is set in any format, and published kernels zero integer tiles
    by it.
    """
    form = dst.dtype
    if form.element:
        require(
            value == 0,
            f"{instruction}: a constant of {form} can only be 0",
            DtypeError,
            argument=name,
            expected="0",
            got=repr(value),
            because="an element of a packed format is four numbers",
            hint="memset a view of the tile as integers: tensor.view(nl.uint32)",
        )
        return 0
    if form.is_integer and value != 0:
        low, high = form.range
        require(
            _is_whole(value) and low <= int(value) <= high,
            f"{instruction}: {value!r} is not a value of {form}",
            DtypeError,
            argument=name,
            expected=f"an integer from {low} to {high}",
            got=repr(value),
            because="the constant is stored in the format of dst; nothing is converted",
        )
    return arithmetic.constant(dst.held, value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer)
