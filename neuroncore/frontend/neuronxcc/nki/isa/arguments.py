"""What arguments of the older API mean: formats, engines, numbers per partition."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuroncore.frontend.neuronxcc.nki.isa import constants
from neuroncore.frontend.neuronxcc.nki.isa.constants import engine
from neuroncore.frontend.neuronxcc.nki.results import chosen, door, flush, follow, tile
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.frontend.nki.tensor import format_of
from neuroncore.numerics.formats import Format


def format_or(dtype: Any, default: Any) -> Format:
    return format_of(default if dtype is None else dtype, position=0)


def number(value: Any) -> Any:
    """A number of numpy or ml_dtypes as one of Python; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def column(value: Any, name: str) -> Any:
    """A number, or a tile with one element per partition."""
    if not hasattr(value, "shape") or isinstance(value, np.generic):
        return number(value)
    found = tile(value, name)
    return found.shaped((found.shape[0], 1)) if found.size == found.shape[0] else found


def engine_of(value: Any) -> engine:
    return constants.member(engine, value)  # type: ignore[no-any-return]


def accumulator(value: Any, name: str = "reduce_res") -> Any:
    """A tile that an instruction writes besides its result."""
    return None if value is None else _column_to_write(value, name)


def _column_to_write(value: Any, name: str) -> Tensor:
    if not isinstance(value, Tensor):
        return tile(value, name)
    return value.shaped((value.shape[0], 1))


def write(name: str, dst: Tensor, mask: Any, **arguments: Any) -> None:
    """Issue an instruction whose destination is one of its arguments."""
    flush()
    if not isinstance(dst, Tensor):
        tile(dst, "dst")
    for box in chosen(mask, dst.shape):
        pieces = {n: follow(v, box, dst.shape) for n, v in arguments.items()}
        door(name, dst=dst.within(box) if box else dst, **pieces)
