"""Agreement of the operands of a call: sizes by the letters of its clause, and rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from neuroncore.base.errors import FreeSizeError, KernelError, ShapeError
from neuroncore.clause.instruction import Call
from neuroncore.clause.letters import Term
from neuroncore.clause.operand import PSUM
from neuroncore.machine import Machine
from neuroncore.memory.geometry import View

WHERE = ("partitions", "elements per partition")
AXES = ("partition axis", "free axis")


class Size(NamedTuple):
    """The size of a letter in a call, and the operand that defined it first."""

    size: int
    argument: str
    axis: int


def violations(call: Call, machine: Machine) -> Iterator[KernelError]:
    """The errors of the operands of a call together, on its engine: sizes that contradict the
    letters of its clause, and broken rules."""
    rules = call.instruction.rules
    yield from filter(None, (rule(call, machine) for rule in rules if rule.early))
    yield from disagreements(call, machine)
    yield from filter(None, (rule(call, machine) for rule in rules if not rule.early))


def disagreements(call: Call, machine: Machine) -> Iterator[KernelError]:
    """Every size of a call's tiles that is not what the letters of its clause say."""
    sizes: dict[str, Size] = {}
    for name, shape in call.instruction.shapes.items():
        view = call.arguments[name]
        if isinstance(view, View):
            for axis, term in enumerate(shape):
                yield from _one(call, machine, sizes, name, axis, term)


def _one(
    call: Call, machine: Machine, sizes: dict[str, Size], name: str, axis: int, term: Term
) -> Iterator[KernelError]:
    view = call.view(name)
    found = _sizes(view)[axis]
    if term.letter is None:
        if found != term.plus:
            yield _not_the_number(call, name, axis, term.plus)
        return
    times = _times(call, term)
    known = sizes.get(term.letter)
    if known is not None:
        if found != times * known.size + term.plus:
            yield _differs(call, sizes, name, axis, times * known.size + term.plus)
        return
    size, rest = divmod(found - term.plus, times)
    step = term.step(machine.limits)
    if rest or size % step:
        yield _not_whole(call, name, axis, times * step)
        return
    sizes[term.letter] = Size(size, name, axis)
    if found < term.least:
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


def _equation(call: Call) -> str:
    return call.instruction.equation.partition("\n")[0]


def _not_the_number(call: Call, name: str, axis: int, number: int) -> KernelError:
    view, terms = call.view(name), call.instruction.shapes[name]
    pairs = zip(terms, _sizes(view), strict=True)
    wanted = [term.plus if term.letter is None else found for term, found in pairs]
    return ShapeError(
        f"{call.name}: {name} has {_sizes(view)[axis]} {WHERE[axis]}",
        argument=name,
        expected=f"({wanted[0]}, {wanted[1]})",
        got=str(view),
        because=f"the instruction reads or writes {number} there: {_equation(call)}",
    )


def _not_whole(call: Call, name: str, axis: int, step: int) -> KernelError:
    view = call.view(name)
    return ShapeError(
        f"{call.name}: {name} has {_sizes(view)[axis]} {WHERE[axis]}",
        argument=name,
        expected=f"a multiple of {step} {WHERE[axis]}",
        got=str(view),
        because=f"the instruction takes {step} at a time: {_equation(call)}",
    )


def _too_few(call: Call, machine: Machine, name: str, axis: int, term: Term) -> KernelError:
    view, least = call.view(name), term.least
    most = f" to {getattr(machine.limits, term.most)}" if term.most else " or more"
    return FreeSizeError(
        f"{call.name}: {name} has {_sizes(view)[axis]} {WHERE[axis]}",
        argument=name,
        expected=f"{least}{most} {WHERE[axis]}",
        got=str(view),
        because=f"the instruction works on {least} values at a time",
        hint="pad the tile",
    )


def _too_many(call: Call, machine: Machine, name: str, axis: int, most: int) -> KernelError:
    view = call.view(name)
    found = _sizes(view)[axis]
    return FreeSizeError(
        f"{call.name}: {name} has {found} {WHERE[axis]}; {machine.name} takes {most}",
        argument=name,
        expected=f"at most {most} {'elements along the free axes' if axis else WHERE[0]}",
        got=str(view),
        because="the instruction's counters and registers have this limit",
        hint=f"loop over pieces of {most}",
        also="err_size_of_dimension_exceed_arch_limit",
    )


def _differs(
    call: Call, sizes: Mapping[str, Size], name: str, axis: int, wanted: int
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
            f"{call.name}: {name} ({view}) and {known.argument} ({other}) differ in "
            "elements per partition",
            argument=name,
            expected=f"{wanted} elements per partition",
            got=f"{view.free_size}",
            because=f"{letter} is one size in {_equation(call)}",
            hint="to repeat one element per partition use nisa.tensor_scalar"
            if view.free_size == 1 or other.free_size == 1
            else None,
        )
    return ShapeError(
        f"{call.name}: {_with_sizes(call)}: {letter} differs, {known.size} of {known.argument} and "
        f"{_letter(call, view, axis, term)} of {name}",
        argument=name,
        expected=str(tuple(_wanted(call, sizes, view, i, one) for i, one in enumerate(shape))),
        got=str(view),
        because=f"{letter} is the {AXES[known.axis]} of {known.argument} and the {AXES[axis]} of "
        f"{name}: {_equation(call)}",
    )


def _wanted(call: Call, sizes: Mapping[str, Size], view: View, axis: int, term: Term) -> int:
    """The value of a term; its own size if its letter occurs nowhere else."""
    known = sizes.get(term.letter) if term.letter else None
    if term.letter and known is None:
        return _sizes(view)[axis]
    return term.plus + (_times(call, term) * known.size if known else 0)


def _letter(call: Call, view: View, axis: int, term: Term) -> str:
    """The size of a letter by one operand alone."""
    return f"{(_sizes(view)[axis] - term.plus) / _times(call, term):g}"


def _with_sizes(call: Call) -> str:
    """The tiles of a call with their letters: stationary[K=128, M=64]."""
    tiles = [(n, call.arguments[n], shape) for n, shape in call.instruction.shapes.items()]
    return ", ".join(
        f"{name}[{', '.join(_said(call, view, i, term) for i, term in enumerate(shape))}]"
        for name, view, shape in tiles
        if isinstance(view, View)
    )


def _said(call: Call, view: View, axis: int, term: Term) -> str:
    found = _sizes(view)[axis]
    if term.letter is None:
        return str(found)
    if term.plain or isinstance(term.times, str):
        return f"{term.letter}={_letter(call, view, axis, term)}"
    return f"{term.size}={found}"


def _other_lanes(call: Call, name: str, first: str) -> KernelError:
    view, other = call.view(name), call.view(first)
    return ShapeError(
        f"{call.name}: {name} has {view.partitions} partitions, {first} has {other.partitions}",
        argument=name,
        expected=f"{other.partitions} partitions, as {first} ({other})",
        got=str(view),
        because="lane p of the engine reads and writes partition p",
        also="err_num_partition_mismatch",
    )
