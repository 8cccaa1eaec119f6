"""nki.isa.constants: the enumerations under the name that published kernels use."""

from neuroncore.enums import dge_mode as dge_mode
from neuroncore.enums import dma_engine as dma_engine
from neuroncore.enums import engine as engine
from neuroncore.enums import matmul_perf_mode as matmul_perf_mode
from neuroncore.enums import oob_mode as oob_mode
from neuroncore.enums import reduce_cmd as reduce_cmd
from neuroncore.frontend.limits import nc_version as nc_version

__all__ = [
    "dge_mode", "dma_engine", "engine", "matmul_perf_mode", "nc_version", "oob_mode", "reduce_cmd",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
