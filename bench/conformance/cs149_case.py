"""Run one solution of the fused convolution with one size of the pool, and compare it with numpy.

    python bench/conformance/cs149_case.py FILE POOL

It prints the relative L2 error for each shape and format. The largest allowed error is 1e-5 for
float32; for float16 it is the gap between 1 and the next number.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import references
from published import loaded

import neuroncore

neuroncore.activate()

from nkibench_case import Disagreement

from neuroncore.report.compare import compare

# images, input and output channels, height and width of an image
SHAPES = ((4, 128, 128, 32, 16), (2, 256, 256, 32, 16))
ALLOWED = {"float32": 1e-5, "float16": 2.0**-10}


def pooled(image: Any, filters: Any, bias: Any, pool: int) -> Any:
    """Return the convolution plus the bias, reduced to the maximum of each square of pool x pool,
    in float32."""
    image, filters, bias = (x.astype(np.float32) for x in (image, filters, bias))
    out = references.conv2d_by_output(image, filters, ((0, 0), (0, 0))) + bias[:, None, None]
    n, c, h, w = out.shape
    return out.reshape(n, c, h // pool, pool, w // pool, pool).max((3, 5))


def main() -> int:
    file, pool = Path(sys.argv[1]), int(sys.argv[2])
    sys.path.insert(0, str(file.parent))
    kernel = loaded(file).fused_conv2d_maxpool
    rng = np.random.default_rng(0)
    for images, inputs, outputs, *size in SHAPES:
        for form, allowed in ALLOWED.items():
            shapes = (images, inputs, *size), (outputs, inputs, 3, 3), (outputs,)
            arguments = [rng.random(shape).astype(form) for shape in shapes]
            want = pooled(*arguments, pool)
            error = compare(kernel(*arguments, pool_size=pool), want).rel_l2
            print(f"{inputs} to {outputs} channels, {form}: relative L2 error {error:.2g}")
            if not error <= allowed:
                raise Disagreement(f"relative L2 error {error:.2g}, allowed {allowed:.2g}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
