"""What there is to know of a call before it is evaluated in float64."""

from __future__ import annotations

from dataclasses import dataclass

from neuroncore.clause.instruction import Call
from neuroncore.numerics.formats import Format, int32, uint32

# Instructions of which every lane works for itself: some lanes stand for all.
LANES = {
    *("tensor_copy", "tensor_copy_predicated", "tensor_tensor", "tensor_scalar", "reciprocal"),
    *("scalar_tensor_tensor", "activation", "activation_reduce", "activate2", "exponential"),
    *("tensor_reduce", "tensor_scalar_reduce", "tensor_tensor_scan", "tensor_scalar_cumulative"),
    *("select_reduce", "range_select", "bn_stats", "bn_aggr"),
}
CASTS = LANES | {"dma_copy", "dma_compute", "affine_select"}  # which may round to integers
COPIES = {"tensor_copy", "dma_copy", "tensor_copy_predicated"}
CHOOSERS = {"predicate", "index", "indices"}  # operands that aren't computed with
WIDE_INTEGERS = (int32, uint32)


@dataclass(frozen=True)
class Traits:
    floats: tuple[str, ...]
    """Operands that are written as floats."""
    moves: bool
    """Nothing is computed or rounded."""
    partial: frozenset[str]
    """Operands of which some elements are read or written."""
    accumulates: bool
    """What it writes may be added to what is there."""
    registers: bool
    """It goes through accumulator registers."""
    integers: tuple[str, ...]
    """Operands of 32-bit integers that are read as numbers."""
    casts: bool
    """What it writes as integers may have been rounded or cut off."""


def traits(call: Call) -> Traits:
    operands = {p.name: p.operand for p in call.instruction.operands if p.operand}
    taken = {n: operands[n.partition("[")[0]] for n in (*call.reads, *call.writes)}
    forms = {n: call.view(n).dtype for n in taken}
    names = {p.name for p in call.instruction.parameters}
    turns = call.name == "nc_transpose" or bool(call.arguments.get("is_transpose"))
    data = [forms[n] for n in call.reads if not (turns and n == "moving")]
    moved = bool(data) and all(operand and operand.moved for operand in taken.values())
    moves = turns or moved or call.name == "nc_stream_shuffle"
    floats = tuple(n for n in call.writes if forms[n].is_float)
    if turns and call.machine.has("native_transpose"):  # may put bits into a wider format
        floats = tuple(n for n in floats if forms[n].itemsize == data[0].itemsize)
    wide = (n for n in call.reads if forms[n] in WIDE_INTEGERS and n not in CHOOSERS)
    copies = call.name in COPIES and len(set(forms.values())) == 1
    return Traits(
        floats=floats,
        moves=moves and all(_holds(forms[n], form) for n in call.writes for form in data),
        partial=frozenset(n for n, operand in taken.items() if operand and operand.partial),
        accumulates="accumulate" in names,
        registers="reduce_res" in names or call.name == "tensor_scalar_cumulative",
        integers=() if moved and not floats else tuple(wide),
        casts=call.name in CASTS and not copies,
    )


def _holds(wide: Format, narrow: Format) -> bool:
    """Whether a format has all numbers of another."""
    if wide is narrow:
        return True
    both = wide.is_float and narrow.is_float
    return both and wide.exponent >= narrow.exponent and wide.mantissa >= narrow.mantissa
