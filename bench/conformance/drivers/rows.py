"""Drivers of kernels that work on rows: normalization, softmax, activations, rotary embedding,
optimizers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from references import layer_norm, rms_norm, softmax

from drivers.driver import ROUGH, Checkout, Fault, Result, drives, normal, silu

HUB = "bbioren/hf-kernels-neuron"
AGENT = "roycho96/nki-kernel-agent"
INVENTED = "arminagha1234/trainium-optimizer"
COURSE = "arminagha1234/trainium-course-cluster"
GENERATED = "aws-neuron/torch2nki"
TUTORIAL = "scttfrdmn/aws-trainium-tutorial-for-research"
KLR = "leanprover/KLR"
EPS = 1e-5


@drives("allenkchau/trainium-kernel-fusion", target="trn1")
def softmax_of_rows(checkout: Checkout) -> Iterator[Result]:
    x = normal(256, 2048)
    got = checkout.module("kernels/baseline/softmax.py").softmax_kernel(x)
    yield Result("y", got, softmax(x))


@drives("iitaku/nki-llama")
def rms_norm_of_llama(checkout: Checkout) -> Iterator[Result]:
    x, gamma = normal(1, 300, 2048), normal(2048, seed=1)
    got = checkout.module("llama.py").nki_rmsnorm_kernel(x, gamma, EPS)
    yield Result("y", got, rms_norm(x, gamma, EPS))


@drives("aws-samples/nki-llama", target="trn1")
def rms_norm_of_samples(checkout: Checkout) -> Iterator[Result]:
    yield from rms_norm_of_llama(checkout)


@drives("yfzzzyyls/nki-llama-nyu", target="trn1")
def silu_and_product(checkout: Checkout) -> Iterator[Result]:
    a, b = normal(256, 4096), normal(256, 4096, seed=1)
    yield Result("y", checkout.module("kernel.py").nki_silu_mul(a, b), silu(a) * b)


# --- hf-kernels-neuron ----------------------------------------------------------------------------


@drives(HUB)
def rms_norm_of_hub(checkout: Checkout) -> Iterator[Result]:
    x, gamma = normal(300, 2048), normal(2048, seed=1)
    got = checkout.module("kernels/neuron_rmsnorm/__init__.py")._nki_rmsnorm_kernel(x, gamma, 1e-6)
    yield Result("y", got, rms_norm(x, gamma, 1e-6))


@drives(HUB)
def silu_of_hub(checkout: Checkout) -> Iterator[Result]:
    x = normal(300, 2048)
    got = checkout.module("kernels/neuron_silu/__init__.py")._nki_silu_kernel(x)
    yield Result("y", got, silu(x))


def turned(x: Any) -> Any:
    """Return x with the halves of the last axis exchanged, and the new first half negated, as a
    rotation of planes needs."""
    upper, lower = np.split(x, 2, -1)
    return np.concatenate([-lower, upper], -1)


@drives(HUB)
def rotary_of_hub(checkout: Checkout) -> Iterator[Result]:
    q, k = normal(1, 4, 256, 128), normal(1, 2, 256, 128, seed=1)
    cos, sin = (normal(1, 256, 128, seed=seed) for seed in (2, 3))
    got = checkout.module("kernels/neuron_rope/__init__.py")._nki_rope_hf(q, k, cos, sin)
    for name, result, x in zip("qk", got, (q, k), strict=True):
        yield Result(name, result, x * cos[:, None] + turned(x) * sin[:, None])


# --- written by agents ----------------------------------------------------------------------------

NO_INDEX_TENSORS = Fault(
    "UNKNOWN_NAME", "it takes index tensors, which left the API with neuronxcc.nki"
)


@drives(AGENT, faults={"": NO_INDEX_TENSORS})
def rotary(checkout: Checkout) -> Iterator[Result]:
    x, cos, sin = normal(128, 4096), normal(64, 4096, seed=1), normal(64, 4096, seed=2)
    upper, lower = np.split(x, 2)
    want = np.concatenate([upper * cos - lower * sin, lower * cos + upper * sin])
    module = checkout.module("nkibench_seeds/rope_single_freq_apply.py")
    yield Result("y", module.kernel(x, cos, sin), want)


@drives(AGENT, faults={"": NO_INDEX_TENSORS})
def sum_norm_and_product(checkout: Checkout) -> Iterator[Result]:
    x, more, gamma = normal(4096, 1024), normal(4096, 1024, seed=2), normal(1024, seed=3)
    weights = normal(1024, 2048, seed=1)
    module = checkout.module("nkibench_seeds/add_rmsnorm_matmul_M4096_N2048_K1024.py")
    want = rms_norm(x + more, gamma, EPS) @ weights
    yield Result("y", module.kernel(x, weights, EPS, more, gamma), want, ROUGH)


@drives(AGENT, faults={"": NO_INDEX_TENSORS})
def product_sum_and_norm(checkout: Checkout) -> Iterator[Result]:
    x, weights = normal(512, 1024), normal(1024, 2048, seed=1)
    more, gamma = normal(512, 2048, seed=2), normal(2048, seed=3)
    module = checkout.module("nkibench_seeds/matmul_add_rmsnorm_M4096_N2048_K2048.py")
    want = rms_norm(x @ weights + more, gamma, EPS)
    yield Result("y", module.kernel(x, weights, EPS, more, gamma), want, ROUGH)


OPERATORS = (
    "rope_apply",
    "gelu_tanh",
    "softcap",
    "add_rmsnorm",
    "layernorm",
    "attn_decode",
    "rmsnorm",
    "silu_gate",
    "softmax",
)


NUMBER = Fault("SIGNATURE", "it takes the root of a number by nl.sqrt, which is of tiles")
NEVER_RUN = dict.fromkeys(OPERATORS, NO_INDEX_TENSORS) | {"attn_decode": NUMBER}


@drives(INVENTED, each=OPERATORS, faults=NEVER_RUN)
def invented(checkout: Checkout, operator: str) -> Iterator[Result]:
    module = checkout.module("implementation/src/invent_kernels.py")
    (spec,) = module.resolve_ops([operator])
    given = spec.offline_inputs()
    got = module.author_kernel(spec).build()(*given.values())
    yield Result("y", got, spec.reference(given), ROUGH)


@drives(COURSE)
def exercise(checkout: Checkout) -> Iterator[Result]:
    x = normal(128, 512)
    got = checkout.module("pcs/examples/scale_by_two/kernel.py").scale_by_two(x)
    yield Result("y", got, 2 * x, 0.0)


WRITES_SBUF = Fault("BUFFER_KIND", "a language model wrote it: it stores to a tile in SBUF")


@drives(GENERATED, target="trn1", faults={"": WRITES_SBUF})
def vector_sum(checkout: Checkout) -> Iterator[Result]:
    folder = "generation/langchain_single_pass/langchain_files/langchain_outputs/"
    a, b = normal(128), normal(128, seed=1)
    yield Result(
        "y", checkout.module(folder + "vector_add_kernel.py").vector_add_kernel(a, b), a + b
    )


TOO_LARGE = Fault("CAPACITY", "its first axis, of size 1, is taken for the partitions: over SBUF")
STORES_SBUF = Fault("BUFFER_KIND", "it stores to a tile in SBUF")


@drives(TUTORIAL, faults={"": TOO_LARGE})
def layer_norm_of_a_tutorial(checkout: Checkout) -> Iterator[Result]:
    module = checkout.module("advanced/advanced_patterns_nki.py")
    x, gamma, beta = normal(1, 128, 512), normal(512, seed=1), normal(512, seed=2)
    got = module.optimized_layernorm_kernel(x, gamma, beta)
    yield Result("y", got, layer_norm(x, EPS, gamma, beta))


@drives(TUTORIAL, faults={"": STORES_SBUF})
def gelu_of_a_tutorial(checkout: Checkout) -> Iterator[Result]:
    x = normal(128, 512)
    want = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    module = checkout.module("advanced/advanced_patterns_nki.py")
    yield Result("y", module.fused_gelu_kernel(x), want)


OTHER_API = Fault("SIGNATURE", "its `nki` is KLR's own, whose instructions return what they write")


@drives(KLR, each=tuple("123456"), faults=dict.fromkeys("123456", OTHER_API))
def arithmetic(checkout: Checkout, number: str) -> Iterator[Result]:
    import nki

    module = checkout.module("interop/test/eval/kernels.py", "interop/test")
    x = normal(64, 64)
    want = {"1": x + 1, "2": x - 5, "3": x * 5, "4": x * 5 - 1, "5": 1 - x * 5, "6": x - 4}
    yield Result("y", nki.jit(getattr(module, f"kernel{number}"))(x), want[number])
