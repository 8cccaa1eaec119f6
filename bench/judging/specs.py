"""The problems that cheats attack: specifications, each with an honest candidate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from candidates import HEAD, HONEST, LOOP, inputs, kernel, spec

from neuroncore.eval import Spec

HALF = ml_dtypes.bfloat16

PRODUCT = f"""{HEAD}
def product(a, b, form=nl.float32, first=0, clear=True):
    (k, m), n = a.shape, b.shape[1]
    out = nl.ndarray((m, n), nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray((m, n), nl.float32, buffer=nl.psum)
    for i in range(first, k, 128):
        x, y = load(a[i:i + 128]), load(b[i:i + 128])
        if form is not nl.float32:
            u, v = (nl.ndarray(t.shape, form, buffer=nl.sbuf) for t in (x, y))
            nisa.tensor_copy(dst=u, src=x)
            nisa.tensor_copy(dst=v, src=y)
            x, y = u, v
        nisa.nc_matmul(dst=total, stationary=x, moving=y, accumulate=i > first or not clear)
    t = nl.ndarray((m, n), nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=t, src=total)
    nisa.dma_copy(dst=out, src=t)
    return out

@nki.jit
def kernel(a, b):
    return product(a, b)
"""
SOFTMAX = f"""{HEAD}
def softmax(x, shifted=True):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    t, e = load(x), nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    s, m = (nl.ndarray((128, 1), x.dtype, buffer=nl.sbuf) for _ in range(2))
    if shifted:
        nisa.tensor_reduce(dst=m, op=nl.maximum, data=t, axis=1, negate=True)
        nisa.activation(dst=e, op=nl.exp, data=t, bias=m)
    else:
        nisa.activation(dst=e, op=nl.exp, data=t)
    nisa.tensor_reduce(dst=s, op=nl.add, data=e, axis=1)
    nisa.reciprocal(dst=s, data=s)
    nisa.tensor_scalar(dst=e, data=e, op0=nl.multiply, operand0=s)
    nisa.dma_copy(dst=out, src=e)
    return out

@nki.jit
def kernel(x):
    return softmax(x)
"""
TOTAL = f"""{HEAD}
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 1), x.dtype, buffer=nl.shared_hbm)
    s = nl.ndarray((128, 1), x.dtype, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=s, op=nl.add, data=load(x), axis=1)
    nisa.dma_copy(dst=out, src=s)
    return out
"""
# x plus a table that the host computes, which is loaded like an input
TABLE = f"""{HEAD}
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    t = load(x)
    numbers = np.zeros(x.shape, np.float32) + np.arange(x.shape[1], dtype=np.float32)
    n = load(nl.shared_constant(numbers))
    nisa.tensor_tensor(dst=t, data1=t, data2=n, op=nl.add)
    nisa.dma_copy(dst=out, src=t)
    return out
"""
HALVES = kernel(
    """
out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
for i in range(0, a.shape[0], 128):
    x, y = load(a[i:i + 128]), load(b[i:i + 128])
    s = nl.ndarray(x.shape, nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(dst=s, data=x, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=y)
    nisa.activation(dst=x, op=nl.copy, data=s)
    nisa.dma_copy(dst=out[i:i + 128], src=x)
return out"""
)
CORES = f"""{HEAD}
def half(a, b):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    rows = nl.ds(nl.program_id(0) * 128, 128)
    x, y = load(a[rows]), load(b[rows])
    nisa.scalar_tensor_tensor(dst=x, data=x, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=y)
    nisa.dma_copy(dst=out[rows], src=x)
    return out
kernel = nki.jit(half)[2]
"""


class Problem(NamedTuple):
    """A specification and a candidate that passes it."""

    spec: Callable[[], Spec]
    honest: str


def normal(seed: int, shape: Any) -> tuple[Any, ...]:
    return (np.random.default_rng(seed).standard_normal(shape, np.float32),)


def wide(seed: int, shape: Any) -> tuple[Any, ...]:
    return (normal(seed, shape)[0] * np.float32(100 if seed else 1),)


def halves(seed: int, shape: Any) -> tuple[Any, ...]:
    return tuple(one.astype(HALF) for one in inputs(seed, shape))


def factors(seed: int, shape: Any) -> tuple[Any, ...]:
    k, m, n = shape
    return normal(seed, (k, m)) + normal(seed + 1, (k, n))


def counted(seed: int, shape: Any) -> tuple[Any, ...]:
    turns = np.random.default_rng(seed).integers(2, 9, (1, 1), np.int32)
    return (*normal(seed, shape), turns)


def softmax(x: Any) -> Any:
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return (e / e.sum(1, keepdims=True)).astype(np.float32)


def total(x: Any) -> Any:
    return x.sum(1, keepdims=True, dtype=np.float64).astype(np.float32)


def of_halves(a: Any, b: Any) -> Any:
    return (2 * a.astype(np.float32) + b.astype(np.float32)).astype(HALF)


def problem(honest: str, reference: Any, made: Any, shapes: list[Any], **more: Any) -> Problem:
    return Problem(
        lambda: Spec(reference, made, shapes, **{"tol": 1e-6, "seeds": 2, "secret": 0, **more}),
        honest,
    )


SUMS, SOME = [(256, 64), (128, 32)], [(128, 128), (128, 64)]
PROBLEMS = {
    "tests": Problem(spec, HONEST),
    "sums": problem(HONEST, lambda a, b: 2 * a + b, inputs, SUMS),
    "two cores": problem(CORES, lambda a, b: 2 * a + b, inputs, SUMS[:1], cores=2),
    "halves": problem(HALVES, of_halves, halves, SUMS),
    "product": problem(
        PRODUCT,
        lambda a, b: (a.T.astype(np.float64) @ b).astype(np.float32),
        factors,
        [(256, 64, 128), (384, 128, 64)],
        tol=2e-5,
    ),
    "softmax": problem(SOFTMAX, softmax, normal, SOME, tol=1e-5),
    "wide softmax": problem(SOFTMAX, softmax, wide, SOME, tol=1e-5),
    "total": problem(TOTAL, total, normal, SOME, tol=1e-5),
    "table": problem(TABLE, lambda x: x + np.arange(x.shape[1], dtype=np.float32), normal, SOME),
    "loop": problem(LOOP, lambda x, n: x * np.float32(n[0, 0]), counted, [(128, 8)], dynamic=True),
}
