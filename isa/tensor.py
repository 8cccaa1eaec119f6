"""The Tensor engine (PE): 128 x 128 multipliers, with the stationary tile in them and the moving
tile streaming past; sums leave at the bottom, into PSUM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from neuroncore.clause import arithmetic as numeric
from neuroncore.clause import cost, product
from neuroncore.clause.instruction import Call, instruction
from neuroncore.clause.operand import PSUM, SBUF, Operand, Static, View
from neuroncore.clause.rules import within_one_bank
from neuroncore.core.core import Core
from neuroncore.enums import engine, matmul_perf_mode
from neuroncore.errors import (
    DtypeError,
    FreeSizeError,
    KernelError,
    OperatorError,
    ShapeError,
    SignatureError,
    TargetError,
    ViewError,
)
from neuroncore.machine import Machine
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics.formats import (
    Format,
    bfloat16,
    float8_e4m3,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    tfloat32,
)

INPUTS = (
    *(float8_e4m3, float8_e5m2, float8_e4m3fn),
    *(bfloat16, float16, tfloat32, float32),
)
WIDE = (float32, tfloat32)
NARROW = INPUTS[:3]
Accumulator = Annotated[
    Tile,
    Operand(
        writes=True,
        regions=(PSUM,),
        dtypes=(float32, bfloat16, float16, *NARROW),
        indirect=True,
    ),
]
Input = Annotated[Tile, Operand(reads=True, regions=(SBUF,), dtypes=INPUTS, indirect=True)]
Pair = Annotated[tuple[int, ...], Static(sequence=True)]
Mode = Annotated[matmul_perf_mode | str, Static()]  # published kernels pass its name, too


# --- legality -------------------------------------------------------------------------------------


def is_double_row(mode: matmul_perf_mode | str) -> bool:
    return mode in (matmul_perf_mode.double_row, "double_row")


def columns(call: Call, name: str) -> int:
    """Columns of an operand: double_row puts the two halves of K into the first free axis."""
    halves = 2 if is_double_row(call.arguments.get("perf_mode", "none")) else 1
    return call.view(name).free_size // halves


def contraction(call: Call, machine: Machine) -> KernelError | None:
    """stationary [K, M], moving [K, N], dst [M, N]"""
    s, x, dst = call.view("stationary"), call.view("moving"), call.view("dst")
    m, n = columns(call, "stationary"), columns(call, "moving")
    equation = (
        f"stationary[K={s.partitions}, M={m}].T @ "
        f"moving[K={x.partitions}, N={n}] -> dst[{dst.partitions}, {dst.free_size}]"
    )
    if s.partitions != x.partitions:
        return ShapeError(
            f"{call.name}: {equation}: K differs, {s.partitions} and {x.partitions}",
            argument="moving",
            expected=f"{s.partitions} partitions",
            got=str(x),
            because="K is the partition axis of BOTH operands: row k of the array multiplies them",
        )
    if (dst.partitions, dst.free_size) != (m, n):
        return ShapeError(
            f"{call.name}: {equation}: dst has the wrong shape",
            argument="dst",
            expected=f"({m}, {n})",
            got=str(dst),
            because="the free axis of stationary becomes the partition axis of dst",
        )
    return None


def stationary_fits(call: Call, machine: Machine) -> KernelError | None:
    found, most = columns(call, "stationary"), machine.limits.stationary_free
    if found <= most:
        return None
    return FreeSizeError(
        f"{call.name}: stationary has {found} columns; {machine.name} takes {most}",
        argument="stationary",
        expected=f"at most {most} elements along the free axes",
        got=str(call.view("stationary")),
        because=f"the array has {most} columns",
        hint=f"loop over pieces of {most} columns (nl.tile_size.gemm_stationary_fmax)",
        also="err_size_of_dimension_exceed_arch_limit",
    )


def moving_fits(call: Call, machine: Machine) -> KernelError | None:
    found, limits = columns(call, "moving"), machine.limits
    narrow = call.view("dst").dtype is bfloat16
    most = limits.moving_free_bfloat16 if narrow else limits.moving_free_float32
    if found <= most:
        return None
    banks = "all banks" if machine.has("results_across_banks") else "one bank"
    return FreeSizeError(
        f"{call.name}: moving has {found} columns; {machine.name} takes {most}",
        argument="moving",
        expected=f"at most {most} elements along the free axes",
        got=str(call.view("moving")),
        because=f"the result goes to {banks} of PSUM",
        hint=f"loop over pieces of {most} columns (nl.tile_size.gemm_moving_fmax)",
    )


def operand_formats(call: Call, machine: Machine) -> KernelError | None:
    """float32 and TF32 pair with each other only; OCP fp8 is v4's and never meets the older."""
    s, x = call.view("stationary"), call.view("moving")
    formats = {s.dtype, x.dtype}
    if float8_e4m3fn in formats and not machine.has("float8_e4m3fn"):
        return TargetError(
            f"nc_matmul: {machine.name} has no float8_e4m3fn",
            expected="a machine with float8_e4m3fn",
            got=f"{machine.name} ({machine.generation})",
            hint="use float8_e4m3 (largest value 240)",
            also="NCC_EVRF051",
        )
    if (s.dtype in WIDE) != (x.dtype in WIDE) or {float8_e4m3, float8_e4m3fn} <= formats:
        return DtypeError(
            f"nc_matmul: stationary is {s.dtype} and moving {x.dtype}",
            argument="moving",
            expected="float32 or tfloat32 with each other, narrower formats among themselves, "
            "float8_e4m3 and float8_e4m3fn apart",
            got=f"{s.dtype} and {x.dtype}",
            because="the array is set up for one kind of multiplication at a time",
        )
    return None


def result_format(call: Call, machine: Machine) -> KernelError | None:
    dst, data = call.view("dst").dtype, call.view("stationary").dtype
    if call["is_transpose"] and machine.has("native_transpose"):
        if carries(dst, data):
            return None
        return DtypeError(
            f"nc_matmul: a transpose of {data} can't go to {dst}",
            argument="dst",
            expected=f"{data} or 16 bits" if data in NARROW else str(data),
            got=str(dst),
            because="transpose mode passes bits through and converts nothing",
        )
    if dst is float32 or (dst is bfloat16 and machine.has("psum_bfloat16")):
        return None
    return DtypeError(
        f"nc_matmul: dst can't be {dst} on {machine.name}",
        argument="dst",
        expected="float32" + (" or bfloat16" if machine.has("psum_bfloat16") else ""),
        got=str(dst),
        because="sums leave the array as float32",
        hint="round while copying to SBUF: nisa.tensor_copy into a narrower tile",
    )


def carries(dst: Format, data: Format) -> bool:
    """Whether a tile of `dst` takes what transpose mode makes of `data`: the same bits, TF32 in the
    float32 that it lives in, or of an 8-bit float 16 bits, the upper 8 of them zero (ARCH2)."""
    if data is tfloat32 and dst is float32:
        return True
    return dst is data or (data in NARROW and dst.itemsize == 2)


def array_tiling(call: Call, machine: Machine) -> KernelError | None:
    """A stationary tile may use a part of the array: 64 (from v3 on 32) rows or columns of it."""
    position, size = call["tile_position"], call["tile_size"]
    if not position and not size:
        return None
    s = call.view("stationary")
    whole = machine.limits.partitions
    parts = [whole, 64, *([32] if machine.has("pe_tile_32") else [])]
    problem = None
    if not position or not size:
        problem = "tile_position and tile_size go together"
    elif len(position) != 2 or len(size) != 2:
        problem = "tile_position and tile_size are pairs of a row and a column"
    elif any(n not in parts for n in size):
        problem = f"tile_size {tuple(size)} is not made of {parts}"
    elif any(p < 0 or p % n or p + n > whole for p, n in zip(position, size, strict=True)):
        problem = f"tile_position {tuple(position)} is not a multiple of tile_size {tuple(size)}"
    elif s.partitions > size[0] or columns(call, "stationary") > size[1]:
        problem = f"stationary ({s}) is larger than tile_size {tuple(size)}"
    if problem is None:
        return None
    return ShapeError(
        f"{call.name}: {problem}",
        argument="tile_size",
        because=f"the {whole} x {whole} array splits into equal parts",
    )


def indirect_uses_the_whole_array(call: Call, machine: Machine) -> KernelError | None:
    name = next((n for n in ("dst", "stationary", "moving") if call.view(n).picked_by), None)
    if name is None or tuple(call["tile_position"] or (0, 0)) == (0, 0):
        return None
    return ShapeError(
        f"{call.name}: tile_position {tuple(call['tile_position'])} and {name}, an indirect view, "
        "don't go together",
        argument="tile_position",
        expected="(0, 0)",
        got=str(tuple(call["tile_position"])),
        because="tiling the array and picking by an index exclude each other",
    )


def indirect_formats(call: Call, machine: Machine) -> KernelError | None:
    """Indices pick from formats of 8 and 16 bits, and never from what a transpose streams (ISA)."""
    formats = (float16, bfloat16, *NARROW)
    for name in ("dst", "stationary", "moving"):
        view = call.view(name)
        if view.picked_by and view.dtype not in formats:
            return DtypeError(
                f"{call.name}: {name} is an indirect view of {view.dtype}",
                argument=name,
                expected=" or ".join(formats),
                got=str(view),
            )
    if not call["is_transpose"] or not call.view("moving").picked_by:
        return None
    return ViewError(
        f"{call.name}: moving can't be an indirect view in a transpose",
        argument="moving",
        expected="an identity matrix",
        got=str(call.view("moving")),
    )


def double_row(call: Call, machine: Machine) -> KernelError | None:
    """Two products per element of the array: two rows of 8-bit floats, K = 256."""
    mode = call["perf_mode"]
    if mode not in (*matmul_perf_mode, *(m.name for m in matmul_perf_mode)):
        return SignatureError(
            f"nc_matmul: there is no perf_mode {mode!r}",
            argument="perf_mode",
            expected=", ".join(map(repr, matmul_perf_mode)),
            got=repr(mode),
        )
    if not is_double_row(mode):
        return None
    if not machine.has("double_row"):
        return TargetError(
            f"nc_matmul: {machine.name} has no double_row mode",
            argument="perf_mode",
            expected="a machine with double_row",
            got=f"{machine.name} ({machine.generation})",
        )
    return _double_row_operands(call) or _double_row_alone(call, machine)


def _double_row_operands(call: Call) -> KernelError | None:
    for name in ("stationary", "moving"):
        view = call.view(name)
        if view.dtype not in NARROW:
            return DtypeError(
                f"nc_matmul: double_row can't take {name} ({view.dtype})",
                argument=name,
                expected=" or ".join(NARROW),
                got=str(view),
                because="two numbers of 8 bits take the place of one of 16",
            )
        if len(view.shape) < 3 or view.shape[1:2] != (2,):
            return ShapeError(
                f"nc_matmul: {name} is {view.shape}; in double_row mode its first free axis is 2",
                argument=name,
                expected="[K/2, 2, columns]",
                got=str(view),
                because="each row of the array takes k and k + K/2 together",
                hint="pad an odd K with zeros",
            )
    return None


def _double_row_alone(call: Call, machine: Machine) -> KernelError | None:
    if call["is_transpose"]:
        return OperatorError(
            "nc_matmul: double_row doesn't go with is_transpose",
            argument="is_transpose",
            expected="False",
            got="True",
            because="a transpose passes on one element of each row, and has nothing to add",
        )
    return rows_only(call, machine)


def rows_only(call: Call, machine: Machine) -> KernelError | None:
    """The fast modes can share the array's rows, not its columns."""
    position, size = call["tile_position"] or (), call["tile_size"] or ()
    whole = machine.limits.stationary_free
    if tuple(position[1:]) in ((), (0,)) and tuple(size[1:]) in ((), (whole,)):
        return None
    return ShapeError(
        f"{call.name}: tile_position {tuple(position)} and tile_size {tuple(size)} take a part of "
        "the columns",
        argument="tile_size",
        expected=f"(rows, {whole}) at (row, 0)",
        got=f"{tuple(size)} at {tuple(position)}",
        because="several products per element and column tiling don't go together",
    )


# --- cost -----------------------------------------------------------------------------------------


def rate_of(formats: set[Format]) -> str:
    if formats & {float32}:
        return "float32"
    narrow = {f for f in formats if f.itemsize == 1}
    return "float8" if narrow else next(iter(formats)).name


def matmul_cost(call: Call, machine: Machine) -> cost.Cost:
    """One column of moving per cycle; loading the stationary tile can hide behind the last one.
    A float32 operand of zeros and ones takes one pass (ISA)."""
    kind = rate_of({call.view("stationary").dtype, call.view("moving").dtype})
    if call["is_transpose"] and machine.has("native_transpose"):
        kind = transpose_kind(call.view("stationary"))
    elif kind == "float32" and (call["is_stationary_onezero"] or call["is_moving_onezero"]):
        kind = "float32_onezero"
    n, moving = columns(call, "moving"), call.view("moving")
    n = max(n, cost.strided_cycles(moving, machine))
    return pe_cost(call, machine, kind, "stationary", n, columns(call, "stationary"))


def transpose_kind(data: View) -> str:
    return "transpose_float32" if data.dtype.itemsize == 4 else "transpose"


def pe_cost(
    call: Call, machine: Machine, kind: str, operand: str, columns: int, weights: int
) -> cost.Cost:
    """So many columns stream past the tile `operand`, of so many columns of weights."""
    unit, fixed, held = machine.engines["tensor"], machine.fixed, call.view(operand)
    rate, least = unit.rate[kind], unit.min_interval_cycles
    passes = fixed.float32_passes if rate == unit.rate["float32"] else 1
    busy = max(least / min(rate, 1), unit.overhead_cycles * passes + columns / rate)
    ports = cost.sector_cycles(held, machine) if fixed.weights_by_sectors else 0
    load = passes * max(least, weights / fixed.weights_columns_per_cycle, ports)
    filling = max(least, weights * held.dtype.itemsize / fixed.weights_bytes_per_cycle)
    latency = unit.latency_ns
    if kind.startswith("transpose") and machine.has("background_transpose"):
        latency += busy / unit.clock_ghz  # beside another one, that takes the other half
    return cost.Cost(
        busy / unit.clock_ghz,
        latency,
        weights_ns=load / unit.clock_ghz,
        weights_operand=operand,
        weights_latency_ns=filling / unit.clock_ghz + fixed.weights_latency_ns,
    )


# --- meaning --------------------------------------------------------------------------------------


@instruction(
    engine.tensor,
    cost=cost.dynamic(matmul_cost),
    rules=[
        double_row,
        stationary_fits,
        contraction,
        moving_fits,
        operand_formats,
        result_format,
        array_tiling,
        within_one_bank("dst"),
        indirect_uses_the_whole_array,
        indirect_formats,
    ],
    opcode="MATMUL",
)
def nc_matmul(
    dst: Accumulator,
    stationary: Input,
    moving: Input,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    tile_position: Pair = (),
    tile_size: Pair = (),
    perf_mode: Mode = matmul_perf_mode.none,
    *,
    core: Core,
) -> None:
    """dst[m, n] (+)= sum_k stationary[k, m] * moving[k, n]

    The sum is a float32 chain from k = 0; it is then added to dst, if that is being accumulated.
    double_row takes [K/2, 2, M] and [K/2, 2, N]: the products of k and k + K/2 are added first.
    `Options.fp32_matmul` has another sum for float32, `Options.tf32_read` and `subnormals` other
    ways to read operands.
    """
    if is_transpose and core.machine.has("native_transpose"):
        pass_through(dst, stationary, moving)
        dst.mark_foreign(False)
        return
    options = core.options
    s = product.operand(stationary, "stationary", options)
    x = product.operand(moving, "moving", options)
    group = 2 if is_double_row(perf_mode) else 1
    s, x = s.reshape(group * len(s), -1), x.reshape(group * len(x), -1)
    one = product.plain(options)
    if options.fp32_matmul == "four_pass" and float32 in (stationary.dtype, moving.dtype):
        accumulated(core, dst, accumulate, lambda out, add: product.four_pass(one, s, x, out, add))
    else:
        accumulated(core, dst, accumulate, lambda out, add: one(s, x, out, add, group))


def accumulated(
    core: Core, dst: Tile, accumulate: bool | None, multiply: Callable[[Array, bool], Any]
) -> None:
    """dst (+)= the matrix [M, N] that `multiply` puts into its argument, or adds to that."""
    fresh = never_written(core, dst, accumulate)
    if fresh is True:
        dst.mark_foreign(False)
    if dst.dtype is float32 and isinstance(fresh, bool) and len(dst.shape) == 2:
        multiply(dst.codes(), not fresh)
        return
    out = numeric.floats(dst, (dst.shape[0], dst.free_size))
    multiply(out, False)
    out = out.reshape(dst.shape)
    if fresh is not True:
        total = dst.values() + out
        out = total if fresh is False else np.where(fresh, out, total)
    dst.store(out)


def never_written(core: Core, dst: Tile, accumulate: bool | None) -> Any:
    """Which elements start a sum: all (True), none (False), or an array of flags.

    Left open, the first write to a location of the tensor overwrites and later ones add (ISA);
    what an earlier tensor left at the same address doesn't count.
    """
    if accumulate is False:
        return True
    if accumulate:
        core.check_written("dst, which accumulates,", dst)
    warn_foreign(core, dst)
    gaps = dst.storage.gaps
    if gaps is not None and gaps.mask is None and not accumulate:
        return True
    unwritten = None if accumulate else dst.unwritten()
    if unwritten is None:
        return False
    return True if unwritten.all() else unwritten


def warn_foreign(core: Core, dst: Tile) -> None:
    if not core.machine.has("accumulate_onto_any") and dst.is_foreign():
        core.report(
            "PSUM_FOREIGN",
            f"dst ({dst}) accumulates onto what another engine wrote; that is undefined on "
            f"{core.machine.name}: begin the sum with a matmul (accumulate=False)",
            dst.storage.id,
        )


def pass_through(dst: Tile, data: Tile, moving: Tile) -> None:
    """Transpose mode: bits of data[k, m] go to dst[m, n] where moving[k, n] is 1."""
    picks = moving.values().reshape(moving.shape[0], -1) != 0
    codes = data.codes().reshape(data.shape[0], -1)
    rows = np.argmax(picks, axis=0)
    result = codes[rows].T
    empty = ~picks.any(axis=0)
    if empty.any():
        result = np.where(empty, result.dtype.type(0), result)
    put_bits(dst, result)


def put_bits(dst: Tile, codes: Array) -> None:
    """Codes as they are, narrow ones in the lower half of dst's."""
    into = dst.codes()
    if codes.itemsize < into.itemsize:
        into = into.view(dst.held.code_type)
    into[...] = codes.reshape(dst.shape)
