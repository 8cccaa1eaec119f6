"""Work in halves in kernels of the older API, whose compiler merges iterations."""

import numpy as np
from neuronxcc import nki
from neuronxcc.nki import isa as nisa
from neuronxcc.nki import language as nl

from neuroncore import run
from neuroncore.time.changes import as_it_is
from neuroncore.time.edits.halves import in_halves
from neuroncore.time.lines import on_the_path


@nki.jit
def scaled(x, parts):
    """Divide rows by their sums. The compiler merges this over iterations, in `parts`."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    own = [nl.ds(k * x.shape[2] // parts, x.shape[2] // parts) for k in range(parts)]
    for i in nl.affine_range(x.shape[0]):
        tile, made = (nl.ndarray(x.shape[1:], x.dtype, buffer=nl.sbuf) for _ in range(2))
        for part in own:
            tile[:, part] = nl.load(x[i, :, part])
        inverse = nisa.reciprocal(nl.sum(tile, axis=1))
        for part in own:
            made[:, part] = nisa.tensor_scalar(tile[:, part], nl.multiply, inverse)
        for part in own:
            nl.store(out[i, :, part], made[:, part])
    return out


def test_halves_keep_merged_iterations():
    x = np.ones((8, 128, 512), np.float32)
    (whole,), (halved,) = (run(scaled, x, parts, target="trn2").timelines for parts in (1, 2))
    (edit, *_) = in_halves(as_it_is(whole), on_the_path(whole))
    made = edit.change.scheduled(0)
    assert (made.compiled.heads >= 0).sum() == (halved.compiled.heads >= 0).sum() > 0
    assert made.total_ns == halved.total_ns


def test_a_write_of_a_repeated_tile_does_not_wait_for_the_write_that_it_precedes():
    """The writes of 0 in all iterations are merged, and precede the load of the first iteration.
    The tile of the first iteration replaces the others, and that load completes it."""

    @nki.jit
    def kernel(x, y):
        out = nl.ndarray((64, 128), x.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(4):
            moving = nl.zeros((33, 128), y.dtype)
            moving[:, 0:36] = nl.load(y)
            product = nisa.nc_matmul(nl.load(x[:, nl.ds(16 * i, 16)]), moving)
            nl.store(out[nl.ds(16 * i, 16), :], nl.copy(product))
        return out

    x, y = np.ones((33, 64), np.float32), np.ones((33, 36), np.float32)
    (timeline,) = run(kernel, x, y, target="trn2").timelines
    form = timeline.compiled
    assert (form.instead > np.arange(len(form.instead))).any()
    assert timeline.total_ns > 0
