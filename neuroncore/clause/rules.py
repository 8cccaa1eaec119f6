"""Rules about several operands of one instruction, as words for the clauses in isa/.

Each takes parameter names and gives a function of (call, machine) that returns the error or None.
"""

from __future__ import annotations

from neuroncore.clause.instruction import Call, Rule
from neuroncore.clause.operand import PSUM, View
from neuroncore.enums import engine
from neuroncore.errors import (
    BufferKindError,
    DtypeError,
    KernelError,
    OperatorError,
    PsumBankError,
    ShapeError,
    TargetError,
)
from neuroncore.machine import Machine
from neuroncore.numerics.formats import float32


def same_partitions(*names: str) -> Rule:
    """As many partitions in each."""

    def rule(call: Call, machine: Machine) -> KernelError | None:
        first, *rest = _named(call, names)
        for name, view in rest:
            if view.partitions != first[1].partitions:
                return ShapeError(
                    f"{call.name}: {name} has {view.partitions} partitions, "
                    f"{first[0]} has {first[1].partitions}",
                    argument=name,
                    expected=f"{first[1].partitions} partitions, as {first[0]} ({first[1]})",
                    got=str(view),
                    because="lane p of the engine reads and writes partition p",
                    also="err_num_partition_mismatch",
                )
        return None

    return rule


def same_elements(*names: str) -> Rule:
    """As many partitions and as many elements in each partition, in whatever free shape."""
    partitions = same_partitions(*names)

    def rule(call: Call, machine: Machine) -> KernelError | None:
        first, *rest = _named(call, names)
        for name, view in rest:
            if view.free_size != first[1].free_size:
                return ShapeError(
                    f"{call.name}: {name} ({view}) and {first[0]} ({first[1]}) differ in "
                    "elements per partition",
                    argument=name,
                    expected=f"{first[1].free_size} elements per partition",
                    got=f"{view.free_size}",
                    because="the engine streams both at one element per lane and cycle",
                    hint="for broadcasting along the free axis use nisa.tensor_scalar",
                )
        return partitions(call, machine)

    return rule


def _named(call: Call, names: tuple[str, ...]) -> list[tuple[str, View]]:
    return [(n, call.view(n)) for n in names if isinstance(call[n], View)]


def per_partition(count: int, *names: str) -> Rule:
    """So many elements in each partition, no more and no less."""

    def rule(call: Call, machine: Machine) -> KernelError | None:
        for name, view in _named(call, names):
            if view.free_size != count:
                return ShapeError(
                    f"{call.name}: {name} has {view.free_size} elements per partition",
                    argument=name,
                    expected=f"({view.partitions}, {count})",
                    got=str(view),
                    because=f"the instruction reads or writes {count} there",
                )
        return None

    return rule


def same_total(first: str, second: str) -> Rule:
    """As many elements altogether, as a DMA wants it."""

    def rule(call: Call, machine: Machine) -> KernelError | None:
        a, b = call.view(first), call.view(second)
        if a.size == b.size:
            return None
        return ShapeError(
            f"{call.name}: {second} has {b.size} elements, {first} has {a.size}",
            argument=second,
            expected=f"{a.size} elements ({a})",
            got=f"{b.size} elements ({b})",
            because="every element that is read is written once",
        )

    return rule


def same_dtype(first: str, second: str) -> Rule:
    def rule(call: Call, machine: Machine) -> KernelError | None:
        pair = call.views(first, second)
        if len(pair) < 2 or pair[0].dtype is pair[1].dtype:
            return None
        return DtypeError(
            f"{call.name}: {second} is {pair[1].dtype}, {first} is {pair[0].dtype}",
            argument=second,
            expected=str(pair[0].dtype),
            got=str(pair[1].dtype),
            because="the instruction moves bits and converts nothing",
        )

    return rule


def not_both_in_psum(first: str, second: str) -> Rule:
    def rule(call: Call, machine: Machine) -> KernelError | None:
        a, b = call[first], call[second]
        if not (isinstance(a, View) and isinstance(b, View) and a.region is b.region is PSUM):
            return None
        return BufferKindError(
            f"{call.name}: both {first} and {second} are in psum",
            argument=second,
            expected="at most one of the two in psum",
            got=f"{first}: {a}; {second}: {b}",
            because="the Vector engine has one read port to PSUM",
            hint="copy one of them to SBUF with nisa.tensor_copy first",
            also="NCC_INKI016",
        )

    return rule


def float32_operands(*names: str) -> Rule:
    """Per-partition operands of arithmetic operators are float32."""

    def rule(call: Call, machine: Machine) -> KernelError | None:
        for name, view in _named(call, names):
            if view.dtype is not float32:
                return DtypeError(
                    f"{call.name}: {name} is {view.dtype}",
                    argument=name,
                    expected="float32",
                    got=str(view),
                    because="the lane's scalar registers hold float32",
                    hint="copy it into a float32 tile with nisa.tensor_copy",
                )
        return None

    return rule


def bitvec_on_integers(*names: str, ops: tuple[str, ...], unit: engine = engine.vector) -> Rule:
    """Bitvec operators take integer tiles of one width and run on one engine, the Vector engine if
    nothing else is said; operators of the two kinds don't mix in one instruction."""

    def rule(call: Call, machine: Machine) -> KernelError | None:
        given = [call[op] for op in ops if call[op] is not None]
        kinds = {op.kind for op in given}
        if len(kinds) > 1:
            return OperatorError(
                f"{call.name}: {given[0]} and {given[1]} are of different kinds",
                argument=ops[1],
                expected="both bitvec or both arithmetic",
                got=f"{given[0].kind} and {given[1].kind}",
                because="bit patterns and float32 values take different paths through the lane",
            )
        if kinds == {"bitvec"}:
            return _bitvec(call, names, unit)
        return None

    return rule


def _bitvec(call: Call, names: tuple[str, ...], unit: engine) -> KernelError | None:
    views = _named(call, names)
    for name, view in views:
        if not view.dtype.is_integer:
            return DtypeError(
                f"{call.name}: a bitvec operator can't take {name} ({view.dtype})",
                argument=name,
                expected="an integer format",
                got=str(view),
                because="bitvec operators work on bit patterns; nothing is converted",
                hint="look at the bits with tensor.view(nl.uint32)",
            )
        if view.dtype.itemsize != views[0][1].dtype.itemsize:
            return DtypeError(
                f"{call.name}: {name} and {views[0][0]} differ in width",
                argument=name,
                expected=f"{views[0][1].dtype.bits} bits, as {views[0][0]}",
                got=str(view),
                because="bitvec operators work on bit patterns; nothing is converted",
            )
    if call.engine is not unit:
        return BufferKindError(
            f"{call.name}: a bitvec operator does not run on the {call.engine.name} engine",
            argument="engine",
            expected=unit.name,
            got=call.engine.name,
        )
    return None


def bits_if_opaque(dst: str, src: str) -> Rule:
    """Packed formats and scales are copied as they are."""

    def rule(call: Call, machine: Machine) -> KernelError | None:
        to, of = call.view(dst).dtype, call.view(src).dtype
        if to is of or not (to.is_opaque or of.is_opaque):
            return None
        return DtypeError(
            f"{call.name}: {of} can't be converted to {to}",
            argument=dst,
            expected=str(of),
            got=str(to),
            because="microscaling formats are not converted on the way",
            hint="quantize with nisa.quantize_mx, or take the bits with tensor.view(dtype)",
        )

    return rule


def within_one_bank(name: str) -> Rule:
    """A matmul's result lies in one bank of each partition of PSUM, on machines where it must."""

    def rule(call: Call, machine: Machine) -> KernelError | None:
        view, psum = call.view(name), machine.psum
        if view.region is not PSUM or machine.has("results_across_banks"):
            return None
        last = sum((n - 1) * s for n, s in zip(view.shape[1:], view.strides[1:], strict=True))
        end = view.byte + (last + 1) * view.dtype.itemsize
        if view.byte // psum.bank_bytes == (end - 1) // psum.bank_bytes:
            return None
        return PsumBankError(
            f"{call.name}: {name} crosses a PSUM bank",
            argument=name,
            expected=f"bytes within one bank of {psum.bank_bytes} "
            f"({psum.bank_bytes // 4} float32 per partition)",
            got=f"bytes {view.byte} to {end} of the partition",
            because=f"PSUM is {psum.banks} banks of {psum.bank_bytes} bytes per partition, and an "
            "accumulation group lives in one",
            hint=f"use tiles of at most {psum.bank_bytes // 4} columns, each allocated by itself",
            also="NLA001",
        )

    return rule


def on_engine_needs(unit: engine, feature: str, hint: str) -> Rule:
    """Not every generation has this instruction on that engine."""

    def rule(call: Call, machine: Machine) -> KernelError | None:
        if call.engine is not unit or machine.has(feature):
            return None
        return TargetError(
            f"{call.name} does not run on the {unit.name} engine of {machine.name}",
            argument="engine",
            expected=f"a machine with {feature}",
            got=f"{machine.name} ({machine.generation})",
            hint=hint,
        )

    return rule


def indirect_on(*engines: engine) -> Rule:
    """Indices pick operands on these engines only."""

    def rule(call: Call, machine: Machine) -> KernelError | None:
        views = _named(call, tuple(call.arguments))
        name = next((name for name, view in views if view.picked_by), None)
        if name is None or call.engine in engines:
            return None
        return BufferKindError(
            f"{call.name}: {name} can't be an indirect view on the {call.engine.name} engine",
            argument=name,
            expected=" or ".join(e.name for e in engines),
            got=call.engine.name,
        )

    return rule


def two_operands(*ops: str) -> Rule:
    """Operators that have an operand on each side."""

    def rule(call: Call, machine: Machine) -> KernelError | None:
        for name in ops:
            op = call[name]
            if op is not None and op.arity != 2:
                return OperatorError(
                    f"{call.name}: {name}={op} has one operand",
                    argument=name,
                    expected="an operator of two operands",
                    got=repr(op),
                    hint="use nisa.tensor_scalar or nisa.activation",
                )
        return None

    return rule


def commands(*names: str) -> Rule:
    """What the instruction can do with its engine's accumulator registers."""

    def rule(call: Call, machine: Machine) -> KernelError | None:
        command = call["reduce_cmd"]
        if command.name in names:
            return None
        return OperatorError(
            f"{call.name} can't do reduce_cmd={command.name}",
            argument="reduce_cmd",
            expected=", ".join(names),
            got=command.name,
        )

    return rule


def runs_there(*ops: str) -> Rule:
    """Each operator has an ALU for it in the engine."""

    def rule(call: Call, machine: Machine) -> KernelError | None:
        for name in ops:
            op = call[name]
            if op is not None and call.engine.name not in op.engines:
                return OperatorError(
                    f"{call.name}: {op} does not run on the {call.engine.name} engine",
                    argument=name,
                    expected=f"engine {' or '.join(op.engines)}",
                    got=call.engine.name,
                    hint="leave `engine` out and the right one is chosen",
                )
        return None

    return rule
