"""Rules that the letters of shapes can't express (`neuroncore.clause.letters`).

The decorator `@rule` makes a rule from a function of (call, machine), whose docstring is the
sentence that `neuroncore isa NAME` prints. It returns a `fault`, or None for a legal call. Values
of numbers that replace tiles are checked when a call runs (`number_for`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from neuroncore.base.errors import DtypeError, KernelError, OperatorError, ShapeError, TargetError
from neuroncore.clause import arithmetic
from neuroncore.clause.alu import Operator
from neuroncore.clause.instruction import Call, Run
from neuroncore.machine import Machine, having
from neuroncore.memory.geometry import View
from neuroncore.memory.tile import Tile


def require(
    ok: bool, statement: str, kind: type[KernelError] = ShapeError, **fields: str | None
) -> None:
    """Raise an error of type `kind` unless `ok`, which depends on values of operands. Call this
    before anything is written."""
    if not ok:
        raise kind(statement, **fields)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Fault:
    """The fault of a call: fields of its KernelError, and the type of this error (`kind`; None: the
    rule's)."""

    statement: str
    fields: dict[str, str | None]
    kind: type[KernelError] | None = None


Condition = Callable[[Call, Machine], Fault | KernelError | None]


@dataclass(frozen=True, eq=False)
class Rule:
    """A condition that calls of an instruction must meet."""

    sentence: str
    condition: Condition
    kind: type[KernelError] = ShapeError
    because: str | None = None
    hint: str | None = None
    also: str | None = None
    early: bool = False  # checked before the shapes, whose meaning depends on it

    def __call__(self, call: Call, machine: Machine) -> KernelError | None:
        """Return the error of a call that breaks the rule, or None."""
        fault = self.condition(call, machine)
        if not isinstance(fault, Fault):
            return fault
        fields = {"because": self.because, "hint": self.hint, "also": self.also, **fault.fields}
        view = call.arguments.get(fields.get("argument") or "")
        if "got" not in fields and isinstance(view, View):
            fields["got"] = str(view)
        return (fault.kind or self.kind)(f"{call.name}: {fault.statement}", **fields)  # type: ignore[arg-type]

    def when(self, words: str, test: Callable[[Call], Any], **reasons: str | None) -> Rule:
        """Return this rule, limited to calls for which `test` is true. `words` are appended to the
        rule's sentence. `reasons` replace other fields of the rule, such as `because`."""
        return replace(
            self,
            sentence=f"{self.sentence} {words}",
            condition=lambda call, machine: self.condition(call, machine) if test(call) else None,
            **reasons,  # type: ignore[arg-type]
        )


def rule(
    kind: type[KernelError] = ShapeError,
    sentence: str | None = None,
    *,
    because: str | None = None,
    hint: str | None = None,
    also: str | None = None,
    early: bool = False,
) -> Callable[[Condition], Rule]:
    """Return a decorator that makes a rule from its condition.

    `sentence`: by default the docstring
    `early`: whether to check the rule before the shapes, whose meaning depends on it"""

    def define(condition: Condition) -> Rule:
        text = sentence or " ".join((condition.__doc__ or "").split())
        return Rule(text, condition, kind, because, hint, also, early)

    return define


def fault(
    argument: str, statement: str, expected: Any = None, got: Any = None, **more: Any
) -> Fault:
    """Return a fault: the argument to blame, the error's statement, and the expected and actual
    values.

    `got`: the actual value; by default the argument, if it is a tile
    `more`: replaces because, hint, also and kind of the rule"""
    kind = more.pop("kind", None)
    fields = {"argument": argument, **more}
    if expected is not None:
        fields["expected"] = str(expected)
    if got is not None:
        fields["got"] = str(got)
    return Fault(statement, fields, kind)


def lacks(machine: Machine, argument: str, use: str, feature: str, **more: Any) -> Fault:
    """Return the fault of an argument that needs a feature which the machine lacks."""
    return fault(
        argument,
        f"{machine.name} has no {use}",
        having(feature),
        f"{machine.name} ({machine.generation})",
        kind=TargetError,
        **more,
    )


def number_for(op: Operator | None, operand: Any, name: str) -> None:
    """Check a number that is the operand of an operator.

    Raises OperatorError for a number other than 0 that the operator does not use. Raises DtypeError
    for a fraction if the operator works on bit patterns."""
    if op is None or operand is None or isinstance(operand, Tile):
        return
    if op.arity == 1:
        left_out(name, operand, f"{op} has only one operand")
    require(
        op.kind == "arithmetic" or float(operand).is_integer(),
        f"{name} must be an integer, because {op} is a bitvec operator",
        DtypeError,
        argument=name,
        got=repr(operand),
        because="bitvec operators work on bit patterns; nothing is converted",
    )


def numbers_for(run: Run, *operands: tuple[Operator | None, Any, str]) -> Run:
    """Return a function that checks numbers (`number_for`) and then calls `run`.

    `operands`: (operator, operand, name) for each of the last arguments of `run`"""
    if not any(_asks(op, operand) for op, operand, _ in operands):
        return run
    named = [(op, name) for op, _, name in operands]

    def checked(*tiles: Any) -> None:
        for (op, name), operand in zip(named, tiles[-len(named) :], strict=True):
            number_for(op, operand, name)
        run(*tiles)

    return checked


def _asks(op: Operator | None, operand: Any) -> bool:
    """Return whether the operand is a number and the operator accepts only some numbers."""
    is_number = operand is not None and not isinstance(operand, Tile)
    return is_number and op is not None and (op.arity == 1 or op.kind != "arithmetic")


def left_out(name: str, value: Any, because: str) -> None:
    """Raise OperatorError unless the argument is 0: the call does not use it. `because`: the
    reason."""
    require(
        not isinstance(value, Tile) and value == 0,
        f"{name} must be None or 0, because {because}",
        OperatorError,
        argument=name,
        expected="None or 0",
        got=repr(value),
    )


def constant_of(dst: Tile, value: Any, instruction: str, name: str, floats: bool = False) -> Any:
    """Return a number as a code of dst's format. Raises DtypeError if an integer format lacks the
    number (NKI 0.3.0 release notes). Packed formats accept only 0.

    Three numbers are accepted although they are not in the format:

    * 0.0 in an integer format: published kernels clear integer tiles with it.
    * With `floats`, floats without a fraction: the documentation declares the argument as a float.
    * Negative integers in an unsigned format, with the bits of the signed format: the vendor's
      library marks absent rows with -1 in uint32."""
    form = dst.dtype
    if form.element:
        require(
            value == 0,
            f"{instruction}: {name} must be 0 for {form}, a packed format",
            DtypeError,
            argument=name,
            expected="0",
            got=repr(value),
            because="an element of a packed format is four numbers",
            hint="write integers to a view of the tile: tensor.view(nl.uint32)",
        )
        return 0
    if form.is_integer and value != 0:
        low, high = form.range
        least = low or -(high + 1) // 2
        require(
            _is_whole(value, floats) and least <= int(value) <= high,
            f"{instruction}: {name} is {value!r}, but {form} holds only integers from {low} to "
            f"{high}",
            DtypeError,
            argument=name,
            expected=f"an integer from {low} to {high}",
            got=f"{type(value).__name__} {value!r}",
            because="the constant is stored in the format of dst, without a conversion",
        )
        value = int(value) if low else int(value) % (high + 1)
    return arithmetic.constant(dst.held, value)


def _is_whole(value: Any, floats: bool) -> bool:
    if floats and isinstance(value, float | np.floating):
        return float(value).is_integer()
    return isinstance(value, int | np.integer)
