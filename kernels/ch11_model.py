"""11. A small model: from token numbers to logits, on one core or on eight ranks.

The model combines the other chapters. It gathers a row of a table for each token. Then come two
layers, each with an attention block and a SwiGLU block, and an RMSNorm before each block. At the
end is a product with a table of outputs. The weights are random.

On several ranks the model is tensor-parallel (Shoeybi et al. 2019, "Megatron-LM"): each rank has
some heads, some hidden features, and some columns of the logits. Each of the two blocks of a layer
ends with a product whose sums are partial: the ranks add them with an all-reduce, which takes 20
microseconds or more, however few bytes it moves.

`late` adds the partial sums of all tokens in one collective at the end of each block. No engine has
work while this collective runs. `early` starts a collective for each half of the tokens as soon as
their sums are computed, and the engines continue with the other half. `early` makes twice as many
collectives and is faster: 274 us instead of 321 us on trn2. The collectives are then the
bottleneck.

    neuroncore run kernels/ch11_model.py::late
    neuroncore run kernels/ch11_model.py::late --ranks 8 --inputs rank_inputs --ref rank_reference
    neuroncore why kernels/ch11_model.py::early --ranks 8 --inputs rank_inputs
"""

from functools import cache
from typing import NamedTuple

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from neuroncore.kernels.ch07_attention import BANK, below_diagonal
from neuroncore.kernels.ch08_mlp import hidden_tile, tiles

P = 128
EPSILON = 1e-6
RANKS, LAYERS, TOKENS, VOCABULARY = 8, 2, 1024, 1024
MODEL, HEADS, HEAD, HIDDEN = 256, 8, 32, 2048


@nki.jit
def late(ids, table, query, key, value, output, gate, up, down, logits):
    """Logits [tokens, columns of this rank], with one all-reduce for each block.

    ids [tokens, 1], table [vocabulary, model], weights [layers, rows, columns], logits [model,
    columns]. This rank has only its columns of query, key, value, gate and up, and only its rows of
    output and down.
    """
    return forward(ids, table, (query, key, value, output), (gate, up, down), logits, parts=1)


@nki.jit
def early(ids, table, query, key, value, output, gate, up, down, logits):
    """The same logits as `late`, with an all-reduce for each half of the tokens in each block."""
    return forward(ids, table, (query, key, value, output), (gate, up, down), logits, parts=2)


def forward(ids, table, attention, mlp, logits, parts):
    ranks = MODEL // attention[0].shape[2]
    x = []
    for t in range(0, ids.shape[0], P):
        x.append(embedded(ids[t : t + P], table))
    for layer in range(attention[0].shape[0]):
        x = added(x, attended, loaded(attention, layer), ranks, parts)
        x = added(x, fed_forward, loaded(mlp, layer), ranks, parts)
    out = nl.ndarray((ids.shape[0], logits.shape[1]), nl.float32, buffer=nl.shared_hbm)
    columns = tiles(logits)
    for t, tile in enumerate(x):
        scores = matmul(turned(normed(tile)), columns)
        nisa.dma_copy(dst=out[t * P : t * P + P], src=scores)
    return out


def added(x, block, weights, ranks, parts):
    """Return x plus the results of a block, summed over all ranks. The tokens are divided into
    `parts`, and each part has a separate collective."""
    group, count = ncc.ReplicaGroup([list(range(ranks))]), len(x) // parts
    result, earlier = [], []
    for first in range(0, len(x), count):
        sums = nl.ndarray((P, count * MODEL), nl.float32, buffer=nl.sbuf)
        for n in range(count):
            partial = block(x[first + n], weights, earlier)
            nisa.tensor_copy(dst=sums[:, n * MODEL : (n + 1) * MODEL], src=partial)
        if ranks > 1:
            ncc.all_reduce([sums], [sums], group, op=nl.add)
        for n in range(count):
            more = sums[:, n * MODEL : (n + 1) * MODEL]
            nisa.tensor_tensor(dst=more, data1=x[first + n], data2=more, op=nl.add)
            result.append(more)
    return result


def embedded(ids, table):
    """The rows of the table for 128 tokens."""
    model = table.shape[1]
    rows = nl.ndarray((P, 1), ids.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=rows, src=ids)
    tile = nl.ndarray((P, model), table.dtype, buffer=nl.sbuf)
    picked = table.ap([[model, P], [1, model]], vector_offset=rows, indirect_dim=0)
    nisa.dma_copy(dst=tile, src=picked)
    return tile


def attended(x, weights, earlier):
    """Causal attention of a tile of tokens, for this rank's heads. `earlier` has the keys and
    values of the tiles before, for each head; the keys and values of this tile are appended."""
    query, key, value, output = weights
    x_t = turned(normed(x))
    context = nl.ndarray((P, query[0].shape[1]), nl.float32, buffer=nl.sbuf)
    for h in range(0, query[0].shape[1], HEAD):
        if h // HEAD == len(earlier):
            earlier.append(([], []))
        keys, values = earlier[h // HEAD]
        keys.append(across(key, x_t, h))
        values.append(matmul(x_t, value, slice(h, h + HEAD)))
        attend(context[:, h : h + HEAD], across(query, x_t, h), keys, values)
    return matmul(turned(context), output)


def attend(dst, query, keys, values):
    """dst = attention of one head for the queries of the last tile. keys and values have an item
    for each tile of tokens up to this one."""
    scores = nl.ndarray((P, len(keys) * P), nl.float32, buffer=nl.psum)
    for k, key in enumerate(keys):
        nisa.nc_matmul(dst=scores[:, k * P : k * P + P], stationary=query, moving=key)
    kept = below_diagonal(scores, (len(keys) - 1) * P)
    bias = nl.ndarray((P, 1), nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=bias, op=nl.maximum, data=kept, axis=1)
    nisa.tensor_scalar(dst=bias, data=bias, op0=nl.multiply, operand0=-(HEAD**-0.5))
    total = nl.ndarray((P, 1), nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(
        dst=kept,
        op=nl.exp,
        data=kept,
        scale=HEAD**-0.5,
        bias=bias,
        reduce_op=nl.add,
        reduce_res=total,
    )
    nisa.reciprocal(dst=total, data=total)
    product = nl.ndarray((P, HEAD), nl.float32, buffer=nl.psum)
    for part, rows in zip(turned(kept), values):
        nisa.nc_matmul(dst=product, stationary=part, moving=rows)
    nisa.tensor_scalar(dst=dst, data=product, op0=nl.multiply, operand0=total)


def fed_forward(x, weights, earlier):
    """SwiGLU of a tile of tokens, with this rank's hidden features."""
    gate, up, down = weights
    x_t, h_t = turned(normed(x)), []
    for f in range(0, gate[0].shape[1], P):
        h_t.append(hidden_tile(x_t, gate, up, slice(f, f + P), nl.float32))
    return matmul(h_t, down)


def normed(tile):
    """RMSNorm of each row, without a gain."""
    epsilon = nl.ndarray((P, 1), nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=epsilon, value=EPSILON)
    squares = nl.ndarray(tile.shape, nl.float32, buffer=nl.sbuf)
    scale = nl.ndarray((P, 1), nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(dst=squares, op=nl.square, data=tile, reduce_op=nl.add, reduce_res=scale)
    nisa.activation(dst=scale, op=nl.rsqrt, data=scale, scale=1 / tile.shape[1], bias=epsilon)
    result = nl.ndarray(tile.shape, nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=result, data=tile, op0=nl.multiply, operand0=scale)
    return result


def turned(tile):
    """Return the transpose of a tile [128, columns], as tiles of at most 128 partitions."""
    parts = []
    for c in range(0, tile.shape[1], P):
        columns = tile[:, c : min(c + P, tile.shape[1])]
        shape = (columns.shape[1], P)
        product = nl.ndarray(shape, nl.float32, buffer=nl.psum)
        nisa.nc_transpose(dst=product, data=columns)
        part = nl.ndarray(shape, nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=part, src=product)
        parts.append(part)
    return parts


def matmul(left_t, right, columns=None):
    """left @ right[:, columns] in SBUF. left_t and right are lists of tiles of left.T and of right,
    split along the axis that is summed. By default all columns are used."""
    columns = columns or slice(0, right[0].shape[1])
    result = nl.ndarray((P, columns.stop - columns.start), nl.float32, buffer=nl.sbuf)
    for n in range(columns.start, columns.stop, BANK):
        here = slice(n, min(n + BANK, columns.stop))
        product = nl.ndarray((P, here.stop - n), nl.float32, buffer=nl.psum)
        for a, b in zip(left_t, right):
            nisa.nc_matmul(dst=product, stationary=a, moving=b[:, here])
        nisa.tensor_copy(dst=result[:, n - columns.start : here.stop - columns.start], src=product)
    return result


def across(weights, x_t, h):
    """The queries or keys of head h with its features on the partitions: [HEAD, 128 tokens]."""
    product = nl.ndarray((HEAD, P), nl.float32, buffer=nl.psum)
    for w, part in zip(weights, x_t):
        nisa.nc_matmul(dst=product, stationary=w[:, h : h + HEAD], moving=part)
    result = nl.ndarray((HEAD, P), nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=product)
    return result


def loaded(matrices, layer):
    """The matrices of a layer in SBUF, in tiles of at most 128 rows."""
    result = []
    for matrix in matrices:
        if matrix.shape[1] >= P:
            result.append(tiles(matrix[layer]))
        else:
            tile = nl.ndarray(matrix.shape[1:], matrix.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=matrix[layer])
            result.append([tile])
    return result


class Weights(NamedTuple):
    """All weights of the model, in the order of the kernel's arguments."""

    ids: np.ndarray
    table: np.ndarray
    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    output: np.ndarray
    gate: np.ndarray
    up: np.ndarray
    down: np.ndarray
    logits: np.ndarray


def weights():
    """The weights of the whole model, the same for each rank."""
    rng = np.random.default_rng(11)

    def matrix(*shape):
        return rng.standard_normal(shape, np.float32) * np.float32(shape[-2] ** -0.5)

    square, wide = (LAYERS, MODEL, MODEL), (LAYERS, MODEL, HIDDEN)
    return Weights(
        rng.integers(0, VOCABULARY, (TOKENS, 1)).astype(np.uint32),
        rng.standard_normal((VOCABULARY, MODEL), np.float32),
        *(matrix(*square) for _ in range(4)),
        matrix(*wide),
        matrix(*wide),
        matrix(LAYERS, HIDDEN, MODEL),
        matrix(MODEL, VOCABULARY),
    )


def share(whole, rank, ranks):
    """The weights of a rank."""

    def columns(a):
        return np.ascontiguousarray(np.split(a, ranks, axis=-1)[rank])

    def rows(a):
        return np.ascontiguousarray(np.split(a, ranks, axis=-2)[rank])

    split = {name: columns for name in ("query", "key", "value", "gate", "up", "logits")}
    split |= {"output": rows, "down": rows}
    return Weights(**{n: split.get(n, lambda a: a)(a) for n, a in whole._asdict().items()})


def inputs():
    return weights()


def rank_inputs(rank):
    return share(weights(), rank, RANKS)


def reference(*_):
    return expected(TOKENS, LAYERS, HIDDEN)


def rank_reference(ids, table, query, key, value, output, gate, up, down, logits, rank):
    return np.split(reference(), RANKS, axis=1)[rank]


@cache
def expected(*_):
    return model(weights())


def model(w):
    """The logits of all tokens."""
    x = w.table[w.ids[:, 0]].astype(np.float64)
    seen = np.tri(len(x), dtype=bool)
    for n in range(LAYERS):
        y = rms(x)
        for h in range(0, MODEL, HEAD):
            q, k, v = (y @ a[n][:, h : h + HEAD] for a in (w.query, w.key, w.value))
            scores = np.where(seen, q @ k.T * HEAD**-0.5, -np.inf)
            powers = np.exp(scores - scores.max(axis=1, keepdims=True))
            context = powers / powers.sum(axis=1, keepdims=True) @ v
            x = x + context @ w.output[n][h : h + HEAD]
        y = rms(x)
        gated = y @ w.gate[n]
        x = x + (gated / (1 + np.exp(-gated)) * (y @ w.up[n])) @ w.down[n]
    return (rms(x) @ w.logits).astype(np.float32)


def rms(x):
    return x / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + EPSILON)


if __name__ == "__main__":
    got, want = late(*inputs()), reference()
    assert np.linalg.norm(got - want) < 1e-4 * np.linalg.norm(want)
