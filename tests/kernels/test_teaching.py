"""Rules about speed from courses and tutorials agree with the estimates of kernels written for
these tests."""

import ml_dtypes
import numpy as np
import pytest
from neuronxcc import nki
from neuronxcc.nki import language as nl

from neuroncore import machine
from neuroncore.base.options import Options
from neuroncore.frontend.settings import settings
from neuroncore.time.schedule import schedule

PARTITIONS = 128


class Launch:
    """An observer that keeps the last launch."""

    def begun(self, core):
        pass

    def done(self, run):
        self.run = run


def recorded(kernel, *arguments, target="trn2"):
    """Return the result of a kernel, and its record."""
    launch = Launch()
    with settings(target, Options(), launch):
        result = nki.jit(kernel)(*arguments)
    (core,) = launch.run.cores
    return np.asarray(result), core.program


def timed(kernel, *arguments, target):
    """Return the result of a kernel, and its timeline."""
    result, program = recorded(kernel, *arguments, target=target)
    return result, schedule(program, machine.load(target))


def transfers(timeline):
    return sum(timeline.program.calls[c].name == "dma_copy" for c in timeline.columns.call)


# --- vectors that are added piece by piece (Stanford's CS149) -------------------------------------


def add_streaming(a, b, free):
    """Each partition has an adjacent part of the vectors; `free` elements of it are added at a
    time."""
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    each = a.shape[0] // PARTITIONS
    left, right, total = (t.reshape((PARTITIONS, each)) for t in (a, b, out))
    for start in nl.affine_range(each // free):
        piece = nl.ds(start * free, free)
        nl.store(total[:, piece], nl.load(left[:, piece]) + nl.load(right[:, piece]))
    return out


def streamed(count, free, target):
    rng = np.random.default_rng(1)
    a, b = rng.random((2, count), np.float32)
    found, timeline = timed(add_streaming, a, b, free, target=target)
    np.testing.assert_array_equal(found, a + b)
    return timeline


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_two_pieces_that_overlap_are_faster_than_one(target):
    whole, halves = (streamed(256_000, free, target) for free in (2000, 1000))
    assert (transfers(whole), transfers(halves)) == (3, 6)
    assert halves.total_ns < whole.total_ns


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_larger_pieces_are_faster_than_small_ones(target):
    times = [streamed(25_600, free, target).total_ns for free in (2, 20, 200)]
    assert times == sorted(times, reverse=True)


# --- transfers ------------------------------------------------------------------------------------


def copied(x, pieces):
    """Copy from HBM to HBM through SBUF, in this number of pieces."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    size = x.shape[1] // pieces
    for k in nl.affine_range(pieces):
        piece = nl.ds(k * size, size)
        nl.store(out[:, piece], nl.load(x[:, piece]))
    return out


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_larger_transfers_of_the_same_bytes_are_faster(target):
    x = np.arange(PARTITIONS * 4096, dtype=np.float32).reshape(PARTITIONS, 4096)
    times = []
    for pieces in (256, 64, 16, 4):
        found, timeline = timed(copied, x, pieces, target=target)
        assert transfers(timeline) == 2 * pieces and (found == x).all()
        times.append(timeline.total_ns)
    assert times == sorted(times, reverse=True)
    assert times[0] > 1.5 * times[-1]


# --- a matrix product, step by step (the SDK's tutorial) ------------------------------------------

ROWS, DEPTH, COLUMNS = 128, 128, 512  # sizes of one product


def load_tile(tensor, row, column, columns):
    return nl.load(tensor[nl.ds(row * DEPTH, DEPTH), nl.ds(column * columns, columns)])


def tiles(left, right):
    """Return the numbers of products along rows, columns and depth."""
    depth, rows = left.shape
    return rows // ROWS, right.shape[1] // COLUMNS, depth // DEPTH


def sums():
    return nl.zeros((ROWS, COLUMNS), nl.float32, buffer=nl.psum)


def put(out, m, n, tile):
    nl.store(out[nl.ds(m * ROWS, ROWS), nl.ds(n * COLUMNS, COLUMNS)], tile)


def by_tiles(left, right):
    """Both operands are loaded for every product."""
    ms, ns, ks = tiles(left, right)
    out = nl.ndarray((ms * ROWS, ns * COLUMNS), left.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(ms):
        for n in nl.affine_range(ns):
            total = sums()
            for k in nl.affine_range(ks):
                one, other = load_tile(left, k, m, ROWS), load_tile(right, k, n, COLUMNS)
                total += nl.matmul(one, other, transpose_x=True)
            put(out, m, n, nl.copy(total, dtype=out.dtype))
    return out


def with_hoisted_loads(left, right):
    """The tiles of a row are loaded once for that row."""
    ms, ns, ks = tiles(left, right)
    out = nl.ndarray((ms * ROWS, ns * COLUMNS), left.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(ms):
        own = [load_tile(left, k, m, ROWS) for k in range(ks)]
        for n in nl.affine_range(ns):
            others, total = [load_tile(right, k, n, COLUMNS) for k in range(ks)], sums()
            for one, other in zip(own, others):
                total += nl.matmul(one, other, transpose_x=True)
            put(out, m, n, nl.copy(total, dtype=out.dtype))
    return out


def product_of_tiles(own, others, m, n):
    """Multiply tile m of each tensor on the left by tile n of each tensor on the right."""
    total = sums()
    for one, other in zip(own, others):
        x = one[:, nl.ds(m * ROWS, ROWS)]
        y = other[:, nl.ds(n * COLUMNS, COLUMNS)]
        total += nl.matmul(x, y, transpose_x=True)
    return total


def with_blocks(left, right, block_m=2, block_n=2):
    """The tiles of a block are loaded once for that block."""
    ms, ns, ks = tiles(left, right)
    out = nl.ndarray((ms * ROWS, ns * COLUMNS), left.dtype, buffer=nl.shared_hbm)
    for bm in nl.affine_range(ms // block_m):
        wide = block_m * ROWS
        own = [load_tile(left, k, bm, wide) for k in range(ks)]
        for bn in nl.affine_range(ns // block_n):
            others = [load_tile(right, k, bn, block_n * COLUMNS) for k in range(ks)]
            for m in range(block_m):
                for n in range(block_n):
                    total = product_of_tiles(own, others, m, n)
                    tile = nl.copy(total, dtype=out.dtype)
                    put(out, bm * block_m + m, bn * block_n + n, tile)
    return out


def with_blocks_in_depth(left, right, block_k=8):
    """Every element is loaded once, and partial sums wait in SBUF."""
    ms, ns, ks = tiles(left, right)
    out = nl.ndarray((ms * ROWS, ns * COLUMNS), left.dtype, buffer=nl.shared_hbm)
    parts = nl.zeros((nl.par_dim(ROWS), ms, ns, COLUMNS), nl.float32, buffer=nl.sbuf)
    for bk in nl.sequential_range(ks // block_k):
        depth = range(block_k)
        own = [load_tile(left, bk * block_k + k, 0, ms * ROWS) for k in depth]
        others = [load_tile(right, bk * block_k + k, 0, ns * COLUMNS) for k in depth]
        for m in range(ms):
            for n in range(ns):
                parts[:, m, n, :] += product_of_tiles(own, others, m, n)
    for m in range(ms):
        for n in range(ns):
            put(out, m, n, nl.copy(parts[:, m, n, :], dtype=out.dtype))
    return out


STEPS = by_tiles, with_hoisted_loads, with_blocks, with_blocks_in_depth


@pytest.fixture(scope="module")
def steps():
    """Return the records of all steps, for a product as deep as the tutorial's."""
    rng = np.random.default_rng(2)
    left, right = (rng.standard_normal((8192, n)).astype(ml_dtypes.bfloat16) for n in (512, 1024))
    wanted = left[:, :8].astype(np.float32).T @ right.astype(np.float32)
    programs = []
    for step in STEPS:
        found, program = recorded(step, left, right)
        error = np.linalg.norm(found[:8].astype(np.float32) - wanted) / np.linalg.norm(wanted)
        assert error < 5e-3
        programs.append(program)
    return programs


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_no_step_of_the_tutorial_is_slower_than_the_one_before(steps, target):
    """This order was measured on trn1. The second step does by hand what the compiler does to the
    first. Its loads come in a burst, which takes longer if one generator writes all descriptors
    (the steps were never measured on trn2)."""
    timelines = [schedule(program, machine.load(target)) for program in steps]
    assert [transfers(t) - 8 for t in timelines] == [1024, 768, 256, 128]
    times = [t.total_ns for t in timelines]
    assert times[1] > times[2] > times[3]
    assert target != "trn1" or times[0] >= times[1]


# --- a direct convolution -------------------------------------------------------------------------

SIDE, CHANNELS, TAPS = 224, 256, 3
WIDTH = SIDE - TAPS + 1  # of the result, because there is no padding
GROUPS = CHANNELS // PARTITIONS


def convolved(image, weights):
    """Each tap of the filter is a product for each group of input and output channels; two rows of
    the result are made at a time. image [channels, rows, SIDE], weights [channels, taps, taps,
    channels out]."""
    height = image.shape[1] - TAPS + 1
    out = nl.ndarray((CHANNELS, height, WIDTH), image.dtype, buffer=nl.shared_hbm)
    channels = [nl.ds(g * PARTITIONS, PARTITIONS) for g in range(GROUPS)]
    filters = [nl.load(weights[own]) for own in channels]
    for pair in nl.affine_range(height // 2):
        rows = [nl.load(image[own, nl.ds(2 * pair, 2 + TAPS - 1), :]) for own in channels]
        for to in channels:
            total = nl.zeros((PARTITIONS, 2, WIDTH), nl.float32, buffer=nl.psum)
            for taps, moving in zip(filters, rows):
                for y in range(TAPS):
                    for x in range(TAPS):
                        seen = moving[:, nl.ds(y, 2), nl.ds(x, WIDTH)]
                        total += nl.matmul(taps[:, y, x, to], seen, transpose_x=True)
            nl.store(out[to, nl.ds(2 * pair, 2), :], nl.copy(total, dtype=out.dtype))
    return out


def test_a_convolution_takes_at_least_the_time_of_its_products():
    """36 products for each of 222 x 222 pixels take 739 us at 2.4 GHz; this test has 8 rows."""
    height = 8
    rng = np.random.default_rng(3)
    image = rng.standard_normal((CHANNELS, height + TAPS - 1, SIDE)).astype(np.float16)
    weights = rng.standard_normal((CHANNELS, TAPS, TAPS, CHANNELS)).astype(np.float16) / 16
    found, timeline = timed(convolved, image, weights, target="trn2")
    windows = np.lib.stride_tricks.sliding_window_view(
        image.astype(np.float32)[:, : 2 + TAPS - 1], (TAPS, TAPS), axis=(1, 2)
    )
    wanted = np.einsum("cijyx,cyxo->oij", windows, weights.astype(np.float32), optimize=True)
    error = np.linalg.norm(found[:, :2].astype(np.float32) - wanted) / np.linalg.norm(wanted)
    assert error < 1e-3
    floor_us = 739 * height / WIDTH
    assert floor_us == pytest.approx(36 * height * WIDTH / 2400, rel=1e-3)
    assert floor_us <= timeline.total_ns / 1000 < 2 * floor_us
