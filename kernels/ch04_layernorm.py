"""4. LayerNorm: combine operations into one pass.

    y[r, c] = (x[r, c] - mean(x[r])) / sqrt(var(x[r]) + epsilon) * gain[c] + shift[c]

A naive program makes seven passes over the tile. Each instruction costs about one cycle per
element of a partition plus a fixed start, so fewer passes save time:

* the Vector engine makes one pass to compute the mean, and one to subtract the mean, which is a
  column operand;
* the Scalar engine makes one pass, which computes the squares and their sum;
* one pass multiplies by the scale and the gain (`scalar_tensor_tensor`), and one adds the shift.

Two engines share the five passes, and the tiles of different rows overlap.

    neuroncore run kernels/ch04_layernorm.py::layernorm
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

EPSILON = 1e-5


@nki.jit
def layernorm(x, gain, shift):
    """LayerNorm of each row of x [rows, columns] with gain and shift [columns], float32."""
    rows, columns = x.shape
    lanes = nl.tile_size.pmax
    result = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)

    gains = spread(gain, lanes)
    shifts = spread(shift, lanes)
    epsilon = nl.ndarray((lanes, 1), nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=epsilon, value=EPSILON)

    for top in range(0, rows, lanes):
        height = min(lanes, rows - top)
        tile = nl.ndarray((height, columns), x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[top : top + height])

        # first the sum of the row, then -mean
        mean = nl.ndarray((height, 1), nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=mean, op=nl.add, data=tile, axis=1)
        nisa.tensor_scalar(dst=mean, data=mean, op0=nl.multiply, operand0=1 / columns)
        centred = nl.ndarray((height, columns), nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=centred, data=tile, op0=nl.subtract, operand0=mean)

        squares = nl.ndarray((height, columns), nl.float32, buffer=nl.sbuf)
        spread_sum = nl.ndarray((height, 1), nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(
            dst=squares, op=nl.square, data=centred, reduce_op=nl.add, reduce_res=spread_sum
        )
        scale = nl.ndarray((height, 1), nl.float32, buffer=nl.sbuf)
        nisa.activation(
            dst=scale, op=nl.rsqrt, data=spread_sum, scale=1 / columns, bias=epsilon[0:height]
        )

        nisa.scalar_tensor_tensor(
            dst=centred,
            data=centred,
            op0=nl.multiply,
            operand0=scale,
            op1=nl.multiply,
            operand1=gains[0:height],
        )
        final = nl.ndarray((height, columns), x.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=final, data1=centred, data2=shifts[0:height], op=nl.add)
        nisa.dma_copy(dst=result[top : top + height], src=final)
    return result


def spread(vector, lanes):
    """Return a tile [lanes, n] in SBUF that has a vector [n] of HBM in each partition."""
    copies = nl.ndarray((lanes, vector.shape[0]), vector.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=copies, src=vector.reshape((1, vector.shape[0])).broadcast(0, lanes))
    return copies


def inputs(rng):
    x = 3 + 2 * rng.standard_normal((200, 1000), np.float32)
    return x, rng.standard_normal(1000, np.float32), rng.standard_normal(1000, np.float32)


def reference(x, gain, shift):
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(axis=1, keepdims=True) + EPSILON)
    return (centred * scale * gain + shift).astype(np.float32)


if __name__ == "__main__":
    given = inputs(np.random.default_rng(0))
    np.testing.assert_allclose(layernorm(*given), reference(*given), rtol=1e-4, atol=1e-5)
