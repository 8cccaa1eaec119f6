"""Kernels that students wrote for assignment 4 of Stanford's CS149: vector addition, transposition
and convolution."""

from __future__ import annotations

import re
from pathlib import Path

from case import Case, Random, Row, dtype, inside, with_constants

OTHER_NAMES = {
    "vector_add_stream/total": "vector_add_stream",
    "direct_allocated": "vector_add_direct_allocation",
    # with tiles of one row, as measured
    "vector_add_naive": "vector_add_tiled",
    "conv2d": "fused_conv2d_maxpool",
    "conv2d+maxpool": "fused_conv2d_maxpool",
}


def case(row: Row, checkout: Path, path: str) -> Case:
    function = OTHER_NAMES.get(row["kernel"], row["kernel"])
    file = inside(checkout, path)
    if row["family"] == "conv2d":
        size, of = dtype(row), Random
        image, filters = of(size, (1, 256, 224, 224)), of(size, (256, 256, 3, 3))
        pool = 2 if "maxpool" in row["kernel"] else 1
        return Case(file, function, (image, filters, of(size, (256,))), {"pool_size": pool})
    if row["family"] == "transpose":
        return Case(file, function, (Random("float32", (1024, 1024)),))
    size = int(re.match(r"\d+", row["shapes"])[0])
    constants = {n: int(v) for n, v in re.findall(r"(FREE_DIM|ROW_CHUNK)=(\d+)", row["shapes"])}
    vector = Random("float32", (size,))
    return Case(
        file,
        function,
        (vector, vector),
        module=with_constants(constants),
        settings=tuple(constants.items()),
    )
