"""Sums in PSUM and in accumulator registers, and transposes that pass through PSUM.

In this module `dst (+)= x` means that x is added to dst or overwrites dst, depending on the
argument `accumulate`. An undefined number was never initialized. ISA and ARCH2 are keys of
sources in isa/machines/trn2.toml.

A product with an identity matrix only moves numbers. An undefined number in a device's memory is
nearly always finite, and 0 times a finite number is 0. So on a device such a number reaches only
the element to which the product moves it. In the emulator undefined numbers are NaN, and NaN would
reach all sums of the product. So a product that only moves numbers treats undefined numbers as
finite numbers. A NaN that was computed does reach all sums, as on a device (ARCH2 about transposes
on v2).

The Vector engine and the Scalar engine have one accumulator register for each lane. The registers
keep their contents from one instruction to the next."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from neuroncore.base.enums import engine, reduce_cmd
from neuroncore.base.options import Options
from neuroncore.base.units import plural
from neuroncore.clause import arithmetic, product
from neuroncore.clause.alu import Operator
from neuroncore.clause.instruction import Run
from neuroncore.core import later
from neuroncore.core.core import CLOBBERED, Core
from neuroncore.core.packs import PackForm
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics import codec
from neuroncore.numerics.formats import float32
from neuroncore.numerics.loops import matmul

IDLE, BEGIN, LOAD = reduce_cmd.idle, reduce_cmd.reset_reduce, reduce_cmd.load_reduce
RESET = reduce_cmd.reset
CLOBBERED_CODE = CLOBBERED.view(np.uint32)


def accumulators(core: Core, unit: engine, data: Tile, count: int) -> Any:
    """Return a view of the accumulator registers of `count` lanes of the engine `unit`. The first
    lane is that of `data`'s first partition (ISA, activation_reduce)."""
    first = data.start_partition
    return core.accumulators[unit][first : first + count]


def accumulate(
    core: Core,
    unit: engine,
    data: Tile,
    values: Any,
    op: Operator,
    command: reduce_cmd,
    initial: Any = None,
) -> None:
    """Fold `values`, shape [P, F], into the accumulator registers of the lanes of `data`.

    `command` first sets the registers (`preset`). The commands idle and reset fold nothing."""
    registers = accumulators(core, unit, data, len(values))
    preset(registers, op, command, initial)
    if command is not IDLE and command is not RESET:
        arithmetic.fold(op, values.reshape(len(values), -1), registers)


def cumulate(
    core: Core, data: Tile, values: Any, op: Operator, command: reduce_cmd, initial: Any
) -> None:
    """Fold `values`, shape [P, F], into the accumulator registers, as the Vector engine does.
    Replace each element by the register's content after it.

    `command` first sets the registers (`preset`)."""
    registers = accumulators(core, engine.vector, data, len(values))
    preset(registers, op, command, initial)
    rows = values.reshape(len(values), -1)
    arithmetic.cumulate(op, rows, registers, rows)


def preset(registers: Any, op: Operator, command: reduce_cmd, initial: Any = None) -> None:
    """Set accumulator registers before an instruction's first element, as a command requires.

    `idle` marks them as clobbered, because an idle instruction may clobber them (ISA)."""
    if command is BEGIN or command is RESET:
        registers.fill(op.identity)
    elif command is IDLE:
        registers.fill(CLOBBERED)
    elif command is LOAD:
        registers[:] = arithmetic.per_lane(initial, registers)


def read_out(
    core: Core, unit: engine, data: Tile, reduce_res: Tile | None, negate: bool = False
) -> None:
    """Write the accumulator registers of the lanes of `data` to `reduce_res`, if it is not None.

    Report registers that no command has set, and write NaN for them. With `negate`, write the
    negative values."""
    if reduce_res is None:
        return
    registers = accumulators(core, unit, data, reduce_res.shape[0])
    codes = registers.astype(np.float32, copy=False).view(np.uint32)
    clobbered = codes == CLOBBERED_CODE
    if clobbered[clobbered.argmax()]:
        core.report(
            "UNINIT_READ",
            f"reduce_res reads {plural(int(clobbered.sum()), 'accumulator register')} that no "
            "command has set: on the device they have old values, and here NaN; begin with "
            "reduce_cmd.reset_reduce",
        )
        registers = np.where(clobbered, np.float32(np.nan), registers)
    reduce_res.store(np.negative(registers) if negate else registers)


OTHERS = PackForm("others", 1, bool)  # whether a tile has other numbers than 0 and 1
PICKS = PackForm("picks", 1, tuple)  # the row numbers that a matrix of zeros and ones chooses


def multiplied(
    core: Core, dst: Tile, stationary: Tile, moving: Tile, accumulate: bool | None, group: int
) -> Run:
    """Return the function that writes the product of `stationary` and `moving` to `dst`, or adds it
    (`never_written`).

    `group`: if it is more than 1, operands have the shape [K, group, columns]. The products of a
        partition are added to each other first."""
    multiply = product.of(float32 in (stationary.dtype, moving.dtype), core.options)
    chained = product.are_packed(dst, stationary, moving, multiply, group)
    if chained:  # `product.chain` would only call this function
        multiply = matmul.product
    is_direct = _is_direct(dst)
    count = later.threads_for(dst, stationary) if chained else 1
    s_of = _Operand(stationary, product.STATIONARY, chained, group, core.options)
    x_of = _Operand(moving, product.MOVING, chained, group, core.options)
    x_of.early = count > 1  # a deferred product needs this operand packed

    if group > 1:
        multiply = partial(multiply, group=group)

    def run(core: Core, dst: Tile, stationary: Tile, moving: Tile) -> None:
        if core.has_undefined:
            lost = core.undefined_in(stationary), core.undefined_in(moving)
            if any(flags is not None for flags in lost):
                run_with_undefined(core, dst, stationary, moving, *lost)
                return
        s, x = s_of.taken(core, stationary), x_of.taken(core, moving)
        fresh = never_written(core, dst, accumulate)
        if count > 1 and isinstance(fresh, bool) and later.put_off(count, dst, s, x, not fresh):
            if fresh:
                dst.mark_other_engine(False)
        elif fresh is False and is_direct:  # the same as `_put`, in less time
            multiply(s, x, dst.codes(), True)
        else:
            _put(dst, fresh, partial(multiply, s, x))

    def run_with_undefined(
        core: Core, dst: Tile, stationary: Tile, moving: Tile, *lost: Array | None
    ) -> None:
        s, x, into = _as_finite(s_of.read(stationary), x_of.read(moving), *lost)

        def fill(out: Array, add: bool) -> None:
            multiply(s, x, out, add)
            if into is not None:
                out[into] = np.nan

        accumulated(core, dst, accumulate, fill)

    return run


class _Operand:
    """One operand of a product, read as a matrix or from the cache of packed operands
    (`neuroncore.core.packs`)."""

    def __init__(self, tile: Tile, role: str, chained: bool, group: int, options: Options) -> None:
        self.group = group
        self.values = product.reader(tile, role, options)
        decoded = self.values is not product.codes_of
        pack = product.packer(role, chained, decoded)
        self.form = None if pack is None else PackForm(role, group, pack)
        self.early = chained and role == product.STATIONARY  # every chain needs this operand packed

    def read(self, tile: Tile) -> Array:
        values = self.values(tile)
        return values if self.group == 1 else values.reshape(self.group * len(values), -1)

    def taken(self, core: Core, tile: Tile) -> Array:
        if self.form is None:
            return self.read(tile)
        taken: Array = core.packs.get(tile, self.form, self.read, self.early)
        return taken


def _as_finite(
    s: Array, x: Array, in_s: Array | None, in_x: Array | None
) -> tuple[Array, Array, Array | None]:
    """Return (s, x, flags) for a product that only moves numbers: the operands with 0 in place of
    undefined elements, and flags [M, N] of the elements to which undefined elements are moved.
    Otherwise return s and x unchanged, and None.

    `s`, `x`: shapes [K, M] and [K, N]
    `in_s`, `in_x`: flags of their undefined elements, or None"""
    in_s, in_x = (None if f is None else f.reshape(v.shape) for f, v in ((in_s, s), (in_x, x)))
    into = product.moved(s, x, in_s, in_x)
    return (s, x, None) if into is None else (without(s, in_s), without(x, in_x), into)


def transposed(core: Core, dst: Tile, data: Tile) -> None:
    """Write the transpose of `data` to `dst`, as a product with an identity matrix. Undefined
    elements that are not finite become NaN, and do not spread."""
    values = product.reader(data, "stationary", core.options)(data)
    lost = core.undefined_in(data)
    lost = None if lost is None else lost.reshape(values.shape)
    out = arithmetic.floats(dst, (values.shape[1], values.shape[0]))
    identity = np.eye(len(values), dtype=np.float32)
    product.chain(without(values, lost), identity, out, False)
    if lost is not None:
        out[lost.T] = np.nan
    dst.store(out)


def without(values: Array, lost: Array | None) -> Array:
    """Return `values` with 0 where `lost` flags them, unchanged if `lost` is None."""
    return values if lost is None else np.where(lost, np.float32(0), values)


def accumulated(core: Core, dst: Tile, accumulate: bool | None, multiply: product.Sum) -> None:
    """Add a matrix [M, N] to `dst`, or overwrite `dst` with it. `multiply(out, add)` computes the
    matrix in `out`, or adds it to `out`."""
    _put(dst, never_written(core, dst, accumulate), multiply)


def _put(dst: Tile, fresh: Any, multiply: product.Sum) -> None:
    """Add the matrix that `multiply` computes to `dst`, as in `accumulated`. `fresh`: which
    elements are overwritten instead."""
    if fresh is True:
        dst.mark_other_engine(False)
    if isinstance(fresh, bool) and _is_direct(dst):
        multiply(dst.codes(), not fresh)
        return
    shape = dst.shape[0], dst.free_size
    out = arithmetic.floats(dst, shape)
    if fresh is not False:
        multiply(out, False)
    if fresh is not True:  # each pass is added separately, as above
        # float64 in the precision analysis
        total = np.array(dst.values(), out.dtype).reshape(shape)
        multiply(total, True)
        out = total if fresh is False else np.where(fresh.reshape(shape), out, total)
    dst.store(out.reshape(dst.shape))


def _is_direct(dst: Tile) -> bool:
    """Return whether products can be written to the memory of the tile without a copy."""
    return dst.dtype is float32 and len(dst.shape) == 2


def hinted(run: Run, stationary: Tile, of_stationary: bool, of_moving: bool) -> Run:
    """Return a Run that executes `run`, and reports a false hint about a float32 operand.

    `of_stationary`, `of_moving`: hints that an operand has only zeros and ones. They make the
        device faster (ISA), but don't change the sums here."""
    flags = {"stationary": of_stationary, "moving": of_moving}
    names = [name for name, flag in flags.items() if flag and stationary.dtype is float32]
    if not names:
        return run

    def checked(core: Core, dst: Tile, stationary: Tile, moving: Tile) -> None:
        for name, tile in (("stationary", stationary), ("moving", moving)):
            if name in names and core.packs.get(tile, OTHERS, _has_others):
                core.report(
                    "NOT_ONEZERO",
                    f"{name} ({tile}) has numbers other than 0 and 1, but is_{name}_onezero=True "
                    "promises only 0 and 1: the device's product may be wrong",
                )
        run(core, dst, stationary, moving)

    return checked


def _has_others(tile: Tile) -> bool:
    """Return whether a tile has numbers other than 0 and 1."""
    values = tile.values()
    return bool(((values != 0) & (values != 1)).any())


def never_written(core: Core, dst: Tile, accumulate: bool | None) -> Any:
    """Return which elements of `dst` a sum overwrites: True for all, False for none, or flags.

    If `accumulate` is None, the first write to an element of the tensor overwrites it (ISA), even
    if an earlier tensor at this address was written. Report a sum that is added to uninitialized
    data, or to data of another engine."""
    if accumulate is False:
        return True
    storage = dst.storage
    if accumulate and storage.gaps is not None:
        core.check_written("dst, which accumulates,", dst)
    if storage.other_engine is not None:
        report_other_engine(core, dst)
    if storage.gaps is None or accumulate:
        return False
    if not storage.gaps.written:
        return True
    unwritten = dst.unwritten()
    if unwritten is None:
        return False
    return True if unwritten.all() else unwritten


def report_other_engine(core: Core, dst: Tile) -> None:
    """Report a product that is added to elements that another engine than Tensor wrote, if the
    machine leaves the result undefined."""
    if dst.is_from_other_engine() and not core.machine.has("accumulate_onto_any"):
        core.report(
            "PSUM_FOREIGN",
            lambda: (
                f"the product is added to data in dst ({dst}) that another engine wrote: the "
                f"result is undefined on {core.machine.name}; begin the sum with a matmul "
                "(accumulate=False)"
            ),
            dst.storage.id,
        )


def pass_through(core: Core, dst: Tile, data: Tile, moving: Tile) -> None:
    """Transpose mode: copy the bits of data[k, m] to dst[m, n] if moving[k, n] is 1. Without a 1 in
    column n, write 0."""
    rows, empty = core.packs.get(moving, PICKS, _picked_rows)
    result = data.codes().reshape(data.shape[0], -1)[rows].T
    if empty is not None:
        result = np.where(empty, result.dtype.type(0), result)
    put_bits(dst, result)
    dst.mark_other_engine(False)


def _picked_rows(moving: Tile) -> tuple[Array | slice, Array | None]:
    """Return (rows, flags) for a matrix of zeros and ones.

    `rows`: the row with the 1 of each column; a slice of all rows for an identity matrix
    `flags`: the columns without a 1; None if there are none"""
    picks = moving.values().reshape(moving.shape[0], -1) != 0
    rows, empty = np.argmax(picks, axis=0), ~picks.any(axis=0)
    if empty.any():
        return rows, empty
    return (slice(None) if np.array_equal(rows, np.arange(len(picks))) else rows), None


def put_bits(dst: Tile, codes: Array) -> None:
    """Copy codes to `dst` without conversion. Narrower codes go to the lower bits of the
    elements."""
    into = dst.codes()
    if codes.itemsize < into.itemsize:
        into = into.view(dst.held.code_type)
    codec.copy(codes.reshape(dst.shape), into)
