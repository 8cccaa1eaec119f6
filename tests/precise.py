"""Small kernels compared with float64: functions to write them, run them and read which lines cause
the error."""

import nki.isa as nisa
import nki.language as nl
import numpy as np

from neuroncore.base.options import Options
from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor

RNG = np.random.default_rng(5)
X = RNG.standard_normal((70, 300)).astype(np.float32)
SMALL = X[:13]  # so large that no sample is taken
WIDE = RNG.standard_normal((128, 700)).astype(np.float32)


def run(kernel, *args, grid=(), target="trn2", **options):
    """Launch a kernel with a comparison in float64; return the run and the findings."""
    done = launch(
        getattr(kernel, "function", kernel), args, tensor=NkiTensor, grid=grid, target=target,
        options=Options(precision=True, **options),
    )  # fmt: skip
    return done, done.precision


def blamed(found, *words):
    """The share of the error of the lines whose text contains one of the words."""
    return sum(line.share for line in found.lines if any(w in line.place.text for w in words))


def codes(found):
    return [warning.code for warning in found.warnings]


def empty(shape, dtype=nl.float32, buffer=nl.sbuf):
    return nl.ndarray(shape, dtype, buffer=buffer)


def loaded(source, dtype=None):
    tile = empty(source.shape, dtype or source.dtype)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def copied(source, dtype=nl.float32):
    tile = empty(source.shape, dtype)
    nisa.tensor_copy(dst=tile, src=source)
    return tile


def stored(tile):
    out = empty(tile.shape, tile.dtype, nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def through(narrow):
    def kernel(x):
        tile = loaded(x)
        root = empty(tile.shape)
        nisa.activation(dst=root, op=nl.exp, data=tile, scale=0.3)
        rough = empty(tile.shape, narrow)
        nisa.tensor_copy(dst=rough, src=root)  # the rough line
        back = empty(tile.shape)
        nisa.tensor_scalar(dst=back, data=rough, op0=nl.multiply, operand0=1.7)
        nisa.tensor_tensor(dst=back, data1=back, data2=tile, op=nl.add)
        return stored(back)

    return kernel
