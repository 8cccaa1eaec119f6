"""nki.language: formats, memories, tensors, loops, and functions that issue instructions.

An operator such as `nl.add` is a function of tiles, and also a value for the argument `op` in
nki.isa. The docstring of each function that computes names the instructions that the function
issues."""

from neuroncore.base.enums import MemoryRegion as MemoryRegion
from neuroncore.frontend import dialects as _dialects
from neuroncore.frontend.limits import ds as ds
from neuroncore.frontend.limits import tile_size as tile_size
from neuroncore.frontend.nki.dtype import *
from neuroncore.frontend.nki.language.composed import *
from neuroncore.frontend.nki.language.control import *
from neuroncore.frontend.nki.language.control import NKIObject as NKIObject
from neuroncore.frontend.nki.language.creation import *
from neuroncore.frontend.nki.language.elementwise import *
from neuroncore.frontend.nki.tensor import NkiTensor as NkiTensor
from neuroncore.frontend.operators import Operation as _Operation
from neuroncore.numerics.formats import Format as DType  # noqa: F401
from neuroncore.numerics.formats import bool_ as bool  # noqa: F401 published kernels use this name
from neuroncore.numerics.formats import float4_e2m1fn_x4 as float4_e2m1fn_x4
from neuroncore.numerics.formats import float8_e4m3fn_x4 as float8_e4m3fn_x4
from neuroncore.numerics.formats import float8_e5m2_x4 as float8_e5m2_x4
from neuroncore.numerics.formats import float8_e8m0fnu as float8_e8m0fnu

sbuf = MemoryRegion.sbuf
psum = MemoryRegion.psum
private_hbm = MemoryRegion.private_hbm
shared_hbm = MemoryRegion.shared_hbm
hbm = private_hbm

# Names and parameters that neuronxcc.nki had and NKI 0.2 no longer has, according to its migration
# guide. The compiler of 0.5 can't resolve nl.arange (bbioren/hf-kernels-neuron,
# kernels/neuron_rope).
_INDEX_TENSORS = (
    "index tensors were removed from the API with neuronxcc.nki: use slices like x[0:128, 0:512], "
    "nl.ds(start, size), or x.ap(pattern) for other patterns"
)
_CORES = (
    "a grid of cores was removed from the API with neuronxcc.nki: kernel[n] runs a program on "
    "each of n cores"
)
_REMOVED = {
    "arange": _INDEX_TENSORS,
    "mgrid": _INDEX_TENSORS,
    "nc": _CORES,
    "spmd_dim": _CORES,
    "mask": "masks were removed from the API with neuronxcc.nki: use slices",
}

__all__ = _dialects.api(globals())


def __getattr__(name: str) -> _Operation:  # for type checkers: a table defines these names
    raise _dialects.unknown("nki.language", name, __all__, _REMOVED)


def __dir__() -> list[str]:
    return __all__
