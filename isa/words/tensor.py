"""Operands, rules and costs of matmuls, dense and sparse, and of transposes on the Tensor and the
Vector engine."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from neuroncore.base.enums import engine, matmul_perf_mode
from neuroncore.base.errors import (
    BufferKindError,
    DtypeError,
    FreeSizeError,
    OperatorError,
    OutOfBoundsError,
    SignatureError,
    UnknownNameError,
    ViewError,
)
from neuroncore.base.units import either
from neuroncore.clause import cost, product
from neuroncore.clause.immediate import Immediate
from neuroncore.clause.instruction import Call
from neuroncore.clause.operand import PSUM, SBUF, Operand, Static
from neuroncore.clause.refusal import Fault, Rule, fault, rule
from neuroncore.clause.rules import formats_of, holds, needs, one_of, within_one_bank
from neuroncore.core.core import Core
from neuroncore.machine import Machine
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics import packed
from neuroncore.numerics.formats import (
    Format,
    bfloat16,
    float8_e4m3,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    tfloat32,
    uint16,
)

NARROW = (float8_e4m3, float8_e5m2, float8_e4m3fn)
WIDE = (float32, tfloat32)
INPUTS = (*NARROW, bfloat16, float16, *WIDE)
SUMS = (float32, bfloat16, float16, *NARROW)

Accumulator = Annotated[Tile, Operand(writes=True, regions=(PSUM,), dtypes=SUMS, indirect=True)]
Input = Annotated[Tile, Operand(reads=True, regions=(SBUF,), dtypes=INPUTS, indirect=True)]
Pair = Annotated[tuple[int, ...] | None, Immediate(int, depth=1, optional=True, keyed=True)]
Mode = Annotated[matmul_perf_mode | str, Static()]  # published kernels also pass the mode's name


def is_double_row(mode: matmul_perf_mode | str) -> bool:
    return mode in (matmul_perf_mode.double_row, "double_row")


def halves(call: Call) -> int:
    """Return the number of parts into which the first free axis of an operand divides K: 2 in
    double_row mode, otherwise 1."""
    return 2 if is_double_row(call.arguments.get("perf_mode", "none")) else 1


def columns(call: Call, name: str) -> int:
    return call.view(name).free_size // halves(call)


# --- rules ----------------------------------------------------------------------------------------


@rule(FreeSizeError)
def moving_fits(call: Call, machine: Machine) -> Fault | None:
    """moving must have at most moving_free_float32 columns (moving_free_bfloat16 for bfloat16)"""
    count, limits = columns(call, "moving"), machine.limits
    narrow = call.view("dst").dtype is bfloat16
    most = limits.moving_free_bfloat16 if narrow else limits.moving_free_float32
    if count <= most:
        return None
    problem = f"moving has {count:,} columns; {machine.name} takes at most {most:,}"
    banks = "all banks" if machine.has("results_across_banks") else "one bank"
    hint = f"loop over pieces of {most:,} columns (nl.tile_size.gemm_moving_fmax)"
    because = f"the result must fit into {banks} of PSUM"
    return fault("moving", problem, f"at most {most:,} columns", because=because, hint=hint)


@rule(DtypeError, because="the array supports one kind of multiplication at a time")
def operand_formats(call: Call, machine: Machine) -> Fault | None:
    """both operands or none must have 32 bits; float8_e4m3fn can't be combined with float8_e4m3"""
    s, x = (view.dtype for view in call.views("stationary", "moving"))
    if (s in WIDE) == (x in WIDE) and {s, x} != {float8_e4m3, float8_e4m3fn}:
        return None
    expected = "float32 or tfloat32 for both operands, or for none"
    if {s, x} == {float8_e4m3, float8_e4m3fn}:
        expected = "float8_e4m3 and float8_e4m3fn not in one product"
    hint = "copy one operand with nisa.tensor_copy into a tile of the other operand's format"
    problem = f"stationary is {s}, but moving is {x}"
    return fault("moving", problem, expected, f"{s} and {x}", hint=hint)


@rule(DtypeError)
def result_format(call: Call, machine: Machine) -> Fault | None:
    """dst must be float32, or bfloat16 on machines with psum_bfloat16. For a transpose on machines
    with native_transpose, dst must have the format of stationary, float32 for tfloat32, or any
    16-bit format for an 8-bit format"""
    dst, data = call.view("dst").dtype, call.view("stationary").dtype
    if call["is_transpose"] and machine.has("native_transpose"):
        if carries(dst, data):
            return None
        expected = f"{data} or a format of 16 bits" if data in NARROW else data
        because = "transpose mode passes bits through and converts nothing"
        problem = f"dst can't be {dst} for a transpose of {data}"
        return fault("dst", problem, expected, because=because)
    if dst is float32 or (dst is bfloat16 and machine.has("psum_bfloat16")):
        return None
    return fault(
        "dst",
        f"dst can't be {dst} on {machine.name}",
        "float32" + (" or bfloat16" if machine.has("psum_bfloat16") else ""),
        because="the Tensor engine adds in float32, and can store a sum only in these formats",
        hint="to round the result, copy it to a narrower tile in SBUF with nisa.tensor_copy",
    )


def carries(dst: Format, data: Format) -> bool:
    """Return whether a tile of format `dst` accepts the result of transpose mode for `data`: the
    same bits, TF32 in a float32, or an 8-bit float in 16 bits whose upper 8 bits are 0 (ARCH2)."""
    if data is tfloat32 and dst is float32:
        return True
    return dst is data or (data in NARROW and dst.itemsize == 2)


@rule(because="the 128 x 128 array can only be divided into equal parts")
def array_tiling(call: Call, machine: Machine) -> Fault | None:
    """tile_position and tile_size must select all rows or columns of the array, or a half, a
    quarter and so on, down to array_part (a limit); at (0, 0) a size can be stationary's own"""
    position, size, problem = call["tile_position"], call["tile_size"], None
    if not position and not size:
        return None
    s, whole = call.view("stationary"), machine.limits.partitions
    parts = [whole >> i for i in range((whole // machine.limits.array_part).bit_length())]
    own = (s.partitions, columns(call, "stationary"))  # allowed at (0, 0), but not 32 on trn1
    other = [None if any(position or ()) or n == machine.limits.quadrant else n for n in own]
    if not position or not size:
        problem = "tile_position and tile_size must be given together"
    elif len(position) != 2 or len(size) != 2:
        problem = "tile_position and tile_size must each have two numbers: (row, column)"
    elif any(n not in (*parts, m) for n, m in zip(size, other, strict=True)):
        problem = f"tile_size is {tuple(size)}, but each of its numbers must be {either(parts)}"
    elif any(p < 0 or p % n or p + n > whole for p, n in zip(position, size, strict=True)):
        problem = f"no tile of tile_size {tuple(size)} begins at tile_position {tuple(position)}"
    elif own[0] > size[0] or own[1] > size[1]:
        problem = f"stationary ({s}) is larger than tile_size {tuple(size)}"
    return fault("tile_size", problem) if problem else None


@rule(because="an indirect view can't be combined with a tiled array")
def indirect_uses_the_whole_array(call: Call, machine: Machine) -> Fault | None:
    """with an indirect view, tile_position must be (0, 0)"""
    position = tuple(call["tile_position"] or (0, 0))
    name = next((n for n in ("dst", "stationary", "moving") if call.view(n).picked_by), None)
    if name is None or position == (0, 0):
        return None
    problem = f"tile_position must be (0, 0), because {name} is an indirect view"
    return fault("tile_position", problem, "(0, 0)", position)


@rule(
    because="if an element of the array multiplies several numbers at a time, the array's columns "
    "can't be divided"
)
def rows_only(call: Call, machine: Machine) -> Fault | None:
    """tile_position and tile_size must select all columns of the array"""
    position, size = call["tile_position"] or (), call["tile_size"] or ()
    whole = machine.limits.stationary_free
    if tuple(position[1:]) in ((), (0,)) and tuple(size[1:]) in ((), (whole,)):
        return None
    problem = "tile_position and tile_size must select all columns of the array"
    got = f"tile_size={tuple(size)}, tile_position={tuple(position)}"
    expected = f"tile_size=(rows, {whole}), tile_position=(row, 0)"
    return fault("tile_size", problem, expected, got)


def doubles(call: Call) -> bool:
    return is_double_row(call["perf_mode"])


def in_halves(name: str) -> Rule:
    return holds(
        name,
        f"in double_row mode, {name} must have the shape [K/2, 2, columns]",
        lambda call: not doubles(call) or call.view(name).shape[1:-1][:1] == (2,),
        because="each row of the array multiplies two elements of a column and adds the products",
        hint="pad an odd K with zeros",
        early=True,
    )


MODES = (*matmul_perf_mode, *(mode.name for mode in matmul_perf_mode))
MATMUL = (
    holds(
        "perf_mode", "perf_mode must be a member of nisa.matmul_perf_mode, or its name",
        lambda call: call["perf_mode"] in MODES, SignatureError,
        either(map(repr, matmul_perf_mode)), early=True,
    ),
    needs("double_row", "double_row mode", "perf_mode", doubles, early=True),
    formats_of("stationary", "moving", formats=NARROW, early=True).when(
        "in double_row mode", doubles, because="two 8-bit numbers replace one 16-bit number"
    ),
    in_halves("stationary"),
    in_halves("moving"),
    holds(
        "is_transpose", "is_transpose=True can't be combined with double_row mode",
        lambda call: not (doubles(call) and call["is_transpose"]), OperatorError,
        because="double_row mode adds two products, and a transpose has nothing to add",
    ),
    rows_only.when("in double_row mode", doubles),
    moving_fits,
    operand_formats,
    result_format,
    array_tiling,
    within_one_bank("dst"),
    indirect_uses_the_whole_array,
    formats_of(
        "dst", "stationary", "moving", formats=(float16, bfloat16, *NARROW),
        of=lambda view: bool(view.picked_by),
        sentence="an indirect view must have a format of 8 or 16 bits (ISA)",
        because="an indirect view must have a format of 8 or 16 bits",
    ),
    holds(
        "moving", "moving, the identity matrix of a transpose, must not be an indirect view (ISA)",
        lambda call: not (call["is_transpose"] and call.view("moving").picked_by), ViewError,
    ),
)  # fmt: skip


# --- costs ----------------------------------------------------------------------------------------


def matmul_cost(call: Call, machine: Machine) -> cost.Cost:
    """One column of moving per cycle; loading the stationary tile can overlap the previous product.
    A float32 operand of zeros and ones takes one pass (ISA)."""
    kind = rate_of({call.view("stationary").dtype, call.view("moving").dtype})
    if call["is_transpose"]:
        kind = cost.transpose_kind(call.view("stationary"))
    elif kind == "float32" and (call["is_stationary_onezero"] or call["is_moving_onezero"]):
        kind = "float32_onezero"
    moving = call.view("moving")
    n = max(columns(call, "moving"), cost.strided_cycles(moving, machine))
    return cost.systolic(call, machine, kind, n, columns(call, "stationary"))


def rate_of(formats: set[Format]) -> str:
    if formats & {float32}:
        return "float32"
    narrow = {f for f in formats if f.itemsize == 1}
    return "float8" if narrow else next(iter(formats)).name


tensor, vector = engine.tensor, engine.vector


def choose(call: Call, machine: Machine) -> engine:
    """Choose the Tensor engine if data is in SBUF and dst in PSUM, otherwise the Vector engine."""
    on_tensor = call.view("data").region is SBUF and call.view("dst").region is PSUM
    return tensor if on_tensor else vector


@rule(DtypeError, because="the instruction moves bits and converts nothing")
def one_format(call: Call, machine: Machine) -> Fault | None:
    """dst must have the format of data, or a format that accepts the result of the Tensor engine.
    On machines without native_transpose, the engine multiplies, so dst may be float32 (as in
    published kernels for trn1: autocomp, SD attention)"""
    dst, data = call.view("dst").dtype, call.view("data").dtype
    if call.engine is tensor:
        native = machine.has("native_transpose")
        if carries(dst, data) if native else data.is_float and dst is float32:
            return None
    if dst is data:
        return None
    return fault("data", f"data is {data}, but dst is {dst}", dst, data)


def array(call: Call) -> bool:
    return call.engine is tensor


through_the_array = holds(
    "dst",
    "data must be in sbuf and dst in psum",
    lambda call: call.view("data").region is SBUF and call.view("dst").region is PSUM,
    BufferKindError,
    "data in sbuf, dst in psum",
    lambda call: f"data: {call.view('data')}; dst: {call.view('dst')}",
    because="the Tensor engine reads SBUF and writes PSUM",
).when("on the Tensor engine", array)


@rule(FreeSizeError)
def fits_the_engine(call: Call, machine: Machine) -> Fault | None:
    """data must have at most stationary_free columns on the Tensor engine, and at most
    vector_transpose rows and columns on the Vector engine (limits of the machine)"""
    data, limits = call.view("data"), machine.limits
    most = limits.stationary_free if array(call) else limits.vector_transpose
    if max(data.free_size, 0 if array(call) else data.partitions) <= most:
        return None
    problem = f"data ({data}) is too large for the {call.engine.name.title()} engine"
    reasons = FITS_ARRAY if array(call) else FITS_LANES
    return fault("data", problem, f"at most {most} x {most} elements", **reasons)


FITS_ARRAY = {"because": "the Tensor engine loads data into its array as the stationary tile"}
FITS_LANES = {
    "because": "a lane can exchange data only within its group of partitions",
    "hint": "use the Tensor engine for up to 128 x 128: put data in SBUF and dst in PSUM",
    "also": "err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel",
}
in_one_bank = within_one_bank("dst").when("on the Tensor engine", array)
TRANSPOSE = (one_format, through_the_array, fits_the_engine, in_one_bank)


def transpose_cost(call: Call, machine: Machine) -> cost.Cost:
    """The Tensor engine takes data row by row; the Vector engine takes it column by column."""
    data = call.view("data")
    if call.engine is vector:
        return cost.stream(call, machine, data.free_size)
    kind = cost.transpose_kind(data)
    return cost.systolic(call, machine, kind, data.partitions, data.free_size)


SPARSE_INPUTS = (bfloat16, float16, tfloat32, float8_e4m3, float8_e5m2)

Values = Annotated[
    Tile, Operand(reads=True, regions=(SBUF,), dtypes=SPARSE_INPUTS, eight_bits="sparse_float8")
]
Tags = Annotated[Tile, Operand(reads=True, regions=(SBUF,), dtypes=(uint16,))]
Sum = Annotated[Tile, Operand(writes=True, regions=(PSUM,), dtypes=(float32,))]
Pattern = Annotated[tuple[int, ...], Immediate(int, depth=1, keyed=True)]
Places = Annotated[str, Static()]

SPARSE_PRODUCT = (
    "stationary: K 4*T<=stationary_free; moving: K R*N; tags: K T; dst: 4*T N<=moving_free_float32"
)


def slots(call: Call) -> int:
    """Return the number of slots of a sparse product's moving tile: N / A for a pattern (A, N)."""
    kept, among = call["pattern"] if len(call["pattern"] or ()) == 2 else (1, 1)
    return among // (kept or 1) or 1


SPARSE_MATMUL = (
    one_of("pattern", packed.PATTERNS, SignatureError),
    one_of("places", packed.PLACES, SignatureError),
    holds(
        "moving", "moving must have the shape [K, N / A, columns] for the pattern (A, N)",
        lambda call: call.view("moving").shape[1:2] == (slots(call),)
        and len(call.view("moving").shape) == 3,
    ),
    holds(
        "stationary", "stationary must have a multiple of A partitions for the pattern (A, N)",
        lambda call: call["pattern"] in packed.PATTERNS
        and call.view("stationary").partitions % call["pattern"][0] == 0,
    ),
    operand_formats,
    within_one_bank("dst"),
)  # fmt: skip


def sparse_cost(call: Call, machine: Machine) -> cost.Cost:
    """The cost of a dense product with the compressed tile of weights."""
    columns, weights = call.view("dst").free_size, call.view("stationary").free_size
    kind = rate_of({call.view("stationary").dtype, call.view("moving").dtype})
    return cost.systolic(call, machine, kind, columns, weights)


def picked(core: Core, moving: Array, tags: Tile, pattern: tuple[int, ...], places: str) -> Array:
    """Return, for each weight [K, M], the moving numbers that it multiplies, one for each column:
    [K, M, columns]. `moving` is [K, slots, columns]. The tag of a weight chooses the row and the
    slot of its number.

    Raises UnknownNameError without `Options.experimental`, and OutOfBoundsError for a tag that is
    too large for its pattern.
    """
    if not core.options.experimental:
        raise UnknownNameError(
            "no released API has products with structured sparsity",
            because="no public compiler accepts such products; neuroncore's semantics are an "
            "interpretation of published documents",
            hint="to use them nevertheless, set Options(experimental=True)",
        )
    kept, among = pattern
    numbers = packed.unpacked(tags.codes().reshape(tags.shape[0], -1))
    if (largest := numbers.max(initial=0)) >= among:
        raise OutOfBoundsError(
            f"a tag is {largest}, but each weight selects one of only {among} numbers",
            argument="tags",
            expected=f"tags from 0 to {among - 1}",
        )
    partition, slot = packed.split(numbers, (kept, among), places)
    first = np.arange(len(numbers))[:, None] // kept * kept
    chosen: Array = moving[first + partition, slot]
    return chosen


def by_column(core: Core, weights: Array, numbers: Array) -> product.Sum:
    """Return a function that computes out[m, n] = sum over k of weights[k, m] * numbers[k, m,
    n]."""
    multiply = product.of(False, core.options)

    def fill(out: Array, add: bool) -> None:
        for m in range(weights.shape[1]):
            multiply(weights[:, m : m + 1], numbers[:, m], out[m : m + 1], add, 1)

    return fill
