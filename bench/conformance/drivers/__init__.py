"""Drivers of everyone's kernels: inputs, a numpy reference and a tolerance for each."""

from drivers import attention, examples, linear_attention, products, rows, searches, transforms
from drivers.driver import DRIVERS

__all__ = [
    "DRIVERS",
    "attention",
    "examples",
    "linear_attention",
    "products",
    "rows",
    "searches",
    "transforms",
]
