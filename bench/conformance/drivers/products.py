"""Drivers of matrix products: alone, in chains, and fused with operations before or after them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from references import add, product, rms_norm, wide

from drivers.driver import (
    HALF,
    ROUGH,
    SINGLE,
    Checkout,
    Fault,
    Result,
    drives,
    narrow,
    normal,
    silu,
)

CHAINS = "dinghongsong/NeuronMM"
FUSION = "allenkchau/trainium-kernel-fusion"
TUNED = "awslabs/nki-autotune"
GENERATED = "aws-neuron/torch2nki"
HELPERS = "EmilyWebber/nki-helpers"
LLAMA, NYU = "iitaku/nki-llama", "yfzzzyyls/nki-llama-nyu"
# versions in nki-samples
TUTORIAL = ("tiled", "hoist_load", "block_free_dimension", "fully_optimized")


def chained(*factors: Any) -> Any:
    first, *others = wide(*factors)
    for other in others:
        first = first @ other
    return first


def mlp_weights() -> tuple[Any, Any, Any]:
    return normal(256, 512), normal(512, 1024, seed=1) * np.float32(0.05), normal(1024, seed=2)


@drives(FUSION, target="trn1")
def mlp(checkout: Checkout) -> Iterator[Result]:
    module, given = checkout.module("kernels/baseline/mlp_gemm.py"), mlp_weights()
    yield Result("y", module.mlp_baseline(*given), module.mlp_reference(*given), ROUGH)


@drives(FUSION, target="trn1", each=("pwl", "taylor"))
def fused_mlp(checkout: Checkout, mode: str) -> Iterator[Result]:
    module, given = checkout.module("kernels/fused/mlp.py"), mlp_weights()
    yield Result("y", module.mlp_fused(*given, mode=mode), module.numpy_mlp(*given), 2e-3)


# --- nki-helpers: grids over cores ----------------------------------------------------------------


@drives(HELPERS, each=("1", "2", "3", "4"))
def addition_on_cores(checkout: Checkout, cores: str) -> Iterator[Result]:
    module = checkout.module("tensor_add/tensor_add_spmd_nc4.py")
    a, b = normal(1024, 4096), normal(1024, 4096, seed=1)
    # the kernel rounds the grid down, so later rows are not written
    rows = 1024 - 1024 % (128 * int(cores))
    got = module.nki_tensor_add_nc(a, b, num_cores=int(cores))
    yield Result("c", got[:rows], add(a, b)[:rows], 0.0)


@drives(HELPERS)
def product_on_a_core(checkout: Checkout) -> Iterator[Result]:
    module = checkout.module("matmul/nki_matmul_spmd.py")
    a, b = normal(128, 128), normal(128, 128, seed=1)
    yield Result("c", module.nki_matmul_nc(a, b, num_cores=1), product(a, b))


# --- two entries of a contest: nki-llama and nki-llama-nyu ----------------------------------------


@drives(LLAMA)
def thin(checkout: Checkout) -> Iterator[Result]:
    a, b = normal(512, 64), normal(512, 1200, seed=1)
    yield Result("y", checkout.module("llama.py").nki_thin_gemm(a, b), product(a, b))


@drives(LLAMA)
def blocked(checkout: Checkout) -> Iterator[Result]:
    a, b = normal(512, 300), normal(512, 1000, seed=1)
    yield Result("y", checkout.module("llama.py").nki_blocked_gemm(a, b), product(a, b))


@drives(LLAMA)
def fused_gate_and_up(checkout: Checkout) -> Iterator[Result]:
    x, *weights = normal(512, 64), normal(512, 1024, seed=1), normal(512, 1024, seed=2)
    got = checkout.module("llama.py").nki_fused_gate_up_gemm(x, *weights)
    for name, result, weight in zip(("gate", "up"), got, weights, strict=True):
        yield Result(name, result, product(x, weight))


@drives(LLAMA)
def fused_q_k_and_v(checkout: Checkout) -> Iterator[Result]:
    x, sizes = normal(512, 64), (1024, 256, 256)
    weights = [normal(512, size, seed=seed) for seed, size in enumerate(sizes, 1)]
    got = checkout.module("llama.py").nki_fused_qkv_separate_gemm(x, *weights)
    for name, result, weight in zip("qkv", got, weights, strict=True):
        yield Result(name, result, product(x, weight))


@drives(LLAMA)
def fused_swiglu_and_down(checkout: Checkout) -> Iterator[Result]:
    gate, up, down = normal(512, 64), normal(512, 64, seed=1), normal(512, 1024, seed=2)
    got = checkout.module("llama.py").nki_fused_swiglu_down(gate, up, down)
    yield Result("y", got, product(silu(gate) * up, down))


LOADS_SBUF = Fault("BUFFER_KIND", "it loads from a tile in SBUF; its comments call it unfinished")


@drives(LLAMA, faults={"": LOADS_SBUF})
def fused_norm_and_product(checkout: Checkout) -> Iterator[Result]:
    x, weights, gamma = normal(64, 512), normal(512, 1024, seed=1), normal(512, seed=2)
    got = checkout.module("llama.py").nki_fused_rmsnorm_thin_gemm(x, weights, gamma, 1e-5)
    yield Result("y", got, rms_norm(x, gamma, 1e-5) @ weights)


@drives(NYU, target="trn1")
def product_of_two_programs(checkout: Checkout) -> Iterator[Result]:
    kernel = checkout.module("spmd_kernel.py").nki_matmul_fully_optimized_spmd_
    a, b = normal(1024, 256), normal(1024, 2048, seed=1)
    yield Result("y", kernel[2](a, b, 1, 4, 8), product(a, b))


@drives(NYU, target="trn1")
def projection_of_two_programs(checkout: Checkout) -> Iterator[Result]:
    kernel = checkout.module("spmd_kernel.py").nki_matmul_fully_optimized_spmd_proj_fused
    a, b = normal(2048, 256), normal(2048, 1024, seed=1)
    yield Result("y", kernel[2](a, b, 1, 2, 16), product(a, b))


@drives(NYU, target="trn1")
def product_of_one_program(checkout: Checkout) -> Iterator[Result]:
    kernel = checkout.module("kernel.py").nki_matmul_fully_optimized_
    a, b = normal(2048, 128), normal(2048, 8192, seed=1)
    yield Result("y", kernel(a, b), product(a, b))


# --- NeuronMM: chains -----------------------------------------------------------------------------


@drives(CHAINS)
def chain_of_three(checkout: Checkout) -> Iterator[Result]:
    kernel = checkout.module("models/nki_kernels.py").XUV_matmul
    given = normal(512, 256), normal(256, 256, seed=1), normal(256, 1024, seed=2)
    yield Result("float32", kernel(*given, False), chained(*given))
    yield Result("bfloat16", kernel(*given), chained(*given), HALF)


@drives(CHAINS)
def tiled(checkout: Checkout) -> Iterator[Result]:
    a, b = normal(256, 256), normal(256, 512, seed=1)
    kernel = checkout.module("models/nki_kernels.py").nki_matmul_tiled_basic
    yield Result("y", kernel(a, b), product(a, b))


@drives(CHAINS)
def kernels_in_a_kernel(checkout: Checkout) -> Iterator[Result]:
    a, b, c = normal(256, 256), normal(256, 256, seed=1), normal(256, 512, seed=2)
    kernel = checkout.module("models/nki_kernels.py").three_mm_unfused
    yield Result("y", kernel(a, b, c), product(product(a, b), c), ROUGH)


@drives(CHAINS)
def profiled_chain(checkout: Checkout) -> Iterator[Result]:
    kernel = checkout.module("profiler/nki_profiler.py").fused_three_mm_XTUV
    shapes = (1024, 4096), (1024, 1024), (1024, 2048)
    x, *uv = (normal(*shape, seed=i) * np.float32(0.1) for i, shape in enumerate(shapes))
    yield Result("y", kernel(x, *uv), chained(x.T, *uv), 2 * HALF)


@drives(CHAINS)
def profiled_product(checkout: Checkout) -> Iterator[Result]:
    kernel = checkout.module("profiler/nki_profiler.py").nki_matmul_fully_optimized_
    a, b = normal(2048, 2048), normal(2048, 2048, seed=1)
    yield Result("y", kernel(a, b), product(a, b), HALF)


@drives(CHAINS)
def profiled_mlp(checkout: Checkout) -> Iterator[Result]:
    kernel = checkout.module("profiler/nki_profiler.py").fused_mlp_up_T
    x, *weights = (
        normal(*shape, seed=i) * np.float32(0.1)
        for i, shape in enumerate(((1024, 1024), (1024, 1024), (1024, 1024)) * 2)
    )
    gate, up = chained(x, *weights[:2]), chained(x, *weights[2:4])
    yield Result("y", kernel(x, *weights[:4]), (silu(gate) * up).T, 2 * HALF)


# --- nki-autotune ---------------------------------------------------------------------------------


@drives(TUNED)
def by_hand(checkout: Checkout) -> Iterator[Result]:
    file = "kernel_library/matmul/lhsT_rhs/kernel_hand_90.92mfu.py"
    a, b = narrow(2048, 2048), narrow(2048, 2048, seed=1)
    got = checkout.module(file).matmul_lhsT_rhs_nkigym(a, b)
    yield Result("y", got, product(a, b), HALF)


@drives(TUNED)
def by_hand_untransposed(checkout: Checkout) -> Iterator[Result]:
    file = "kernel_library/matmul/lhs_rhs/kernel_handtuned_89.26mfu.py"
    a, b = narrow(2048, 2048), narrow(2048, 2048, seed=1)
    yield Result("y", checkout.module(file).matmul_lhs_rhs_nkigym(a, b), chained(a, b), HALF)


@drives(TUNED)
def norm_and_product(checkout: Checkout) -> Iterator[Result]:
    module = checkout.module("kernel_library/rmsnorm_matmul/kernel_hand_online.py")
    a, b = narrow(2048, 2048), narrow(2048, 2048, seed=1)
    want = chained(rms_norm(a, np.ones(2048), 1e-6), b)
    yield Result("y", module.rmsnorm_matmul_online(a, b), want, HALF)


BANKS = Fault("CAPACITY", "its sums need 128 KiB per partition, and PSUM has 16 KiB")


@drives(TUNED, each=("0", "1", "5", "15"), faults=dict.fromkeys("015", BANKS))
def transformed(checkout: Checkout, step: str) -> Iterator[Result]:
    kernel = getattr(checkout.module("kernel_transforms.py", "nkigym/src"), f"kernel_{step}")
    a, b = normal(2048, 2048), normal(2048, 2048, seed=1)
    yield Result("y", kernel(a, b), product(a, b), 2 * HALF)


UNFINISHED = Fault("AssertionError", "it ends in `assert False` for a result in HBM")


@drives("thustorage/NKI-MoE", faults={"": UNFINISHED})
def vector_and_matrix(checkout: Checkout) -> Iterator[Result]:
    module = checkout.module("kernels/attention/ours/gemv.py")
    x, weights = narrow(1, 1, 1024), narrow(1024, 1280, seed=1)
    want = chained(x[0], weights).T
    yield Result("y", module.gemv_nki(x, weights), want, HALF)


# --- copies of the tutorial's kernels -------------------------------------------------------------


@drives(GENERATED, target="trn1", each=TUTORIAL)
def sample(checkout: Checkout, version: str) -> Iterator[Result]:
    module = checkout.module("evaluation/samples/matrix_multiplication_nki_kernels.py")
    a, b = narrow(1024, 2048), narrow(1024, 2048, seed=1)
    yield Result("y", getattr(module, f"nki_matmul_{version}_")(a, b), product(a, b), HALF)


@drives("ucb-152/lab6", target="trn1", each=TUTORIAL)
def lab(checkout: Checkout, version: str) -> Iterator[Result]:
    module = checkout.module("nki_ffnn/matmul_kernels.py")
    a, b = normal(1024, 2048), normal(1024, 2048, seed=1)
    yield Result("y", getattr(module, f"nki_matmul_{version}_")(a, b), product(a, b))


NO_SHAPE = Fault("SIGNATURE", "a language model wrote it: PSUM has no tensor without axes")


@drives(GENERATED, target="trn1", faults={"": NO_SHAPE})
def inner_product(checkout: Checkout) -> Iterator[Result]:
    a, b = normal(64), normal(64, seed=1)
    got = checkout.module("evaluation/samples/dot_product_kernel.py").nki_dot_product(a, b)
    yield Result("y", got, a @ b, SINGLE)
