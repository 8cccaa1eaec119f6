"""Legality of a call.

Each argument is checked by itself first. Then all are checked together: the sizes of the clause's
letters (`neuroncore.clause.letters`), indices that choose elements along free axes, and rules. ISA
is a key of the sources in isa/machines/*.toml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from neuroncore.base.enums import engine
from neuroncore.base.errors import (
    BufferKindError,
    FreeSizeError,
    KernelError,
    ShapeError,
    StartPartitionError,
    TargetError,
    ViewError,
)
from neuroncore.base.units import either, plural
from neuroncore.clause.instruction import Call, Parameter
from neuroncore.clause.letters import Term
from neuroncore.clause.operand import PSUM, SBUF, Act, Op, Operand, Static
from neuroncore.machine import Machine, having
from neuroncore.memory.geometry import View


def of_argument(call: Call, parameter: Parameter, machine: Machine) -> Iterator[KernelError]:
    """Yield the errors of one argument that do not depend on other arguments."""
    declared, name = parameter.declared, parameter.name
    if isinstance(declared, Operand):
        views = call.tiles(name) if declared.many else {name: call[name]}
        for tile_name, view in views.items():
            if isinstance(view, View):
                yield from declared.violations(tile_name, view, machine)
    elif isinstance(declared, Op | Act | Static):
        yield from declared.violations(name, call[name], machine)


def whole_call(call: Call, machine: Machine) -> Iterator[KernelError]:
    """Set the engine of a call, and yield the errors of the whole call: the machine may lack the
    instruction, and the engine may be unable to run it or to reach a tile. See also
    `picking_violations` and `together`."""
    instruction = call.instruction
    if instruction.feature and not machine.has(instruction.feature):
        yield TargetError(
            f"{machine.name} does not have the instruction {call.name}",
            expected=having(instruction.feature),
            got=f"{machine.name} ({machine.generation})",
        )
        return
    requested = call.arguments.get("engine", engine.unknown)
    if requested is engine.dma and engine.sync in instruction.engines:
        requested = engine.sync  # DMA engines have no instructions; Sync fills their queues
    if requested not in (engine.unknown, *instruction.engines):
        yield BufferKindError(
            f"{call.name} does not run on the {requested.name} engine",
            argument="engine",
            expected=either(e.name for e in instruction.engines),
            got=requested.name,
        )
        return
    call.engine = instruction.engines[0]
    if requested is not engine.unknown:
        call.engine = requested
    elif instruction.choose is not None:
        call.engine = instruction.choose(call, machine)
    yield from (_out_of_reach(call, name) for name in out_of_reach(call, call.engine))
    if any(view.picked_by for view in call.views()):
        yield from picking_violations(call, machine)
    yield from together(call, machine)


def stays_legal(call: Call) -> bool:
    """Return whether a call, made by changing a legal call, is legal on its engine."""
    machine = call.machine
    each = (of_argument(call, parameter, machine) for parameter in call.instruction.operands)
    refused = chain(*each, together(call, machine))
    return not out_of_reach(call, call.engine) and not any(refused)


def name_operands(call: Call) -> None:
    """Store the names of a legal call's operands in the call: those read, those written, and those
    at run-time addresses.

    `Call.indices` lists, for each index tile, the operand whose rows or elements it chooses."""
    operands = {p.name: p.operand for p in call.instruction.operands}
    order = list(operands)  # the order of operands in a row of the record
    views = ((n, v) for n, v in call.arguments.items() if isinstance(v, View))
    tiles = dict(sorted(views, key=lambda item: order.index(item[0].partition("[")[0])))
    declared = {n: operands[n.partition("[")[0]] for n in tiles}
    call.reads = tuple(n for n, o in declared.items() if o and o.reads)
    call.writes = tuple(n for n, o in declared.items() if o and o.writes)
    call.dynamic = tuple(n for n, v in tiles.items() if v.dynamic)
    call.indices = tuple(n for n, v in tiles.items() for _ in range(v.indices))


def out_of_reach(call: Call, unit: engine) -> list[str]:
    """Return the names of the tiles that an engine can't reach. GpSimd has no port to PSUM (ARCH1,
    a source in isa/machines/*.toml)."""
    if unit is not engine.gpsimd:
        return []
    tiles = ((name, v) for name, v in call.arguments.items() if isinstance(v, View))
    return [name for name, view in tiles if view.region is PSUM]


def _out_of_reach(call: Call, name: str) -> KernelError:
    return BufferKindError(
        f"{name} is in psum, which the GpSimd engine can't access",
        argument=name,
        expected="sbuf",
        got=str(call[name]),
        because="the GpSimd engine has no port to PSUM",
        hint=f"use an operand in SBUF (nisa.tensor_copy copies {name}), or another engine",
    )


WHERE = ("partitions", "elements per partition")
AXES = ("partition axis", "free axis")


class Size(NamedTuple):
    """The size of a letter in a call. `argument` and `axis`: where it was first defined."""

    size: int
    argument: str
    axis: int


def together(call: Call, machine: Machine) -> Iterator[KernelError]:
    """Yield the errors of all arguments together: sizes that contradict the clause's letters, and
    broken rules. The call's engine must be set."""
    rules = call.instruction.rules
    yield from filter(None, (rule(call, machine) for rule in rules if rule.early))
    yield from disagreements(call, machine)
    yield from filter(None, (rule(call, machine) for rule in rules if not rule.early))


def disagreements(call: Call, machine: Machine) -> Iterator[KernelError]:
    """Yield an error for each tile whose size contradicts the letters of the clause."""
    sizes: dict[str, Size] = {}
    for name, shape in call.instruction.shapes.items():
        view = call.arguments[name]
        if isinstance(view, View):
            for axis, term in enumerate(shape):
                yield from _check_term(call, machine, sizes, name, axis, term)


def _check_term(
    call: Call, machine: Machine, sizes: dict[str, Size], name: str, axis: int, term: Term
) -> Iterator[KernelError]:
    """Yield errors of one size of an operand, which the clause declares by a term.

    `sizes`: the letters that earlier operands have defined; new ones are added"""
    view = call.view(name)
    actual = _sizes(view)[axis]
    if term.letter is None:
        if actual != term.plus:
            yield _not_the_number(call, name, axis, term.plus)
        return
    times = _times(call, term)
    known = sizes.get(term.letter)
    if known is not None:
        if actual != times * known.size + term.plus:
            yield _differs(call, sizes, name, axis, times * known.size + term.plus)
        return
    size, rest = divmod(actual - term.plus, times)
    step = term.step(machine.limits)
    if rest or size % step:
        yield _not_whole(call, name, axis, times * step)
        return
    sizes[term.letter] = Size(size, name, axis)
    if actual < term.least:
        yield _too_few(call, machine, name, axis, term)
    if term.most is not None:
        counted = view.distinct_free_size // times if axis and view.region is PSUM else size
        if counted > (most := getattr(machine.limits, term.most)):
            yield _too_many(call, machine, name, axis, most)


def _times(call: Call, term: Term) -> int:
    times = term.times
    return times if isinstance(times, int) else call.instruction.given[times](call)


def _sizes(view: View) -> tuple[int, int]:
    return view.partitions, view.free_size


def _counted(count: int, axis: int) -> str:
    """Return a number of partitions (axis 0), or of elements per partition (axis 1), in words."""
    return plural(count, ("partition", "element per partition")[axis], WHERE[axis])


def _equation(call: Call) -> str:
    """Return the equation of a call's instruction, without remarks in words."""
    equation, _, more = call.instruction.equation.partition("\n")[0].partition("; ")
    return f"{equation}; {more}" if "[" in more else equation


def _not_the_number(call: Call, name: str, axis: int, number: int) -> KernelError:
    view, terms = call.view(name), call.instruction.shapes[name]
    pairs = zip(terms, _sizes(view), strict=True)
    expected = [term.plus if term.letter is None else found for term, found in pairs]
    return ShapeError(
        f"{call.name}: {name} has {_counted(_sizes(view)[axis], axis)} instead of {number:,}",
        argument=name,
        expected=f"the shape ({expected[0]}, {expected[1]})",
        got=str(view),
        because=f"{name} must have {_counted(number, axis)}: {_equation(call)}",
    )


def _not_whole(call: Call, name: str, axis: int, step: int) -> KernelError:
    view = call.view(name)
    return ShapeError(
        f"{call.name}: {name} has {_counted(_sizes(view)[axis], axis)}, not a multiple of {step:,}",
        argument=name,
        expected=f"a multiple of {step:,} {WHERE[axis]}",
        got=str(view),
        because=f"the instruction works on groups of {step:,} {WHERE[axis]}: {_equation(call)}",
    )


def _too_few(call: Call, machine: Machine, name: str, axis: int, term: Term) -> KernelError:
    view, least = call.view(name), term.least
    most = f" to {getattr(machine.limits, term.most):,}" if term.most else " or more"
    return FreeSizeError(
        f"{call.name}: {name} has {_counted(_sizes(view)[axis], axis)}, fewer than {least:,}",
        argument=name,
        expected=f"{least}{most} {WHERE[axis]}",
        got=str(view),
        because=f"the instruction works on {least} values at a time",
        hint=f"pad the tile to at least {least} {WHERE[axis]}",
    )


def _too_many(call: Call, machine: Machine, name: str, axis: int, most: int) -> KernelError:
    view = call.view(name)
    actual = _sizes(view)[axis]
    return FreeSizeError(
        f"{call.name}: {name} has {actual:,} {WHERE[axis]}; {machine.name} takes at most {most:,}",
        argument=name,
        expected=f"at most {most:,} {'elements along the free axes' if axis else WHERE[0]}",
        got=str(view),
        because="one instruction can't process a larger tile",
        hint=f"loop over pieces of {most:,} {'columns' if axis else WHERE[0]}",
        also="err_size_of_dimension_exceed_arch_limit",
    )


def _differs(
    call: Call, sizes: Mapping[str, Size], name: str, axis: int, expected: int
) -> KernelError:
    shape = call.instruction.shapes[name]
    term, view = shape[axis], call.view(name)
    letter = term.letter or ""
    known = sizes[letter]
    other = call.view(known.argument)
    if axis == known.axis == 0 and letter == "P":
        return _other_lanes(call, name, known.argument)
    if axis == known.axis == 1 and letter == "F" and term.plain and other.free_size == known.size:
        return ShapeError(
            f"{call.name}: {name} has {_counted(view.free_size, 1)}, but {known.argument} has "
            f"{other.free_size:,}",
            argument=name,
            expected=f"{_counted(expected, 1)}, as {known.argument} ({other})",
            got=str(view),
            because=f"{name} and {known.argument} must have equal numbers of elements per "
            f"partition: {_equation(call)}",
            hint="to repeat one element per partition, use nisa.tensor_scalar"
            if view.free_size == 1 or other.free_size == 1
            else None,
        )
    required = tuple(_wanted(call, sizes, view, i, one) for i, one in enumerate(shape))
    return ShapeError(
        f"{call.name}: {letter} is {known.size} in {known.argument} and "
        f"{_letter(call, view, axis, term)} in {name}",
        argument=name,
        expected=f"the shape {required}",
        got=str(view),
        because=f"{_axes(letter, (known.axis, known.argument), (axis, name))}: {_equation(call)}",
    )


def _axes(letter: str, *places: tuple[int, str]) -> str:
    """Return a sentence that states which axes of two operands must have the same size."""
    (axis, name), (other, second) = places
    if axis == other:
        return f"{letter} is the size of the {AXES[axis]} of both {name} and {second}"
    return f"{letter} is the size of the {AXES[axis]} of {name} and the {AXES[other]} of {second}"


def _wanted(call: Call, sizes: Mapping[str, Size], view: View, axis: int, term: Term) -> int:
    """Return the size that a term of the clause's `shapes` requires of an axis. Return the actual
    size if no operand has defined the size of the term's letter."""
    known = sizes.get(term.letter) if term.letter else None
    if term.letter and known is None:
        return _sizes(view)[axis]
    return term.plus + (_times(call, term) * known.size if known else 0)


def _letter(call: Call, view: View, axis: int, term: Term) -> str:
    """Return the size of a term's letter as text. The size is computed from one operand only."""
    return f"{(_sizes(view)[axis] - term.plus) / _times(call, term):g}"


def _other_lanes(call: Call, name: str, first: str) -> KernelError:
    view, other = call.view(name), call.view(first)
    return ShapeError(
        f"{call.name}: {name} has {_counted(view.partitions, 0)}, but {first} has "
        f"{other.partitions:,}",
        argument=name,
        expected=f"{_counted(other.partitions, 0)}, as {first} ({other})",
        got=str(view),
        because="each partition of a result comes from the same partition of the operands",
        also="err_num_partition_mismatch",
    )


def index_group(unit: engine, machine: Machine) -> int:
    """Return how many adjacent partitions share offsets, for an index that chooses elements along
    free axes (ISA, `NkiTensor.indirect`)."""
    limits = machine.limits
    of_tensor = unit is engine.tensor
    return limits.indirect_partitions_tensor if of_tensor else limits.indirect_partitions


def picking_violations(call: Call, machine: Machine) -> Iterator[KernelError]:
    """Yield the errors of indices that choose elements along free axes, of any instruction
    (ISA)."""
    picked = {n: v for n, v in call.arguments.items() if isinstance(v, View) and v.picked_by}
    for name, view in picked.items():
        yield from _index_problems(name, view, call, machine)
    takers = {p.name: p.operand for p in call.instruction.operands if p.operand}
    takers = {n: operand for n, operand in takers.items() if operand.indirect}
    lead = next((n for n, operand in takers.items() if operand.reads), "")
    for name, operand in takers.items():
        if operand.index_of and (name in picked) != (operand.index_of in picked):
            yield _only_one_indirect(name, operand.index_of, call)
        if name not in picked or operand.index_of:
            continue
        view = picked[name]
        if operand.reads:
            yield from _starts_apart(name, name, view, "its index", view, machine)
        elif isinstance(call.arguments.get(lead), View):
            yield from _scatters(name, view, lead, call.view(lead), machine)
        if operand.writes and call.engine is engine.scalar and view.region is PSUM:
            yield BufferKindError(
                f"{call.name}: the Scalar engine can't scatter to {name}, which is in psum",
                argument=name,
                expected=f"{name} in sbuf, or another engine",
                got=str(view),
            )


def _only_one_indirect(name: str, other: str, call: Call) -> KernelError:
    return ViewError(
        f"{call.name}: only one of {other} and {name} is an indirect view",
        argument=name,
        expected="two indirect views with the same index, or no indirect view",
        got=f"{other}: {call.view(other)}; {name}: {call.view(name)}",
        because="numbers and their scales are two parts of one tensor",
    )


def _index_problems(name: str, view: View, call: Call, machine: Machine) -> Iterator[KernelError]:
    index, size = view.picked_by, index_group(call.engine, machine)
    quadrant = machine.limits.quadrant
    assert index is not None
    if all(start % quadrant for start in _starts(index, machine)):
        yield StartPartitionError(
            f"the index of {name} starts at partition {index.partition}, not at a multiple of "
            f"{quadrant}",
            argument=name,
            expected="partition 0, 32, 64 or 96",
            got=f"partition {index.partition}",
            because=f"an index must start at the first partition of a quadrant ({quadrant} "
            "partitions)",
        )
    if index.stepped:
        yield StartPartitionError(
            f"the partitions of the index of {name} are not consecutive",
            argument=name,
            expected="consecutive partitions",
            got=f"{index}, strides {index.strides}",
        )
    rows = (index.partitions - 1) % size + 1  # partitions of the last group
    most = size * index.free_size if rows == size else rows
    if view.free_size > most:
        yield ShapeError(
            f"{call.name}: {name} picks {plural(view.free_size, 'element')}, but its index has "
            f"{most:,} for "
            + (f"each {size} partitions" if rows == size else f"the last {rows} partitions"),
            argument=name,
            expected=f"num_elem <= {most}",
            got=f"num_elem={view.free_size}, index {index}",
            because=f"on the {call.engine.name} engine, {size} adjacent partitions share a list of "
            f"offsets: offset i is in row i % {size} and column i // {size} of the index",
            hint="pass num_elem to tensor.indirect; by default, num_elem is the number of all "
            "elements of the index",
        )


def _scatters(
    name: str, view: View, lead: str, source: View, machine: Machine
) -> Iterator[KernelError]:
    """Yield an error if the index that scatters the result `name` starts at a wrong partition.

    If the source `lead` is in SBUF, the index must start at the source's first partition.
    Otherwise, if the source has an index, both indices must start at the same partition."""
    index_name = f"the index of {name}"
    if source.region is SBUF:
        yield from _starts_apart(name, lead, source, index_name, view, machine)
    elif source.picked_by is not None:
        index_of = f"the index of {lead}"
        yield from _starts_apart(name, index_of, source.picked_by, index_name, view, machine)


def _starts_apart(
    argument: str, name: str, view: View, index_name: str, picked: View, machine: Machine
) -> Iterator[KernelError]:
    index = picked.picked_by
    assert index is not None
    if _starts(view, machine) & _starts(index, machine):
        return
    yield StartPartitionError(
        f"{name} starts at partition {view.partition}, but {index_name} starts at partition "
        f"{index.partition}",
        argument=argument,
        expected="start both at the same partition",
        got=f"partitions {view.partition} and {index.partition}",
        because="the index has the offsets of a partition in the same partition, or in the same "
        "group of partitions",
        hint="give both tensors the same first partition with `address`",
    )


def _starts(view: View, machine: Machine) -> set[int]:
    """Return the partitions at which a tile may start: one if the kernel chose its address, several
    if the compiler chooses it."""
    bases = machine.starts(view.home) if view.home else (0,)
    return {base + view.partition for base in bases}
