"""nki.isa of the older API: instructions that return the tile they write.

Each function defines the shape of its result. The clause of the instruction (its definition in
isa/) defines everything else.

A `mask` is a bool, or comparisons of index expressions. It chooses elements of the result. For
reductions, transposes, matrix products and instructions such as max8, the result has another shape
than the data. There the mask usually chooses elements of the data (`data`, `src` or `moving`)."""

from typing import Any as _Any

from neuroncore.base.errors import NotEmulated as _NotEmulated
from neuroncore.frontend import dialects as _dialects
from neuroncore.frontend.limits import get_nc_version as get_nc_version
from neuroncore.frontend.neuronxcc.nki.isa import constants as constants
from neuroncore.frontend.neuronxcc.nki.isa.constants import dge_mode as dge_mode
from neuroncore.frontend.neuronxcc.nki.isa.constants import engine as engine
from neuroncore.frontend.neuronxcc.nki.isa.constants import fp32 as fp32
from neuroncore.frontend.neuronxcc.nki.isa.constants import nc_version as nc_version
from neuroncore.frontend.neuronxcc.nki.isa.constants import oob_mode as oob_mode
from neuroncore.frontend.neuronxcc.nki.isa.constants import reduce_cmd as reduce_cmd
from neuroncore.frontend.neuronxcc.nki.isa.elementwise import *
from neuroncore.frontend.neuronxcc.nki.isa.forwarded import *
from neuroncore.frontend.neuronxcc.nki.isa.matrix import *
from neuroncore.frontend.neuronxcc.nki.isa.matrix import (
    _tiled_offloaded_memcpy as _tiled_offloaded_memcpy,
)

tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown
dma_engine = engine.dma


def builtin_custom_op(
    function_name: str, lib_file_name: str, ulib_to_ucode_version: str, ulib_to_isa_version: str,
    srcs: _Any, dsts: _Any, **kwargs: _Any,
) -> None:  # fmt: skip
    """Not emulated: it runs a compiled library on the GpSimd cores."""
    raise _NotEmulated(
        "builtin_custom_op is not emulated: it needs a library that is compiled for GpSimd"
    )


__all__ = [*_dialects.api(globals()), "constants"]


def __getattr__(name: str) -> _Any:
    raise _dialects.unknown("neuronxcc.nki.isa", name, __all__)


def __dir__() -> list[str]:
    return __all__
