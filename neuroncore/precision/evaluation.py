"""Facts about a call that are needed before it is evaluated in float64."""

from __future__ import annotations

from collections.abc import Iterable

from neuroncore.base.structs import dataclass
from neuroncore.clause.alu import Function, Operator
from neuroncore.clause.instruction import Call
from neuroncore.memory.geometry import View
from neuroncore.numerics.formats import Format, int32, uint32

CHOOSERS = {"predicate", "index", "indices"}  # operands that aren't computed with
WIDE_INTEGERS = (int32, uint32)


@dataclass(frozen=True)
class Evaluation:
    floats: tuple[str, ...]
    """Operands that are written as floats."""
    moves: bool
    """Nothing is computed or rounded."""
    partial: frozenset[str]
    """Operands of which some elements are read or written."""
    accumulates: bool
    """The result may be added to the destination."""
    registers: bool
    """It goes through accumulator registers."""
    integers: tuple[str, ...]
    """Operands of 32-bit integers that are read as numbers."""
    casts: bool
    """Integer results may have been rounded or saturated."""
    numbers: tuple[str, ...]
    """Arguments that are numbers, or may be."""
    bounded: bool
    """32-bit integers become such by sums, products and the like, element by element: no result is
    beyond the product of all operands, each greater by 1."""


def evaluation(call: Call) -> Evaluation:
    """The facts, made once for the copies of a Call that all launches have."""
    found: Evaluation | None = call.found.get(__name__)
    if found is None:
        found = call.found[__name__] = _evaluation(call)
    return found


def _evaluation(call: Call) -> Evaluation:
    said = call.instruction.traits
    operands = {p.name: p.operand for p in call.instruction.operands if p.operand}
    taken = {n: operands[n.partition("[")[0]] for n in (*call.reads, *call.writes)}
    forms = {n: call.view(n).dtype for n in taken}
    names = {p.name for p in call.instruction.parameters}
    turns = call.transposes
    data = [forms[n] for n in call.reads if not (turns and n == said.streams)]
    moved = bool(data) and all(operand and operand.moved for operand in taken.values())
    moves = turns or moved or said.moves_bits
    floats = tuple(n for n in call.writes if forms[n].is_float)
    if turns and call.machine.has("native_transpose"):  # may put bits into a wider format
        floats = tuple(n for n in floats if forms[n].itemsize == data[0].itemsize)
    wide = (n for n in call.reads if forms[n] in WIDE_INTEGERS and n not in CHOOSERS)
    copies = said.copies and len(set(forms.values())) == 1
    operators = [v for v in call.arguments.values() if isinstance(v, Operator)]
    bits = bool(operators) and all(op.kind == "bitvec" for op in operators)
    return Evaluation(
        floats=floats,
        moves=moves and all(_holds(forms[n], form) for n in call.writes for form in data),
        partial=frozenset(n for n, operand in taken.items() if operand and operand.partial),
        accumulates=said.adds in names,
        registers=said.accumulates,
        integers=() if moved and not floats else tuple(wide),
        casts=said.casts and not (copies or bits),
        numbers=tuple(n for n in call.instruction.values if not isinstance(call[n], View)),
        bounded=_bounded(call, forms.values()),
    )


def _bounded(call: Call, forms: Iterable[Format]) -> bool:
    operations = [v for v in call.arguments.values() if isinstance(v, Operator | Function)]
    traits = call.instruction.traits
    if call.dynamic or traits.scans or traits.accumulates or not {*forms} <= {*WIDE_INTEGERS}:
        return False
    read, written = (
        max((call.view(n).size for n in names), default=0) for names in (call.reads, call.writes)
    )
    products = all(isinstance(op, Operator) and op.integer is not None for op in operations)
    return products and read <= written


def _holds(wide: Format, narrow: Format) -> bool:
    """Return whether a format has all numbers of another."""
    if wide is narrow:
        return True
    both = wide.is_float and narrow.is_float
    return both and wide.exponent >= narrow.exponent and wide.mantissa >= narrow.mantissa
