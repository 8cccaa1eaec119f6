"""7. Attention without the matrix in the middle.

    softmax(q @ k.T / sqrt(d)) @ v

For 1024 queries and keys the matrix of scores has a million entries, and it grows with the square
of the length. This kernel never stores it: it goes through the keys in blocks. For each query it
keeps the largest score so far, the sum of the weights exp(score - largest), and the sum of the rows
of v times their weights. If a block brings a larger score, both sums are scaled by exp(old - new).
(Rabe and Staats 2021; Dao et al. 2022, "FlashAttention".)

The engines share the work. The Tensor engine computes the scores, and weights @ v. The Vector
engine finds the maximum and updates the sums. The Scalar engine computes exp, with the row's
maximum as bias and the row's sum as a second result. The second product needs the weights with the
keys on the partitions, but the first product puts the queries there. So the Tensor engine
transposes the weights, 128 x 128 at a time.

With `causal`, query i sees only keys 0 to i. Blocks of keys that no query of the tile may see are
never computed; on the blocks that the diagonal crosses, `affine_select` keeps the entries where
query - key >= 0, a condition on indices that needs no mask in memory.

    neuroncore run kernels/ch07_attention.py::attention
    neuroncore run kernels/ch07_attention.py::causal_attention --ref causal_reference
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

QUERIES = 128  # per tile: partitions of the scores
BANK = 512  # float32 columns of a PSUM bank: what one product may write
KEYS = 2 * BANK  # per block
LOWEST = -3.0e38


@nki.jit
def attention(q, k, v):
    """Attention of one head, q, k, v [length, d] with d <= 128; length in multiples of 128."""
    return forward(q, k, v, causal=False)


@nki.jit
def causal_attention(q, k, v):
    """Attention where query i sees keys 0 to i."""
    return forward(q, k, v, causal=True)


def forward(q, k, v, causal):
    length, d = q.shape
    assert length % QUERIES == 0 and d <= nl.tile_size.pmax
    result = nl.ndarray(q.shape, q.dtype, buffer=nl.shared_hbm)

    # Scores contract over d, so queries and keys are needed as [d, length].
    q_t, k_t = transposed(q), transposed(k)
    values = []
    for s in range(0, length, 128):
        values.append(load(v[s : s + 128]))

    for first in range(0, length, QUERIES):
        largest = filled((QUERIES, 1), LOWEST)
        total = filled((QUERIES, 1), 0.0)
        out = filled((QUERIES, d), 0.0)
        end = first + QUERIES if causal else length
        for start in range(0, end, KEYS):
            keys = min(KEYS, end - start)
            scores = nl.ndarray((QUERIES, keys), nl.float32, buffer=nl.psum)
            for s in range(0, keys, BANK):
                e = min(s + BANK, keys)
                nisa.nc_matmul(
                    dst=scores[:, s:e],
                    stationary=q_t[:, first : first + QUERIES],
                    moving=k_t[:, start + s : start + e],
                )
            if causal and start + keys - 1 > first:
                scores = below_diagonal(scores, first - start)
            weights, decay = reweighted(scores, largest, total, d**-0.5)
            partial = weighted_sum(weights, values[start // 128 : (start + keys) // 128])
            # out = out * decay + partial
            nisa.scalar_tensor_tensor(
                dst=out, data=out, op0=nl.multiply, operand0=decay, op1=nl.add, operand1=partial
            )
        inverse = nl.ndarray((QUERIES, 1), nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=inverse, data=total)
        final = nl.ndarray((QUERIES, d), q.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=final, data=out, op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=result[first : first + QUERIES], src=final)
    return result


def below_diagonal(scores, offset):
    """The scores of a tile [queries, keys], with LOWEST where query + offset < key. Queries and
    keys are counted from 0 in the tile."""
    kept = nl.ndarray(scores.shape, nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=kept, src=scores)
    nisa.affine_select(
        dst=kept,
        pattern=[[-1, scores.shape[1]]],
        offset=offset,
        channel_multiplier=1,
        cmp_op=nl.greater_equal,
        on_true_tile=kept,
        on_false_value=LOWEST,
    )
    return kept


def reweighted(scores, largest, total, scale):
    """Return exp(scale * (scores - the new largest)), and the factor for earlier sums.

    Updates `largest` (of unscaled scores) and `total`, both [queries, 1].
    """
    queries, keys = scores.shape
    here = nl.ndarray((queries, 1), nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=here, op=nl.maximum, data=scores, axis=1)
    new = nl.ndarray((queries, 1), nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=new, data1=here, data2=largest, op=nl.maximum)
    lowered = nl.ndarray((queries, 1), nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=lowered, data=new, op0=nl.multiply, operand0=-scale)

    decay = nl.ndarray((queries, 1), nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=decay, op=nl.exp, data=largest, scale=scale, bias=lowered)
    weights = nl.ndarray((queries, keys), nl.float32, buffer=nl.sbuf)
    fresh = nl.ndarray((queries, 1), nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(
        dst=weights,
        op=nl.exp,
        data=scores,
        scale=scale,
        bias=lowered,
        reduce_op=nl.add,
        reduce_res=fresh,
    )
    nisa.scalar_tensor_tensor(
        dst=total, data=total, op0=nl.multiply, operand0=decay, op1=nl.add, operand1=fresh
    )
    nisa.tensor_copy(dst=largest, src=new)
    return weights, decay


def weighted_sum(weights, values):
    """weights @ values, in PSUM; weights is [queries, keys], values has a tile per 128 keys."""
    queries, keys = weights.shape
    turned = nl.ndarray((128, keys), nl.float32, buffer=nl.psum)  # 128 keys x queries, side by side
    for s in range(0, keys, 128):
        nisa.nc_transpose(dst=turned[:, s : s + queries], data=weights[:, s : s + 128])
    stationary = nl.ndarray((128, keys), values[0].dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=stationary, src=turned)
    product = nl.ndarray((queries, values[0].shape[1]), nl.float32, buffer=nl.psum)
    for i, value in enumerate(values):
        here = slice(i * 128, i * 128 + queries)
        nisa.nc_matmul(dst=product, stationary=stationary[:, here], moving=value)
    return product


def transposed(x):
    """Return x.T [d, length] in SBUF, for x [length, d] in HBM."""
    length, d = x.shape
    result = nl.ndarray((d, length), x.dtype, buffer=nl.sbuf)
    for s in range(0, length, 128):
        turned = nl.ndarray((d, 128), x.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=turned, data=load(x[s : s + 128]))
        nisa.tensor_copy(dst=result[:, s : s + 128], src=turned)
    return result


def load(source):
    tile = nl.ndarray(source.shape, source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def filled(shape, value):
    tile = nl.ndarray(shape, nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=value)
    return tile


def inputs(rng):
    return [rng.standard_normal((1024, 128), np.float32) for _ in range(3)]


def reference(q, k, v):
    return (_softmax(_scores(q, k)) @ v).astype(np.float32)


def causal_reference(q, k, v):
    seen = np.where(np.tri(len(q), dtype=bool), _scores(q, k), -np.inf)
    return (_softmax(seen) @ v).astype(np.float32)


def _scores(q, k):
    """q @ k.T / sqrt(d) in float64, because the last bits of a float32 product by BLAS depend on
    the number of threads."""
    return q.astype(np.float64) @ k.T / np.sqrt(q.shape[1])


def _softmax(x):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


if __name__ == "__main__":
    given = inputs(np.random.default_rng(0))
    np.testing.assert_allclose(attention(*given), reference(*given), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        causal_attention(*given), causal_reference(*given), rtol=1e-4, atol=1e-5
    )
