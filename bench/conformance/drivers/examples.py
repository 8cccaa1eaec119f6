"""Drivers of the examples of triton-viz, a visualizer that interprets kernels itself, for trn1."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from references import product, rms_norm, softmax

from drivers.driver import Checkout, Fault, Result, drives, normal
from drivers.rows import turned

VISUALISER = "Deep-Learning-Profiling-Tools/triton-viz"
NEWER = ("add", "matmul", "mlp", "rmsnorm", "rope", "softmax", "tiled_attention")
OR = Fault("SIGNATURE", "it combines masks by |, but the API only has &")


@drives(VISUALISER, target="trn1", each=NEWER)
def demonstration(checkout: Checkout, example: str) -> Iterator[Result]:
    """Run the example's own demonstration, as on the device. It asserts that the result agrees with
    numpy's."""
    module = checkout.module(f"examples/nki_beta2/{example}.py")
    vars(module)["TRITON_VIZ_ENABLED"] = False
    module._run_demo()
    yield from ()


@drives(VISUALISER, target="trn1", each=("matmul_kernel", "matmul_kernel_lhsT"))
def older_product(checkout: Checkout, kernel: str) -> Iterator[Result]:
    from neuronxcc import nki

    # integers, because the kernel sums in int32
    a, b = (np.rint(4 * normal(*shape)) for shape in ((64, 96), (96, 80)))
    out = np.zeros((64, 80), np.float32)
    module = checkout.module("examples/nki/matmul.py")
    lhs = np.ascontiguousarray(a.T) if kernel.endswith("T") else a
    nki.simulate_kernel(nki.jit(getattr(module, kernel), kernel_return=False), lhs, b, out)
    yield Result("result", out, product(a.T, b))


NEWAXIS = Fault(
    "SIGNATURE", "it indexes a tile with None, which works only in its own interpreter (numpy)"
)


@drives(VISUALISER, target="trn1", faults={"": NEWAXIS})
def older_rms_norm(checkout: Checkout) -> Iterator[Result]:
    from neuronxcc import nki

    x, gamma, out = normal(250, 512), normal(512, seed=1), np.zeros((250, 512), np.float32)
    kernel = checkout.module("examples/nki/rmsnorm.py").nki_rmsnorm_kernel
    nki.simulate_kernel(nki.jit(kernel, kernel_return=False), x, gamma, out)
    yield Result("result", out, rms_norm(x, gamma, 1e-5))


PARTITIONS = Fault(
    "SHAPE_MISMATCH", "it writes 128 partitions to one partition, because a block axis is missing"
)


@drives(VISUALISER, target="trn1", faults={"": PARTITIONS})
def older_rotary(checkout: Checkout) -> Iterator[Result]:
    from neuronxcc import nki

    q, k = normal(2, 128, 64), normal(2, 128, 64, seed=1)
    cos, sin = normal(128, 64, seed=2), normal(128, 64, seed=3)
    kernel = nki.jit(checkout.module("examples/nki/rope.py").nki_rope_kernel, kernel_return=False)
    results = np.zeros_like(q), np.zeros_like(k)
    nki.simulate_kernel(kernel[2], q, k, cos, sin, *results)
    for name, result, x in zip("qk", results, (q, k), strict=True):
        yield Result(name, result, x * cos + turned(x) * sin)


@drives(VISUALISER, target="trn1", faults={"": OR})
def older_softmax(checkout: Checkout) -> Iterator[Result]:
    from neuronxcc import nki

    x, out = normal(16, 32), np.zeros((16, 32), np.float32)
    kernel = checkout.module("examples/nki/softmax.py").softmax_kernel
    nki.simulate_kernel(nki.jit(kernel, kernel_return=False), x, out)
    yield Result("result", out, softmax(x))
