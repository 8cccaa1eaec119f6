"""Instructions of which this API says only how they are called: a row for each, made a function
when it is first asked for.

A row has the parameters as the API's pages list them. The rest follows from the instruction's
clause: what an argument is converted to, and the shape of the result by its letters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from enum import Enum
from functools import cache
from typing import Any

import numpy as np

from neuroncore.base.structs import dataclass
from neuroncore.clause.instruction import INSTRUCTIONS, Instruction, Parameter
from neuroncore.clause.operand import Act, Op, Operand
from neuroncore.core.binding import compiled
from neuroncore.frontend.formats import common
from neuroncore.frontend.neuronxcc.nki.isa import arguments, constants
from neuroncore.frontend.neuronxcc.nki.keywords import check_keywords
from neuroncore.frontend.neuronxcc.nki.results import flush, produce, tile
from neuroncore.frontend.neuronxcc.nki.tokens import token
from neuroncore.numerics.formats import uint32

Converted = Callable[[Any, str], Any]


@dataclass(frozen=True)
class Row:
    """One instruction as this API has it. Expressions are of the parameters, as text."""

    parameters: str
    doc: str
    name: str = ""  # of the instruction, if the function has another
    dtype: str = ""  # of the result, if the caller asks for none; that of the first tile
    apart: tuple[str, ...] = ()  # tiles of which only one may be in PSUM
    converted: dict[str, Converted] = field(default_factory=dict)  # otherwise than by the clause


def whole_number(value: Any, name: str) -> int:
    return int(value)


ROWS = {
    "activation": Row(
        "op, data, *, bias=None, scale=1.0, reduce_op=None, reduce_res=None, "
        "reduce_cmd=reduce_cmd.idle, mask=None, dtype=None, **kwargs",
        "op(data * scale + bias), and what it is folded to along the free axes in reduce_res.",
        converted={"bias": arguments.bias},
    ),
    "activation_reduce": Row(
        "op, data, *, reduce_op, reduce_res, bias=None, scale=1.0, mask=None, dtype=None, **kwargs",
        "op(data * scale + bias), and its fold along the free axes in reduce_res.",
        converted={"bias": arguments.bias},
    ),
    "bn_aggr": Row(
        "data, *, mask=None, dtype=None, **kwargs",
        "Mean and variance from what bn_stats left: (P, 2).",
    ),
    "bn_stats": Row(
        "data, *, mask=None, dtype=None, **kwargs",
        "Count, mean and sum of squares of the even and of the odd elements: (P, 6).",
    ),
    "dropout": Row(
        "data, prob, *, mask=None, dtype=None, **kwargs",
        "data with elements zeroed at random, each with probability `prob`.",
    ),
    "max8": Row(
        "*, src, mask=None, dtype=None, **kwargs",
        "The 8 greatest of each partition, the greatest first.",
    ),
    "nc_find_index8": Row(
        "*, data, vals, mask=None, dtype=None, **kwargs",
        "Where in data each of 8 values is, of each partition.",
        dtype="uint32",
    ),
    "nc_match_replace8": Row(
        "*, data, vals, imm, dst_idx=None, mask=None, dtype=None, **kwargs",
        "data with the first match of each of 8 values replaced by a number; where they were, in\n"
        "dst_idx.",
    ),
    "nc_stream_shuffle": Row(
        "src, dst, shuffle_mask, *, dtype=None, mask=None, **kwargs",
        "dst[p] = src[shuffle_mask[p]] within each group of 32 partitions.",
    ),
    "range_select": Row(
        "*, on_true_tile, comp_op0, comp_op1, bound0, bound1, reduce_cmd=reduce_cmd.idle, "
        "reduce_res=None, reduce_op=np.amax, range_start=0, on_false_value=fp32.min, mask=None, "
        "dtype=None, **kwargs",
        "on_true_tile[:, i] where range_start + i is within two bounds, else a number.",
        converted={"range_start": whole_number},
    ),
    "reciprocal": Row("data, *, dtype=None, mask=None, **kwargs", "1 / data."),
    "scalar_tensor_tensor": Row(
        "*, data, op0, operand0, op1, operand1, reverse0=False, reverse1=False, dtype=None, "
        "mask=None, **kwargs",
        "(data <op0> operand0) <op1> operand1; operand0 is a number or (P, 1), operand1 a tile.",
        apart=("data", "operand1"),
        converted={"operand0": arguments.float32_column},
    ),
    "select_reduce": Row(
        "*, dst, predicate, on_true, on_false, reduce_res=None, reduce_cmd=reduce_cmd.idle, "
        "reduce_op=np.amax, reverse_pred=False, mask=None, dtype=None, **kwargs",
        "dst = on_true where the predicate isn't 0, else on_false, and its maximum in reduce_res.",
    ),
    "sequence_bounds": Row(
        "*, segment_ids, dtype=None",
        "First and last index of the segment that each element belongs to: (1, 2, F).",
    ),
    "tensor_copy": Row(
        "src, *, mask=None, dtype=None, engine=engine.unknown, **kwargs", "A copy in SBUF."
    ),
    "tensor_copy_dynamic_dst": Row(
        "*, dst, src, mask=None, dtype=None, engine=engine.unknown, **kwargs",
        "Copy src to a part whose free offset a tile holds: dst is indexed with that tile.",
        name="tensor_copy",
    ),
    "tensor_copy_dynamic_src": Row(
        "src, *, mask=None, dtype=None, engine=engine.unknown, **kwargs",
        "A copy of a part whose free offset a tile holds: src is indexed with that tile.",
        name="tensor_copy",
    ),
    "tensor_partition_reduce": Row(
        "op, data, *, mask=None, dtype=None, **kwargs",
        "The fold of a tile across partitions, in one partition.",
    ),
    "tensor_scalar": Row(
        "data, op0, operand0, reverse0=False, op1=None, operand1=None, reverse1=False, *, "
        "dtype=None, mask=None, engine=engine.unknown, **kwargs",
        "(data <op0> operand0) <op1> operand1; operands are numbers or (P, 1) tiles.",
        converted=dict.fromkeys(("operand0", "operand1"), arguments.float32_column),
    ),
    "tensor_scalar_cumulative": Row(
        "*, src, op0, op1, imm0, imm1=None, reduce_cmd=reduce_cmd.reset_reduce, mask=None, "
        "dtype=None, dst=None, **kwargs",
        "The running fold by op1 of src <op0> imm0.",
    ),
    "tensor_scalar_reduce": Row(
        "*, data, op0, operand0, reduce_op, reduce_res, reverse0=False, dtype=None, mask=None, "
        "**kwargs",
        "data <op0> operand0, and its fold along the free axes in reduce_res.",
    ),
    "tensor_tensor_scan": Row(
        "data0, data1, initial, op0, op1, reverse0=False, reverse1=False, *, dtype=None, "
        "mask=None, **kwargs",
        "r[:, i] = (data0[:, i] <op0> r[:, i - 1]) <op1> data1[:, i], from `initial`.",
        dtype="common(data0, data1)",
        apart=("data0", "data1"),
    ),
}


@cache
def function(name: str) -> Callable[..., Any]:
    """The function that a row describes."""
    row = ROWS[name]
    scope: dict[str, Any] = {
        "__name__": __name__,
        "CONVERTED": row.converted,
        "accumulator": arguments.accumulator,
        "apart": arguments.apart,
        "check_keywords": check_keywords,
        "column": arguments.column,
        "common": common,
        "engine": constants.engine,
        "flush": flush,
        "format_or": arguments.format_or,
        "fp32": constants.fp32,
        "member": constants.member,
        "np": np,
        "produce": produce,
        "reduce_cmd": constants.reduce_cmd,
        "tile": tile,
        "token": token,
        "uint32": uint32,
        "write": arguments.write,
    }
    parameters = INSTRUCTIONS[row.name or name].parameters
    scope |= {f"{p.name}_kind": type(p.default) for p in parameters if isinstance(p.default, Enum)}
    made = compiled(name, row.parameters, _body(row.name or name, row), scope)
    made.__doc__ = row.doc
    return made  # type: ignore[no-any-return]


def _body(name: str, row: Row) -> Iterator[str]:
    given = {part.strip().partition("=")[0] for part in row.parameters.split(",")}
    parameters = [p for p in INSTRUCTIONS[name].parameters if p.name in given and p.name != "dst"]
    tiles = [p.name for p in parameters if _is_tile(p)]
    if "**kwargs" in given:
        yield "check_keywords(kwargs)"
    yield "flush()"
    yield from (f"{n} = tile({n}, {n!r})" for n in tiles)
    if row.apart:
        yield f"{', '.join(row.apart)} = apart({', '.join(row.apart)})"
    listed = ", ".join(f"{p.name}={_converted(p, row)}" for p in parameters)
    mask, first = "mask" if "mask" in given else "None", tiles[0]
    if "dst" in given:
        guard = "if dst is not None: return " if "dst=None" in row.parameters else ""
        yield f"{guard}write({name!r}, dst, {mask}, {listed})"
        if not guard:
            return
    shape, part = _result(INSTRUCTIONS[name], first)
    out = f"({shape}, format_or(dtype, {row.dtype or f'{first}.dtype'}))"
    yield f"return produce({name!r}, {out}, {mask}, {part}{listed})"


def _result(instruction: Instruction, first: str) -> tuple[str, str]:
    """The shape of the result by the letters of the clause, and which part of it belongs to a part
    of the first tile, where that isn't the same."""
    like, (rows, free) = instruction.shapes.get(first), instruction.shapes.get("dst", (None, None))
    if like is None or rows is None or free is None:
        return f"{first}.shape", ""
    if (rows.size, free.size) == (like[0].size, like[1].size):
        return f"{first}.shape", ""
    lanes, lane = (f"{first}.shape[0]", "box[0]") if rows.letter else (f"{rows.plus}", "(0, 1)")
    if free.letter is None:
        columns, column = f"{free.plus}", f"(0, {free.plus})"
    elif free.plain:
        columns, column = f"*{first}.shape[1:]", "*box[1:]"
    else:
        columns, column = f"{free.times}, {first}.free_size", f"(0, {free.times}), *box[1:]"
    part = f"lambda dst, box: dst.within(({lane}, {column}))"
    return f"({lanes}, {columns})", f"space={first}.shape, part={part}, "


def _is_tile(parameter: Parameter) -> bool:
    operand = parameter.operand
    return parameter.always_tile and operand is not None and not operand.column


def _converted(parameter: Parameter, row: Row) -> str:
    """The argument as the instruction takes it, by what its clause says of it."""
    name, declared = parameter.name, parameter.declared
    if name in row.converted:
        return f"CONVERTED[{name!r}]({name}, {name!r})"
    if isinstance(declared, Op | Act):
        return f"token({name})"
    if isinstance(declared, Operand) and declared.column:
        return f"{'column' if declared.reads else 'accumulator'}({name}, {name!r})"
    if isinstance(parameter.default, Enum):
        return f"member({name}_kind, {name})"
    return name
