"""3. RMSNorm: a vector that every partition needs.

    y[r, c] = x[r, c] / sqrt(mean over c of x[r, c]^2 + epsilon) * gain[c]

The mean square is a number for each row, like the maximum in chapter 2: `activation_reduce` squares
the elements and adds the squares in one pass. The gain is a number for each column, the same for
all rows. A lane cannot read another lane's memory, so each partition needs a copy of the gain. The
DMA that loads the gain makes these copies: it reads a view of HBM that repeats the only row 128
times (the stride of its rows is 0).

    neuroncore run kernels/ch03_rmsnorm.py::rmsnorm
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

EPSILON = 1e-6


@nki.jit
def rmsnorm(x, gain):
    """RMSNorm of each row of x [rows, columns] with gain [columns], float32."""
    rows, columns = x.shape
    lanes = nl.tile_size.pmax
    result = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)

    gains = nl.ndarray((lanes, columns), gain.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=gains, src=gain.reshape((1, columns)).broadcast(0, lanes))
    epsilon = nl.ndarray((lanes, 1), nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=epsilon, value=EPSILON)

    for top in range(0, rows, lanes):
        height = min(lanes, rows - top)
        tile = nl.ndarray((height, columns), x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[top : top + height])

        squares = nl.ndarray((height, columns), nl.float32, buffer=nl.sbuf)  # not used again
        total = nl.ndarray((height, 1), nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(
            dst=squares, op=nl.square, data=tile, reduce_op=nl.add, reduce_res=total
        )
        scale = nl.ndarray((height, 1), nl.float32, buffer=nl.sbuf)
        nisa.activation(
            dst=scale, op=nl.rsqrt, data=total, scale=1 / columns, bias=epsilon[0:height]
        )

        # (tile * scale) * gains: two operations, one pass over the data.
        scaled = nl.ndarray((height, columns), x.dtype, buffer=nl.sbuf)
        nisa.scalar_tensor_tensor(
            dst=scaled,
            data=tile,
            op0=nl.multiply,
            operand0=scale,
            op1=nl.multiply,
            operand1=gains[0:height],
        )
        nisa.dma_copy(dst=result[top : top + height], src=scaled)
    return result


def inputs(rng):
    return rng.standard_normal((200, 1000), np.float32), rng.standard_normal(1000, np.float32)


def reference(x, gain):
    return x / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + np.float32(EPSILON)) * gain


if __name__ == "__main__":
    given = inputs(np.random.default_rng(0))
    np.testing.assert_allclose(rmsnorm(*given), reference(*given), rtol=2e-5, atol=1e-6)
