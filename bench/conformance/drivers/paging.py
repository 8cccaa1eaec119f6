"""Drivers of attention in servers: keys and values are in blocks of a cache, or in order up to the
last token."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
from references import softmax

from drivers.driver import HALF, ROUGH, Checkout, Result, drives, normal

KERNEL = "vllm/attention/ops/nki_flash_attn.py"
ZML = "zml/zml"
HEADS, SHARED, SIZE, TOKENS, BLOCK, USED, TILE = 4, 2, 64, 128, 32, 32, 1024


def vllm(checkout: Checkout) -> ModuleType:
    """Return the module of the kernel, with a substitute for vllm, which has many dependencies. The
    kernel uses only one function of vllm."""
    package, utils = (ModuleType(name) for name in ("vllm", "vllm.utils"))
    vars(utils)["cdiv"] = lambda a, b: -(-a // b)
    sys.modules.update({"vllm": package, "vllm.utils": utils})
    return checkout.module(KERNEL)


def blocks() -> tuple[Any, ...]:
    """Return q, k and v of the new tokens of one request, a cache of 64 blocks, the numbers of the
    blocks that the request uses, the mask, and the result of attention [heads, tokens, size]."""
    q, k = normal(1, HEADS, SIZE, TOKENS), normal(1, SHARED, SIZE, TOKENS, seed=1)
    v, cache = normal(1, SHARED, TOKENS, SIZE, seed=2), normal(2, 64, SHARED, BLOCK, SIZE, seed=3)
    table = np.random.default_rng(0).permutation(64)[:USED].astype(np.int32)
    seen = np.ones((TOKENS, USED * BLOCK), bool)
    mask = np.concatenate([seen, np.tri(TOKENS, dtype=bool)], axis=1)
    old = (part[table].swapaxes(0, 1).reshape(SHARED, -1, SIZE) for part in cache)
    both = zip(old, (k[0].swapaxes(1, 2), v[0]), strict=True)
    keys, values = (np.concatenate(parts, axis=1).repeat(HEADS // SHARED, axis=0) for parts in both)
    logits = q[0].swapaxes(1, 2) @ keys.swapaxes(1, 2) / np.float32(SIZE**0.5)
    return q, k, v, cache, table, mask, softmax(np.where(mask, logits, -1e30)) @ values


def paged(checkout: Checkout) -> Iterator[Result]:
    import torch

    module = vllm(checkout)
    *given, mask, want = blocks()
    ordered = module.reorder_context_mask(torch.from_numpy(mask), TILE, BLOCK).numpy()
    for mixed, allowed in ((False, ROUGH), (True, HALF)):
        sizes = {"n_kv_head": SHARED, "head_size": SIZE, "LARGE_TILE_SZ": TILE}
        got = module.flash_attn_varlen_nkifunc(*given, ordered, **sizes, mixed_precision=mixed)
        yield Result(f"mixed {mixed}", np.asarray(got)[0], want, allowed)


@drives("liangfu/vllm", target="trn1")
def paged_attention(checkout: Checkout) -> Iterator[Result]:
    yield from paged(checkout)


@drives("gnovack/vllm", target="trn1")
def later_paged_attention(checkout: Checkout) -> Iterator[Result]:
    yield from paged(checkout)


@drives("chzhdong/Adaptive-Batching", target="trn1")
def earlier_paged_attention(checkout: Checkout) -> Iterator[Result]:
    """This kernel takes separate caches of keys and values. The heads are the middle axis of their
    blocks."""
    q, k, v, cache, table, mask, want = blocks()
    caches = (np.ascontiguousarray(part.swapaxes(1, 2)) for part in cache)
    kernel = vllm(checkout).flash_attn_varlen_nkifunc
    sizes = {"n_kv_head": SHARED, "head_size": SIZE, "LARGE_TILE_SZ": TILE}
    got = kernel(q, k, v, *caches, table, mask, **sizes, mixed_precision=False)
    yield Result("out", np.asarray(got)[0], want, ROUGH)


@drives(ZML)
def prompt_and_step(checkout: Checkout) -> Iterator[Result]:
    import nki

    module = checkout.module("zml/attention/nki/attention.py")
    sizes = (HEADS, SHARED, SHARED)
    given = [
        normal(1024, heads, SIZE, seed=seed).astype(ml_dtypes.bfloat16)
        for seed, heads in enumerate(sizes)
    ]
    q, k, v = (x.astype(np.float32).repeat(HEADS // x.shape[1], 1).swapaxes(0, 1) for x in given)
    logits = q @ k.swapaxes(1, 2) / np.float32(SIZE**0.5)
    want = softmax(np.where(np.tri(1024, dtype=bool), logits, -1e30)) @ v
    yield Result("prompt", nki.jit(module.prefill)(*given), want.swapaxes(0, 1), HALF)
    last = 700
    step = nki.jit(module.decode)
    got = step(given[0][last : last + 1], *given[1:], np.full((1, 1), last, np.int32))
    yield Result("step", got, want[:, last : last + 1].swapaxes(0, 1), HALF)
