"""Edits that `why` suggests: the edited kernel takes the promised time, and no edit is suggested
for its twin."""

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from neuroncore import run
from neuroncore.time.loops.dependencies import Accesses
from neuroncore.time.loops.halves import put_off

TILE = (128, 512)
VECTOR, SCALAR = nisa.engine.vector, nisa.engine.scalar


def tiles(x, count=1):
    return [nl.ndarray(TILE, x.dtype, buffer=nl.sbuf) for _ in range(count)]


def like(x):
    return nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)


@nki.jit
def buffered(x, count):
    """Iterations that load into the same tiles again; a kernel with few iterations needs no more
    tiles."""
    out, own = like(x), tiles(x, count)
    for i in range(x.shape[0]):
        tile, (made,) = own[i % count], tiles(x)
        nisa.dma_copy(tile, x[i])
        nisa.tensor_scalar(made, tile, nl.add, 1.0, engine=VECTOR)
        nisa.dma_copy(out[i], made)
    return out


@nki.jit
def prefetched(x, count):
    """Load, work and store, with the load of the next iteration first."""
    out, own = like(x), tiles(x, count)
    nisa.dma_copy(own[0], x[0])
    for i in range(x.shape[0]):
        if i + 1 < x.shape[0]:
            nisa.dma_copy(own[(i + 1) % count], x[i + 1])
        (made,) = tiles(x)
        nisa.tensor_scalar(made, own[i % count], nl.add, 1.0, engine=VECTOR)
        nisa.dma_copy(out[i], made)
    return out


@nki.jit
def moved(x, together, again, count=0):
    """Transfers of short rows, `together` of which are one transfer. `again` loads the same rows;
    the tiles are `count` alternating tiles, or a new tile for each transfer."""
    out = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray((128, 64), x.dtype, buffer=nl.sbuf)
    nisa.memset(total, 0.0)
    own = [nl.ndarray((128, together, 64), x.dtype, buffer=nl.sbuf) for _ in range(count)]
    for i in range(0, x.shape[0], together):
        new = not own and nl.ndarray((128, together, 64), x.dtype, buffer=nl.sbuf)
        tile = own[i // together % count] if own else new
        nisa.dma_copy(
            tile, x[0 if again else i : (0 if again else i) + together].permute((1, 0, 2))
        )
        for j in range(together):
            nisa.tensor_tensor(total, total, tile[:, j], nl.add, engine=VECTOR)
    nisa.dma_copy(out, total)
    return out


@nki.jit
def placed(x, second):
    """Two lines on Vector, or every second iteration of one of them on another engine."""
    out, (tile,) = like(x), tiles(x)
    nisa.dma_copy(tile, x)
    for i in range(24):
        (one,) = tiles(x)
        nisa.tensor_scalar(one, tile, nl.add, 1.0, engine=second if i % 2 else VECTOR)
        nisa.tensor_tensor(one, one, tile, nl.multiply, engine=VECTOR)
    nisa.dma_copy(out, one)
    return out


@nki.jit
def summed(w, x, in_psum):
    out = nl.ndarray(TILE, nl.float32, buffer=nl.shared_hbm)
    weights = nl.ndarray(w.shape, w.dtype, buffer=nl.sbuf)
    nisa.dma_copy(weights, w)
    (tile,) = tiles(x)
    nisa.dma_copy(tile, x)
    total = nl.ndarray(TILE, nl.float32, buffer=nl.sbuf)
    product = nl.ndarray(TILE, nl.float32, buffer=nl.psum)
    if not in_psum:
        nisa.memset(total, 0.0)
    for _ in range(16):
        if not in_psum:
            product = nl.ndarray(TILE, nl.float32, buffer=nl.psum)
        nisa.nc_matmul(product, weights, tile)
        if not in_psum:
            nisa.tensor_tensor(total, total, product, nl.add)
    if in_psum:
        nisa.tensor_copy(total, product)
    nisa.dma_copy(out, total)
    return out


@nki.jit
def chained(x, parts, reduces):
    """A long load, work element by element or by row, and a long store."""
    out, columns = like(x), x.shape[1] // parts
    for k in range(parts):
        here = slice(k * columns, (k + 1) * columns)
        tile = nl.ndarray((128, columns), x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, x[:, here])
        if reduces:
            most = nl.ndarray((128, 1), x.dtype, buffer=nl.sbuf)
            nisa.tensor_reduce(most, nl.maximum, tile, axis=1)
            nisa.tensor_scalar(tile, tile, nl.subtract, most, engine=VECTOR)
            nisa.tensor_reduce(most, nl.add, tile, axis=1)
            nisa.dma_copy(out[:, k : k + 1], most)
        else:
            nisa.tensor_scalar(tile, tile, nl.add, 1.0, engine=VECTOR)
            nisa.tensor_scalar(tile, tile, nl.multiply, 2.0, engine=VECTOR)
            nisa.dma_copy(out[:, here], tile)
    return out


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def ns(kernel, *given):
    return run(kernel, *given, target="trn2").timelines[0].total_ns


def edits(kernel, *given):
    return {one.how: one for one in run(kernel, *given, target="trn2").why().answers.edits}


TURNS, SHORT, ONE = zeros(8, *TILE), zeros(24, 128, 64), zeros(*TILE)
W32, W16 = zeros(128, 128), zeros(128, 128, dtype=ml_dtypes.bfloat16)
X16, WIDE = zeros(*TILE, dtype=ml_dtypes.bfloat16), zeros(128, 4096)


@pytest.mark.parametrize(
    ("kernel", "given", "how", "then", "rel"),
    [
        (buffered, (TURNS, 1), "double-buffer its tile (SBUF)", (TURNS, 2), 1e-9),
        (moved, (SHORT, 1, False), "move 2 tiles per transfer", (SHORT, 2, False), 0.01),
        (moved, (SHORT, 1, False), "move 4 tiles per transfer", (SHORT, 4, False), 0.01),
        (moved, (SHORT, 1, False, 2), "move 4 tiles per transfer", (SHORT, 4, False, 2), 0.01),
        (placed, (ONE, VECTOR), "every second tensor_scalar on Scalar", (ONE, SCALAR), 1e-9),
        (summed, (W16, X16, False),
         "accumulate the products in PSUM instead of adding each one to a tile",
         (W16, X16, True), 0.02),
        (summed, (W32, ONE, True), "use bfloat16 operands and inputs", (W16, X16, True), 1e-9),
        (chained, (WIDE, 1, False), "work in halves", (WIDE, 2, False), 0.02),
    ],
)  # fmt: skip
def test_an_edit_saves_what_is_promised(kernel, given, how, then, rel):
    (found,) = (one for name, one in edits(kernel, *given).items() if name.startswith(how))
    assert found.ns == pytest.approx(ns(kernel, *then), rel)
    assert found.ns < ns(kernel, *given)


@pytest.mark.parametrize(
    ("kernel", "given", "how"),
    [
        (buffered, (TURNS, 8), "double-buffer"),
        (moved, (SHORT, 1, True), "move 2 tiles"),  # always the same rows, which cannot be joined
        (moved, (SHORT, 1, False), "load each tile once"),
        (summed, (W16, X16, True), "accumulate"),
        (summed, (W16, X16, True), "bfloat16"),
        (chained, (WIDE, 1, True), "work in halves"),  # a row's maximum needs both halves
        (chained, (WIDE, 4, False), "work in halves"),
    ],
)
def test_an_edit_that_would_not_help_is_not_suggested(kernel, given, how):
    assert not [one for one in edits(kernel, *given) if one.startswith(how)]


def test_rows_that_are_loaded_again_are_kept():
    found = edits(moved, SHORT, 1, True)
    assert found["load each tile once and keep it"].sbuf == 256


def test_an_edited_program_waits_for_space_in_the_order_of_its_tiles():
    """There are more iterations than SBUF has space for: the copies of a tile are used early,
    although they were added last."""
    given = np.broadcast_to(zeros(*TILE), (150, *TILE))
    found = edits(buffered, given, 1)["double-buffer its tile (SBUF)"]
    assert found.ns == pytest.approx(ns(buffered, given, 2), 1e-9)


def test_loads_of_the_next_iteration_need_no_edit():
    """They start when their buffer is free, at any place in the kernel."""
    assert ns(prefetched, TURNS, 2) == pytest.approx(ns(buffered, TURNS, 2), 1e-9)


@pytest.mark.parametrize(
    ("wait", "order"), [(-1, [0, 2, 3, 5, 1, 4, 6]), (-2, [0, 1, 2, 3, 5, 4, 6])]
)
def test_second_halves_are_late_but_before_a_barrier(wait, order):
    """A load, an addition in place and a store have two halves each; a barrier follows the load."""
    start, operands, reads = (
        [0, 1, 2, 2, 3, 4, 6, 8],
        [0, 1, 0, 1, 0, 2, 1, 3],
        [0, 0, 0, 0, 0, 1, 1],
    )
    alone = np.arange(4), np.arange(5)  # boxes that share no bytes
    uses = Accesses(*map(np.array, (start, operands, reads)), *alone)
    half, line = np.array([0, 1, wait, 0, 1, 0, 1]), np.array([0, 0, 1, 2, 2, 3, 3])
    found = np.empty(7, np.int64)
    put_off.plain(uses, half, line, np.full((2, 4), -1), np.full(4, -1), found)
    assert found.tolist() == order
