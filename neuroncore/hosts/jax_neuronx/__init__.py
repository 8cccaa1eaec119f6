"""The package jax_neuronx, which launches kernels from jax."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from neuroncore.frontend.launch import is_traced
from neuroncore.hosts import devices
from neuroncore.hosts.devices import writing


def nki_call(func: Callable[..., Any], *args: Any, out_shape: Any, grid: Any = (), **_: Any) -> Any:
    """Launch a kernel that receives `args`, followed by the tensors for its results. Return the
    results.

    `out_shape` is a jax.ShapeDtypeStruct, or a tuple with one for each result. Programs pass other
    parameters by functools.partial(kernel, scale=2.0). The function was a part of SDKs up to 2.22
    (source: tutorials of SDK 2.20)."""
    jax = devices.framework("jax", "nki_call")
    several = isinstance(out_shape, tuple | list)
    shapes = tuple(out_shape) if several else (out_shape,)
    bound = partial(func)  # partial unwraps earlier partials
    kernel = writing(bound.func)[grid] if grid else writing(bound.func)

    def launched(*arrays: Any) -> Any:
        results = tuple(np.zeros(shape.shape, shape.dtype) for shape in shapes)
        kernel(*bound.args, *map(np.asarray, arrays), *results, **bound.keywords)
        return results

    if is_traced(args, {}):
        results = jax.pure_callback(launched, shapes, *args)
    else:
        results = tuple(map(jax.numpy.asarray, launched(*args)))
    return results if several else results[0]
