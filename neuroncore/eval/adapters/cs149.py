"""Part 2 of assignment 4 of Stanford's CS149: a convolution with bias, and the greatest element of
each pool. The assignments of both years ask for `fused_conv2d_maxpool(X, W, bias, pool_size=1)`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.errors import UsageError
from neuroncore.eval.spec import Spec

Array = npt.NDArray[Any]
YEARS = {"2024": "trn1", "2025": "trn2"}  # the machines of asst4-trainium and asst4-trainium2
# Tolerances: of np.allclose in the harness; for float16 the rounding of results.
TOLERANCES = {"float32": 1e-5, "float16": 2.0**-10}
FILTER = 3  # height and width of the filters


class Images(NamedTuple):
    """A shape of the harness: images, channels of input and output, height and width."""

    images: int
    inputs: int
    outputs: int
    height: int
    width: int


MEASURED = Images(1, 256, 256, 224, 224)  # of the test of performance
CORRECT = (Images(4, 128, 128, 32, 16), Images(4, 256, 128, 32, 16), Images(4, 128, 256, 32, 16))


def spec(name: str, _: Path) -> Spec:
    """Return the specification YEAR, YEAR/pool, YEAR/float16 or YEAR/pool/float16. Raises
    UsageError for another name."""
    year, *words = name.split("/")
    if year not in YEARS or not {"pool", "float16"}.issuperset(words):
        raise UsageError(f"cs149 has no {name!r}; it has 2024 and 2025, with /pool and /float16")
    form, pool = "float16" if "float16" in words else "float32", 2 if "pool" in words else 1
    return Spec(
        reference=pooled,
        inputs=lambda seed, shape: _inputs(seed, Images(*shape), form, pool),
        shapes=[tuple(MEASURED)],
        hidden_shapes=[*map(tuple, CORRECT)],
        name=f"cs149-{name.replace('/', '-')}",
        seeds=2,
        tol=TOLERANCES[form],
        target=YEARS[year],
        order="compiled",
        entry=("fused_conv2d_maxpool",),
        constants=8 << 20,
    )


def _inputs(seed: int, shape: Images, form: str, pool: int) -> tuple[Any, ...]:
    """Return numbers between 0 and 1, as the harness does."""
    random = np.random.default_rng(seed)
    sizes = (
        (shape.images, shape.inputs, shape.height, shape.width),
        (shape.outputs, shape.inputs, FILTER, FILTER),
        (shape.outputs,),
    )
    return *(random.random(size, np.float32).astype(form) for size in sizes), pool


def pooled(image: Array, filters: Array, bias: Array, pool: int) -> Array:
    """Return the greatest of each pool x pool elements of the convolution plus bias, computed in
    float32."""
    made = convolved(image.astype(np.float32), filters.astype(np.float32))
    made += bias.astype(np.float32)[:, None, None]
    n, c, h, w = made.shape
    whole = made[:, :, : h // pool * pool, : w // pool * pool]
    parts = whole.reshape(n, c, h // pool, pool, w // pool, pool)
    greatest: Array = parts.max((3, 5)).astype(image.dtype)
    return greatest


def convolved(image: Array, filters: Array) -> Array:
    """Return the convolution without padding: a product for each place in the filters."""
    n, _, height, width = image.shape
    outputs, inputs, rows, columns = filters.shape
    h, w = height - rows + 1, width - columns + 1
    made = np.zeros((n, outputs, h * w), np.float32)
    for i in range(rows):
        for j in range(columns):
            part = image[:, :, i : i + h, j : j + w].reshape(n, inputs, h * w)
            made += filters[:, :, i, j] @ part
    return made.reshape(n, outputs, h, w)
