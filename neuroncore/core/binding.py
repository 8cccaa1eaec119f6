"""Helpers of the generated functions: `frontend/instructions.py` binds and checks a call, and
`core/execute.py` executes the call.

`docs/generate/functions.py` writes both files from the clauses of isa/, the definitions of the
instructions. The functions are generated so that a call costs little more than its checks:
`inspect.Signature.bind` alone would take longer than a small instruction.

A Call is a use of an instruction without its data. A Run is the function that executes a Call. It
takes the arguments that vary between uses. This module defines:

* the result of a generated function (`NkiInstruction`),
* the errors for arguments that do not fit its signature (`settle`),
* offsets that are known only when an instruction runs (`resolve`),
* the Run of a Call (`stage`),
* the error for exceptions that no rule raised (`unexpected`): faults of neuroncore are never
  reported as mistakes of the kernel."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import FrameType
from typing import Any, TypeAlias

import numpy as np

from neuroncore.base import source
from neuroncore.base.errors import (
    REPORT,
    DtypeError,
    EmulatorError,
    NeuronError,
    NotEmulated,
    OutsideKernelError,
    SignatureError,
    did_you_mean,
)
from neuroncore.base.units import plural
from neuroncore.clause import legality
from neuroncore.clause.instruction import Call, Instruction, Run
from neuroncore.clause.operand import Op, spread
from neuroncore.core import indirection
from neuroncore.core.core import Core
from neuroncore.memory.register import VirtualRegister
from neuroncore.memory.tile import Array, Dynamic, Tile
from neuroncore.record.program import Program


class _Missing:
    """The default of a required parameter. If the argument is missing, neuroncore's error message
    is raised and not Python's."""

    def __repr__(self) -> str:
        return "<required>"


MISSING: Any = _Missing()

# Types of arguments that are read when an instruction is issued. Signatures show these names.
TileOrNumber: TypeAlias = Any
MaybeTile: TypeAlias = Any
Tiles: TypeAlias = Any
Real: TypeAlias = float | np.number[Any]


class NkiInstruction:
    """An instruction that the kernel has issued: the value that `nisa.tensor_copy(...)` returns."""

    __slots__ = ("program", "row")

    def __init__(self, program: Program | None, row: int) -> None:
        self.program, self.row = program, row

    def __repr__(self) -> str:
        return "an instruction (it has no value, because it writes its result to dst)"

    def depends_on(self, *producers: NkiInstruction) -> NkiInstruction:
        """Let this instruction start only after the instructions `producers` have finished.

        The estimated time changes, but the results don't. Returns this instruction."""
        for producer in producers:
            if not isinstance(producer, NkiInstruction):
                raise SignatureError(
                    f"depends_on takes instructions, not {type(producer).__name__}",
                    argument="producers",
                    position=0,
                )
            programs = {self.program, producer.program} - {None}
            if producer is self or len(programs) > 1:
                other = "itself" if producer is self else "an instruction of another core or launch"
                raise SignatureError(
                    f"an instruction can't wait for {other}",
                    argument="producers",
                    position=0,
                    because="the instruction would never start",
                    hint="name instructions that the kernel has issued before in this launch",
                )
            if producer.row > self.row:
                raise NotEmulated(
                    "depends_on can't take an instruction that is issued after this instruction"
                )
            if self.program is not None:
                self.program.wait(self.row, producer.row)
        return self


def arguments(instruction: Instruction, scope: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments by parameter, from the local variables of a generated function.

    For a list of tiles, each tile is also included, under the key "name[i]"."""
    by_name = {p.name: scope[p.name] for p in instruction.parameters}
    for name in instruction.lists:
        by_name |= spread(name, by_name[name])
    return by_name


def kinds(value: Any) -> Any:
    """Return the type of an argument. For a tuple, return a tuple of its elements' types."""
    return type(value) if type(value) is not tuple else tuple(map(type, value))


def member(default: Enum, number: int) -> Any:
    """Return the member of an enumeration with this number, or the number itself if there is none.
    Published kernels pass such numbers. `default` is any member."""
    kind = type(default)
    return kind(number) if number in {member.value for member in kind} else number


def numbered(program: Program | None, register: VirtualRegister) -> int:
    """Return the record's number for the value of a register; -1 without a record. Raises
    OutsideKernelError if another launch or core has loaded the value."""
    if program is None:
        return -1
    if register.load is not None and register.load.record is not program:
        raise OutsideKernelError(
            "the value of a register was loaded by another launch or core",
            because="the registers of a kernel exist only while it runs, and only on its core",
            hint="load the value with nisa.register_load in this kernel",
        )
    return program.data.register(register)


def signature_of(instruction: Instruction) -> inspect.Signature:
    """Return the signature that users see for an instruction."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    listed = [inspect.Parameter(p.name, kind, default=p.default) for p in instruction.parameters]
    named = inspect.Parameter("name", kind, default=None)
    return inspect.Signature([*listed, named] if instruction.named else listed)


# Exceptions that are not neuroncore's fault: errors that neuroncore itself raised to report a
# problem, and errors that the host or the kernel may cause, such as too little memory, too deep
# calls, or a full disk when a loop is compiled.
NOT_OURS = (NeuronError, MemoryError, RecursionError, OSError)


def unexpected(
    instruction: Instruction, core: Core, error: Exception, scope: Mapping[str, Any]
) -> NeuronError:
    """Return the error for an exception that no rule of the instruction raises: a fault of
    neuroncore, or of a kernel that passes an integer beyond all floats or a tile of an earlier
    launch (`Storage.end`). `scope` has the arguments."""
    try:
        core.check_launch(arguments(instruction, scope) if scope else {})
    except NeuronError as outlived:
        return outlived
    if isinstance(error, OverflowError):
        for name, value in scope.items():
            if isinstance(value, int) and abs(value) > sys.float_info.max:
                return DtypeError(
                    f"{instruction.name}: {name} is an integer beyond all floating-point numbers",
                    argument=name,
                    expected="at most 3.4e38, the greatest number of float32",
                    got=f"about 2^{abs(value).bit_length() - 1}",
                    because="the number is converted to float32",
                )
    site = core.birthplace()
    where = "" if site is None else f"{source.place_of(site)}: "
    cause = f"{type(error).__name__}: {error}"
    return EmulatorError(f"{where}neuroncore failed at {instruction.name}: {cause}", hint=REPORT)


def stage(call: Call, arguments: Mapping[str, Any], core: Any) -> Run:
    """Return the function that executes a call on a core. `arguments` are those of the first use,
    with tiles at their run-time offsets."""
    instruction, by_name = call.instruction, _body_arguments(call, arguments)
    for parameter in instruction.parameters:
        if isinstance(parameter.declared, Op) and (op := by_name[parameter.name]) is not None:
            by_name[parameter.name] = core.operators.get(op.name, op)
    if not instruction.staged:
        return _unstaged(call, by_name)
    extra = {"core": core} if instruction.wants_core else {}
    run: Run = instruction.meaning(**by_name, **extra)
    return run


def staged(call: Call, arguments: Mapping[str, Any], core: Any) -> Run:
    """Return the function that executes a call. If the core has an observer (`Core.watch`), the
    function makes the observer's checks too."""
    run = stage(call, arguments, core)
    return run if core.watch is None else core.watch.over(call, arguments, run)


def _unstaged(call: Call, by_name: dict[str, Any]) -> Run:
    """Return the Run of a clause that is not staged: it calls the clause's function."""
    meaning, parameters = call.instruction.meaning, call.instruction.parameters
    first = [by_name[p.name] for p in parameters]
    places = [i for i, p in enumerate(parameters) if p.varies]

    def arguments(varying: tuple[Any, ...]) -> list[Any]:
        now = first.copy()
        for place, argument in zip(places, varying, strict=True):
            now[place] = argument
        return now

    if call.instruction.wants_core:
        return lambda core, *varying: meaning(*arguments(varying), core=core)
    return lambda *varying: meaning(*arguments(varying))


def perform(call: Call, arguments: Mapping[str, Any], core: Any, run: Run | None = None) -> None:
    """Execute a call once on `core`.

    `arguments`: tiles must have the Views (shape, format and so on) for which the call was checked
    `run`: the function that executes the call, by default the result of `stage`"""
    instruction = call.instruction
    by_name = _body_arguments(call, arguments) if instruction.lists else arguments
    varying = [by_name[name] for name in instruction.varying_names]
    run = run or stage(call, arguments, core)
    if instruction.wants_core:
        run(core, *varying)
    else:
        run(*varying)


def _body_arguments(call: Call, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the clause's function, by parameter."""
    by_name = {p.name: arguments[p.name] for p in call.instruction.parameters}
    for name in call.instruction.lists:
        by_name[name] = [arguments[n] for n in spread(name, by_name[name])]
    if "engine" in by_name:
        by_name["engine"] = call.engine
    return by_name


@dataclass(frozen=True, eq=False)
class Offsets:
    """The arguments of one instruction as the kernel passed them, and its tiles at their current
    run-time offsets."""

    core: Core
    call: Call
    arguments: dict[str, Any]
    tiles: dict[str, Any]
    picks: bool  # whether an index chooses elements of an operand

    def note(self, frame: FrameType, values: tuple[Any, ...]) -> int:
        """Scatter the instruction's results, record the instruction, and return its number.

        `values`: the instruction's numbers and registers, each followed by its type
            (`record.inputs`). The registers of its offsets are appended."""
        self.write_out()
        core, call, arguments = self.core, self.call, self.arguments
        used = [d.index for n in call.dynamic for d in arguments[n].dynamic]
        indices = (index for index in used if isinstance(index, Tile))
        reads, writes = ([arguments[n] for n in names] for names in (call.reads, call.writes))
        registers = [index for index in used if isinstance(index, VirtualRegister)]
        if core.program is not None:
            for register in registers:
                values += numbered(core.program, register), VirtualRegister
        row = core.note(call, frame, values, *reads, *indices, *writes)
        for load in (register.load for register in registers):
            if load is not None and load.record is core.program:
                load.record.wait(row, load.row)
        return row

    def write_out(self) -> None:
        """Scatter results to the elements that an index chose."""
        if not self.picks:
            return
        core, call = self.core, self.call
        operands = {p.name: p.operand for p in call.instruction.operands if p.operand}
        results = [(self.tiles[n], operands[n]) for n in call.writes if n in operands]
        picked = [(t, o) for t, o in results if isinstance(t, indirection.Picked)]
        for tile, operand in picked:
            if tile.source.storage.before_write is not None:
                tile.source.storage.before_write()
            indirection.scatter(tile, operand.partial)
            tile.source.storage.version += 1
        if core.shadow is not None:
            core.shadow.scatter(picked)


def resolve(core: Core, call: Call, arguments: dict[str, Any], skip: bool) -> Offsets | None:
    """Return the Offsets of a call. With `skip`, return None if an operand is out of bounds.

    Tiles with an index that chooses rows stay unchanged: the instruction itself reads the index.
    Raises OutOfBoundsError. Raises ViewError if numbers and their scales have different indices."""
    tiles = dict(arguments)
    picked = {n: arguments[n] for n in call.dynamic if arguments[n].picks}
    for name in call.dynamic:
        if name in picked:
            continue
        tile = arguments[name]
        for index in (d.index for d in tile.dynamic):
            if isinstance(index, Tile) and index.storage.gaps is not None:
                core.check_written("the index", index)
        if not tile.dynamic[0].vector:
            if skip and _out_of_bounds(tile):
                if core.program is not None:
                    core.program.data.skipped += 1
                if core.undefined is not None:
                    core.undefined.skipped()
                return None
            tiles[name] = tile.resolved(name)
    if picked:
        tiles.update(_pick(core, call, picked))
    return Offsets(core, call, arguments, tiles, bool(picked))


def _pick(core: Core, call: Call, picked: dict[str, Tile]) -> dict[str, Tile]:
    """Return temporary tiles with the elements that indices choose, by operand name."""

    def check(name: str, tile: Tile, used: Array) -> None:
        core.check_written(name, tile, chosen=used)

    operands = {p.name: p.operand for p in call.instruction.operands if p.operand}
    for name, tile in picked.items():
        if other := operands[name].index_of:
            error = indirection.same_index(name, tile, other, picked[other])
            if error is not None:
                raise error
    size = legality.index_group(call.engine, core.machine)
    chosen = {n: indirection.places(n, t, size, check) for n, t in picked.items()}
    return {
        n: indirection.pick(n, t, chosen[n], size, operands[n], check) for n, t in picked.items()
    }


def _out_of_bounds(tile: Tile) -> bool:
    def inside(dynamic: Dynamic) -> bool:
        index = dynamic.index
        value = index.value if isinstance(index, VirtualRegister) else int(index.codes().flat[0])
        return 0 <= value <= dynamic.limit

    return not all(inside(d) for d in tile.dynamic)


# NKI 0.1 ignored unknown keywords, and published kernels still pass these.
IGNORED = frozenset({"dtype", "mask"})


def _free(arguments: dict[str, Any]) -> list[str]:
    """Return the names of the parameters that have no argument yet."""
    return [name for name, value in arguments.items() if value is MISSING]


def settle(
    instruction: Instruction,
    scope: Mapping[str, Any],
    extra: tuple[Any, ...],
    unknown: dict[str, Any],
) -> None:
    """Handle arguments that do not fit the signature.

    `scope`: the arguments that fit, by name
    `extra`: surplus positional arguments
    `unknown`: keyword arguments that the signature lacks

    Keywords in IGNORED and the keyword `Instruction.removed` are ignored, with a warning. Raise
    SignatureError for all other unknown keywords, and for surplus or missing arguments."""
    arguments = {p.name: scope[p.name] for p in instruction.parameters}
    form = f"nisa.{instruction.name}{signature_of(instruction)}"
    for name in unknown:
        if name not in IGNORED and name != instruction.removed:
            raise SignatureError(
                f"{instruction.name} has no parameter {name!r}",
                argument=name,
                expected=form,
                hint=did_you_mean(name, _free(arguments)) or did_you_mean(name, arguments),
            )
        warnings.warn(f"nisa.{instruction.name} ignores {name}=", stacklevel=3)
    if extra:
        raise SignatureError(
            f"{instruction.name} takes at most "
            + plural(len(arguments) + instruction.named, "positional argument"),
            expected=form,
            got=plural(len(arguments) + instruction.named + len(extra), "positional argument"),
        )
    if absent := _free(arguments):
        missing = f"{instruction.name} lacks the {'argument' if len(absent) == 1 else 'arguments'}"
        raise SignatureError(f"{missing} {', '.join(absent)}", expected=form)
