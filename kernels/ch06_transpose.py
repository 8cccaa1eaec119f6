"""6. Transposition: moving data between partitions.

Rows are in partitions, so a transpose moves data between partitions. The DMA engines can do this,
but slowly, element by element. The Tensor engine is faster, because it sends each row of its input
down a column of its grid. `nc_transpose` is a matmul with the identity matrix: [128, 128] in SBUF
becomes [128, 128] in PSUM, in one cycle per column.

A large matrix is transposed block by block; block (i, j) of the input becomes block (j, i) of the
result. Four blocks share one bank of PSUM, so that one copy moves all four.

    neuroncore run kernels/ch06_transpose.py::transpose
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def transpose(x):
    """x.T for x [rows, columns] of a float dtype."""
    rows, columns = x.shape
    block = nl.tile_size.pmax
    across = nl.tile_size.psum_bank_fmax  # float32 columns of a PSUM bank
    result = nl.ndarray((columns, rows), x.dtype, buffer=nl.shared_hbm)
    for top in range(0, rows, across):
        strips = []  # up to 512 rows of x, in tiles of 128
        for r in range(top, min(top + across, rows), block):
            strip = nl.ndarray((min(block, rows - r), columns), x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=strip, src=x[r : r + strip.shape[0]])
            strips.append(strip)
        width = min(across, rows - top)
        for left in range(0, columns, block):
            height = min(block, columns - left)
            turned = nl.ndarray((height, width), x.dtype, buffer=nl.psum)
            for i, strip in enumerate(strips):
                nisa.nc_transpose(
                    dst=turned[:, i * block : i * block + strip.shape[0]],
                    data=strip[:, left : left + height],
                )
            out = nl.ndarray((height, width), x.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=out, src=turned)
            nisa.dma_copy(dst=result[left : left + height, top : top + width], src=out)
    return result


def inputs(rng):
    return [rng.standard_normal((700, 300), np.float32)]


def reference(x):
    return np.ascontiguousarray(x.T)


if __name__ == "__main__":
    given = inputs(np.random.default_rng(0))
    np.testing.assert_array_equal(transpose(*given), reference(*given))
