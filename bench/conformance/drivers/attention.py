"""Drivers of attention: over all tokens, in a window, to other tokens, and with a latent cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from references import softmax, wide

from drivers.driver import HALF, ROUGH, SINGLE, Checkout, Fault, Result, drives, narrow, normal

CONTRIBUTED = "aws-neuron/neuronx-distributed-inference"
OPTIMUM = "huggingface/optimum-neuron"
TUTORIAL = "scttfrdmn/aws-trainium-tutorial-for-research"
FUSION = "allenkchau/trainium-kernel-fusion"


def windowed(logits: Any, width: int | None = None) -> Any:
    """Return logits [..., S, S] with -1e9 for the keys that a query does not see. A query sees its
    own key and all before it, or the last `width` of these."""
    seen = np.tri(logits.shape[-1], dtype=bool)
    if width is not None:
        seen &= ~np.tri(logits.shape[-1], k=-width, dtype=bool)
    return np.where(seen, logits, -1e9)


@drives("Willy-Chan/trainium-linear-attention", target="trn1")
def sliding_window(checkout: Checkout) -> Iterator[Result]:
    batch, length, size, width = 2, 256, 128, 64
    module = checkout.module("kernels/nki_attention_sliding.py")
    kernel, padded, _, keys, mask = module.get_sliding_window_kernel(length, size, batch, width)
    q, k, v = (normal(batch, length, size, seed=seed) for seed in range(3))
    before = ((0, 0), (keys - padded, 0), (0, 0))
    scale = np.float32(size**-0.5)
    got = kernel(q * scale, np.pad(k, before), np.pad(v, before), mask)
    yield Result("out", got, softmax(windowed(q @ k.swapaxes(1, 2) * scale, width)) @ v)


@drives(FUSION, target="trn1", each=("baseline", "fused"))
def fusion(checkout: Checkout, version: str) -> Iterator[Result]:
    module = checkout.module(f"kernels/{version}/attention.py")
    q, k, v = (normal(128, 512, seed=seed) for seed in range(3))
    got = getattr(module, f"{version}_attention")(q, k, v)
    yield Result("out", got, module.numpy_attention(q, k, v), ROUGH)


@drives(CONTRIBUTED)
def flash_in_a_window(checkout: Checkout) -> Iterator[Result]:
    length, size, width = 1024, 128, 256
    module = checkout.module(
        "src/neuronx_distributed_inference/modules/sliding_window/attention.py", "src"
    )
    q, k, v = (normal(1, 1, length, size, seed=seed) * 0.5 for seed in range(3))
    columns = (np.ascontiguousarray(x.swapaxes(2, 3)) for x in (q, k))
    got = module.flash_fwd[1, 1](
        *columns,
        v,
        softmax_scale=size**-0.5,
        use_causal_mask=True,
        window_size=(width - 1, -1),
        config=module.FlashConfig(seq_tile_size=512),
    )
    logits = windowed(q @ k.swapaxes(2, 3) * size**-0.5, width)
    yield Result("out", got, softmax(logits) @ v, HALF)


@drives(CONTRIBUTED)
def cross_attention_of_ltx2(checkout: Checkout) -> Iterator[Result]:
    folder = "contrib/models/ltx2-video-audio/src/"
    module = checkout.module(folder + "nki_cross_attention_kernel.py")
    q, k, v = (normal(2, 1024, 128, seed=seed) for seed in range(3))
    q = q * np.float32(128**-0.5)
    bias = np.where(normal(2, 1024, seed=3) > 0, 0, -10000).astype(np.float32)
    want = softmax(q @ k.swapaxes(1, 2) + bias[:, None]) @ v
    yield Result("out", module.cross_attn_kernel(q, k, v, bias), want, HALF)


@drives(CONTRIBUTED)
def latent_attention_of_glm(checkout: Checkout) -> Iterator[Result]:
    heads, length, rotated, latent, out = 2, 512, 64, 512, 256
    module = checkout.module("contrib/models/GLM-5.2/src/mla_attention_nki_kernel.py")
    q_rotated, q = normal(heads, rotated), normal(heads, latent, seed=1)
    cache = normal(1, length, rotated + latent, seed=2)
    values = normal(heads, out, latent, seed=3) * np.float32(0.05)
    mask = (np.arange(length) < 400).astype(np.uint8)[None].repeat(heads, 0)
    got = module.mla_attention_tkg(q_rotated, q, cache, values, mask)
    logits = q_rotated @ cache[0, :, :rotated].T + q @ cache[0, :, rotated:].T
    seen = softmax(np.where(mask, logits * 0.0625, -1e9)) @ cache[0, :, rotated:]
    yield Result("out", got, np.einsum("hvc,hc->hv", values, seen), 2 * HALF)


@drives(OPTIMUM)
def flash_with_wide_heads(checkout: Checkout) -> Iterator[Result]:
    import torch
    from torch_neuronx.xla_impl.ops import nki_jit

    folder = "optimum/neuron/models/inference/backend/modules/attention/"
    module = checkout.module(folder + "flash_attention_nki.py")
    q, k, v = (normal(2, 2048, 256, seed=seed) * 0.5 for seed in range(3))
    q = q / np.float32(16)
    out = torch.zeros(2, 256, 2048)
    columns = (np.ascontiguousarray(x.swapaxes(1, 2)) for x in (q, k))
    arguments = [torch.from_numpy(x) for x in (*columns, v)]
    launch = nki_jit()(module.flash_fwd_large_d)
    launch(*arguments, 1.0, out, use_causal_mask=True, sliding_window=0)
    want = softmax(windowed(q @ k.swapaxes(1, 2))) @ v
    yield Result("out", out.numpy(), want.swapaxes(1, 2), HALF)


CLOSED = Fault("NotEmulated", "it calls a kernel that only the vendor's compiler package has")


@drives(OPTIMUM, faults={"": CLOSED})
def output_projection_of_flux(checkout: Checkout) -> Iterator[Result]:
    folder = "optimum/neuron/models/inference/flux/flux_transformer_2d/modules/"
    kernel = checkout.module(folder + "kernels.py").matmul_o_proj_kernel
    x, weights = normal(1, 128, 256), normal(128, 512, seed=1)
    yield Result("out", kernel(x, weights), x.swapaxes(1, 2) @ weights)


@drives("iitaku/nki-llama")
def flash_of_llama(checkout: Checkout) -> Iterator[Result]:
    q, k, v = (narrow(1, 2, 128, 64, seed=seed) for seed in range(3))
    columns = (np.ascontiguousarray(x.swapaxes(2, 3)) for x in (q, k))
    got = checkout.module("llama.py").flash_attention_fwd(*columns, v)
    q, k, v = wide(q, k, v)
    logits = q @ k.swapaxes(2, 3) / np.sqrt(64)
    yield Result("out", got, softmax(windowed(logits)) @ v, HALF)


@drives("iitaku/nki-llama")
def decoding_of_llama(checkout: Checkout) -> Iterator[Result]:
    q, k, v = normal(1, 2, 1, 64), normal(1, 2, 256, 64, seed=1), normal(1, 2, 256, 64, seed=2)
    seen = (np.arange(256) < 200).reshape(1, 1, 1, 256)
    keys = np.ascontiguousarray(k.swapaxes(2, 3))
    got = checkout.module("llama.py").flash_decode_kernel(q, keys, v, np.float32(seen))
    yield Result("out", got, softmax(np.where(seen, q @ keys / np.sqrt(64), -1e9)) @ v)


NO_TRANSPOSE = Fault("UNKNOWN_NAME", "tensors on the chip have no method transpose in any release")


@drives(TUTORIAL, faults={"": NO_TRANSPOSE})
def flash_of_a_tutorial(checkout: Checkout) -> Iterator[Result]:
    module = checkout.module("advanced/advanced_patterns_nki.py")
    q, k, v = (normal(1, 128, 64, seed=seed) for seed in range(3))
    want = softmax(q @ k.swapaxes(1, 2) * 0.125) @ v
    yield Result("out", module.flash_attention_kernel(q, k, v, 0.125), want, SINGLE)
