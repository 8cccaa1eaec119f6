"""Rules of an instruction that letters don't say, as data: a sentence, a condition, a reason.

A rule is a function of (call, machine) under `@rule`: its docstring is the sentence that
`neuroncore isa NAME` prints, and it returns None where the call is legal, else what is wrong
(`fault`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from neuroncore.base.errors import KernelError, ShapeError, TargetError
from neuroncore.base.structs import dataclass
from neuroncore.clause.instruction import Call
from neuroncore.machine import Machine
from neuroncore.memory.geometry import View


@dataclass(frozen=True)
class Fault:
    """The fault of a call; `fields` are those of its KernelError, `kind` if not the rule's."""

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
    early: bool = False  # before the shapes, whose meaning depends on it

    def __call__(self, call: Call, machine: Machine) -> KernelError | None:
        """The error of a call that breaks the rule, or None."""
        found = self.condition(call, machine)
        if not isinstance(found, Fault):
            return found
        fields = {"because": self.because, "hint": self.hint, "also": self.also, **found.fields}
        view = call.arguments.get(fields.get("argument") or "")
        if "got" not in fields and isinstance(view, View):
            fields["got"] = str(view)
        return (found.kind or self.kind)(f"{call.name}: {found.statement}", **fields)  # type: ignore[arg-type]

    def when(self, said: str, test: Callable[[Call], Any], **reasons: str | None) -> Rule:
        """The same rule for some calls only; `said` is how its sentence goes on, and `reasons` are
        theirs."""
        return replace(
            self,
            sentence=f"{self.sentence} {said}",
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
    """Make a rule of its condition; without `sentence` that is the docstring. An `early` one is
    asked before the shapes, whose meaning depends on it."""

    def define(condition: Condition) -> Rule:
        said = sentence or " ".join((condition.__doc__ or "").split())
        return Rule(said, condition, kind, because, hint, also, early)

    return define


def fault(
    argument: str, statement: str, expected: Any = None, got: Any = None, **more: Any
) -> Fault:
    """A fault: the argument to blame, a sentence in the kernel's words, the expected and the actual
    value (by default the tile). `more` overrides the rule's because, hint, also and kind."""
    kind = more.pop("kind", None)
    fields = {"argument": argument, **more}
    if expected is not None:
        fields["expected"] = str(expected)
    if got is not None:
        fields["got"] = str(got)
    return Fault(statement, fields, kind)


def lacks(machine: Machine, argument: str, what: str, feature: str, **more: Any) -> Fault:
    """The error for a feature that a generation doesn't have."""
    return fault(
        argument,
        f"{machine.name} has no {what}",
        f"a machine with {feature}",
        f"{machine.name} ({machine.generation})",
        kind=TargetError,
        **more,
    )
