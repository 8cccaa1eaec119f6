"""Drivers of small studies: kernels whose results do not depend on the batch, products that skip
zeros, and first kernels of language models and students."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
from references import rms_norm, softmax

from drivers.driver import HALF, ROUGH, Checkout, Fault, Result, drives, normal

BATCHES = "jlonge4/nki-samples"
ZEROS = "lklkevin/trn2-exps"
SUMS = "LaelaZorana/kernel-grader-mi300x-rocm-trainium-nki"
AGENT = "aws-samples/sample-ATX-custom-NKI-Agent"
SKILLS = "aws-neuron/neuron-agentic-development"
STUDENTS = "elidbc/trn2-moe"
BLAS = "trnsci/trnblas"
SIZES = ("fixed tiles", "smaller tiles")


@drives(BATCHES, each=SIZES)
def attention_in_any_batch(checkout: Checkout, tiles: str) -> Iterator[Result]:
    file = "batch_invariance/kernels/attention_batch_invariant.py"
    kernel, fixed = checkout.module(file).nki_attention_kernel_isa, tiles == SIZES[0]
    q, k, v = normal(256, 128), normal(512, 128, seed=1), normal(512, 128, seed=2)
    bias = np.where(normal(256, 512, seed=3) > 0, 0, np.float32(-1e9))
    logits = q @ k.T / np.float32(128**0.5)
    yield Result("biased", kernel(q, k, v, fixed, bias), softmax(logits + bias) @ v)
    halves = (x.astype(ml_dtypes.bfloat16) for x in (q, k, v))
    yield Result("bfloat16", kernel(*halves, fixed), softmax(logits) @ v, HALF)


@drives(BATCHES, each=SIZES)
def product_and_norm_in_any_batch(checkout: Checkout, tiles: str) -> Iterator[Result]:
    home, fixed = "batch_invariance/kernels", tiles == SIZES[0]
    a, b, gamma = normal(256, 128), normal(256, 256, seed=1), normal(320, seed=2)
    product = checkout.module(f"{home}/matmul_batch_invariant.py").nki_matmul_kernel_isa
    yield Result("product", product(a, b, deterministic=fixed), a.T @ b)
    x = normal(200, 320, seed=3)
    norm = checkout.module(f"{home}/rmsnorm_batch_invariant.py").nki_rmsnorm_kernel_isa
    yield Result("norm", norm(x, gamma, fixed), rms_norm(x, gamma))


@drives(ZEROS)
def products_without_zeros(checkout: Checkout) -> Iterator[Result]:
    module = checkout.module("kernels/matmul_skip_zeros.py")
    a, b = normal(256, 384), normal(256, 256, seed=1)
    a[:, :128] = 0
    yield Result("all", module.matmul_full(a, b), a.T @ b)
    yield Result("zeros stored", module.make_skip_kernel(1, 3)(a, b), a.T @ b)
    got = module.make_skip_kernel_no_store(1, 3)(a, b)
    yield Result("zeros left out", got[128:], (a.T @ b)[128:])


REPEATED = Fault(
    "LOOP_CARRIED",
    "iterations of an affine_range store the same tiles, which the documentation refuses "
    "(err_unexpected_output_dependencies); no record of its runs is published",
)


@drives(ZEROS, faults={"": REPEATED})
def products_that_load_zeros(checkout: Checkout) -> Iterator[Result]:
    module = checkout.module("kernels/matmul_skip_zeros.py")
    a, b = normal(256, 384), normal(256, 256, seed=1)
    got, _ = module.make_skip_kernel_load_only(1, 3)(a, b)
    yield Result("out", got, a.T @ b)


@drives(SUMS)
def sums_of_bins(checkout: Checkout) -> Iterator[Result]:
    import nki

    module = checkout.module("kernel-nki/histogram_nki.py")
    a, b, weights = normal(128, 512), normal(128, 512, seed=1), np.abs(normal(4096, 128, seed=2))
    yield Result("sum", module.tensor_add_kernel(a, b), a + b, 0)
    got = nki.simulate(module.bin_sum_kernel)(weights)
    yield Result("bins", got, weights.sum(axis=1, keepdims=True, dtype=np.float64))


@drives(AGENT, target="trn1")
def rows_of_an_agent(checkout: Checkout) -> Iterator[Result]:
    x = normal(256, 512)
    norm = checkout.module("examples/cuda_rmsnorm_migration/nki_rmsnorm_output.py").nki_kernel
    yield Result("norm", norm(x), rms_norm(x, np.float32(1), 1e-6))
    yield Result(
        "softmax", checkout.module("examples/nki_softmax_output.py").nki_kernel(x), softmax(x)
    )


@drives(SKILLS)
def product_of_any_size(checkout: Checkout) -> Iterator[Result]:
    a, b = normal(200, 150), normal(200, 700, seed=1)
    module = checkout.module("skills/neuron-nki-writing/examples/simple_matmul.py")
    yield Result("out", module.simple_matmul(a, b), a.T @ b)


@drives(STUDENTS)
def products_of_students(checkout: Checkout) -> Iterator[Result]:
    module = checkout.module("gemm_nki.py")
    a, b, x = normal(256, 128), normal(256, 1024, seed=1), normal(128, 1, seed=2)
    yield Result("tiles", module.tiled_gemm_nki_kernel(a, b), a.T @ b)
    yield Result("vector", module.matrix_vector_mul_kernel(a[:128, :64], x), a[:128, :64].T @ x)


@drives(BLAS)
def linear_algebra(checkout: Checkout) -> Iterator[Result]:
    module = checkout.module("trnblas/nki/dispatch.py")
    a, b = normal(256, 256), normal(256, 1024, seed=1)
    yield Result("gemm", module._gemm_kernel(a, b), a @ b)
    yield Result("syrk", module._syrk_kernel(a), a @ a.T)


@drives(BLAS)
def energy_of_pairs(checkout: Checkout) -> Iterator[Result]:
    """The energy of second-order Moller-Plesset perturbation theory, for pairs of two and three
    occupied orbitals and 144 empty orbitals."""
    module = checkout.module("trnblas/nki/dispatch.py")
    t = normal(2 * 144, 3 * 144)
    first, second = -1 - np.abs(normal(2, seed=1)), -1 - np.abs(normal(3, seed=2))
    empty = 1 + np.abs(normal(144, seed=3))
    got = module._mp2_energy_kernel(t, first[None], second[None], empty[:, None], empty[None])
    pairs = t.reshape(2, 144, 3, 144).swapaxes(1, 2).astype(np.float64)
    gaps = first[:, None, None, None] + second[:, None, None] - empty[:, None] - empty
    want = (pairs * (2 * pairs - pairs.swapaxes(2, 3)) / gaps).sum()
    yield Result("energy", np.asarray(got, np.float64).sum(), want, ROUGH)
