"""nki.isa: one function per entry of the instruction table, made when it is first asked for.

The functions have the clause's parameters, in its order and with its defaults, and `name` at the
end. Parameters of older releases that published kernels still pass are accepted and ignored.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from enum import Enum
from typing import Any

from neuroncore.clause.instruction import INSTRUCTIONS, Instruction, Parameter
from neuroncore.core.core import current, running
from neuroncore.core.issue import issuer
from neuroncore.enums import dge_mode as dge_mode
from neuroncore.enums import dma_engine as dma_engine
from neuroncore.enums import engine as engine
from neuroncore.enums import matmul_perf_mode as matmul_perf_mode
from neuroncore.enums import nc_version as nc_version
from neuroncore.enums import oob_mode as oob_mode
from neuroncore.enums import reduce_cmd as reduce_cmd
from neuroncore.errors import KernelError as NkiValidationError
from neuroncore.errors import NotEmulated, SignatureError, did_you_mean
from neuroncore.frontend.nki.isa import constants as constants
from neuroncore.frontend.settings import target_machine
from neuroncore.memory.register import VirtualRegister as VirtualRegister
from neuroncore.record.program import Program

tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown

__all__ = ["NkiValidationError"]

# NKI 0.1 ignored keywords it did not know, and these are still found in published kernels.
IGNORED = frozenset({"dtype", "mask"})
# What releases before 0.3 had, and no result depends on.
REMOVED = {"sendrecv": {"use_gpsimd_dma"}, "dma_copy": {"unique_indices"}}


class _Missing:
    """The default of parameters that have none, so that leaving one out reaches our message."""

    def __repr__(self) -> str:
        return "<required>"


MISSING = _Missing()


class NkiInstruction:
    """What every function here returns: the instruction that was just issued."""

    __slots__ = ("program", "row")

    def __init__(self, program: Program | None) -> None:
        self.program = program
        self.row = -1 if program is None else program.issued - 1

    def depends_on(self, *producers: NkiInstruction) -> NkiInstruction:
        """Let this instruction begin only after `producers`, issued before it, are done.

        Results don't change; the estimate does. Returns the instruction itself.
        """
        for producer in producers:
            if not isinstance(producer, NkiInstruction):
                raise SignatureError(
                    f"depends_on takes instructions, not {type(producer).__name__}",
                    argument="producers",
                    position=0,
                )
            if producer.row > self.row:
                raise NotEmulated("depends_on an instruction that is issued later")
            if self.program is not None:
                self.program.wait(self.row, producer.row)
        return self


def register_alloc(x: int | None = None) -> VirtualRegister:
    """A new register, holding `x` if given."""
    register = VirtualRegister()
    if x is not None:
        issuer("register_move")(current(), register, x)
    return register


def get_nc_version() -> nc_version:
    """The generation of the machine that the kernel runs on."""
    core = running()
    machine = core.machine if core else target_machine()
    return nc_version[machine.generation.replace("NeuronCore-v", "gen")]


def get_nc_sub_version() -> int:
    """The silicon revision within a generation: 0, the first, is the one emulated."""
    return 0


def __getattr__(name: str) -> Callable[..., NkiInstruction]:
    instruction = INSTRUCTIONS.get(name)
    if instruction is None:
        hint = did_you_mean(name, INSTRUCTIONS)
        raise AttributeError(f"nki.isa has no {name!r}" + (f"; {hint}" if hint else ""))
    function = _function(instruction)
    if name in REORDERED:
        function = REORDERED[name](function)
    globals()[name] = function
    return function


def _with_scales_first(dma_compute: Callable[..., NkiInstruction]) -> Callable[..., NkiInstruction]:
    """Releases before 0.3 had `scales` before `reduce_op`."""

    @functools.wraps(dma_compute)
    def either_way(*args: Any, **named: Any) -> NkiInstruction:
        if len(args) > 2 and isinstance(args[2], list | tuple):
            dst, srcs, scales, *operator = args
            return dma_compute(dst, srcs, *operator, scales=scales, **named)
        return dma_compute(*args, **named)

    return either_way


REORDERED = {"dma_compute": _with_scales_first}


def __dir__() -> list[str]:
    return sorted({*globals(), *INSTRUCTIONS})


def _function(instruction: Instruction) -> Callable[..., NkiInstruction]:
    """The API function of a clause: bind by Python's own rules, then issue.

    It is compiled from the clause's parameters; a generic wrapper with *args and **kwargs would
    cost as much as a small instruction.
    """
    names = [p.name for p in instruction.parameters]
    defaults = {f"_{p.name}": _default(p) for p in instruction.parameters}
    parameters = ", ".join(f"{n}=_{n}" for n in names)
    required = [p.name for p in instruction.parameters if _default(p) is MISSING]
    absent = " or ".join(f"{n} is MISSING" for n in required)
    enums = [p.name for p in instruction.parameters if isinstance(p.default, Enum)]
    numbers = [f"    if type({n}) is int: {n} = member(_{n}, {n})\n" for n in enums]
    named = ", name=None" if instruction.named else ""
    source = f"""\
def {instruction.name}({parameters}{named}, *extra, **unknown):
    if extra or unknown or {absent}:
        settle(INSTRUCTION, {{{", ".join(f"{n!r}: {n}" for n in names)}}}, extra, unknown)
{"".join(numbers)}\
    core = current()
    issue(core, {", ".join(names)})
    return NkiInstruction(core.program)
"""
    scope: dict[str, Any] = {
        "__name__": __name__,
        "INSTRUCTION": instruction,
        "MISSING": MISSING,
        "NkiInstruction": NkiInstruction,
        "current": current,
        "issue": issuer(instruction.name),
        "settle": _settle,
        "member": _member,
        **defaults,
    }
    exec(compile(source, f"<nki.isa.{instruction.name}>", "exec"), scope)
    function: Callable[..., NkiInstruction] = scope[instruction.name]
    function.__doc__ = instruction.equation
    function.__signature__ = _signature(instruction)  # type: ignore[attr-defined]
    return function


def _member(default: Enum, number: int) -> Enum | int:
    """The member of an enumeration that a published kernel gives by its number."""
    kind = type(default)
    return kind(number) if number in {member.value for member in kind} else number


def _default(parameter: Parameter) -> Any:
    return MISSING if parameter.required else parameter.default


def _signature(instruction: Instruction) -> inspect.Signature:
    listed = [
        inspect.Parameter(p.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=p.default)
        for p in instruction.parameters
    ]
    named = inspect.Parameter("name", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
    return inspect.Signature([*listed, named] if instruction.named else listed)


def _settle(
    instruction: Instruction, given: dict[str, Any], extra: tuple[Any, ...], unknown: dict[str, Any]
) -> None:
    """Refuse a call that doesn't fit the signature, or drop what is known to be harmless."""
    form = f"nisa.{instruction.name}{_signature(instruction)}"
    for name in unknown:
        if name not in IGNORED and name not in REMOVED.get(instruction.name, ()):
            hint = did_you_mean(name, given)
            raise SignatureError(
                f"{instruction.name} has no parameter {name!r}",
                argument=name,
                expected=form,
                hint=hint,
            )
        warnings.warn(f"nisa.{instruction.name} ignores {name}=", stacklevel=3)
    if extra:
        raise SignatureError(
            f"{instruction.name} takes {len(given) + instruction.named} positional arguments",
            expected=form,
        )
    absent = [name for name, value in given.items() if value is MISSING]
    if absent:
        raise SignatureError(f"{instruction.name} needs {', '.join(absent)}", expected=form)
