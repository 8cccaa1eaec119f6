"""2. Softmax: two engines and a number per partition.

    softmax(x)[r, c] = exp(x[r, c] - max(x[r])) / sum over c of exp(x[r, c] - max(x[r]))

Rows go to partitions, so that a sum along a row stays inside one lane. A value for a whole row
(its maximum, its sum) is then in a column, a [128, 1] tile, and instructions take such columns as
operands: one number per partition.

The Scalar engine computes functions: `activation` is op(data * scale + bias), with a bias per
partition. exp(x - max) is therefore one instruction. The same instruction can also add up its
results, so the denominator takes no further pass. The Vector engine finds the maximum, and
multiplies by the reciprocal of the denominator.

    neuroncore run kernels/ch02_softmax.py::softmax
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def softmax(x):
    """Softmax of each row of x [rows, columns], float32; a row must fit into an SBUF partition."""
    rows, columns = x.shape
    result = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for top in range(0, rows, nl.tile_size.pmax):
        height = min(nl.tile_size.pmax, rows - top)
        here = slice(top, top + height)
        tile = nl.ndarray((height, columns), x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[here])

        lowered = nl.ndarray((height, 1), nl.float32, buffer=nl.sbuf)  # -max of each row
        nisa.tensor_reduce(dst=lowered, op=nl.maximum, data=tile, axis=1, negate=True)

        powers = nl.ndarray((height, columns), nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((height, 1), nl.float32, buffer=nl.sbuf)
        nisa.activation(
            dst=powers,
            op=nl.exp,
            data=tile,
            bias=lowered,
            reduce_op=nl.add,
            reduce_res=total,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )

        # One reciprocal per row and a product per element: cheaper than a division per element.
        inverse = nl.ndarray((height, 1), nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=inverse, data=total)
        nisa.tensor_scalar(dst=powers, data=powers, op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=result[here], src=powers)
    return result


def inputs(rng):
    return [4 * rng.standard_normal((200, 1000), np.float32)]


def reference(x):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


if __name__ == "__main__":
    given = inputs(np.random.default_rng(0))
    np.testing.assert_allclose(softmax(*given), reference(*given), rtol=1e-5)
