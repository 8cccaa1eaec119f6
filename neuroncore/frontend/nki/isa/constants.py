"""nki.isa.constants: the enumerations, in a module that published kernels import."""

from neuroncore.base.enums import (
    dge_mode,
    dma_engine,
    engine,
    matmul_perf_mode,
    oob_mode,
    reduce_cmd,
)
from neuroncore.frontend.limits import nc_version

__all__ = [
    "dge_mode", "dma_engine", "engine", "matmul_perf_mode", "nc_version", "oob_mode", "reduce_cmd",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
