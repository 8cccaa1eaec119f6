"""The examples of the public aws-neuron-sdk repository, unmodified, against numpy.

    python bench/conformance/sdk_examples.py CHECKOUT [--target trn2]

runs each file or kernel of `CHECKOUT/nki/examples` by `neuroncore run` in a process of its own, at
the sizes of the documentation page that shows it, and prints a table. Kernels without a `__main__`
get their inputs and references from the functions below.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

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
    return (lhs_t.astype(np.float32).T @ rhs.astype(np.float32)).astype(lhs_t.dtype)


def mamba_inputs(rng: np.random.Generator) -> tuple[Any, ...]:
    """delta, u [1, 256, 512]; A [256, 16]; B, C [1, 16, 512]."""
    delta = rng.random((1, 256, 512), np.float32)
    u = rng.standard_normal((1, 256, 512), np.float32)
    a = -rng.random((256, 16), np.float32)
    b, c = (rng.standard_normal((1, 16, 512), np.float32) for _ in range(2))
    return delta, u, a, b, c


def mamba_reference(delta: Any, u: Any, a: Any, b: Any, c: Any) -> Any:
    """y[t] = sum_s c[s,t] h[s,t],  h[s,t] = exp(delta[t] a[s]) h[s,t-1] + delta[t] u[t] b[s,t]"""
    decay = np.exp(np.einsum("bdl,ds->bdsl", *(x.astype(np.float64) for x in (delta, a))))
    fresh = np.einsum("bdl,bdl,bsl->bdsl", delta, u, b, dtype=np.float64)
    state, out = np.zeros(fresh.shape[:-1]), np.empty(delta.shape)
    for t in range(delta.shape[-1]):
        state = decay[..., t] * state + fresh[..., t]
        out[..., t] = np.einsum("bds,bs->bd", state, c[..., t])
    return out.astype(np.float32)


def run(checkout: Path, case: tuple[str, str, str, str], target: list[str]) -> dict[str, Any]:
    file, kernel, inputs, reference = case
    command = [sys.executable, "-m", "neuroncore", "run", "--json", *target]
    command.append(str(checkout / EXAMPLES / file) + (f"::{kernel}" if kernel else ""))
    if kernel:
        command += ["--inputs", f"{__file__}:{inputs}", "--ref", f"{__file__}:{reference}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        return {"passed": False, "launches": [], "error": {"statement": done.stderr.strip()}}
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--target")
    arguments = parser.parse_args()
    target = ["--target", arguments.target] if arguments.target else []
    failed = 0
    for case in CASES:
        report = run(arguments.checkout, case, target)
        failed += not report["passed"]
        name = f"{Path(case[0]).name}::{case[1]}" if case[1] else Path(case[0]).name
        print(f"{'ok    ' if report['passed'] else 'FAILED'} {name}")
        for launch in report["launches"]:
            time = launch["estimate"]["total_time"] * 1e6
            errors = [f"relative L2 {r['rel_l2']:.2g}" for r in launch["results"]]
            print(f"         {launch['kernel']} on {launch['target']}: {time:.4g} us", *errors)
        if report.get("error"):
            print(f"         {report['error']['statement']}")
    print(f"{len(CASES) - failed} of {len(CASES)}")
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
