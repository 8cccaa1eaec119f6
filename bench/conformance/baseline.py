"""The names that NKIBench defines before a kernel, and the kernel of a module."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

import neuroncore

neuroncore.activate()

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt

# The names that the benchmark defines before a kernel. Two of the samples have no imports.
NAMES = {
    "np": np,
    "nki": nki,
    "nl": nl,
    "nisa": nisa,
    "nt": nt,
    "trace": nki.trace,
    "par_dim": nl.par_dim,
}


def kernel_of(module: ModuleType) -> Any:
    return module.kernel if hasattr(module, "kernel") else module.optimized_kernel
