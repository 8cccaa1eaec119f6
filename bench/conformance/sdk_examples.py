"""Run the unmodified examples of the public aws-neuron-sdk repository, and compare them with numpy.

    python bench/conformance/sdk_examples.py CHECKOUT [--target trn2] [-k SUBSTR] [--json]

Each file or kernel of `CHECKOUT/nki/examples` is run by `neuroncore run` in a separate process, at
the sizes of the documentation page that shows it, and a table is printed. Functions of this file
make inputs and references for kernels whose file has no main part.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import references as ref
from kernel_run import kernel_case
from outcome import Task, options, together, told

EXAMPLES = Path("nki/examples")
ADD = "tensor_addition/tensor_addition_nki_kernels.py"
MATMUL = "matrix_multiplication/matrix_multiplication_nki_kernels.py"

# (file, kernel, inputs, reference); a file without a kernel runs as a script and checks itself.
CASES = [
    ("simulate/nki_simulate_example.py", "", "", ""),
    ("transpose2d/transpose2d_nki_kernels.py", "", "", ""),
    ("average_pool2d/average_pool2d_nki_kernels.py", "", "", ""),
    ("fused_mamba/mamba_nki_kernels.py", "", "", ""),
    (ADD, "nki_tensor_add", "add_inputs", "add_reference"),
    (MATMUL, "nki_matmul_basic_", "small_matmul_inputs", "matmul_reference"),
    (MATMUL, "nki_matmul_tiled_", "matmul_inputs", "matmul_reference"),
    (MATMUL, "nki_matmul_hoist_load_", "matmul_inputs", "matmul_reference"),
    (MATMUL, "nki_matmul_block_free_dimension_", "matmul_inputs", "matmul_reference"),
    (MATMUL, "nki_matmul_fully_optimized_", "matmul_inputs", "matmul_reference"),
    ("fused_mamba/mamba_nki_kernels.py", "mamba_v1", "mamba_inputs", "mamba_reference"),
    ("fused_mamba/mamba_nki_kernels.py", "mamba_v2", "mamba_inputs", "mamba_reference"),
    ("fused_mamba/mamba_nki_kernels.py", "mamba_v3", "mamba_inputs", "mamba_reference"),
]


def add_inputs(rng: np.random.Generator) -> tuple[Any, ...]:
    return tuple(rng.standard_normal((256, 1024), np.float32) for _ in range(2))


def add_reference(a: Any, b: Any) -> Any:
    return a + b


def _bfloat16(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape, np.float32).astype(ml_dtypes.bfloat16)


def small_matmul_inputs(rng: np.random.Generator) -> tuple[Any, ...]:
    return _bfloat16(rng, 128, 64), _bfloat16(rng, 128, 512)


def matmul_inputs(rng: np.random.Generator) -> tuple[Any, ...]:
    return _bfloat16(rng, 1024, 4096), _bfloat16(rng, 1024, 2048)


def matmul_reference(lhs_t: Any, rhs: Any) -> Any:
    return ref.product(lhs_t, rhs).astype(lhs_t.dtype)


def mamba_inputs(rng: np.random.Generator) -> tuple[Any, ...]:
    """Return delta, u [1, 256, 512]; A [256, 16]; B, C [1, 16, 512]."""
    delta = rng.random((1, 256, 512), np.float32)
    u = rng.standard_normal((1, 256, 512), np.float32)
    a = -rng.random((256, 16), np.float32)
    b, c = (rng.standard_normal((1, 16, 512), np.float32) for _ in range(2))
    return delta, u, a, b, c


def mamba_reference(*arrays: Any) -> Any:
    return ref.mamba(*arrays).astype(np.float32)


def tasks(given: argparse.Namespace) -> Iterator[Task]:
    target = ("--target", given.target) if given.target else ()
    for file, kernel, inputs, reference in CASES:
        name = Path(file).name + (f"::{kernel}" if kernel else "")
        if given.k in name:
            running = partial(
                kernel_case,
                name,
                str(given.checkout / EXAMPLES / file) + (f"::{kernel}" if kernel else ""),
                inputs=inputs and f"{__file__}:{inputs}",
                reference=reference and f"{__file__}:{reference}",
                options=target,
                seconds=given.timeout,
                gigabytes=given.memory,
            )
            yield Task(name, running)


def main() -> int:
    parser = options(__doc__, "checkout")
    parser.add_argument("--target")
    given = parser.parse_args()
    return told("sdk_examples", together(tasks(given)), given.json)


if __name__ == "__main__":
    raise SystemExit(main())
