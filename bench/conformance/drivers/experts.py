"""Drivers of mixtures of experts, and of other kernels that a team of the Qwen3-30B-A3B contest
wrote for trn3."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from references import rms_norm

from drivers.driver import HALF, SINGLE, Checkout, Result, drives, normal, silu

TEAM = "charleshong3/nki-moe-7013"
STUDENTS = "elidbc/trn2-moe"
EPS = 1e-6
TWICE_HALF = 2 * HALF  # two products, whose factors are rounded to bfloat16


def halves(*shape: int, seed: int = 0, scale: float = 1.0) -> Any:
    return (normal(*shape, seed=seed) * np.float32(scale)).astype(ml_dtypes.bfloat16)


def single(*arrays: Any) -> Any:
    return [np.asarray(array, np.float32) for array in arrays]


def team(checkout: Checkout) -> ModuleType:
    return checkout.module("qwen_with_nki.py")


def gated(y: Any) -> Any:
    """Return silu of the first half of the columns, times the second half."""
    gate, up = np.split(y, 2, axis=-1)
    return silu(gate) * up


def mixed(x: Any, gate_up: Any, down: Any, affinities: Any) -> Any:
    """Return the sum of the experts' results for x, weighted by their affinities."""
    x, gate_up, down, affinities = single(x, gate_up, down, affinities)
    return (affinities[:, None] * (gated(x @ gate_up) @ down)).sum(axis=0)


def eight() -> tuple[Any, ...]:
    """Return gate_up, down and affinities of eight experts, each a fourth of the model's size."""
    gate_up = halves(8, 2048, 384, seed=1, scale=0.02)
    down = halves(8, 192, 2048, seed=2, scale=0.05)
    return gate_up, down, np.full((8, 1), 0.125, ml_dtypes.bfloat16)


@drives(TEAM, target="trn3")
def norm_and_embedding(checkout: Checkout) -> Iterator[Result]:
    x, gamma, words = halves(200, 2048), halves(2048, seed=1), halves(1000, 2048, seed=2)
    module, (wide_x, wide_gamma) = team(checkout), single(x, gamma)
    want = rms_norm(wide_x, wide_gamma, EPS)
    yield Result("norm", module._nki_rmsnorm_kernel(x, gamma, EPS), want, HALF)
    chosen = np.array([[3], [999], [0], [3]], np.uint32)
    yield Result("words", module._nki_embedding_kernel(words, chosen), words[chosen[:, 0]], 0)


@drives(TEAM, target="trn3")
def logits_of_one_token(checkout: Checkout) -> Iterator[Result]:
    """The kernel computes 2,048 columns at once, in four banks of PSUM."""
    x, weight = halves(1, 2048), halves(37984, 2048, seed=1, scale=0.02)
    wide_x, wide_weight = single(x, weight)
    got = team(checkout)._nki_lm_head_kernel(x, weight)
    yield Result("logits", got, wide_x @ wide_weight.T, HALF)


@drives(TEAM, target="trn3")
def experts_of_one_token(checkout: Checkout) -> Iterator[Result]:
    x, gamma, experts, module = halves(1, 2048), halves(2048, seed=5), eight(), team(checkout)
    wide_x, wide_gamma = single(x, gamma)
    normed = rms_norm(wide_x, wide_gamma, EPS)
    yield Result(
        "plain", module._nki_batched_moe_kernel(x, *experts), mixed(x, *experts), TWICE_HALF
    )
    want = mixed(normed, *experts)
    got = module._nki_fused_rmsnorm_moe_kernel(x, gamma, *experts, EPS)
    yield Result("normed", got, want, TWICE_HALF)
    got = module._nki_fused_moe_block_kernel(x, gamma, *experts, EPS)
    yield Result("with residual", got, want + single(x)[0], TWICE_HALF)


@drives(TEAM, target="trn3")
def ends_of_experts(checkout: Checkout) -> Iterator[Result]:
    gate, up, (_, down, affinities) = halves(8, 1, 192), halves(8, 1, 192, seed=3), eight()
    module = team(checkout)
    wide_gate, wide_up, wide_down, wide_affinities = single(gate, up, down, affinities)
    products = wide_gate @ wide_down
    yield Result("products", module._nki_moe_dot_only_kernel(gate, down), products, HALF)
    want = (wide_affinities[:, None] * products).sum(axis=0)
    got = module._nki_moe_tail_kernel(gate, down, affinities)
    yield Result("sum", got, want, TWICE_HALF)
    want = (wide_affinities[:, None] * ((wide_gate * wide_up) @ wide_down)).sum(axis=0)
    got = module._nki_moe_silu_mul_tail_kernel(gate, up, down, affinities)
    yield Result("gated", got, want, TWICE_HALF)


@drives(TEAM, target="trn3")
def products_of_a_block(checkout: Checkout) -> Iterator[Result]:
    x, weight, module = halves(1, 1, 512, 192), halves(1, 192, 2048, seed=1), team(checkout)
    wide_x, wide_weight = single(x, weight)
    rounded = module._nki_cte_moe_blockwise_einsum_kernel(x, weight)
    yield Result("bfloat16", rounded, wide_x @ wide_weight, HALF)
    exact = module._nki_cte_moe_blockwise_einsum_kernel_fp32out(x, weight)
    yield Result("float32", exact, wide_x @ wide_weight, SINGLE)


@drives(TEAM, target="trn3")
def block_of_one_expert(checkout: Checkout) -> Iterator[Result]:
    """The kernel multiplies by the gate twice, so the reference does too."""
    x, gate_up, down = (
        halves(128, 512),
        halves(512, 384, seed=1, scale=0.05),
        halves(192, 512, seed=2),
    )
    wide_x, wide_gate_up, wide_down = single(x, gate_up, down)
    y = wide_x @ wide_gate_up
    got = team(checkout)._nki_cte_moe_block_mlp_kernel(x, gate_up, down)
    yield Result("out", got, (y[:, :192] * gated(y)) @ wide_down, TWICE_HALF)


class Blocks(NamedTuple):
    """Blocks of 128 tokens, which are chosen from 300 tokens. Each block is for one expert. The
    last row of `hidden` is padding."""

    hidden: Any
    gate_up: Any
    down: Any
    affinities: Any
    tokens: Any
    owners: Any

    def activations(self) -> Any:
        """Return the operands of the experts' second product."""
        hidden, gate_up = single(self.hidden, self.gate_up)
        made = [hidden[t] @ gate_up[e] for t, (e,) in zip(self.tokens, self.owners, strict=True)]
        return np.stack([gated(y) for y in made])

    def scattered(self, activations: Any) -> Any:
        down, weights = single(self.down, self.affinities)
        out = np.zeros(self.hidden.shape, np.float32)
        rows = zip(activations, self.tokens, self.owners, weights, strict=True)
        for block, tokens, (owner,), weight in rows:
            out[tokens] += weight[:, None] * (block @ down[owner])
        return out


def three_blocks() -> Blocks:
    random = np.random.default_rng(0)
    hidden = np.concatenate([halves(300, 256), np.zeros((1, 256), ml_dtypes.bfloat16)])
    tokens = np.stack([random.permutation(300)[:128] for _ in range(3)]).astype(np.int32)
    owners = np.array([[2], [0], [3]], np.int32)
    affinities = random.uniform(0.1, 1, (3, 128)).astype(ml_dtypes.bfloat16)
    gate_up, down = halves(4, 256, 384, seed=1, scale=0.06), halves(4, 192, 256, seed=2, scale=0.07)
    return Blocks(hidden, gate_up, down, affinities, tokens, owners)


SIZES = {"num_blocks": 3, "block_size": 128}


@drives(TEAM, target="trn3")
def blocks_of_a_prompt(checkout: Checkout) -> Iterator[Result]:
    module, blocks = team(checkout), three_blocks()
    want = blocks.scattered(blocks.activations())
    got = module._nki_cte_moe_allblocks_kernel(*blocks, **SIZES)
    yield Result("out", got, want, TWICE_HALF)
    given = (blocks.hidden, blocks.gate_up, blocks.owners, blocks.tokens)
    for to in ("", "_fp32out"):
        got = getattr(module, f"_nki_cte_moe_left_gate_up_kernel{to}")(*given, **SIZES)
        yield Result(f"first half{to}", got, blocks.activations(), TWICE_HALF)


@drives(TEAM, target="trn3")
def second_half_of_blocks(checkout: Checkout) -> Iterator[Result]:
    module, blocks = team(checkout), three_blocks()
    activations = blocks.activations()
    want = blocks.scattered(activations)
    given = (blocks.down, blocks.affinities, blocks.tokens, blocks.owners)
    for kind, dtype in (
        ("", ml_dtypes.bfloat16),
        ("_fp32acc", ml_dtypes.bfloat16),
        ("_pair", None),
    ):
        kernel = getattr(module, f"_nki_cte_moe_down_scatter_kernel{kind}")
        first = activations if dtype is None else activations.astype(dtype)
        got = kernel(first, *given, total_out_rows=len(blocks.hidden), **SIZES)
        yield Result(f"out{kind}", got, want, TWICE_HALF)


@drives(STUDENTS)
def experts_of_sorted_tokens(checkout: Checkout) -> Iterator[Result]:
    tokens = halves(512, 256, scale=0.1)
    gate, up = (halves(2, 512, 256, seed=seed, scale=0.1) for seed in (1, 2))
    down = halves(2, 256, 512, seed=3, scale=0.1)
    flat = (weight.reshape(-1, weight.shape[2]) for weight in (gate, up, down))
    kernel = checkout.module("kernels/kernel_v1.py").moe_expert_kernel_v1
    got = kernel(tokens, *flat, np.arange(3, dtype=np.int32))
    x, gate, up, down = single(tokens.T.reshape(2, 128, 512), gate, up, down)
    yield Result("out", got, ((silu(x @ gate) * (x @ up)) @ down).reshape(256, 512), TWICE_HALF)
