"""8. The SwiGLU layer: choose layouts that avoid transposes.

    out = (silu(x @ gate) * (x @ up)) @ down

A matmul returns [M, N] from stationary [K, M] and moving [K, N]: K must be on the partitions of
both operands, and M is on the partitions of the result. The second product sums over the hidden
dimension, so the first products should have this dimension on the partitions of their results. Use
tiles of the weights as stationary operands, and x.T as the moving operand. Then h.T [hidden,
tokens] has exactly the layout that the second product needs for its stationary operand, and only x
has to be transposed.

The Scalar engine reads x @ gate from PSUM and computes silu. The Vector engine multiplies the
result by x @ up.

    neuroncore run kernels/ch08_mlp.py::swiglu
"""

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = 128
WIDE = 512  # float32 columns of a PSUM bank


@nki.jit
def swiglu(x, gate, up, down):
    """x [tokens, model], gate and up [model, hidden], down [hidden, model]; multiples of 128."""
    (tokens, model), hidden = x.shape, gate.shape[1]
    assert tokens % P == 0 and model % P == 0 and hidden % P == 0
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    gates, ups, downs = tiles(gate), tiles(up), tiles(down)
    for t in range(0, tokens, WIDE):
        batch = min(WIDE, tokens - t)
        x_t = transposed(x[t : t + batch])
        h_t = []
        for f in range(0, hidden, P):
            h_t.append(hidden_tile(x_t, gates, ups, slice(f, f + P), x.dtype))
        for s in range(0, batch, P):
            rows = slice(t + s, t + s + P)
            for m in range(0, model, WIDE):
                columns = slice(m, min(m + WIDE, model))
                total = nl.ndarray((P, columns.stop - m), nl.float32, buffer=nl.psum)
                for h, weights in zip(h_t, downs):
                    nisa.nc_matmul(
                        dst=total, stationary=h[:, s : s + P], moving=weights[:, columns]
                    )
                tile = nl.ndarray(total.shape, x.dtype, buffer=nl.sbuf)
                nisa.tensor_copy(dst=tile, src=total)
                nisa.dma_copy(dst=out[rows, columns], src=tile)
    return out


def hidden_tile(x_t, gates, ups, features, dtype):
    """Return (silu(x @ gate) * (x @ up)).T for 128 hidden features: [128, tokens]."""
    gated = product(gates, features, x_t)
    lifted = product(ups, features, x_t)
    active = nl.ndarray(gated.shape, nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=active, op=nl.silu, data=gated)
    h = nl.ndarray(gated.shape, dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=h, data1=active, data2=lifted, op=nl.multiply)
    return h


def product(weights, features, x_t):
    """Return (x @ weights[:, features]).T in PSUM."""
    total = nl.ndarray((P, x_t[0].shape[1]), nl.float32, buffer=nl.psum)
    for w, x in zip(weights, x_t):
        nisa.nc_matmul(dst=total, stationary=w[:, features], moving=x)
    return total


def tiles(matrix):
    """Load a matrix from HBM. Return a list of tiles in SBUF, one for each 128 rows."""
    loaded = []
    for r in range(0, matrix.shape[0], P):
        tile = nl.ndarray((P, matrix.shape[1]), matrix.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=matrix[r : r + P])
        loaded.append(tile)
    return loaded


def transposed(x):
    """Return x.T for x [tokens, model]: a list with a tile [128, tokens] for each 128 of model."""
    tokens, model = x.shape
    rows = tiles(x)
    result = []
    for m in range(0, model, P):
        turned = nl.ndarray((P, tokens), x.dtype, buffer=nl.psum)
        for i, row in enumerate(rows):
            nisa.nc_transpose(dst=turned[:, i * P : (i + 1) * P], data=row[:, m : m + P])
        tile = nl.ndarray((P, tokens), x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=tile, src=turned)
        result.append(tile)
    return result


def inputs(rng):
    def matrix(rows, columns, scale):
        values = scale * rng.standard_normal((rows, columns), np.float32)
        return values.astype(ml_dtypes.bfloat16)

    tokens, model, hidden = 640, 256, 768
    return (
        matrix(tokens, model, 1.0),
        matrix(model, hidden, model**-0.5),
        matrix(model, hidden, model**-0.5),
        matrix(hidden, model, hidden**-0.5),
    )


def reference(x, gate, up, down):
    x, gate, up, down = (a.astype(np.float32) for a in (x, gate, up, down))
    gated = x @ gate
    h = gated / (1 + np.exp(-gated)) * (x @ up)
    h = h.astype(ml_dtypes.bfloat16).astype(np.float32)
    return (h @ down).astype(ml_dtypes.bfloat16)


if __name__ == "__main__":
    given = inputs(np.random.default_rng(0))
    got, want = swiglu(*given).astype(np.float32), reference(*given).astype(np.float32)
    assert np.linalg.norm(got - want) < 5e-3 * np.linalg.norm(want)
