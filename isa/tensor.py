"""The Tensor engine (PE): 128 x 128 multipliers, with the stationary tile in them and the moving
tile streaming past; sums leave at the bottom, into PSUM."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from neuroncore import buffers, cost, numeric
from neuroncore.core import Core
from neuroncore.enums import engine, matmul_perf_mode
from neuroncore.errors import (
    BufferKindError,
    DtypeError,
    FreeSizeError,
    KernelError,
    NotEmulated,
    ShapeError,
    TargetError,
)
from neuroncore.formats import (
    Format,
    bfloat16,
    float8_e4m3,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    tfloat32,
)
from neuroncore.instruction import PSUM, SBUF, Call, Operand, Static, View, instruction
from neuroncore.machine import Machine
from neuroncore.rules import same_dtype, within_one_bank
from neuroncore.tile import Tile

tensor, vector, unknown = engine.tensor, engine.vector, engine.unknown

INPUTS = (
    *(float8_e4m3, float8_e5m2, float8_e4m3fn),
    *(bfloat16, float16, tfloat32, float32),
)
WIDE = (float32, tfloat32)
Accumulator = Annotated[
    Tile, Operand(writes=True, regions=(PSUM,), dtypes=(float32, bfloat16, float16, *INPUTS[:3]))
]
Stationary = Annotated[
    Tile, Operand(reads=True, regions=(SBUF,), dtypes=INPUTS, free="stationary_free")
]
Moving = Annotated[Tile, Operand(reads=True, regions=(SBUF,), dtypes=INPUTS)]
Pair = Annotated[tuple[int, ...], Static(sequence=True)]


# --- legality -------------------------------------------------------------------------------------


def contraction(call: Call, machine: Machine) -> KernelError | None:
    """stationary [K, M], moving [K, N], dst [M, N]"""
    s, x, dst = call.view("stationary"), call.view("moving"), call.view("dst")
    equation = (
        f"stationary[K={s.partitions}, M={s.free_size}].T @ "
        f"moving[K={x.partitions}, N={x.free_size}] -> dst[{dst.partitions}, {dst.free_size}]"
    )
    if s.partitions != x.partitions:
        return ShapeError(
            f"nc_matmul: {equation}: K differs, {s.partitions} and {x.partitions}",
            argument="moving",
            expected=f"{s.partitions} partitions",
            got=str(x),
            because="K is the partition axis of BOTH operands: row k of the array multiplies them",
        )
    if (dst.partitions, dst.free_size) != (s.free_size, x.free_size):
        return ShapeError(
            f"nc_matmul: {equation}: dst has the wrong shape",
            argument="dst",
            expected=f"({s.free_size}, {x.free_size})",
            got=str(dst),
            because="the free axis of stationary becomes the partition axis of dst",
        )
    return None


def moving_fits(call: Call, machine: Machine) -> KernelError | None:
    moving, dst = call.view("moving"), call.view("dst")
    limits = machine.limits
    most = limits.moving_free_bfloat16 if dst.dtype is bfloat16 else limits.moving_free_float32
    if moving.free_size <= most:
        return None
    return FreeSizeError(
        f"nc_matmul: moving has {moving.free_size} columns; {machine.name} takes {most}",
        argument="moving",
        expected=f"at most {most} elements along the free axes",
        got=str(moving),
        because=f"the result goes to {'one bank' if most == 512 else 'all banks'} of PSUM",
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
    dst = call.view("dst").dtype
    if call["is_transpose"] and machine.has("native_transpose"):
        if dst is call.view("stationary").dtype or dst is float32:
            return None
        return DtypeError(
            f"nc_matmul: a transpose of {call.view('stationary').dtype} can't go to {dst}",
            argument="dst",
            expected=str(call.view("stationary").dtype),
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
    elif s.partitions > size[0] or s.free_size > size[1]:
        problem = f"stationary ({s}) is larger than tile_size {tuple(size)}"
    if problem is None:
        return None
    return ShapeError(
        f"nc_matmul: {problem}",
        argument="tile_size",
        because=f"the {whole} x {whole} array splits into equal parts",
    )


def double_row(call: Call, machine: Machine) -> KernelError | None:
    if call["perf_mode"] is matmul_perf_mode.none:
        return None
    if not machine.has("double_row"):
        return TargetError(
            f"nc_matmul: {machine.name} has no double_row mode",
            argument="perf_mode",
            expected="a machine with double_row",
            got=f"{machine.name} ({machine.generation})",
        )
    raise NotEmulated("nc_matmul(perf_mode=double_row) is not emulated yet")


# --- cost -----------------------------------------------------------------------------------------


def rate_of(formats: set[Format]) -> str:
    if formats & {float32}:
        return "float32"
    narrow = {f for f in formats if f.itemsize == 1}
    return "float8" if narrow else next(iter(formats)).name


def matmul_cost(call: Call, machine: Machine) -> cost.Cost:
    """One column of moving per cycle; loading the stationary tile can hide behind the last one."""
    s, x = call.view("stationary"), call.view("moving")
    kind = rate_of({s.dtype, x.dtype})
    transposing = call["is_transpose"] and machine.has("native_transpose")
    if transposing and kind == "float32":
        kind = "transpose_float32"
    return pe_cost(machine, kind, "stationary", weights=s.free_size, columns=x.free_size)


def pe_cost(machine: Machine, kind: str, operand: str, weights: int, columns: int) -> cost.Cost:
    unit = machine.engines["tensor"]
    rate = unit.rate[kind]
    busy = max(unit.min_interval_cycles, unit.overhead_cycles + columns / rate)
    load = weights / machine.fixed.weights_columns_per_cycle / min(rate, 1)
    return cost.Cost(
        busy / unit.clock_ghz,
        unit.latency_ns,
        weights_ns=load / unit.clock_ghz,
        weights_operand=operand,
    )


# --- meaning --------------------------------------------------------------------------------------


@instruction(
    tensor,
    cost=cost.dynamic(matmul_cost),
    rules=[
        double_row,
        contraction,
        moving_fits,
        operand_formats,
        result_format,
        array_tiling,
        within_one_bank("dst"),
    ],
    opcode="MATMUL",
)
def nc_matmul(
    dst: Accumulator,
    stationary: Stationary,
    moving: Moving,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    tile_position: Pair = (),
    tile_size: Pair = (),
    perf_mode: matmul_perf_mode = matmul_perf_mode.none,
    *,
    core: Core,
) -> None:
    """dst[m, n] (+)= sum_k stationary[k, m] * moving[k, n]

    The sum is a float32 chain from k = 0; it is then added to dst, if that is being accumulated.
    """
    if is_transpose and core.machine.has("native_transpose"):
        pass_through(dst, stationary, moving)
        dst.mark_foreign(False)
        return
    s = numeric.matmul_operand(stationary, "stationary")
    x = numeric.matmul_operand(moving, "moving")
    product = numeric.blas_product if core.options.matmul == "blas" else numeric.chain_product
    fresh = never_written(core, dst, accumulate)
    if fresh is True:
        dst.mark_foreign(False)
    if dst.dtype is float32 and isinstance(fresh, bool) and len(dst.shape) == 2:
        product(s, x, dst.codes(), not fresh)
        return
    out = buffers.floats((s.shape[1], x.shape[1]))
    product(s, x, out, False)
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
    if dst.dtype is not data.dtype:
        codes = data.values().reshape(data.shape[0], -1)
    rows = np.argmax(picks, axis=0)
    result = codes[rows].T
    empty = ~picks.any(axis=0)
    if empty.any():
        result = np.where(empty, result.dtype.type(0), result)
    dst.codes()[...] = result.reshape(dst.shape)


def transpose_shapes(call: Call, machine: Machine) -> KernelError | None:
    dst, data = call.view("dst"), call.view("data")
    if (dst.partitions, dst.free_size) == (data.free_size, data.partitions):
        return None
    return ShapeError(
        f"nc_transpose: dst ({dst}) is not the transpose of data ({data})",
        argument="dst",
        expected=f"({data.free_size}, {data.partitions})",
        got=str(dst),
        because="the free axes become the partition axis and the other way round",
    )


def choose_transpose(call: Call, machine: Machine) -> engine:
    """The Tensor engine reads SBUF and writes PSUM; small tiles elsewhere go to the Vector
    engine."""
    on_tensor = call.view("data").region is SBUF and call.view("dst").region is PSUM
    return tensor if on_tensor else vector


def transpose_engine(call: Call, machine: Machine) -> KernelError | None:
    dst, data = call.view("dst"), call.view("data")
    if call.engine is tensor:
        return _tensor_transpose(dst, data, machine)
    most = machine.limits.vector_transpose
    if max(data.partitions, data.free_size) <= most:
        return None
    return FreeSizeError(
        f"nc_transpose: data ({data}) is too large for the Vector engine",
        argument="data",
        expected=f"at most {most} x {most}",
        got=str(data),
        because=f"a lane exchanges data within its group of {most} partitions only",
        hint="put data in SBUF and dst in PSUM, and the Tensor engine does up to 128 x 128",
        also="err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel",
    )


def _tensor_transpose(dst: View, data: View, machine: Machine) -> KernelError | None:
    if data.region is not SBUF or dst.region is not PSUM:
        return BufferKindError(
            f"nc_transpose on the Tensor engine: data ({data}) to dst ({dst})",
            argument="dst",
            expected="data in sbuf, dst in psum",
            got=f"data in {data.region.value}, dst in {dst.region.value}",
            because="the array reads SBUF and writes PSUM",
        )
    most = machine.limits.stationary_free
    if data.free_size > most:
        return FreeSizeError(
            f"nc_transpose: data ({data}) has more than {most} elements per partition",
            argument="data",
            expected=f"at most {most} x {most}",
            got=str(data),
            because="data is the stationary tile of the array",
        )
    return None


def transpose_bank(call: Call, machine: Machine) -> KernelError | None:
    """What the Tensor engine writes lies in one bank, as for any other product."""
    return within_one_bank("dst")(call, machine) if call.engine is tensor else None


def transpose_cost(call: Call, machine: Machine) -> cost.Cost:
    data = call.view("data")
    if call.engine is vector:
        return cost.stream(call, machine, data.free_size)
    kind = "transpose_float32" if data.dtype.itemsize == 4 else "bfloat16"
    return pe_cost(machine, kind, "data", weights=data.free_size, columns=data.partitions)


@instruction(
    tensor,
    vector,
    cost=transpose_cost,
    choose=choose_transpose,
    rules=[same_dtype("dst", "data"), transpose_shapes, transpose_engine, transpose_bank],
    opcode="MATMUL",
)
def nc_transpose(
    dst: Annotated[Tile, Operand(writes=True)],
    data: Annotated[Tile, Operand(reads=True)],
    engine: engine = unknown,
    *,
    core: Core,
) -> None:
    """dst[f, p] = data[p, f]

    From v3 on bit for bit. The Tensor engine of v2 multiplies by an identity matrix: NaN and
    infinities spread along their row, and -0 becomes +0.
    """
    if dst.region is PSUM:
        dst.mark_foreign(engine is vector)
    flat = data.codes().reshape(data.shape[0], -1)
    if engine is vector or core.machine.has("native_transpose") or data.dtype.is_integer:
        dst.codes()[...] = flat.T.reshape(dst.shape)
        return
    values = data.values().reshape(data.shape[0], -1)
    out = np.empty((values.shape[1], values.shape[0]), np.float32)
    numeric.chain_product(values, np.eye(values.shape[0], dtype=np.float32), out, False)
    dst.store(out)
