"""Instructions, and the one table of them. `isa/` fills the table; all other packages read it.

A clause is a function that defines an instruction. Its annotations state which values each operand
may have. Its decorator adds shapes, as letters of the equation (`neuroncore.clause.letters`), rules
that letters can't express, engines and the cost. Its docstring is the equation. Its body states
what the instruction computes.

A `Call` is one use of a clause with everything known but the data. Legality, engine, cost and the
function to run depend on nothing else, so each is determined once per distinct Call.

A clause that returns a `Run` is staged. Its body gets the tiles of the first use of a Call and
makes the decisions that hold for every use. The Run takes the varying arguments of a use, in the
order of `Instruction.varying`. Later uses have other cores and tiles, so a Run must not keep a core
or a tile."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from types import MappingProxyType
from typing import Any, Protocol, Union, get_args, get_origin, get_type_hints

from neuroncore.base.enums import engine, reduce_cmd
from neuroncore.base.errors import DefinitionError, KernelError
from neuroncore.clause import letters
from neuroncore.clause.alu import IsaTable
from neuroncore.clause.immediate import Immediate, Register
from neuroncore.clause.operand import PSUM, Act, Op, Operand, Participation, Static, participation
from neuroncore.machine import Machine
from neuroncore.machine.world import World
from neuroncore.memory.geometry import View

Cost = Callable[["Call", Machine], Any]
Run = Callable[..., None]  # takes the core, if the clause needs it, and the varying arguments
# returns the cores that must meet, given a core's number
Meets = Callable[["Call", World, int], Sequence[int]]

Declared = Operand | Op | Act | Static | Immediate | Register


class Rule(Protocol):
    """A function that returns the error of a call, or None (`neuroncore.clause.refusal`)."""

    @property
    def sentence(self) -> str: ...
    @property
    def because(self) -> str | None: ...
    @property
    def early(self) -> bool: ...
    def __call__(self, call: Call, machine: Machine, /) -> KernelError | None: ...


@dataclass(frozen=True)
class Fusion:
    """Rewrites of calls by the older API's compiler.

    `engines`: a function that returns the engines among which the compiler chooses
    `once`: whether a call on the same data is computed once (common subexpression elimination); its
        results must depend only on its tiles and its Call
    `sums`: a function that returns whether a call adds two tiles, so that a product that is added
        in place can accumulate instead
    `fills`: whether a call writes one number to all elements of its tile"""

    engines: Callable[[Call, Machine], Sequence[engine]] | None = None
    once: bool = False
    sums: Callable[[Call], bool] | None = None
    fills: bool = False


@dataclass(frozen=True)
class Traits:
    """Facts about an instruction for readers of a record, in addition to its operands."""

    lanewise: bool = False
    """Every lane works independently, so a subset of the lanes represents all."""
    scans: bool = False
    """Each element of a result depends on other elements of its lane, as in a scan."""
    casts: bool = False
    """The integers that the instruction writes may have been rounded or truncated."""
    copies: bool = False
    """The instruction copies; if the formats are equal, nothing is computed."""
    copies_out: bool = False
    """The instruction copies results of the Tensor engine from PSUM to SBUF."""
    moves_bits: bool = False
    """The instruction computes and rounds nothing, whatever the formats of its operands are."""
    transposes: bool = False
    """The instruction always transposes."""
    asks_transpose: str = "is_transpose"
    """The argument that turns a product into a transpose."""
    multiplies: bool = False
    """The instruction is a product of matrices, which the Tensor engine computes."""
    weights: str = "stationary"
    """The operand that stays in the Tensor engine's array, if the instruction uses the array."""
    streams: str | None = "moving"
    """The operand that streams through the array; None if that is the identity matrix."""
    adds: str = "accumulate"
    """The argument that states whether the product is added to the earlier contents of PSUM; if the
    argument is None, the call does not state it."""
    onezero: str = "is_stationary_onezero"
    """The argument that promises weights of zeros and ones."""
    accumulates: bool = False
    """The instruction uses its engine's accumulator registers."""
    command: str = "reduce_cmd"
    """The argument that has the command for the accumulator registers."""
    fixed_command: reduce_cmd = reduce_cmd.idle
    """The command of an instruction that does not have the argument `command`."""
    exchanges: bool = False
    """The results of the instruction come from another core."""
    computes: bool = True
    """The instruction reads or writes data; otherwise it only waits for instructions or cores."""
    bytes_counted: bool = True
    """The vendor's profiler counts the bytes of the instruction's operands."""


LANEWISE = Traits(lanewise=True, casts=True)
SCANNING = Traits(lanewise=True, scans=True, casts=True)
FOLDING = Traits(lanewise=True, casts=True, accumulates=True)


@dataclass(frozen=True)
class Parameter:
    """One parameter of a clause. `declared` determines whether its argument is a part of a Call."""

    name: str
    position: int
    default: Any
    declared: Declared

    @property
    def operand(self) -> Operand | None:
        return self.declared if isinstance(self.declared, Operand) else None

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def is_value(self) -> bool:
        """True if the argument may be a number or a register, and the Call does not store its
        value. False for registers that the instruction writes."""
        declared = self.declared
        if isinstance(declared, Register):
            return not declared.written
        if isinstance(declared, Immediate):
            return not declared.keyed
        return isinstance(declared, Operand) and declared.scalar

    @property
    def always_tile(self) -> bool:
        operand = self.operand
        return operand is not None and not (operand.scalar or operand.optional or operand.many)

    @property
    def varies(self) -> bool:
        """True if uses of one Call may have different arguments for this parameter."""
        if isinstance(self.declared, Immediate | Register):
            return not self.declared.keyed
        return self.operand is not None


@dataclass(frozen=True, eq=False)
class Instruction:
    """One clause of the instruction set."""

    name: str
    engines: tuple[engine, ...]
    meaning: Callable[..., Any]
    cost: Cost
    shapes: dict[str, letters.Shape]
    given: letters.Given  # letters of `shapes` that are factors and not sizes
    rules: tuple[Rule, ...]
    choose: Callable[[Call, Machine], engine] | None
    feature: str | None
    opcode: str
    wants_core: bool
    named: bool  # whether the API's function has a parameter `name`
    example: str  # the arguments that `neuroncore.clause.example` can't guess
    meets: Meets | None  # for an instruction that waits for other cores: which cores must meet
    module: str  # the API's module that contains its function
    removed: str  # a parameter of earlier releases that changed no result and is ignored
    traits: Traits
    older_compiler: Fusion

    @property
    def equation(self) -> str:
        return inspect.getdoc(self.meaning) or ""

    @property
    def where(self) -> str:
        code = self.meaning.__code__
        return f"{code.co_filename}:{code.co_firstlineno}"

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of the clause. Raises DefinitionError for a parameter whose annotation
        does not declare one."""
        hints = get_type_hints(self.meaning, include_extras=True)
        listed = [
            p for p in inspect.signature(self.meaning).parameters.values() if p.name != "core"
        ]
        return tuple(
            Parameter(p.name, i, p.default, self._declared(p.name, hints[p.name]))
            for i, p in enumerate(listed)
        )

    def _declared(self, name: str, hint: Any) -> Declared:
        options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
        for option in options:
            for extra in getattr(option, "__metadata__", ()):
                if isinstance(extra, Operand):
                    return replace(extra, column=_is_column(self.shapes.get(name)))
                if isinstance(extra, Declared):
                    return extra
            if option is bool:
                return Static(flag=True)
            if isinstance(option, type) and issubclass(option, Enum):
                return Static(members=option)
        raise DefinitionError(f"{self.name}: {name} is not declared")

    @cached_property
    def declared(self) -> dict[str, Any]:
        """The declaration of each parameter, by its name."""
        return {p.name: p.declared for p in self.parameters}

    @cached_property
    def operands(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.operand)

    @cached_property
    def columns(self) -> frozenset[str]:
        """Operands that are single columns, with one number for each partition."""
        return frozenset(p.name for p in self.operands if p.operand and p.operand.column)

    @cached_property
    def open_operands(self) -> tuple[Parameter, ...]:
        """Operands that may be tiles, numbers or None."""
        return tuple(p for p in self.operands if not (p.always_tile or p.name in self.lists))

    @cached_property
    def varying(self) -> tuple[Parameter, ...]:
        """Parameters whose arguments may differ between uses of one Call: tiles, and numbers that
        affect neither legality nor cost."""
        return tuple(p for p in self.parameters if p.varies)

    @cached_property
    def varying_names(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.varying)

    @cached_property
    def staged(self) -> bool:
        """True if the body returns a Run."""
        return str(self.meaning.__annotations__["return"]) != "None"

    @cached_property
    def lists(self) -> tuple[str, ...]:
        """Operands that are lists of tiles."""
        return tuple(p.name for p in self.operands if p.operand and p.operand.many)

    @cached_property
    def values(self) -> tuple[str, ...]:
        """Parameters that may be a number or a register, with a value that is not in the Call."""
        return tuple(p.name for p in self.parameters if p.is_value)

    @cached_property
    def may_move(self) -> bool:
        """True if DMA engines may run the instruction."""
        return engine.dma in self.engines

    @property
    def family(self) -> str:
        return self.meaning.__module__.rpartition(".")[2]


@dataclass(eq=False)
class Call:
    """One use of an instruction, without the data.

    `arguments`: a View for each tile, and "number" for a number that replaces a tile. Numbers and
        registers that affect neither legality nor cost are missing."""

    instruction: Instruction
    machine: Machine
    arguments: dict[str, Any]
    engine: engine = engine.unknown
    index: int = -1  # its position in the program's table of calls
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    dynamic: tuple[str, ...] = field(default=())
    # for each index tile in a row, the name of its operand; the tiles follow those that are read
    indices: tuple[str, ...] = ()
    # the function that executes the call, set when its core first executes it
    run: Run | None = field(default=None, init=False)
    # the function that makes the rows of a record for the call
    pack: Callable[..., bytes] | None = field(default=None, init=False)
    # data that readers have derived from the call, by key; copies for other launches share it
    results: dict[str, Any] = field(default_factory=dict, init=False)

    def of_launch(self) -> Call:
        """Return a copy for another launch or core, without `run`."""
        copy = object.__new__(Call)  # the module `copy` takes several times as long
        vars(copy).update(vars(self), run=None)
        return copy

    def cost(self, machine: Machine) -> Any:
        """Return the call's cost on a machine. The first cost and the most recent cost are
        cached."""
        figures = machine.figures_for(self.engine.name, self.instruction.may_move)
        costs = self.results.get("cost", ())
        for known, cost in costs:
            if known is figures or known == figures:
                return cost
        computed = self.instruction.cost(self, machine)
        self.results["cost"] = (figures, computed), *costs[-1:]
        return computed

    def derived(self, key: str, make: Callable[[], Any]) -> Any:
        """Return make(), computed once for each `key`. The result must depend on the call only."""
        if key not in self.results:
            self.results[key] = make()
        return self.results[key]

    @property
    def has_values(self) -> bool:
        """True if rows of the call have run-time values: numbers, and registers in offsets of
        tiles."""
        return bool(self.instruction.values or self.dynamic)

    @property
    def participation(self) -> Participation:
        """How the cores of a rank take part in the collective. Both fields are False for calls that
        are not collectives."""
        if self.instruction.meets is None or not self.instruction.lists:
            return Participation(False, False)
        return participation(self.view(name) for name in {*self.reads, *self.writes})

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def view(self, name: str) -> View:
        view = self.arguments[name]
        assert isinstance(view, View)
        return view

    def views(self, *names: str) -> list[View]:
        """Return the tiles among the named arguments, by default among all."""
        values = (self.arguments[n] for n in names) if names else self.arguments.values()
        return [v for v in values if isinstance(v, View)]

    def tiles(self, *names: str) -> dict[str, View]:
        """Return the tiles of the named operands, by name. Tiles of a list are "name[0]",
        "name[1]", ..."""
        arguments = ((n, v) for n, v in self.arguments.items() if n.partition("[")[0] in names)
        return {name: view for name, view in arguments if isinstance(view, View)}

    @property
    def shown_arguments(self) -> dict[str, Any]:
        """The call's arguments, by name, as messages show them: tiles instead of lists, without
        None and False."""
        lists = {name.partition("[")[0] for name in self.arguments if "[" in name}
        arguments = ((n, v) for n, v in self.arguments.items() if n not in lists)
        return {n: v for n, v in arguments if v is not None and v is not False}

    @property
    def inputs(self) -> int:
        """The number of tiles that the call reads, including indices. In the rows of a record, they
        come before the results."""
        return len(self.reads) + len(self.indices)

    @property
    def transposes(self) -> bool:
        """True if the call transposes, always or because of an argument."""
        traits = self.instruction.traits
        return traits.transposes or bool(self.arguments.get(traits.asks_transpose))

    @property
    def register_command(self) -> reduce_cmd:
        """The command for the accumulator registers; idle if the call does not use them."""
        traits = self.instruction.traits
        command: reduce_cmd = self.arguments.get(traits.command, traits.fixed_command)
        return command

    @property
    def adds_to_registers(self) -> bool:
        """True if the call adds to the values in the accumulator registers of its engine."""
        return self.register_command is reduce_cmd.reduce

    @property
    def written_bytes(self) -> int:
        """The bytes of all results of the call."""
        return sum(self.view(name).nbytes for name in self.writes)

    @property
    def name(self) -> str:
        return self.instruction.name


def left_open(call: Call, machine: Machine) -> list[engine]:
    """Return the engines among which the older compiler chooses for a call, the preferred engine
    first.

    The call goes to the engine that the compiler expects to end it first, and to the preferred
    engine if it expects both to end it at the same time. An engine that the kernel names is the
    only choice.

    In 17 published profiles GpSimd executes none of the calls that name no engine. On trn1, Vector
    executes nearly none of the calls that name no engine and read PSUM. In bmm these calls take 0.1
    us on Vector and 1,718 us on Scalar (AccelOpt). In compiled programs of the repositories
    waahm7/asst4-trainium, Ericcsr/asst4-trainium and sahiljain01/asst4-trainium, Vector executes
    none of them. On trn2, Vector executes a fifth to three fifths of such calls (traces of the
    repositories trainium-kernel-fusion and cs149stanfordasst4, counters of kda-for-trainium's
    bmm)."""
    if call["engine"] is not engine.unknown:
        return [call.engine]
    if all(v.region is not PSUM for v in call.views(*call.reads)):
        return [engine.vector, engine.scalar]
    return [engine.scalar, engine.vector][: 1 + machine.has("vector_empties_psum")]


INSTRUCTIONS: IsaTable[Instruction] = IsaTable()
PLAIN, UNFUSED = Traits(), Fusion()  # the defaults of most instructions


def instruction(
    *engines: engine,
    cost: Cost,
    shapes: str = "",
    rules: Sequence[Rule] = (),
    given: letters.Given = MappingProxyType({}),
    choose: Callable[[Call, Machine], engine] | None = None,
    feature: str | None = None,
    opcode: str | None = None,
    named: bool = True,
    meets: Meets | None = None,
    module: str = "nki.isa",
    removed: str = "",
    example: str = "",
    traits: Traits = PLAIN,
    older_compiler: Fusion = UNFUSED,
) -> Callable[[Callable[..., Any]], Instruction]:
    """Define one instruction from the function that is its meaning.

    `shapes`, `given`: see `neuroncore.clause.letters`
    `choose`: returns the engine if the kernel names none; by default the first of `engines`
    `feature`: the feature that a machine must have
    `opcode`: the profiler's name of the instruction
    `named`: whether the API's function has a parameter `name`
    `module`: the API's module with the function
    `removed`: a parameter of releases before 0.3 that changes no result
    `meets`: returns the cores that must reach this point before the instruction ends
    `example`: see `neuroncore.clause.example`"""

    def define(meaning: Callable[..., Any]) -> Instruction:
        name = meaning.__name__
        if (old := INSTRUCTIONS.get(name)) is not None:
            raise DefinitionError(f"{name} is already defined at {old.where}")
        terms, takes = letters.parse(shapes), _names_of_parameters(meaning)
        if unknown := terms.keys() - takes:
            raise DefinitionError(f"{name} has no parameter {min(unknown)}, but shapes= names it")
        INSTRUCTIONS[name] = Instruction(
            name=name,
            engines=engines,
            meaning=meaning,
            cost=cost,
            shapes=terms,
            given=given,
            rules=tuple(rules),
            choose=choose,
            feature=feature,
            opcode=opcode or name.upper(),
            wants_core="core" in takes,
            named=named,
            meets=meets,
            module=module,
            removed=removed,
            example=example,
            traits=traits,
            older_compiler=older_compiler,
        )
        return INSTRUCTIONS[name]

    return define


def _names_of_parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _is_column(shape: letters.Shape | None) -> bool:
    """Return whether a shape has one element in each partition, and several partitions."""
    return shape is not None and shape[0].letter is not None and shape[1].text == "1"
