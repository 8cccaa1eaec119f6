"""Uninitialized memory in random programs, in indirectly selected elements and after transfers."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import TARGETS, Device
from hypothesis import given
from hypothesis import strategies as st
from written_tiles import from_psum, made

from neuroncore.base.options import Options
from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.frontend.settings import settings

STEPS = {
    "copy": lambda d, a, b: nisa.tensor_copy(d, a),
    "add": lambda d, a, b: nisa.tensor_tensor(d, a, b, nl.add),
    "most": lambda d, a, b: nisa.tensor_tensor(d, a, b, nl.maximum),
    "scale": lambda d, a, b: nisa.tensor_scalar(d, a, nl.multiply, b[:, 0:1]),
    "fold": lambda d, a, b: nisa.tensor_reduce(d[:, 0:1], nl.add, a, 1),
    "scan": lambda d, a, b: nisa.tensor_tensor_scan(d, a, b, 0.0, nl.multiply, nl.add),
    "choose": lambda d, a, b: nisa.tensor_copy_predicated(d, a, b.view(nl.uint32)),
    "sum": lambda d, a, b: nisa.activation_reduce(d, nl.copy, a, nl.add, b[:, 0:1]),
    "move": lambda d, a, b: nisa.dma_copy(d, a),
    "turn": lambda d, a, b: nisa.nc_transpose(d, a, engine=nisa.vector_engine),
    "turn in psum": lambda d, a, b: nisa.tensor_copy(d, from_psum("nc_transpose", (3, 3), a)),
    "multiply": lambda d, a, b: nisa.tensor_copy(d, from_psum("nc_matmul", (3, 3), a, b)),
    "fill": lambda d, a, b: nisa.memset(d, 1.0),
}
SIZE = 6


def parts(data):
    """Return a tile of three, and a square part of it."""
    first = data.draw(st.integers(0, SIZE - 3))
    return data.draw(st.integers(0, 2)), slice(first, first + 3)


@given(data=st.data())
def test_every_result_that_undefined_elements_change_is_reported(data):
    names = data.draw(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=8))
    steps = [(name, *(parts(data) for _ in range(3))) for name in names]
    written, stored = parts(data), parts(data)
    target = data.draw(st.sampled_from(TARGETS))

    def kernel(x):
        tiles = [nl.ndarray((3, SIZE), nl.float32) for _ in range(3)]
        nisa.memset(tiles[written[0]][:, written[1]], 2.0)
        for name, *operands in steps:
            STEPS[name](*(tiles[tile][:, columns] for tile, columns in operands))
        nisa.dma_copy(x, tiles[stored[0]][:, stored[1]])
        return x

    def run(uninitialized):
        x = np.zeros((3, 3), np.float32)
        options = Options(uninitialized=uninitialized, nan_minmax="number")
        return launch(kernel, [x], tensor=NkiTensor, options=options, target=target)

    poison, zeros = run("report"), run("zeros")
    if not np.array_equal(poison.outputs, zeros.outputs):
        assert "UNINIT_READ" in [f.code for f in poison.findings]


@pytest.mark.parametrize("depends", ["nothing", "source", "index", "destination"])
def test_selected_elements_are_reported_if_they_or_their_index_may_be_uninitialized(depends):
    """Uninitialized elements of other tiles, and those that were overwritten, have no effect."""

    def kernel(x, at):
        partly, places = nl.ndarray((16, 8), nl.uint32), nl.ndarray((16, 1), nl.uint32)
        nisa.dma_copy(partly[:, 0:2], x[:, 0:2])
        nisa.dma_copy(places, at)
        lost = made("tensor_copy", partly, shape=(16, 8), dtype=nl.uint32)
        tile, dst = (nl.ndarray((16, 8), nl.uint32) for _ in range(2))
        nisa.dma_copy(tile, x)
        nisa.dma_copy(dst, x)
        if depends == "index":
            nisa.tensor_copy(places, lost[:, 3:4])
        elif depends != "nothing":
            nisa.tensor_copy({"source": tile, "destination": dst}[depends], lost)
        nisa.memset(lost, 0)
        nisa.tensor_copy(dst.indirect(places, 4), tile.indirect(places, 4))

    x, at = np.ones((16, 8), np.uint32), np.zeros((16, 1), np.uint32)
    with settings(target="trn3"):
        run = launch(kernel, [x, at], tensor=NkiTensor)
    told = [one.place.line for one in run.findings if one.code == "UNINIT_READ"]
    assert bool(told) == (depends != "nothing")


def test_undefined_elements_that_a_transfer_overwrites_do_not_matter():
    """Only a transfer whose index may be out of bounds leaves elements unchanged."""

    def kernel(x):
        tile = nl.ndarray((16, 8), nl.float32)
        made("tensor_copy", tile, shape=(16, 8), dtype=nl.float32)
        nisa.dma_copy(tile[:, 2:5], x)
        out = nl.ndarray((16, 3), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile[:, 2:5])
        return out

    run = launch(kernel, [np.ones((16, 3), np.float32)], tensor=NkiTensor)
    assert "UNINIT_READ" not in [one.code for one in run.findings]


def test_reused_storage_has_no_undefined_elements_of_the_old_tensor():
    device = Device()
    device.core.defers_undefined = True
    tile, copy = device.empty((4, 8)), device.empty((4, 8))
    device.issue("tensor_copy", copy, tile)
    assert device.core.undefined_in(copy) is not None
    device.core.undefined.forget(copy.storage)
    assert device.core.undefined_in(copy) is None
