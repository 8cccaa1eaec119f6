"""nki.isa: one function per entry of the instruction table.

The functions have the clause's parameters, in its order and with its defaults, and `name` at the
end. Parameters of older releases that published kernels still pass are accepted and ignored.
"""

from neuroncore.clause.instruction import INSTRUCTIONS as _INSTRUCTIONS
from neuroncore.enums import dge_mode as dge_mode
from neuroncore.enums import dma_engine as dma_engine
from neuroncore.enums import engine as engine
from neuroncore.enums import matmul_perf_mode as matmul_perf_mode
from neuroncore.enums import oob_mode as oob_mode
from neuroncore.enums import reduce_cmd as reduce_cmd
from neuroncore.errors import KernelError as NkiValidationError  # noqa: F401 the API's name
from neuroncore.frontend import exports as _exports
from neuroncore.frontend import issue as _issue
from neuroncore.frontend.limits import get_nc_sub_version as get_nc_sub_version
from neuroncore.frontend.limits import get_nc_version as get_nc_version
from neuroncore.frontend.limits import nc_version as nc_version
from neuroncore.frontend.nki import registers as _registers
from neuroncore.frontend.nki.isa import constants as constants

tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown
VirtualRegister = _registers.VirtualRegister
register_alloc = _registers.register_alloc

__all__ = [*_exports.api(globals()), "constants", *_INSTRUCTIONS]


def __getattr__(name: str) -> _issue.Issues:
    if name not in _INSTRUCTIONS:
        raise _exports.unknown("nki.isa", name, __all__)
    function = globals()[name] = _issue.function(name)
    return function


def __dir__() -> list[str]:
    return __all__
