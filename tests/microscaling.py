"""Layouts of microscaling data, for tests."""

import numpy as np

from neuroncore.numerics.formats import lookup

EIGHT = ("float8_e4m3fn", "float8_e5m2")
ELEMENTS = (*EIGHT, "float4_e2m1fn")


def rows(partitions):
    """Group g of 8 partitions has its scales in quadrant g // 4, row g % 4."""
    return [32 * (g // 4) + g % 4 for g in range(partitions // 8)]


def pack(codes, element):
    """[..., 4] codes, the first in the lowest bits."""
    width, kind = (4, np.uint16) if element == "float4_e2m1fn" else (8, np.uint32)
    codes = codes.astype(np.uint32)
    return sum(codes[..., i] << width * i for i in range(4)).astype(kind)


def matmul_tiles(device, k=64, m=6, n=5, dst="float32", s="float8_e5m2", x="float8_e5m2"):
    """dst, stationary, moving and the scales of both, all zeros."""
    data = [device.tile(np.zeros((k, c), lookup(f"{e}_x4").storage)) for e, c in ((s, m), (x, n))]
    data = [d.view(lookup(f"{e}_x4")) for d, e in zip(data, (s, x))]
    scales = [device.zeros((128, c), "uint8") for c in (m, n)]
    return device.empty((m, n), dst, "psum"), *data, *scales


def matmul_operand(device, data, scales, offset=0, kind="float8_e8m0fnu"):
    """A tile of packed data [K, F, 4], and one with its scales [K/8, F] at their places."""
    element = data.dtype.name
    tile = device.tile(pack(data.view(np.uint8), element)).view(lookup(f"{element}_x4"))
    places = np.full((128, scales.shape[1]), 255, np.uint8)  # other scales are NaN
    places[[offset + row for row in rows(len(data))]] = scales
    return tile, device.tile(places).view(lookup(kind))[offset:]
