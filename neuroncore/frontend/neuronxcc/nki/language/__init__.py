"""nki.language of the older API: tensors, index expressions, loops, and functions of tiles."""

from neuroncore.base.enums import MemoryRegion as _MemoryRegion
from neuroncore.frontend import dialects as _dialects
from neuroncore.frontend.limits import ds as ds
from neuroncore.frontend.limits import tile_size as tile_size
from neuroncore.frontend.neuronxcc.nki.isa.constants import bfp16 as bfp16
from neuroncore.frontend.neuronxcc.nki.isa.constants import fp32 as fp32
from neuroncore.frontend.neuronxcc.nki.language import constants as constants
from neuroncore.frontend.neuronxcc.nki.language.creation import *
from neuroncore.frontend.neuronxcc.nki.language.elementwise import *
from neuroncore.frontend.neuronxcc.nki.language.folds import *
from neuroncore.frontend.neuronxcc.nki.language.loops import *
from neuroncore.frontend.neuronxcc.nki.language.loops import arange as arange
from neuroncore.frontend.neuronxcc.nki.language.loops import mgrid as mgrid
from neuroncore.frontend.operators import Operation as _Operation
from neuroncore.numerics.formats import bfloat16 as bfloat16
from neuroncore.numerics.formats import bool_ as bool_
from neuroncore.numerics.formats import float8_e4m3 as float8_e4m3
from neuroncore.numerics.formats import float8_e5m2 as float8_e5m2
from neuroncore.numerics.formats import float16 as float16
from neuroncore.numerics.formats import float32 as float32
from neuroncore.numerics.formats import int8 as int8
from neuroncore.numerics.formats import int16 as int16
from neuroncore.numerics.formats import int32 as int32
from neuroncore.numerics.formats import tfloat32 as tfloat32
from neuroncore.numerics.formats import uint8 as uint8
from neuroncore.numerics.formats import uint16 as uint16
from neuroncore.numerics.formats import uint32 as uint32

sbuf = _MemoryRegion.sbuf
psum = _MemoryRegion.psum
private_hbm = _MemoryRegion.private_hbm
shared_hbm = _MemoryRegion.shared_hbm
hbm = private_hbm

__all__ = [*_dialects.api(globals()), "constants"]


def __getattr__(name: str) -> _Operation:  # for type checkers: a table defines these names
    raise _dialects.unknown("neuronxcc.nki.language", name, __all__)


def __dir__() -> list[str]:
    return __all__
