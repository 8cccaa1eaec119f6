"""Rules that several instructions share."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from neuroncore.base.enums import engine
from neuroncore.base.errors import (
    BufferKindError,
    DtypeError,
    KernelError,
    OperatorError,
    PsumBankError,
    ShapeError,
    TargetError,
)
from neuroncore.base.units import either, plural
from neuroncore.clause.instruction import Call
from neuroncore.clause.operand import PSUM
from neuroncore.clause.refusal import Fault, Rule, fault, lacks, rule
from neuroncore.machine import Machine, having
from neuroncore.memory.geometry import View
from neuroncore.numerics.formats import Format, float32

CONVERTS_NOTHING = "the instruction moves bits and converts nothing"
BITS = "bitvec operators work on bit patterns; nothing is converted"
OfCall = Callable[[Call], Any]


def holds(
    argument: str,
    sentence: str,
    test: Callable[[Call], Any],
    kind: type[KernelError] = ShapeError,
    expected: str | OfCall | None = None,
    got: OfCall | None = None,
    statement: OfCall | None = None,
    **reasons: Any,
) -> Rule:
    """Return a rule that refuses a call for which `test` is false.

    The error blames `argument`, and shows the `expected` and the actual value (`got`). It quotes
    `sentence`, or what `statement` returns for the call."""

    @rule(kind, sentence, **reasons)
    def check(call: Call, machine: Machine) -> Fault | None:
        if test(call):
            return None
        expected_text = expected(call) if callable(expected) else expected
        text = statement(call) if statement else sentence
        return fault(argument, text, expected_text, got(call) if got else _shown(call, argument))

    return check


def _shown(call: Call, name: str) -> str:
    """Return the argument of a call as text."""
    if name in call.instruction.lists:
        tiles = call[name]
        listed = f": {', '.join(map(str, tiles))}" if tiles else ""
        return f"{plural(len(tiles), 'tensor')}{listed}"
    return str(call[name])


def formats_of(
    *names: str,
    formats: tuple[Format, ...],
    of: Callable[[View], bool] = bool,
    sentence: str | None = None,
    **reasons: Any,
) -> Rule:
    """Require these formats for the named tiles, or only for tiles for which `of(tile)` is true. If
    `sentence` is given, it replaces the rule's sentence, and the error quotes it. `reasons` are
    fields of the rule."""
    listed = either(formats)

    @rule(DtypeError, sentence or f"{_listed(names)} must be {listed}", **reasons)
    def check(call: Call, machine: Machine) -> Fault | None:
        for name, view in _named(call, names):
            if of(view) and view.dtype not in formats:
                why = f": {sentence}" if sentence else " in this call"
                return fault(name, f"{name} can't be {view.dtype}{why}", listed)
        return None

    return check


def needs(
    feature: str, use: str, argument: str, test: Callable[[Call], Any], **reasons: Any
) -> Rule:
    """Return a rule: a call needs a feature that only some machines have, if `test` is true for
    the call. `use` names the feature in the error, which blames `argument`."""

    @rule(
        TargetError,
        f"only machines with the feature {feature} have {use} (`{argument}`)",
        **reasons,
    )
    def check(call: Call, machine: Machine) -> Fault | None:
        if machine.has(feature) or not test(call):
            return None
        return lacks(machine, argument, use, feature)

    return check


def one_of(argument: str, allowed: tuple[Any, ...], kind: type[KernelError] = ShapeError) -> Rule:
    """Require one of a few values for a parameter."""

    @rule(kind, f"{argument} must be {either(allowed)}")
    def check(call: Call, machine: Machine) -> Fault | None:
        value = call[argument]
        if value in allowed:
            return None
        return fault(argument, f"{argument} can't be {value!r}", either(allowed), repr(value))

    return check


def _named(call: Call, names: tuple[str, ...]) -> list[tuple[str, View]]:
    return [(n, call.view(n)) for n in names if isinstance(call[n], View)]


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def same_total(first: str, second: str) -> Rule:
    """Require that two tiles have equally many elements: a DMA writes each element that it reads.
    `second` may be a list."""

    @rule(
        sentence=f"{first} and {second} have the same number of elements",
        because="a DMA writes each element that it reads",
    )
    def check(call: Call, machine: Machine) -> Fault | None:
        a, tiles = call.view(first), call.tiles(second)
        name = next((name for name, b in tiles.items() if b.size != a.size), None)
        if name is None:
            return None
        b = tiles[name]
        ours, theirs = plural(a.size, "element"), plural(b.size, "element")
        statement = f"{name} has {theirs}, but {first} has {a.size:,}"
        return fault(second, statement, f"{ours} ({a})", f"{theirs} ({b})")

    return check


def same_dtype(first: str, second: str, because: str | None = CONVERTS_NOTHING) -> Rule:
    """Require that two tiles, if both are given, have the same format."""

    @rule(DtypeError, f"{first} and {second} have the same format", because=because)
    def check(call: Call, machine: Machine) -> Fault | None:
        pair = call.views(first, second)
        if len(pair) < 2 or pair[0].dtype is pair[1].dtype:
            return None
        forms = [view.dtype for view in pair]
        return fault(second, f"{second} is {forms[1]}, but {first} is {forms[0]}", *forms)

    return check


def not_both_in_psum(first: str, second: str) -> Rule:
    """Require that at most one of two operands is in PSUM."""

    @rule(
        BufferKindError,
        f"{first} and {second} are not both in psum",
        because="the Vector engine can read only one operand from PSUM",
        hint="first copy one operand to SBUF with nisa.tensor_copy",
        also="NCC_INKI016",
    )
    def check(call: Call, machine: Machine) -> Fault | None:
        a, b = call[first], call[second]
        if not (isinstance(a, View) and isinstance(b, View) and a.region is b.region is PSUM):
            return None
        expected = "at most one of the two in psum"
        statement = f"both {first} and {second} are in psum"
        return fault(second, statement, expected, f"{first}: {a}; {second}: {b}")

    return check


def lane_scalars(op: str, *names: str) -> Rule:
    """Require the operator's format for operands with one number per partition: float32, or for
    bitvec operators an integer format."""

    @rule(
        DtypeError,
        f"{_listed(names)} must be a number or a tile: a float32 tile for an arithmetic operator, "
        "an integer tile for a bitvec operator",
    )
    def check(call: Call, machine: Machine) -> Fault | None:
        bits = call[op].kind == "bitvec"
        for name, view in _named(call, names):
            if bits and not view.dtype.is_integer:
                statement = f"{name} can't be {view.dtype} for {call[op]}, a bitvec operator"
                return fault(name, statement, "an integer format", because=BITS)
            if not bits and view.dtype is not float32:
                because = "the engine takes one number per partition only in float32"
                hint = f"copy {name} into a float32 tile with nisa.tensor_copy"
                statement = f"{name} can't be {view.dtype} for {call[op]}"
                return fault(name, statement, "float32", because=because, hint=hint)
        return None

    return check


def operand_of(**operands: str) -> Rule:
    """Require a second operand exactly for operators that take two.

    `operands`: parameters of second operands by parameters of operators, as in `op0="operand0"`"""

    @rule(
        OperatorError,
        f"{_listed(tuple(operands.values()))} must be a tile or a number for an operator of two "
        "operands, and None or 0 for an operator of one operand",
    )
    def check(call: Call, machine: Machine) -> Fault | None:
        for op, name in ((call[op], name) for op, name in operands.items()):
            if op is not None and op.arity == 1 and isinstance(call[name], View):
                statement = f"{name} must be None or 0, because {op} has only one operand"
                return fault(name, statement, "None or 0")
            if op is not None and op.arity == 2 and call[name] is None:
                statement = f"{op} has two operands, but {name} is None"
                return fault(name, statement, "a tile or a number", "None")
        return None

    return check


def only_if(
    argument: str, partner: str, condition: str, test: Callable[[Any], Any], **reasons: Any
) -> Rule:
    """Allow `argument` only if `test` is true for the argument of the parameter `partner`.
    `condition` states this in words."""

    @rule(OperatorError, f"{argument} is allowed only if {partner} {condition}", **reasons)
    def check(call: Call, machine: Machine) -> Fault | None:
        value, other = call[argument], call[partner]
        if not value or test(other):
            return None
        statement = f"{argument} can't be used with {partner}={_name(other)}"
        expected = f"{argument} only if {partner} {condition}"
        return fault(argument, statement, expected, f"{partner}={_name(other)}")

    return check


def needed_if(argument: str, partner: str, condition: str, test: Callable[[Any], Any]) -> Rule:
    """Return a rule: the parameter `argument` is required if `test` is true for the value of the
    parameter `partner`. `condition` states this in words."""

    @rule(OperatorError, f"{argument} is needed if {partner} {condition}")
    def check(call: Call, machine: Machine) -> Fault | None:
        if call[argument] is not None or not test(call[partner]):
            return None
        statement = f"{argument} must not be None with {partner}={_name(call[partner])}"
        return fault(argument, statement, got=f"{argument}=None")

    return check


def _name(value: Any) -> str:
    return value.name if isinstance(value, Enum) else repr(value)


def unsupported(argument: str, hint: str) -> Rule:
    """Refuse a parameter that the API reserves for the future."""

    sentence = f"{argument} must be False"
    because = "the documentation says that the instruction does not support it yet"

    @rule(OperatorError, sentence, because=because, hint=hint)
    def check(call: Call, machine: Machine) -> Fault | None:
        value = call[argument]
        return fault(argument, sentence, "False", value) if value else None

    return check


def bitvec_on_integers(*names: str, ops: tuple[str, ...], unit: engine = engine.vector) -> Rule:
    """Require integer tiles of one width for bitvec operators, on one engine. They can't be mixed
    with other operators in one instruction."""

    @rule(
        OperatorError,
        f"with a bitvec operator, {_listed(names)} must be integers of one width, the engine must "
        f"be {unit.name}, and there must be no arithmetic operator",
        because=BITS,
    )
    def check(call: Call, machine: Machine) -> Fault | None:
        operators = [call[op] for op in ops if call[op] is not None]
        kinds = {op.kind for op in operators}
        if len(kinds) > 1:
            return fault(
                ops[1],
                f"{operators[0]} and {operators[1]} can't be combined in one instruction",
                "two bitvec operators, or two arithmetic operators",
                " and ".join(f"{op} ({op.kind})" for op in operators),
                because="bit patterns and float32 values use different paths through the lane",
            )
        return _bitvec(call, names, unit) if kinds == {"bitvec"} else None

    return check


def _bitvec(call: Call, names: tuple[str, ...], unit: engine) -> Fault | None:
    views = _named(call, names)
    for name, view in views:
        if not view.dtype.is_integer:
            return fault(
                name,
                f"a bitvec operator can't take {name} ({view.dtype})",
                "an integer format",
                hint="access the bits with tensor.view(nl.uint32)",
                kind=DtypeError,
            )
        if view.dtype.itemsize != views[0][1].dtype.itemsize:
            first, width = views[0][0], views[0][1].dtype.bits
            statement = f"{name} has {view.dtype.bits} bits, but {first} has {width}"
            expected = f"integers of {width} bits, as {first}"
            return fault(name, statement, expected, kind=DtypeError)
    if call.engine is unit:
        return None
    return fault(
        "engine",
        f"a bitvec operator does not run on the {call.engine.name} engine",
        unit.name,
        call.engine.name,
        because=None,
        kind=BufferKindError,
    )


def bits_if_opaque(dst: str, src: str) -> Rule:
    """Require that packed formats and scales are copied without conversion."""

    @rule(
        DtypeError,
        "if src or dst has a packed format or is a scale, both must have the same format",
        because="a copy does not convert microscaling formats",
        hint="quantize with nisa.quantize_mx, or access the bits with tensor.view(dtype)",
    )
    def check(call: Call, machine: Machine) -> Fault | None:
        target, source = call.view(dst).dtype, call.view(src).dtype
        if target is source or not (target.is_opaque or source.is_opaque):
            return None
        statement = f"{dst} is {target}, but a copy of {source} must be {source}"
        return fault(dst, statement, source, target)

    return check


def within_one_bank(name: str) -> Rule:
    """Require that the result of a matmul is in one bank of PSUM, on machines without the feature
    results_across_banks."""

    @rule(
        PsumBankError,
        f"{name} must be in one bank of PSUM, except on machines with the feature "
        "results_across_banks",
        also="NLA001",
    )
    def check(call: Call, machine: Machine) -> Fault | None:
        view, psum = call.view(name), machine.psum
        if view.region is not PSUM or machine.has("results_across_banks"):
            return None
        last = sum((n - 1) * s for n, s in zip(view.shape[1:], view.strides[1:], strict=True))
        end = view.byte + (last + 1) * view.dtype.itemsize
        if view.byte // psum.bank_bytes == (end - 1) // psum.bank_bytes:
            return None
        numbers = psum.bank_bytes // 4
        return fault(
            name,
            f"{name} crosses a PSUM bank",
            f"all bytes in one bank of {psum.bank_bytes:,} bytes ({numbers:,} float32 numbers)",
            f"bytes {view.byte} to {end - 1} of each partition",
            because=f"PSUM has {psum.banks} banks of {psum.bank_bytes:,} bytes per partition, and "
            "the result of a product must be in one bank",
            hint=f"use tiles of at most {numbers} float32 columns, and allocate each separately",
        )

    return check


def on_engine_needs(unit: engine, feature: str, hint: str) -> Rule:
    """Require a feature of the machine if the instruction runs on this engine."""

    sentence = (
        f"only machines with the feature {feature} run the instruction on the {unit.name} engine"
    )

    @rule(TargetError, sentence, hint=hint)
    def check(call: Call, machine: Machine) -> Fault | None:
        if call.engine is not unit or machine.has(feature):
            return None
        return fault(
            "engine",
            f"the {unit.name} engine of {machine.name} does not have this instruction",
            having(feature),
            f"{machine.name} ({machine.generation})",
        )

    return check


def indirect_on(*engines: engine) -> Rule:
    """Require one of these engines if an argument is an indirect view (its index picks
    elements)."""
    names = either(e.name for e in engines)

    @rule(BufferKindError, f"only the {names} engine takes indirect views")
    def check(call: Call, machine: Machine) -> Fault | None:
        views = _named(call, tuple(call.arguments))
        name = next((name for name, view in views if view.picked_by), None)
        if name is None or call.engine in engines:
            return None
        statement = f"{name} can't be an indirect view on the {call.engine.name} engine"
        return fault(name, statement, names, call.engine.name)

    return check


def two_operands(*ops: str) -> Rule:
    """Require that the operators in these parameters have two operands."""

    @rule(
        OperatorError,
        f"{_listed(ops)} must have two operands",
        hint="for an operator of one operand, use nisa.tensor_scalar or nisa.activation",
    )
    def check(call: Call, machine: Machine) -> Fault | None:
        for name in ops:
            op = call[name]
            if op is not None and op.arity != 2:
                statement = f"{name}={op} has one operand, but the instruction passes two"
                return fault(name, statement, "an operator of two operands", repr(op))
        return None

    return check


def commands(*names: str) -> Rule:
    """Require that reduce_cmd is one of these commands."""

    @rule(OperatorError, f"reduce_cmd must be {either(names)}")
    def check(call: Call, machine: Machine) -> Fault | None:
        command = call["reduce_cmd"].name
        if command in names:
            return None
        return fault("reduce_cmd", f"reduce_cmd can't be {command}", either(names), command)

    return check


def runs_there(*ops: str) -> Rule:
    """Require that the engine has an ALU for each operator."""

    @rule(
        OperatorError,
        f"the engine must have the operator of {_listed(ops)}",
    )
    def check(call: Call, machine: Machine) -> Fault | None:
        wrong = [n for n in ops if call[n] is not None and call.engine.name not in call[n].engines]
        return _missing_there(call, machine, wrong[0]) if wrong else None

    return check


def _missing_there(call: Call, machine: Machine, name: str) -> Fault:
    """Return the fault of an operator that the call's engine does not have."""
    op, unit, choose = call[name], call.engine.name, call.instruction.choose
    statement = f"{op} does not run on the {unit} engine"
    if choose is None or choose(call, machine).name not in op.engines:
        return fault(name, statement, f"an operator of the {unit} engine", op)
    hint = "omit `engine`: then an engine that has the operator is chosen"
    return fault(name, statement, f"the {either(op.engines)} engine", unit, hint=hint)
