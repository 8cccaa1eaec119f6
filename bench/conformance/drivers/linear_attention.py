"""Drivers of attention without a softmax: by its Taylor series, in chunks, and by the gated delta
rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from references import delta_rule, wide

from drivers.driver import ROUGH, Checkout, Result, drives, normal

LINEAR = "Willy-Chan/trainium-linear-attention"
CONTRIBUTED = "aws-neuron/neuronx-distributed-inference"
MODELS = ("Qwen3.5-2B", "Qwen3.5-35B-A3B")
SIZE = 128


@drives(LINEAR, target="trn1")
def based(checkout: Checkout) -> Iterator[Result]:
    module = checkout.module("kernels/nki_attention.py")
    kernel, *_ = module.get_based_attn_kernel(256, SIZE, 2)
    q, k, v = (normal(2, 256, SIZE, seed=seed) * np.float32(0.1) for seed in range(3))
    numerator, denominator = kernel(q, k, v)
    logits = q @ k.swapaxes(1, 2)
    weights = np.tril(1 + logits + 0.5 * logits * logits)
    yield Result("numerator", numerator, weights @ v)
    yield Result("denominator", denominator, weights.sum(-1, keepdims=True))


@drives(LINEAR, target="trn1")
def chunked(checkout: Checkout) -> Iterator[Result]:
    module = checkout.module("kernels/nki_attention_chunked.py")
    kernel, *_ = module.get_chunked_attn_kernel(256, 256, 64, 2)
    q, k = (normal(2, 256, 256, seed=seed) * np.float32(0.1) for seed in range(2))
    v = normal(2, 256, 64, seed=2)
    yield Result("out", kernel(q, k, v), np.tril(q @ k.swapaxes(1, 2)) @ v)


# --- the gated delta rule -------------------------------------------------------------------------


class Tokens(NamedTuple):
    """The inputs of the delta rule for S tokens: q, k, v [S, 128], decay and beta [S, 1]."""

    q: Any
    k: Any
    v: Any
    decay: Any
    beta: Any


def tokens(length: int) -> Tokens:
    q, k, v = (normal(length, SIZE, seed=seed) for seed in range(3))
    decay = np.float32(-0.1) * np.abs(normal(length, 1, seed=3))
    beta = 1 / (1 + np.exp(-normal(length, 1, seed=4)))
    return Tokens(q, k, v, decay, beta)


def scaled(given: Tokens) -> Tokens:
    """Return the tokens with q and k scaled to length 1, and then q divided by the square root of
    its size."""
    q, k = (x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6) for x in given[:2])
    return given._replace(q=(q / np.sqrt(SIZE)).astype(np.float32), k=k.astype(np.float32))


def masks() -> tuple[Any, Any, Any]:
    """Return three constant arguments of the kernels, [128, 128]: ones below the diagonal, ones on
    the diagonal, and both together."""
    ones = np.ones((SIZE, SIZE), np.float32)
    return np.tril(ones, -1), np.eye(SIZE, dtype=np.float32), np.tril(ones)


def rule(given: Tokens, state: Any) -> tuple[Any, Any]:
    """Return the results [S, 128] and the last state, for tokens after a state `state` [128, 128].

    The function `delta_rule` begins with a state of zeros. So 128 tokens are added before the given
    ones, each of which writes a row of the first state. 128 tokens are added after them, which read
    the last state.
    """
    eye, none, ones = np.eye(SIZE), np.zeros((SIZE, SIZE)), np.ones((SIZE, 1))
    before = Tokens(none, eye, state, 0 * ones, ones)
    after = Tokens(eye, none, none, 0 * ones, 0 * ones)
    joined = [np.concatenate(parts) for parts in zip(before, wide(*given), after)]
    out = delta_rule(*joined)
    return out[SIZE:-SIZE], out[-SIZE:]


def folder(model: str) -> str:
    return f"contrib/models/{model}/src/nki_kernels/"


def both(got: Any, want: tuple[Any, Any]) -> Iterator[Result]:
    for name, result, reference in zip(("out", "state"), got, want, strict=True):
        yield Result(name, np.reshape(result, reference.shape), reference, ROUGH)


@drives(CONTRIBUTED, each=MODELS)
def fused_chunks(checkout: Checkout, model: str) -> Iterator[Result]:
    kernel = checkout.module(folder(model) + "nki_deltanet_fused.py").deltanet_fused_chunked_fwd
    given, state = tokens(256), normal(SIZE, SIZE, seed=5) * np.float32(0.1)
    yield from both(kernel(*given, state, *masks()), rule(scaled(given), state))


@drives(CONTRIBUTED, each=MODELS)
def earlier_fused_chunks(checkout: Checkout, model: str) -> Iterator[Result]:
    module = checkout.module(folder(model) + "nki_deltanet_fused_legacy.py")
    given, state = scaled(tokens(256)), normal(SIZE, SIZE, seed=5) * np.float32(0.1)
    got = module.deltanet_fused_chunked_fwd(*given, state, *masks())
    yield from both(got, rule(given, state))


@drives(CONTRIBUTED, each=MODELS)
def chunk_step(checkout: Checkout, model: str) -> Iterator[Result]:
    kernel = checkout.module(folder(model) + "nki_deltanet_chunked.py").deltanet_chunk_step
    given, state = scaled(tokens(SIZE)), normal(SIZE, SIZE, seed=5) * np.float32(0.1)
    row, summed = np.ones((1, SIZE), np.float32), np.cumsum(given.decay, 0)
    last = np.full((SIZE, SIZE), summed[-1, 0], np.float32)
    got = kernel(*given[:3], given.beta * row, summed * row, last, state, *masks())
    yield from both(got, rule(given, state))


@drives(CONTRIBUTED, each=MODELS)
def recurrent(checkout: Checkout, model: str) -> Iterator[Result]:
    kernel = checkout.module(folder(model) + "nki_deltanet.py").deltanet_recurrent_fwd
    given, row = scaled(tokens(16)), np.ones((1, SIZE), np.float32)
    got = kernel(*given[:3], given.decay * row, given.beta * row)
    yield Result("out", got, rule(given, np.zeros((SIZE, SIZE)))[0], ROUGH)


@drives(CONTRIBUTED, each=MODELS)
def recurrent_with_its_state(checkout: Checkout, model: str) -> Iterator[Result]:
    kernel = checkout.module(folder(model) + "nki_deltanet.py").deltanet_recurrent_fwd_state
    given, row = scaled(tokens(16)), np.ones((1, SIZE), np.float32)
    got = kernel(*given[:3], given.decay * row, given.beta * row)
    yield from both(got, rule(given, np.zeros((SIZE, SIZE))))


@drives(CONTRIBUTED, each=MODELS)
def recurrent_step_of_a_batch(checkout: Checkout, model: str) -> Iterator[Result]:
    module = checkout.module(folder(model) + "nki_deltanet.py")
    given, states = scaled(tokens(4)), normal(4 * SIZE, SIZE, seed=7)
    steps = [
        rule(Tokens(*(part[i : i + 1] for part in given)), state)
        for i, state in enumerate(np.split(states, 4))
    ]
    out, last = (np.concatenate(part) for part in zip(*steps))
    yield from both(module._deltanet_recurrent_step_batched_kernel(*given, states), (out, last))
