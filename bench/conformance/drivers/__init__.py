"""Drivers of everyone's kernels: inputs, a numpy reference and a tolerance for each."""

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
