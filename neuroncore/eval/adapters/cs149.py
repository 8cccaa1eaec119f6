"""Part 2 of assignment 4 in Stanford's course CS149: a convolution with bias, followed by max
pooling. In 2024 and in 2025, students write `fused_conv2d_maxpool(X, W, bias, pool_size=1)`. The
harness is the course's program that tests a submission."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.errors import UsageError
from neuroncore.eval.course import Assignment, Limit, Part
from neuroncore.eval.spec import Spec

Array = npt.NDArray[Any]
YEARS = {"2024": "trn1", "2025": "trn2"}  # the machines of asst4-trainium and asst4-trainium2
FORMS = ("pool", "float16")
# The harness compares float32 results with np.allclose, and does not compare float16 results. For
# float16, the allowed relative L2 error is the rounding error of float16.
TOLERANCES = {"float32": 1e-5, "float16": 2.0**-10}
ALLCLOSE = {"float32": (1e-5, 1e-8), "float16": None}
FILTER = 3  # height and width of the filters


class Images(NamedTuple):
    """The images and filters of one test of the harness.

    `inputs`, `outputs`: the numbers of input and output channels
    `bias`: whether the bias differs from zero

    The other fields are the number of images, and their height and width in pixels."""

    images: int
    inputs: int
    outputs: int
    height: int
    width: int
    bias: bool = True


TIMED = Images(1, 256, 256, 224, 224)
LARGE = Images(4, 256, 256, 224, 224)
SMALL = [Images(4, i, o, 32, 16) for i in (128, 256) for o in (128, 256)]
# The images of each test of the harness; "" is for a specification without the name of a test.
IMAGES = {
    "": [TIMED, *SMALL],
    "small": [images._replace(bias=False) for images in SMALL],
    "large": [LARGE._replace(bias=False)],
    "bias": [LARGE],
    "time": [TIMED],
    "small-time": [Images(1, 256, 256, 32, 16)],
}
# Sources of the points and the times in microseconds: README.md and part2/test_harness.py of
# asst4-trainium 859c0e3 and asst4-trainium2 67a1f8b.
POINTS: dict[str, dict[str, float]] = {
    "2024": {"small": 15.0, "large": 15.0, "bias": 15.0, "bias/pool": 2.5},
    "2025": {"small": 2.5, "large": 2.5, "bias": 2.5, "bias/pool": 2.5},
}
FLOAT32, FLOAT16 = (Limit(4596.0), Limit(4964.0, 0.95)), (Limit(1002.0), Limit(1365.0, 0.95))
TIMES: dict[str, dict[str, tuple[float, tuple[Limit, ...]]]] = {
    "2024": {
        "time": (7.5, (Limit(4300.0),)),
        "time/float16": (7.5, (Limit(1300.0),)),
        "time/pool": (2.5, (Limit(4300.0),)),
        "time/pool/float16": (2.5, (Limit(1300.0),)),
    },
    "2025": {
        "time": (17.5, FLOAT32),
        "time/float16": (17.5, FLOAT16),
        "time/pool": (7.5, FLOAT32),
        "time/pool/float16": (7.5, FLOAT16),
        "small-time": (1.25, (Limit(110.0),)),
        "small-time/float16": (1.25, (Limit(84.0),)),
        "small-time/pool": (1.25, (Limit(110.0),)),
        "small-time/pool/float16": (1.25, (Limit(84.0),)),
    },
}


def spec(name: str, _: Path) -> Spec:
    """Return the specification with this name, which is YEAR or YEAR/WORD/... The words are entries
    of FORMS, and at most one key of IMAGES. Raise UsageError for any other name."""
    year, *words = name.split("/")
    images = IMAGES.get("/".join(word for word in words if word not in FORMS))
    if year not in YEARS or images is None:
        known = ", ".join(f"/{word}" for word in (*FORMS, *filter(None, IMAGES)))
        raise UsageError(f"cs149 has no {name!r}; it has 2024 and 2025, also with {known}")
    form, pool = "float16" if "float16" in words else "float32", 2 if "pool" in words else 1
    return Spec(
        reference=pooled,
        inputs=lambda seed, shape: _inputs(seed, Images(*shape), form, pool),
        shapes=[tuple(images[0])],
        hidden_shapes=[*map(tuple, images[1:])],
        name=f"cs149-{name.replace('/', '-')}",
        seeds=1 if images[0].images > 1 else 2,  # the harness uses one seed
        tol=TOLERANCES[form],
        allclose=ALLCLOSE[form],
        target=YEARS[year],
        order="compiled",
        entry=("fused_conv2d_maxpool",),
        constants=8 << 20,
    )


def assignment(year: str) -> Assignment | None:
    """Return the tests in the harness of a year; None if `year` is not a year of the course.

    In 2025, a performance test gives points only if correctness tests pass: all tests for a
    performance test with pooling, otherwise all tests without pooling. The course runs the harness
    with and without --test_maxpool, and counts the better score."""
    if year not in YEARS:
        return None
    right = [Part(name, f"cs149:{year}/{name}", points) for name, points in POINTS[year].items()]
    timed = [
        Part(name, f"cs149:{year}/{name}", points, limits, _needs(year, name), YEARS[year])
        for name, (points, limits) in TIMES[year].items()
    ]
    return Assignment([*right, *timed])


def _needs(year: str, name: str) -> tuple[str, ...]:
    """Return the correctness tests that must pass before the performance test `name` gives
    points."""
    if year == "2024":
        return ()
    return tuple(test for test in POINTS[year] if "pool" in name or "pool" not in test)


def _inputs(seed: int, shape: Images, form: str, pool: int) -> tuple[Any, ...]:
    """Return the arguments of the kernel: images, filters, bias, and the height (and width) of a
    pool. The arrays have random numbers between 0 and 1, as in the harness. The bias is 0 if
    `shape.bias` is False."""
    random = np.random.default_rng(seed)
    sizes = (
        (shape.images, shape.inputs, shape.height, shape.width),
        (shape.outputs, shape.inputs, FILTER, FILTER),
        (shape.outputs,),
    )
    image, filters, bias = (random.random(size, np.float32).astype(form) for size in sizes)
    return image, filters, bias if shape.bias else np.zeros_like(bias), pool


def pooled(image: Array, filters: Array, bias: Array, pool: int) -> Array:
    """Return the convolution plus bias, after max pooling: the largest element of each block of
    pool x pool elements. The sums are computed in float32; the result has the format of `image`."""
    sums = convolved(image.astype(np.float32), filters.astype(np.float32))
    sums += bias.astype(np.float32)[:, None, None]
    n, c, h, w = sums.shape
    whole = sums[:, :, : h // pool * pool, : w // pool * pool]
    parts = whole.reshape(n, c, h // pool, pool, w // pool, pool)
    greatest: Array = parts.max((3, 5)).astype(image.dtype)
    return greatest


def convolved(image: Array, filters: Array) -> Array:
    """Return the convolution without padding, shape (images, outputs, height, width). It is a sum
    of matrix products, one for each position in the filters."""
    n, _, height, width = image.shape
    outputs, inputs, rows, columns = filters.shape
    h, w = height - rows + 1, width - columns + 1
    sums = np.zeros((n, outputs, h * w), np.float32)
    for i in range(rows):
        for j in range(columns):
            part = image[:, :, i : i + h, j : j + w].reshape(n, inputs, h * w)
            sums += filters[:, :, i, j] @ part
    return sums.reshape(n, outputs, h, w)
