"""Drivers of kernels for video: attention and caches of diffusion models, and warps of images."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
from references import softmax

from drivers.driver import HALF, Checkout, Result, drives, normal

FORCING = "yahavb/rolling_forcing"
WARPS = "yahavb/pave_univr_trn2_repro"
EXACT = 0.0


def kernels(checkout: Checkout, name: str) -> ModuleType:
    """Return the module of a file of kernels. The file imports a decorator from `utils`, which
    compiles for the device; a substitute for this module has only this decorator."""
    utils = sys.modules["utils"] = ModuleType("utils")
    vars(utils)["_compile"] = lambda function: function
    return checkout.module(f"kernels/{name}.py", ".")


def turned(x: Any, grid: Any) -> Any:
    """Return x [tokens, heads, size] with each pair of columns rotated. `grid` [tokens, 2 * size]
    has the cosines and then the sines."""
    cos, sin = np.split(grid, 2, axis=1)
    swapped = np.stack([x[..., 1::2], x[..., 0::2]], -1).reshape(x.shape)
    return x * cos[:, None] + swapped * sin[:, None]


@drives(FORCING)
def rotary_of_video(checkout: Checkout) -> Iterator[Result]:
    module = kernels(checkout, "rope")
    q, k, grid = normal(256, 12, 128), normal(256, 12, 128, seed=1), normal(256, 256, seed=2)
    yield Result("alone", module._causal_rope_rotation_nki(q, grid), turned(q, grid))
    both = module._causal_rope_rotation_qk_nki(q, k, grid)
    yield Result("q", both[0], turned(q, grid))
    yield Result("k", both[1], turned(k, grid))


@drives(FORCING)
def cache_of_keys_and_values(checkout: Checkout) -> Iterator[Result]:
    module = kernels(checkout, "kv_cache_copy")
    old, new = normal(2, 300, 12, 128), normal(2, 200, 12, 128, seed=1)
    want = np.concatenate([new, old[:, 200:]], axis=1)
    yield Result("one", module._cache_copy_kernel(old[0].copy(), new[0]), want[0], EXACT)
    both = module._kv_cache_copy_kernel(old[0].copy(), new[0], old[1].copy(), new[1])
    yield Result("both", both, want, EXACT)


@drives(FORCING)
def cache_of_a_convolution(checkout: Checkout) -> Iterator[Result]:
    module = kernels(checkout, "causal_conv3d_cache")
    old, new = normal(200, 64), normal(200, 100, seed=1)
    shifted = module._causal_conv3d_cache_update_shift_kernel(old.copy(), new[:, :32].copy(), 32)
    yield Result("shifted", shifted, np.concatenate([old[:, 32:], new[:, :32]], axis=1), EXACT)
    copied = module._causal_conv3d_cache_update_copy_kernel(old.copy(), new)
    yield Result("copied", copied, new[:, 36:], EXACT)


@drives(FORCING)
def layout_of_shards(checkout: Checkout) -> Iterator[Result]:
    current, cached = 60, 300  # rows of a shard: new tokens, and tokens in the cache
    x = normal(2 * (current + cached), 64)
    kernel = kernels(checkout, "restore_layout").restore_layout
    shards = np.split(x, 2)
    parts = [shard[:current] for shard in shards] + [shard[current:] for shard in shards]
    got = kernel(x, N=2, nfpb=3, max_frames=15, frame_seqlen=40)
    yield Result("out", got, np.concatenate(parts), EXACT)


def heads(count: int, queries: int, keys: int) -> tuple[Any, ...]:
    """Return q and k [heads, 128, tokens] and v [heads, tokens, 128] in bfloat16, and the result of
    attention [tokens, heads, 128] in float32."""
    sizes = ((queries, 0), (keys, 1), (keys, 2))
    q, k, v = (normal(count, n, 128, seed=seed).astype(ml_dtypes.bfloat16) for n, seed in sizes)
    single = [x.astype(np.float32) for x in (q, k, v)]
    scores = softmax(single[0] @ single[1].swapaxes(1, 2) / np.sqrt(128))
    columns = (np.ascontiguousarray(x.swapaxes(1, 2)) for x in (q, k))
    return (*columns, v, (scores @ single[2]).swapaxes(0, 1))


@drives(FORCING)
def attention_to_text(checkout: Checkout) -> Iterator[Result]:
    *given, want = heads(2, 256, 512)
    got = kernels(checkout, "cross_attention").wan_cross_attn(*given)
    yield Result("out", got, want, HALF)


@drives(FORCING, each=("nkilib's allocator", "a separate allocator"))
def attention_to_frames(checkout: Checkout, version: str) -> Iterator[Result]:
    own = version.startswith("an")
    kernel = kernels(
        checkout, "self_attention_nst" if own else "self_attention"
    ).wan_flash_self_attn
    *given, want = heads(3, 256, 2048)
    yield Result("out", kernel(*given), want, HALF)
    yield Result("dynamic loop", kernel(*given, use_dynamic_loop=True), want, HALF)
    unscaled, _, total = kernel(*given, return_partials=True)
    yield Result("of a ring", np.asarray(unscaled) / np.asarray(total), want, HALF)
    *given, want = heads(1, 256, 12288)
    yield Result("in sections", kernel(*given), want, HALF)


@drives(FORCING)
def attention_in_training(checkout: Checkout) -> Iterator[Result]:
    identity, scale = np.eye(128, dtype=ml_dtypes.bfloat16), 128**-0.5
    *given, want = heads(2, 256, 512)
    text = checkout.module("training/kernels/cross_attention.py").wan_cross_attn
    yield Result("text", text(*given, identity, scale), want, HALF)
    *given, want = heads(1, 256, 4096)
    mask = np.zeros((128, 4096), ml_dtypes.bfloat16)
    frames = checkout.module("training/kernels/self_attention.py").wan_flash_self_attn
    yield Result("frames", frames(*given, identity, mask, scale, 2), want, HALF)


# --- warps ----------------------------------------------------------------------------------------


def taps(height: int, width: int) -> tuple[Any, Any, Any]:
    """Return the pixels above and left of `height * width` random places, as rows and as columns.
    Also return the weights [4, places, 1] of the four pixels around each place."""
    random = np.random.default_rng(0)
    places = [random.uniform(0, size - 1, height * width) for size in (height, width)]
    above, left = (np.floor(place).astype(int) for place in places)
    down, right = ((place % 1).astype(np.float32)[:, None] for place in places)
    weights = [y * x for y in (1 - down, down) for x in (1 - right, right)]
    return above, left, np.stack(weights)


def neighbors(above: Any, left: Any, height: int, width: int) -> Any:
    """Return the indices [4, places] of the four pixels around each place. Pixels beyond an edge
    are replaced by pixels at the edge."""
    rows = (above, np.minimum(above + 1, height - 1))
    columns = (left, np.minimum(left + 1, width - 1))
    return np.stack([row * width + column for row in rows for column in columns])


@drives(WARPS)
def warp_by_shifts(checkout: Checkout) -> Iterator[Result]:
    height, width, radius = 150, 40, 2
    side = 2 * radius + 1
    image = normal(height + 2 * radius, width + 2 * radius, 3)
    weights = normal(side * side, height, width, seed=1)
    got = checkout.module("nki_shift_warp.py").shift_warp_band(image, weights)
    shifts = [(i, j) for i in range(side) for j in range(side)]
    shifted = (image[i : i + height, j : j + width] for i, j in shifts)
    yield Result("out", got, sum(x * w[..., None] for x, w in zip(shifted, weights, strict=True)))


@drives(WARPS, each=("nki_dma_warp", "resample_nki"))
def warp_by_gathers(checkout: Checkout, version: str) -> Iterator[Result]:
    height, width = 20, 30
    image = normal(height * width, 16)
    above, left, weights = taps(height, width)
    indices = neighbors(above, left, height, width)
    want = (weights * image[indices]).sum(axis=0)
    module = checkout.module(f"pave_univr/{version}.py")
    if version == "nki_dma_warp":
        given = indices.astype(np.uint32)[..., None]
        yield Result("out", module.bilinear_gather_blend(image, *given, *weights), want)
        return
    order = [0, 2, 1, 3]  # this kernel wants the pixel below before the pixel at the right
    given = indices.astype(np.int32)[order, :, None]
    yield Result("out", module.resample_gather_blend(image, *given, *weights[order]), want)


@drives(WARPS)
def warp_of_a_padded_image(checkout: Checkout) -> Iterator[Result]:
    height, width = 20, 30
    padded = np.pad(normal(height, width, 16), ((0, 1), (0, 1), (0, 0)), mode="edge")
    image = padded.reshape(-1, 16)
    above, left, weights = taps(height, width)
    indices = neighbors(above, left, height + 1, width + 1)
    down, right = weights[2] + weights[3], weights[1] + weights[3]
    first = indices[0].astype(np.uint32)[:, None]
    kernel = checkout.module("pave_univr/nki_dma_warp_v2.py").bilinear_gather_blend_v2
    got = kernel(image, first, right, down, width + 1)
    yield Result("out", got, (weights * image[indices]).sum(axis=0))


@drives(WARPS, each=("16", "64"))
def warp_by_pairs(checkout: Checkout, channels: str) -> Iterator[Result]:
    """Pixels with few channels are read in pairs; pixels with many channels are read in blocks of
    two by two."""
    height, width = 16, 32
    image = normal(height * width, int(channels))
    above, left, weights = taps(height, width)
    indices = neighbors(above, left, height, width)
    want = (weights * image[indices]).sum(axis=0)
    module = checkout.module("pave_univr/nki_dma_warp_v3.py")
    given = (image, indices[0].astype(np.uint32)[:, None], *weights, width)
    yield Result("out", module.bilinear_2x2_gather_blend(*given), want)
    yield Result("two tiles", module.bilinear_2x2_gather_blend_pipe(*given, 2), want)
