"""Names of number formats in other libraries: spellings, and formats that no NeuronCore has."""

from __future__ import annotations

NO_NEGATIVE_ZERO = "an AMD format with another bias and without -0"
ELSEWHERE = {
    "float8_e4m3fnuz": f"{NO_NEGATIVE_ZERO}; float8_e4m3 reaches 240 too",
    "float8_e5m2fnuz": f"{NO_NEGATIVE_ZERO}; float8_e5m2 reaches 57344 too",
    "float8_e4m3b11fnuz": "a float without -0; numerics.cfp8('float8_e4m3', 11) has the same bias",
    "float4_e2m1fn_x2": "two floats in a byte; NeuronCores have float4_e2m1fn_x4, four in 16 bits",
    "float6_e2m3fn": "a float of 6 bits; float8_e4m3fn holds all its numbers",
    "float6_e3m2fn": "a float of 6 bits; float8_e4m3fn holds all its numbers",
    "float64": "a float of 64 bits; float32 is the widest float of a NeuronCore",
    "int64": "an integer of 64 bits; int32 is the widest integer of a NeuronCore",
    "uint64": "an integer of 64 bits; uint32 is the widest integer without a sign",
    "int4": "an integer of less than 8 bits; int8 holds all its numbers",
    "uint4": "an integer of less than 8 bits; uint8 holds all its numbers",
    "nvfp4": "a float of 4 bits in blocks of 16; quantize has 'mxfp4', in blocks of 32",
    "complex64": "a complex number; its real and imaginary parts can be float32",
}
"""Formats that no NeuronCore has: for each a description, and the most similar format."""

SAME = {
    "double": "float64",
    "fp64": "float64",
    "f64": "float64",
    "long": "int64",
    "i64": "int64",
    "fp6": "float6_e3m2fn",
    "mxfp6": "float6_e3m2fn",
    "mxfp6_e3m2": "float6_e3m2fn",
    "mxfp6_e2m3": "float6_e2m3fn",
    "int2": "int4",
    "uint2": "uint4",
    "f6e2m3fn": "float6_e2m3fn",
    "f6e3m2fn": "float6_e3m2fn",
    "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e5m2fnuz": "float8_e5m2fnuz",
    "complex128": "complex64",
}

SCALED = {
    "mxfp8": "float8_e4m3fn",
    "mxfp8_e4m3": "float8_e4m3fn",
    "mxfp8_e5m2": "float8_e5m2",
    "mxfp4": "float4_e2m1fn",
}
"""Formats with a scale for each block of 32 numbers, and the format of the numbers: OCP
Microscaling Formats 1.0."""


def plain(name: str) -> str:
    """Return a name such as "torch.float8_e4m3fn" or "FP8-E4M3" in lower case, with underscores and
    without its module."""
    return name.rpartition(".")[2].lower().replace("-", "_")


def reason(name: str) -> str | None:
    """Return a hint if no NeuronCore has the format of this name, or if the format has scales (such
    as "mxfp8"). Return None for other names."""
    name = plain(name)
    if name in SCALED:
        return f"it means numbers with scales: neuroncore.numerics.quantize(x, {name!r})"
    name = SAME.get(name, name.replace("fp8_", "float8_"))
    return f"it is {ELSEWHERE[name]}" if name in ELSEWHERE else None
