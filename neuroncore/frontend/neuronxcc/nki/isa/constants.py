"""The enumerations, with the older API's numbers and the names that published kernels use."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Any

import numpy as np

from neuroncore.base import enums
from neuroncore.base.enums import engine as engine
from neuroncore.base.enums import matmul_perf_mode as matmul_perf_mode
from neuroncore.base.enums import oob_mode as oob_mode
from neuroncore.base.enums import reduce_cmd as reduce_cmd
from neuroncore.base.errors import SignatureError
from neuroncore.base.units import either
from neuroncore.frontend.limits import nc_version as nc_version

__all__ = [
    "bfp16", "dge_mode", "engine", "fp32", "matmul_perf_mode", "nc_version", "oob_mode",
    "reduce_cmd",
]  # fmt: skip


class fp32:
    """Limits of float32 numbers."""

    min = float(np.finfo(np.float32).min)


class bfp16:
    """Limits of bfloat16 numbers."""

    min = float(np.ldexp(-(2 - 2.0**-7), 127))


class dge_mode(IntEnum):
    """The way in which the descriptors of a DMA are written. Today's API has other numbers."""

    none = 0
    swdge = 1
    hwdge = 2
    unknown = 3


def member(kind: type[Enum], value: Any) -> Any:
    """Return a member of the instruction set's enumeration `kind`. `value` may be this member, or a
    member of the older API with the same name. None means the member `unknown`. A number is also
    accepted, as in kernels of SDK 2.20 to 2.22. Raises SignatureError for another value."""
    if isinstance(value, kind):
        return value
    if isinstance(value, Enum) and value.name in kind.__members__:
        return kind[value.name]
    if value is None:
        return kind["unknown"]
    if isinstance(value, int) and value in {m.value for m in kind}:
        return kind(value)
    raise SignatureError(
        f"{value!r} is not a member of nisa.{kind.__name__}", expected=either(kind.__members__)
    )


def descriptors(mode: Any) -> enums.dge_mode:
    """Return the instruction set's member for a mode: a number, or a member of the older API's
    enumeration."""
    mode = dge_mode(mode) if isinstance(mode, int) else mode
    return enums.dge_mode[mode.name]


def __dir__() -> list[str]:
    return __all__
