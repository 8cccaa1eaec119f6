"""The module torch_neuronx.xla_impl.custom_op: it makes operators of torch from C++ operators of
the GpSimd engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from neuroncore import customop
from neuroncore.customop.library import Library, LibraryOperator
from neuroncore.hosts.devices import framework

TYPES = {"T": "Tensor", "S": "Scalar", "D": "float", "I": "int"}

# torch removes the operators of a library to which nothing refers, so the libraries are kept here.
# If a library is loaded again, it replaces the old library.
_kept: dict[str, Any] = {}


def load(
    name: str,
    compute_srcs: Sequence[str],
    shape_srcs: Sequence[str],
    build_directory: str | None = None,
    multicore: bool = False,
    verbose: bool = False,
    extra_cflags: Sequence[str] | None = None,
) -> str:
    """Build lib<name>.so in the build directory (by default the current folder), and register its
    operators in torch. Return the path of the library.

    Raises the errors of `neuroncore.customop.load`, and UsageError if torch is not installed."""
    folder = os.path.abspath(build_directory or os.curdir)
    customop.load(
        compute_srcs,
        shape_srcs,
        name=name,
        multicore=multicore,
        build_directory=folder,
        extra_cflags=extra_cflags or (),
        verbose=verbose,
    )
    path = os.path.join(folder, f"lib{name}.so")
    load_library(path)
    return path


def load_library(path: str) -> None:
    """Register the operators of a library that `load` has built. Their names are
    torch.ops.<library>.<operator>.

    Raises UsageError if the file is not such a library, or if torch is not installed."""
    torch = framework("torch", "torch_neuronx.xla_impl.custom_op")
    library = customop.load_library(path)
    for namespace in {operator.library for operator in library.operators.values()}:
        _forget(namespace)
        _kept[namespace] = torch.library.Library(namespace, "FRAGMENT")
    for operator in library.operators.values():
        _define(torch, library, operator)


def _forget(namespace: str) -> None:
    if namespace in _kept:
        _kept.pop(namespace)._destroy()


def _define(torch: Any, library: Library, operator: LibraryOperator) -> None:
    named = (f"{TYPES[kind]} a{place}" for place, kind in enumerate(operator.parameters))
    target = _kept[operator.library]
    target.define(f"{operator.name}({', '.join(named)}) -> Tensor")
    target.impl(operator.name, _called(torch, library, operator.name), "CPU")


def _called(torch: Any, library: Library, name: str) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        converted = [
            _numpy(torch, each) if isinstance(each, torch.Tensor) else each for each in arguments
        ]
        return _tensor(torch, getattr(library, name)(*converted))

    return call


def _numpy(torch: Any, tensor: Any) -> Any:
    """Return a numpy array for a tensor. The bits of torch's bfloat16 become ml_dtypes'
    bfloat16."""
    dense = tensor.detach().contiguous()
    if dense.dtype == torch.bfloat16:
        return dense.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return dense.numpy()


def _tensor(torch: Any, array: Any) -> Any:
    if array.dtype == np.dtype(ml_dtypes.bfloat16):
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
