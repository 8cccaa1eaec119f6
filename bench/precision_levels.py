"""Measure the errors of float32 kernels for each way in which the Tensor engine may multiply
float32: python bench/precision_levels.py

A number is the relative L2 error of a kernel's result, |result - exact| / |exact|, in units of
1e-7; `exact` is computed in float64. `numpy` is the same formula in numpy's float32. In `sharp
attention`, the queries are four times as large, so that few keys get most of the weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import neuroncore

neuroncore.activate()

from neuroncore.kernels import ch05_matmul, ch07_attention

from neuroncore.base.options import Options
from neuroncore.frontend.settings import settings

Function = Callable[..., Any]
Case = tuple[str, Function, Function, list[Any]]  # (name, kernel, formula, operands)
MODES = {
    "chain": Options(),
    "four_pass": Options(fp32_matmul="four_pass"),
    "blas": Options(matmul="blas"),
}


def attention(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ k.T * q.shape[1] ** -0.5) @ v


def causal_attention(q: Any, k: Any, v: Any) -> Any:
    seen = np.tri(len(q), dtype=bool)
    return softmax(np.where(seen, q @ k.T * q.shape[1] ** -0.5, -np.inf)) @ v


def softmax(x: Any) -> Any:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def matmul(a_t: Any, b: Any) -> Any:
    return a_t.T @ b


def cases(rng: np.random.Generator) -> Iterator[Case]:
    q, k, v = ch07_attention.inputs(rng)
    yield "attention 1024 x 128", ch07_attention.attention, attention, [q, k, v]
    yield "sharp attention 1024 x 128", ch07_attention.attention, attention, [4 * q, k, v]
    causal = ch07_attention.causal_attention
    yield "causal attention 1024 x 128", causal, causal_attention, [q, k, v]
    a_t, b = (rng.standard_normal((1024, 512), np.float32) for _ in range(2))
    yield "matmul 512 x 1024 x 512", ch05_matmul.hoisted, matmul, [a_t, b]


def distance(result: Any, exact: Any) -> float:
    return float(np.linalg.norm(result - exact) / np.linalg.norm(exact))


def main() -> None:
    print(f"{'':28s}", *(f"{mode:>10s}" for mode in (*MODES, "numpy")))
    for name, kernel, formula, operands in cases(np.random.default_rng(0)):
        exact = formula(*(a.astype(np.float64) for a in operands))
        found = []
        for options in MODES.values():
            with settings(options=options):
                found.append(distance(kernel(*operands), exact))
        found.append(distance(formula(*operands), exact))
        print(f"{name:28s}", *(f"{error * 1e7:10.2f}" for error in found))


if __name__ == "__main__":
    main()
