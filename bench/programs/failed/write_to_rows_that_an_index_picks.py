"""A schedule began an addition to rows that an index picks before a store to a row was done."""

import numpy as np

from bench.programs.checks import main  # isort: split

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x9, x11, x14):
    t10 = nl.load(x9)
    i, j = nl.mgrid[0:128, 0:24]
    t12 = nl.load(x11[i + 0, j * 2 + 0])
    o13 = nl.ndarray((143, 24), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(o13[128:143, 0:24], nl.load(x14[128:143, 0:24]))
    nl.atomic_rmw(o13[t10[i, 0], j], value=t12, op=np.add)
    return o13


INPUTS = [
    ("x9", (128, 1), "int32", "known", 556959, 142),
    ("x11", (135, 49), "float32", "any", 0, 0),
    ("x14", (143, 24), "float32", "any", 0, 0),
]
main(kernel, 149729672, INPUTS, "trn1", programs=3)
