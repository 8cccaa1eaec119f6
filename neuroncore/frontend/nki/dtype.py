"""nki.dtype: the number formats once more; published kernels annotate with them."""

from neuroncore.numerics.formats import bfloat16 as bfloat16
from neuroncore.numerics.formats import bool_ as bool_
from neuroncore.numerics.formats import float8_e4m3 as float8_e4m3
from neuroncore.numerics.formats import float8_e4m3fn as float8_e4m3fn
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
