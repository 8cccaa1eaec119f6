"""What an instruction is, and the one table of them. `isa/` fills it; every other room reads it.

A clause is a function: its annotations say what each operand may be, its decorator adds rules
about several operands, the engines and the cost, its docstring is the equation and its body the
meaning. `Call` is one use of it with everything but the data known; whatever depends on nothing
else (legality, engine, cost) is found once per distinct Call.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, Union, get_args, get_origin, get_type_hints

from neuroncore.clause.operand import PSUM, Act, Op, Operand, Static, View
from neuroncore.enums import engine
from neuroncore.errors import (
    DefinitionError,
    KernelError,
    ShapeError,
)
from neuroncore.machine import Machine

Cost = Callable[["Call", Machine], Any]
Rule = Callable[["Call", Machine], KernelError | None]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a clause and how it takes part in recognising a Call."""

    name: str
    position: int
    default: Any
    declared: Operand | Op | Act | Static | None

    @property
    def operand(self) -> Operand | None:
        return self.declared if isinstance(self.declared, Operand) else None

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def always_tile(self) -> bool:
        operand = self.operand
        return operand is not None and not (operand.scalar or operand.optional or operand.many)


@dataclass(frozen=True, eq=False)
class Instruction:
    """One clause of the instruction set."""

    name: str
    engines: tuple[engine, ...]
    meaning: Callable[..., Any]
    cost: Cost
    parameters: tuple[Parameter, ...]
    rules: tuple[Rule, ...]
    choose: Callable[[Call, Machine], engine] | None
    feature: str | None
    opcode: str
    wants_core: bool
    named: bool  # whether the API's function takes a `name`
    dealt_to: Callable[[Call], Sequence[engine]] | None
    made_once: Callable[[Call], bool] | None
    may_be_written_by_source: Callable[[Call], bool] | None
    meets: bool  # whether it ends when the other core is at the same point

    @property
    def equation(self) -> str:
        return inspect.getdoc(self.meaning) or ""

    @property
    def where(self) -> str:
        code = self.meaning.__code__
        return f"{code.co_filename}:{code.co_firstlineno}"

    @cached_property
    def operands(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.operand)

    @cached_property
    def lists(self) -> tuple[str, ...]:
        """Operands that are lists of tiles."""
        return tuple(p.name for p in self.operands if p.operand and p.operand.many)

    @property
    def family(self) -> str:
        return self.meaning.__module__.rpartition(".")[2]


@dataclass(eq=False)
class Call:
    """One way an instruction was used: every operand and parameter, without the data.

    Scalars that neither legality nor cost depends on are left out of `arguments`.
    """

    instruction: Instruction
    machine: Machine
    arguments: dict[str, Any]  # views for tiles, "number" for a number in a tile's place
    engine: engine = engine.unknown
    index: int = -1  # its place in the program's table
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    dynamic: tuple[str, ...] = field(default=())
    indices: tuple[str, ...] = ()  # an operand per index that is noted, after those that are read

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def view(self, name: str) -> View:
        view = self.arguments[name]
        assert isinstance(view, View)
        return view

    def views(self, *names: str) -> list[View]:
        """The tiles among the named arguments (all of them if none is named)."""
        values = (self.arguments[n] for n in names) if names else self.arguments.values()
        return [v for v in values if isinstance(v, View)]

    @property
    def name(self) -> str:
        return self.instruction.name


def out_of_reach(call: Call, unit: engine) -> list[str]:
    """The tiles of a call that an engine can't reach: GpSimd has no port to PSUM (ARCH1)."""
    if unit is not engine.gpsimd:
        return []
    tiles = ((name, v) for name, v in call.arguments.items() if isinstance(v, View))
    return [name for name, view in tiles if view.region is PSUM]


INSTRUCTIONS: dict[str, Instruction] = {}


def instruction(
    *engines: engine,
    cost: Cost,
    rules: Sequence[Rule] = (),
    choose: Callable[[Call, Machine], engine] | None = None,
    feature: str | None = None,
    opcode: str | None = None,
    named: bool = True,
    dealt_to: Callable[[Call], Sequence[engine]] | None = None,
    made_once: Callable[[Call], bool] | None = None,
    may_be_written_by_source: Callable[[Call], bool] | None = None,
    meets: bool = False,
) -> Callable[[Callable[..., Any]], Instruction]:
    """Define one instruction from the function that is its meaning.

    `choose` picks an engine where the kernel leaves it open; otherwise it is the first of
    `engines`. `feature` is what a machine must have. `opcode` is the profiler's name for it.
    With `meets` it is not over before the other core has done its part of it, the same one of its
    program.

    What the older API's compiler may do: `dealt_to` says among which engines it chooses for a call,
    `made_once` whether it leaves out a call that does the same with the same data as one before it
    (all that such a call depends on has to be a tile or in the Call), `may_be_written_by_source`
    whether what made the source of a call, a copy, may write the same bits in its place.
    """

    def define(meaning: Callable[..., Any]) -> Instruction:
        name = meaning.__name__
        if (old := INSTRUCTIONS.get(name)) is not None:
            raise DefinitionError(f"{name} is already defined at {old.where}")
        INSTRUCTIONS[name] = Instruction(
            name=name,
            engines=engines,
            meaning=meaning,
            cost=cost,
            parameters=_parameters(meaning),
            rules=tuple(rules),
            choose=choose,
            feature=feature,
            opcode=opcode or name.upper(),
            wants_core="core" in inspect.signature(meaning).parameters,
            named=named,
            dealt_to=dealt_to,
            made_once=made_once,
            may_be_written_by_source=may_be_written_by_source,
            meets=meets,
        )
        return INSTRUCTIONS[name]

    return define


def _parameters(meaning: Callable[..., Any]) -> tuple[Parameter, ...]:
    hints = get_type_hints(meaning, include_extras=True)
    listed = inspect.signature(meaning).parameters.values()
    return tuple(
        Parameter(p.name, i, p.default, _declared(hints[p.name]))
        for i, p in enumerate(p for p in listed if p.name != "core")
    )


def _declared(hint: Any) -> Operand | Op | Act | Static | None:
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for option in options:
        for extra in getattr(option, "__metadata__", ()):
            if isinstance(extra, Operand | Op | Act | Static):
                return extra
        if option is bool:
            return Static()
        if isinstance(option, type) and issubclass(option, Enum):
            return Static(members=option)
    return None


def require(
    ok: bool, statement: str, kind: type[KernelError] = ShapeError, **fields: str | None
) -> None:
    """Refuse the instruction, for what can only be told from its values; nothing is written yet."""
    if not ok:
        raise kind(statement, **fields)  # type: ignore[arg-type]
