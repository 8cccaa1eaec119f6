"""Drivers of everyone's kernels: inputs, a numpy reference and a tolerance for each."""

from drivers import attention, linear_attention, products, rows, searches, transforms
from drivers.driver import DRIVERS

__all__ = ["DRIVERS", "attention", "linear_attention", "products", "rows", "searches", "transforms"]
