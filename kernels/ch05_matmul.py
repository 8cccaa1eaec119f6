"""5. Matrix multiplication, in four steps.

The Tensor engine is a grid of 128 x 128 multipliers. It stores one tile of the left matrix
(stationary, [K = 128, M <= 128]) and streams columns of the right matrix through it (moving,
[K = 128, N <= 512]). One column per cycle leaves to PSUM, which adds up the products of
successive tiles along K. Both operands have K on the partitions, so the left matrix is passed
transposed, as `a_t` [K, M].

A product takes at least M * N * K / (128 * 128) cycles. Kernels take longer, because of loads. Each
step below computes the same tiles, bit for bit, and loads fewer bytes than the step before. The
bytes and times are for `inputs`, a product of 512 x 1024 with 1024 x 2048, on trn2:

* `naive`: loads both tiles for each product. 20 MiB, 146.6 us.
* `hoisted`: loads the tiles of `a_t` once per row of tiles of the result. 17 MiB, 93.9 us.
* `blocked_free`: computes two by two tiles of the result at a time; each load is used twice. 9 MiB,
  37.3 us.
* `blocked`: computes four tiles in a column; each tile of `b` is used four times, and `a_t` is
  loaded once. 5 MiB, 36.3 us.

The last step saves little on trn2: the products of the Tensor engine take most of the time, and
loads happen meanwhile. On trn1 DMA is slower, and the number of bytes still matters: the last two
steps take 49.4 us and 34.8 us.

    neuroncore run kernels/ch05_matmul.py                      # all four, one estimate each
    neuroncore run kernels/ch05_matmul.py::blocked --trace matmul.json
"""

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

K = 128  # partitions: rows of a tile
M = 128  # columns of a stationary tile
N = 512  # columns of a moving tile: one bank of PSUM


@nki.jit
def naive(a_t, b):
    """a_t.T @ b, for a_t [k, m] and b [k, n]; k and m are multiples of 128, n of 512."""
    depth, rows, columns = sizes(a_t, b)
    c = nl.ndarray((rows, columns), a_t.dtype, buffer=nl.shared_hbm)
    for m in range(0, rows, M):
        for n in range(0, columns, N):
            total = nl.ndarray((M, N), nl.float32, buffer=nl.psum)
            for k in range(0, depth, K):
                left = load(a_t[k : k + K, m : m + M])
                right = load(b[k : k + K, n : n + N])
                nisa.nc_matmul(dst=total, stationary=left, moving=right)
            store(c[m : m + M, n : n + N], total)
    return c


@nki.jit
def hoisted(a_t, b):
    """The same product as `naive`, for the same sizes."""
    depth, rows, columns = sizes(a_t, b)
    c = nl.ndarray((rows, columns), a_t.dtype, buffer=nl.shared_hbm)
    for m in range(0, rows, M):
        lefts = loaded(a_t[:, m : m + M])
        for n in range(0, columns, N):
            total = nl.ndarray((M, N), nl.float32, buffer=nl.psum)
            for k, left in zip(range(0, depth, K), lefts):
                right = load(b[k : k + K, n : n + N])
                nisa.nc_matmul(dst=total, stationary=left, moving=right)
            store(c[m : m + M, n : n + N], total)
    return c


@nki.jit
def blocked_free(a_t, b):
    """The same product, two by two tiles at a time: m in multiples of 256, n of 1024."""
    _, rows, columns = sizes(a_t, b, m=2 * M, n=2 * N)
    c = nl.ndarray((rows, columns), a_t.dtype, buffer=nl.shared_hbm)
    for m in range(0, rows, 2 * M):
        lefts = loaded(a_t[:, m : m + 2 * M])
        for n in range(0, columns, 2 * N):
            rights = loaded(b[:, n : n + 2 * N])
            for i in range(0, 2 * M, M):
                for j in range(0, 2 * N, N):
                    total = nl.ndarray((M, N), nl.float32, buffer=nl.psum)
                    for left, right in zip(lefts, rights):
                        nisa.nc_matmul(
                            dst=total,
                            stationary=left[:, i : i + M],
                            moving=right[:, j : j + N],
                        )
                    store(c[m + i : m + i + M, n + j : n + j + N], total)
    return c


@nki.jit
def blocked(a_t, b):
    """The same product, four tiles in a column at a time: m in multiples of 512."""
    _, rows, columns = sizes(a_t, b, m=4 * M)
    c = nl.ndarray((rows, columns), a_t.dtype, buffer=nl.shared_hbm)
    for m in range(0, rows, 4 * M):
        lefts = loaded(a_t[:, m : m + 4 * M])
        for n in range(0, columns, N):
            rights = loaded(b[:, n : n + N])
            for i in range(0, 4 * M, M):
                total = nl.ndarray((M, N), nl.float32, buffer=nl.psum)
                for left, right in zip(lefts, rights):
                    nisa.nc_matmul(dst=total, stationary=left[:, i : i + M], moving=right)
                store(c[m + i : m + i + M, n : n + N], total)
    return c


def sizes(a_t, b, m=M, n=N):
    (depth, rows), (depth_b, columns) = a_t.shape, b.shape
    assert depth == depth_b, f"a_t has {depth} rows, b has {depth_b}"
    assert depth % K == 0 and rows % m == 0 and columns % n == 0, f"not multiples of {K}, {m}, {n}"
    return depth, rows, columns


def loaded(source):
    """Load a matrix from HBM. Return its rows as a list of tiles in SBUF, with K rows each."""
    tiles = []
    for k in range(0, source.shape[0], K):
        tiles.append(load(source[k : k + K]))
    return tiles


def load(source):
    """Load a slice of HBM with at most 128 rows. Return the tile in SBUF."""
    tile = nl.ndarray(source.shape, source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def store(target, total):
    """Round a tile in PSUM into a tile in SBUF and store that: DMA cannot read PSUM."""
    tile = nl.ndarray(total.shape, target.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=total)
    nisa.dma_copy(dst=target, src=tile)


def inputs(rng):
    def matrix(*shape):
        return rng.standard_normal(shape, np.float32).astype(ml_dtypes.bfloat16)

    return matrix(1024, 512), matrix(1024, 2048)


def reference(a_t, b):
    return (a_t.astype(np.float64).T @ b.astype(np.float64)).astype(a_t.dtype)


if __name__ == "__main__":
    given = inputs(np.random.default_rng(0))
    first = naive(*given)
    error = first.astype(np.float32) - reference(*given).astype(np.float32)
    assert np.linalg.norm(error) < 1e-3 * np.linalg.norm(first.astype(np.float32))
    for kernel in (hoisted, blocked_free, blocked):
        np.testing.assert_array_equal(kernel(*given), first)
