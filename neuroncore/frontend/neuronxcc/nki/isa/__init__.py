"""nki.isa of the older API: instructions that return the tile they write.

Each function says what its result looks like and leaves the rest to the one instruction table.
Every `mask` is a bool or comparisons of index expressions over the axes of the tile it is about.
"""

from __future__ import annotations

from typing import Any

from neuroncore.errors import NotEmulated
from neuroncore.frontend.limits import get_nc_version as get_nc_version
from neuroncore.frontend.neuronxcc.nki.isa import constants as constants
from neuroncore.frontend.neuronxcc.nki.isa.constants import dge_mode as dge_mode
from neuroncore.frontend.neuronxcc.nki.isa.constants import engine as engine
from neuroncore.frontend.neuronxcc.nki.isa.constants import nc_version as nc_version
from neuroncore.frontend.neuronxcc.nki.isa.constants import oob_mode as oob_mode
from neuroncore.frontend.neuronxcc.nki.isa.constants import reduce_cmd as reduce_cmd
from neuroncore.frontend.neuronxcc.nki.isa.elementwise import activation as activation
from neuroncore.frontend.neuronxcc.nki.isa.elementwise import activation_reduce as activation_reduce
from neuroncore.frontend.neuronxcc.nki.isa.elementwise import dropout as dropout
from neuroncore.frontend.neuronxcc.nki.isa.elementwise import memset as memset
from neuroncore.frontend.neuronxcc.nki.isa.elementwise import reciprocal as reciprocal
from neuroncore.frontend.neuronxcc.nki.isa.elementwise import (
    scalar_tensor_tensor as scalar_tensor_tensor,
)
from neuroncore.frontend.neuronxcc.nki.isa.elementwise import tensor_copy as tensor_copy
from neuroncore.frontend.neuronxcc.nki.isa.elementwise import (
    tensor_copy_dynamic_dst as tensor_copy_dynamic_dst,
)
from neuroncore.frontend.neuronxcc.nki.isa.elementwise import (
    tensor_copy_dynamic_src as tensor_copy_dynamic_src,
)
from neuroncore.frontend.neuronxcc.nki.isa.elementwise import tensor_scalar as tensor_scalar
from neuroncore.frontend.neuronxcc.nki.isa.elementwise import (
    tensor_scalar_cumulative as tensor_scalar_cumulative,
)
from neuroncore.frontend.neuronxcc.nki.isa.elementwise import tensor_tensor as tensor_tensor
from neuroncore.frontend.neuronxcc.nki.isa.elementwise import (
    tensor_tensor_scan as tensor_tensor_scan,
)
from neuroncore.frontend.neuronxcc.nki.isa.folds import bn_aggr as bn_aggr
from neuroncore.frontend.neuronxcc.nki.isa.folds import bn_stats as bn_stats
from neuroncore.frontend.neuronxcc.nki.isa.folds import (
    tensor_partition_reduce as tensor_partition_reduce,
)
from neuroncore.frontend.neuronxcc.nki.isa.folds import tensor_reduce as tensor_reduce
from neuroncore.frontend.neuronxcc.nki.isa.folds import tensor_scalar_reduce as tensor_scalar_reduce
from neuroncore.frontend.neuronxcc.nki.isa.matrix import nc_matmul as nc_matmul
from neuroncore.frontend.neuronxcc.nki.isa.matrix import nc_transpose as nc_transpose
from neuroncore.frontend.neuronxcc.nki.isa.movement import dma_copy as dma_copy
from neuroncore.frontend.neuronxcc.nki.isa.movement import dma_transpose as dma_transpose
from neuroncore.frontend.neuronxcc.nki.isa.search import local_gather as local_gather
from neuroncore.frontend.neuronxcc.nki.isa.search import max8 as max8
from neuroncore.frontend.neuronxcc.nki.isa.search import nc_find_index8 as nc_find_index8
from neuroncore.frontend.neuronxcc.nki.isa.search import nc_match_replace8 as nc_match_replace8
from neuroncore.frontend.neuronxcc.nki.isa.search import nc_stream_shuffle as nc_stream_shuffle
from neuroncore.frontend.neuronxcc.nki.isa.search import sequence_bounds as sequence_bounds
from neuroncore.frontend.neuronxcc.nki.isa.selection import affine_select as affine_select
from neuroncore.frontend.neuronxcc.nki.isa.selection import fp32 as fp32
from neuroncore.frontend.neuronxcc.nki.isa.selection import iota as iota
from neuroncore.frontend.neuronxcc.nki.isa.selection import range_select as range_select
from neuroncore.frontend.neuronxcc.nki.isa.selection import select_reduce as select_reduce
from neuroncore.frontend.neuronxcc.nki.isa.selection import (
    tensor_copy_predicated as tensor_copy_predicated,
)

tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown
dma_engine = engine.dma


def builtin_custom_op(
    function_name: str,
    lib_file_name: str,
    ulib_to_ucode_version: str,
    ulib_to_isa_version: str,
    srcs: Any,
    dsts: Any,
    **kwargs: Any,
) -> None:
    """Not emulated: it runs a compiled library on the GpSimd cores."""
    raise NotEmulated("builtin_custom_op: it runs a compiled library of the GpSimd engine's cores")
