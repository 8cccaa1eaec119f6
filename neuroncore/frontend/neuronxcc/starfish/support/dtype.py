"""The number formats, under the names that published tests use."""

from neuroncore.frontend.neuronxcc.nki.language import static_cast as static_cast
from neuroncore.numerics.formats import bfloat16 as bfloat16
from neuroncore.numerics.formats import float8_e4m3 as float8_e4m3
from neuroncore.numerics.formats import float8_e5m2 as float8_e5m2
from neuroncore.numerics.formats import float16 as float16
from neuroncore.numerics.formats import float32 as float32

__all__ = ["bfloat16", "float8_e4m3", "float8_e5m2", "float16", "float32", "static_cast"]


def __dir__() -> list[str]:
    return __all__
