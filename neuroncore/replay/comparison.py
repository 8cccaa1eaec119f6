"""Results of the emulator against those of the plain reading, bit for bit where they must agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from neuroncore.memory.storage import Storage
from neuroncore.plain.arithmetic import ULPS
from neuroncore.plain.formats import Array, decode
from neuroncore.plain.memory import Operand
from neuroncore.record.rows import Row

BLAS = "blas"  # stands for a function where sums have no order (Options.matmul)
BLAS_ROOM = 2.0**-12  # of the largest result


def native(array: Any) -> Array:
    """An array with at least one axis, its bytes in this machine's order."""
    found = np.atleast_1d(np.asarray(array))
    return found.astype(found.dtype.newbyteorder("="), copy=False)


def unequal_arrays(got: Array, wanted: Array) -> Array:
    """Which elements of two arrays differ in bits; one NaN equals another."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return np.ones((1,) * got.ndim, np.bool_)
    wrong: Array = _bits(got) != _bits(wanted)
    if wrong.any() and got.dtype.kind not in "iub":
        wrong &= ~((got != got) & (wanted != wanted))
    return wrong


def _bits(array: Array) -> Array:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def codes_at(storage: Storage, operand: Operand) -> Array:
    """The codes that the emulator has where an operand is."""
    layout, kind = storage.layout, np.dtype(operand.held.codes)
    if layout.in_rows:
        row, column = np.divmod(operand.positions, layout.row_bytes)
        where = row * layout.pitch + column * layout.spread
    else:
        where = operand.positions * layout.spread
    where = where + storage.origin
    if not where.size:
        return np.empty(where.shape, kind)
    first = int(where.flat[0]) % kind.itemsize
    data = storage.data.reshape(-1).view(np.uint8)
    count = (len(data) - first) // kind.itemsize
    words = data[first : first + count * kind.itemsize].view(kind)
    found: Array = words[where // kind.itemsize]
    return found


def differing(
    given: Mapping[str, Any], name: str, emulator: Array, row: Row, function: str | None
) -> Array:
    """Which elements of a result differ by more than they may, of those that were written."""
    operand: Operand = given[name]
    if function == BLAS:
        room = np.abs(decode(operand.held, emulator)).max(initial=0) * BLAS_ROOM
        wrong = ~(np.abs(decode(operand.held, emulator) - operand.values()) <= room)
        wrong &= unequal(operand, emulator, strict=False)
    elif function is not None and name != row.call.writes[0]:
        wrong = _beyond_sum(operand, emulator, given[row.call.writes[0]])
    elif function is not None:
        allowed = ULPS[function].get(operand.held.name, 1)
        wrong = unequal(operand, emulator, strict=False) & (_ulps(operand, emulator) > allowed)
    else:
        wrong = unequal(operand, emulator, strict=_moves_bits(row, given))
    written: Array = wrong & ~operand.missing()
    return written


def _moves_bits(row: Row, given: Mapping[str, Any]) -> bool:
    """Return whether an instruction computes nothing, so even the bits of NaN are the source's."""
    traits = row.call.instruction.traits
    operands = [given[n] for n in (*row.call.reads, *row.call.writes)]
    same = len({one.held for one in operands}) == 1
    return bool(traits.moves_bits or (traits.copies and same))


def unequal(operand: Operand, emulator: Array, strict: bool) -> Array:
    """Which codes differ; unless `strict`, one NaN equals another."""
    codes = operand.codes()
    wrong: Array = codes != emulator
    if not strict and operand.held.kind == "float" and wrong.any():
        wrong &= ~(np.isnan(decode(operand.held, codes)) & np.isnan(decode(operand.held, emulator)))
    return wrong


def _ulps(operand: Operand, emulator: Array) -> Array:
    """How many numbers of the format lie between the two, and one."""
    bits = 8 * operand.held.size

    def order(codes: Array) -> Array:
        whole = codes.astype(np.int64)
        if operand.held.kind != "float":
            return whole
        magnitude = whole & (1 << bits - 1) - 1
        found: Array = np.where(whole >> bits - 1, -magnitude, magnitude)
        return found

    step = 1 << 13 if operand.held.name == "tfloat32" else 1
    apart: Array = np.abs(order(operand.codes()) - order(emulator)) // step
    return apart


def _beyond_sum(operand: Operand, emulator: Array, terms: Operand) -> Array:
    """Which sums differ by more than their terms may: each by two units of its last place."""
    found, wanted = decode(operand.held, emulator), operand.values()
    largest = np.abs(np.nan_to_num(terms.rows(), posinf=0, neginf=0)).max(axis=1).max(initial=0)
    count = terms.positions.size // terms.lanes + 2
    room = np.maximum(largest, np.abs(wanted)) * (count * 2.0**-22)
    room = room + np.abs(wanted) * 2.0 ** -(operand.held.mantissa - 1)
    with np.errstate(invalid="ignore"):
        apart: Array = ~(np.abs(found.astype(np.float64) - wanted) <= room)
    apart &= (found != wanted) & ~(np.isnan(found) & np.isnan(wanted))
    return apart


def take_over(operand: Operand, emulator: Array) -> None:
    """Go on from the emulator's bits, which differ in what may differ."""
    wrong = (operand.codes() != emulator) & ~operand.missing()
    if wrong.any():
        size = operand.form.size
        operand.tensor.write(operand.positions[wrong], emulator[wrong], size)


def described(operand: Operand) -> str:
    shape = " x ".join(map(str, operand.shape))
    return f"{shape} {operand.form.name} in {operand.tensor.layout.region.value}"


def text_of(operand: Operand, code: Any) -> str:
    """An element as a number and as bits."""
    bits = int(np.asarray(code).view(f"u{operand.held.size}"))
    if operand.held.kind == "packed":
        return f"{bits:#x}"
    value = decode(operand.held, np.asarray(code).reshape(1))[0]
    return f"{value} ({bits:#0{2 + 2 * operand.held.size}x})"
