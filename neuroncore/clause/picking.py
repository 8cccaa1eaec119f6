"""Legality of indices that pick elements along the free axes, one by one (ISA)."""

from __future__ import annotations

from collections.abc import Iterator

from neuroncore.base.enums import engine
from neuroncore.base.errors import (
    BufferKindError,
    KernelError,
    ShapeError,
    StartPartitionError,
    ViewError,
)
from neuroncore.clause.instruction import Call
from neuroncore.clause.operand import PSUM, SBUF
from neuroncore.machine import Machine
from neuroncore.memory.geometry import View


def group(unit: engine, machine: Machine) -> int:
    """Partitions that share their offsets (ISA, `NkiTensor.indirect`)."""
    limits = machine.limits
    of_tensor = unit is engine.tensor
    return limits.indirect_partitions_tensor if of_tensor else limits.indirect_partitions


def violations(call: Call, machine: Machine) -> Iterator[KernelError]:
    """The errors of the indices of a call, for every instruction (ISA)."""
    picked = {n: v for n, v in call.arguments.items() if isinstance(v, View) and v.picked_by}
    for name, view in picked.items():
        yield from _index_problems(name, view, call, machine)
    takers = {p.name: p.operand for p in call.instruction.operands if p.operand}
    takers = {n: operand for n, operand in takers.items() if operand.indirect}
    lead = next((n for n, operand in takers.items() if operand.reads), "")
    for name, operand in takers.items():
        if operand.index_of and (name in picked) != (operand.index_of in picked):
            yield _one_of_two(name, operand.index_of, call)
        if name not in picked or operand.index_of:
            continue
        view = picked[name]
        if operand.reads:
            yield from _starts_apart(name, name, view, "its index", view, machine)
        elif isinstance(call.arguments.get(lead), View):
            yield from _scatters(name, view, lead, call.view(lead), machine)
        if operand.writes and call.engine is engine.scalar and view.region is PSUM:
            yield BufferKindError(
                f"{call.name}: the Scalar engine can't scatter to {name} in psum",
                argument=name,
                expected="sbuf, or another engine",
                got=str(view),
            )


def _one_of_two(name: str, other: str, call: Call) -> KernelError:
    return ViewError(
        f"{call.name}: one of {other} and {name} is an indirect view",
        argument=name,
        expected="both, with the same index, or neither",
        got=f"{other}: {call.view(other)}; {name}: {call.view(name)}",
        because="numbers and their scales form one tensor in two parts",
    )


def _index_problems(name: str, view: View, call: Call, machine: Machine) -> Iterator[KernelError]:
    index, size = view.picked_by, group(call.engine, machine)
    quadrant = machine.limits.quadrant
    assert index is not None
    if all(start % quadrant for start in _starts(index, machine)):
        yield StartPartitionError(
            f"the index of {name} starts at partition {index.partition}",
            argument=name,
            expected=f"a multiple of {quadrant}",
            got=f"partition {index.partition}",
            because="an index starts on a quadrant boundary",
        )
    if index.stepped:
        yield StartPartitionError(
            f"the index of {name} leaves out partitions",
            argument=name,
            expected="consecutive partitions",
            got=f"{index}, strides {index.strides}",
        )
    rows = (index.partitions - 1) % size + 1  # of the last group
    most = size * index.free_size if rows == size else rows
    if view.free_size > most:
        yield ShapeError(
            f"{call.name}: {name} picks {view.free_size} elements, its index has {most} for "
            + (f"each {size} partitions" if rows == size else f"the last {rows} partitions"),
            argument=name,
            expected=f"num_elem <= {most}",
            got=f"num_elem={view.free_size}, index {index}",
            because=f"offset i is in row i % {size} and column i // {size} of the {size} "
            f"partitions that share it on the {call.engine.name} engine",
            hint="pass num_elem to tensor.indirect; its default is all elements of the index",
        )


def _scatters(
    name: str, view: View, lead: str, source: View, machine: Machine
) -> Iterator[KernelError]:
    """The index of what is written begins where what is read begins, or the index of that."""
    what = f"the index of {name}"
    if source.region is SBUF:
        yield from _starts_apart(name, lead, source, what, view, machine)
    elif source.picked_by is not None:
        index_of = f"the index of {lead}"
        yield from _starts_apart(name, index_of, source.picked_by, what, view, machine)


def _starts_apart(
    argument: str, name: str, view: View, what: str, picked: View, machine: Machine
) -> Iterator[KernelError]:
    index = picked.picked_by
    assert index is not None
    if _starts(view, machine) & _starts(index, machine):
        return
    yield StartPartitionError(
        f"{name} starts at partition {view.partition}, {what} at partition {index.partition}",
        argument=argument,
        expected="the same first partition",
        got=f"partitions {view.partition} and {index.partition}",
        because="offsets are read by the lanes whose elements they pick",
        hint="give both the same first partition in `address`",
    )


def _starts(view: View, machine: Machine) -> set[int]:
    """Where it starts, or may start if the system places it."""
    bases = machine.starts(view.home) if view.home else (0,)
    return {base + view.partition for base in bases}
