"""Drivers of published kernels from many repositories: each has inputs, a reference in numpy, and a
tolerance."""

from drivers import (
    attention,
    diffusion,
    examples,
    experts,
    linear_attention,
    paging,
    products,
    rows,
    searches,
    studies,
    transforms,
)
from drivers.driver import DRIVERS

__all__ = [
    "DRIVERS",
    "attention",
    "diffusion",
    "examples",
    "experts",
    "linear_attention",
    "paging",
    "products",
    "rows",
    "searches",
    "studies",
    "transforms",
]
