"""Arguments of the older API: formats, numbers per partition, and tiles in a memory that the engine
can reach.

A delayed call is an instruction whose result has no destination yet. The module `results` delays
and issues such calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from neuroncore.base.enums import MemoryRegion, engine, reduce_cmd
from neuroncore.base.errors import DtypeError
from neuroncore.base.units import either
from neuroncore.frontend.neuronxcc.nki.boxes import check_rows, chosen, parts
from neuroncore.frontend.neuronxcc.nki.isa.constants import member
from neuroncore.frontend.neuronxcc.nki.keywords import check_keywords, token
from neuroncore.frontend.neuronxcc.nki.results import OfBox, flush, issue, produce, tile
from neuroncore.frontend.neuronxcc.nki.scopes import running
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.frontend.operators import format_of
from neuroncore.numerics.formats import Format, bfloat16, float16, float32

PSUM = MemoryRegion.psum
Conversion = Callable[[Any, str], Any]  # a function of an argument and its name
BIASES = (float32, float16, bfloat16)  # SDK 2.21 to 2.26, nki.isa.activation


def format_or(dtype: Any, default: Any) -> Format:
    """Return the format that `dtype` names, or that `default` names if `dtype` is None."""
    if dtype is None and type(default) is Format:
        return default
    return format_of(default if dtype is None else dtype, position=0)


def number(value: Any, name: str = "") -> Any:
    """Return a number of numpy or ml_dtypes as a Python number. Other values are returned
    unchanged."""
    return value.item() if isinstance(value, np.generic) else value


def column(value: Any, name: str) -> Any:
    """Return a number as a Python number, and a tile with one element per partition in the shape
    (P, 1). Other tiles are returned unchanged."""
    if not hasattr(value, "shape") or isinstance(value, np.generic):
        return number(value)
    operand = tile(value, name)
    return operand.shaped((operand.shape[0], 1)) if operand.size == operand.shape[0] else operand


def float32_column(value: Any, name: str, op: Any) -> Any:
    """Return a number, or a tile of shape (P, 1).

    According to the API's pages, a tile may have any format, and is cast to float32. In neuroncore
    an additional tensor_copy casts the tile. The operand of a bitvec operator `op` is not cast."""
    operand = column(value, name)
    if not isinstance(operand, Tensor) or operand.dtype is float32:
        return operand
    row = getattr(token(op), "operator", None)
    return operand if row is not None and row.kind == "bitvec" else copied(operand, float32)


def bias(value: Any, name: str) -> Any:
    """Return a bias: a number, or a tile with one element per partition. Raises DtypeError if the
    format of the tile is not in BIASES."""
    operand = column(value, name)
    if isinstance(operand, Tensor) and operand.dtype not in BIASES:
        raise DtypeError(
            f"{name} can't be {operand.dtype}",
            argument=name,
            expected=either(BIASES),
            got=repr(operand),
            because="the engine adds the bias in float32, and can convert only some formats to "
            "float32",
            also="err_activation_bias_invalid_type",
        )
    return operand


def accumulator(value: Any, name: str) -> Any:
    """Return an argument that an instruction writes in addition to its result. It is None, or a
    tile with one element per partition, in the shape (P, 1)."""
    if value is None:
        return None
    return value.shaped((value.shape[0], 1)) if isinstance(value, Tensor) else tile(value, name)


PLACES = ("dst", "mask", "dtype")
CONVERSIONS: dict[str, Conversion] = {
    **dict.fromkeys(("data", "data0", "data1", "src", "vals", "segment_ids"), tile),
    **dict.fromkeys(("on_true_tile", "on_true", "predicate"), tile),
    **dict.fromkeys(("op", "op0", "op1", "reduce_op", "comp_op0", "comp_op1"), token),
    **dict.fromkeys(("scale", "prob", "imm0", "imm1", "initial", "on_false"), column),
    **dict.fromkeys(("bound0", "bound1"), column),
    **dict.fromkeys(("operand0", "operand1"), column),
    "bias": bias,
    "engine": lambda value, _: member(engine, value),
    "reduce_cmd": lambda value, _: member(reduce_cmd, value),
    "reduce_res": accumulator,
    "range_start": lambda value, _: int(value),
}
# by instruction: CONVERSIONS with other functions for some arguments
SPECIAL: dict[str, dict[str, Conversion]] = {
    "scalar_tensor_tensor": CONVERSIONS | {"operand1": tile},
}


# --- memories that an engine can reach ------------------------------------------------------------


def copied(x: Tensor, dtype: Format | None = None) -> Tensor:
    """Return a copy of a tile, issued at once. The copy is in SBUF, in format `dtype` if given."""
    copy = produce("tensor_copy", (x.shape, dtype or x.dtype), src=x)
    flush()
    return copy


def in_sbuf(value: Any, name: str) -> Tensor:
    """Return an operand for an engine that reads only SBUF. A tile in PSUM is copied to SBUF, as
    the device's compiler does (nki-samples, flash_attn_bwd)."""
    flush()
    operand = tile(value, name)
    return copied(operand) if operand.region is PSUM else operand


def apart(x: Tensor, y: Tensor, on_gpsimd: bool = False) -> tuple[Tensor, Tensor]:
    """Return x and y, the operands of an instruction, so that the engine can read both.

    If both are in PSUM, or GpSimd reads them (`on_gpsimd`), an operand that a broadcast made there
    (`matrix.across_partitions`) is copied to SBUF; only y, if broadcasts made both."""
    if on_gpsimd or (x.region is PSUM and y.region is PSUM):
        broadcasts = running().broadcasts
        if y.storage.id in broadcasts:
            y = in_sbuf(y, "data2")
        elif x.storage.id in broadcasts:
            x = in_sbuf(x, "data1")
    return x, y


# --- issuing --------------------------------------------------------------------------------------


def begin(kwargs: dict[str, Any]) -> None:
    """Begin a function of the API: refuse keywords that no release has (SignatureError), and issue
    the delayed call. Call this before arguments are read."""
    if kwargs:
        check_keywords(kwargs, code=sys._getframe(1).f_code)
    flush()


def converted(name: str, values: dict[str, Any], depth: int = 1) -> dict[str, Any]:
    """Issue the delayed call. Then return the arguments of a function of the API as nki.isa takes
    them.

    `values`: the `locals()` of the function, which are changed
    `depth`: the number of frames up to the API's function

    Raises SignatureError for a keyword that no release has."""
    if unknown := values.pop("kwargs", None):
        check_keywords(unknown, code=sys._getframe(depth).f_code)
    flush()
    for place in PLACES:
        values.pop(place, None)
    conversions = SPECIAL.get(name, CONVERSIONS)
    for argument, value in values.items():
        if argument in conversions:
            values[argument] = conversions[argument](value, argument)
    return values


def like(operand: str, name: str, values: dict[str, Any], of_box: OfBox | None = None) -> Tensor:
    """Issue an instruction, and return its result: a tile like the argument `operand`, in the
    format `dtype` if given. `values` is the `locals()` of the API's function."""
    mask, dtype = values["mask"], values["dtype"]
    arguments = converted(name, values, depth=2)
    x = arguments[operand]
    return produce(name, (x.shape, format_or(dtype, x.dtype)), mask, of_box=of_box, **arguments)


def per_partition(columns: int, operand: str, name: str, values: dict[str, Any]) -> Tensor:
    """Issue an instruction, and return its result: a tile of shape (P, `columns`), where P is the
    number of partitions of `operand`. The format is `dtype`, by default the format of `operand`.

    A mask chooses elements of `operand`. In the partitions of these elements, all columns are
    written. `values` is the `locals()` of the API's function."""
    mask, dtype = values["mask"], values["dtype"]
    arguments = converted(name, values, depth=2)
    x = arguments[operand]
    return produce(
        name,
        ((x.shape[0], columns), format_or(dtype, x.dtype)),
        mask,
        masked=operand,
        part=lambda dst, box: dst.within((box[0], (0, columns))),
        **arguments,
    )


def written(name: str, values: dict[str, Any]) -> Tensor:
    """Issue instruction `name` with the destination `dst` among the arguments, and return dst.
    `values` is the `locals()` of the API's function."""
    dst, mask = values["dst"], values["mask"]
    return write(name, dst, mask, **converted(name, values, depth=2))


def write(name: str, dst: Tensor, mask: Any, **arguments: Any) -> Tensor:
    """Issue instruction `name` for the part of `dst` that a mask chooses, and return dst."""
    flush()
    if not isinstance(dst, Tensor) or dst.dynamic:
        tile(dst, "dst")  # replays may write other elements, so an initial number is written first
    boxes = chosen(mask, dst.shape)
    check_rows(name, boxes, arguments)
    for box in boxes:
        pieces = parts(name, arguments, "dst", box, dst.shape)
        issue(name, dst=dst.within(box) if box else dst, **pieces)
    return dst


def cast(result: Tensor, dtype: Any) -> Tensor:
    """Return a result in the requested format: unchanged, or converted by tensor_copy."""
    if dtype is None or format_or(dtype, None) is result.dtype:
        return result
    flush()
    return produce("tensor_copy", (result.shape, format_or(dtype, None)), src=result)
