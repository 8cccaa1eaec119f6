"""Kernels in functions that jax traces, such as those under jax.jit: calls without values."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from neuroncore.frontend.settings import unobserved


def is_traced(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether an argument is a value of a graph that jax is building."""
    jax = sys.modules.get("jax")
    return jax is not None and any(_is_tracer(x) for x in jax.tree.leaves((args, kwargs)))


def in_graph(kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the results of a kernel as values of the graph: it is launched whenever the graph
    runs.

    The shapes of the results are those of a launch on zeros, which is not reported.
    """
    jax: Any = sys.modules["jax"]
    leaves, tree = jax.tree.flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if _is_tracer(leaf)]

    def launched(*values: Any) -> Any:
        known = dict(zip(places, map(np.asarray, values), strict=True))
        positional, named = jax.tree.unflatten(
            tree, [known.get(i, x) for i, x in enumerate(leaves)]
        )
        return kernel(*positional, **named)

    tracers = [leaves[i] for i in places]
    with unobserved():
        results = launched(*(np.zeros(tracer.shape, tracer.dtype) for tracer in tracers))
    shapes = jax.tree.map(lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype), results)
    return jax.pure_callback(launched, shapes, *tracers)


def _is_tracer(value: Any) -> bool:
    return isinstance(value, sys.modules["jax"].core.Tracer)
