"""nki.dtype: the number formats, under the names that annotations of published kernels use."""

from neuroncore.numerics.formats import (
    bfloat16,
    bool_,
    float8_e4m3,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    int8,
    int16,
    int32,
    tfloat32,
    uint8,
    uint16,
    uint32,
)

__all__ = [
    "bfloat16", "bool_", "float8_e4m3", "float8_e4m3fn", "float8_e5m2", "float16", "float32",
    "int8", "int16", "int32", "tfloat32", "uint8", "uint16", "uint32",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
