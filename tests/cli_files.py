"""Kernels and a script, as files that a test of the command line writes, and runs of them."""

import json
import sys
from pathlib import Path

from neuroncore.cli import main

NEURONCORE = str(Path(sys.executable).parent / "neuroncore")

OLDER = """
from neuronxcc import nki
from neuronxcc.nki import language as nl

@nki.jit
def tripled(x):
    tile = nl.load(x)
    tile = nl.multiply(tile, 3.0, dtype=nl.bfloat16)
    out = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out

def inputs(rng):
    return [rng.standard_normal((4, 8)).astype("float32")]

def reference(x):
    return x * 3
"""

KERNEL = """
import os
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def double(x, by=2.0):
    tile = nl.load(x)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(tile, by))
    return out

@nki.jit
def in_place(x):
    nl.store(x, nl.add(nl.load(x), 1.0))
    return x

@nki.jit
def only_in_place(x):
    nl.store(x, nl.add(nl.load(x), 1.0))

@nki.jit
def does_nothing(x):
    nl.load(x)

@nki.jit
def in_a_dictionary(x):
    return {"twice": (double(x), double(x)), "rows": x.shape[0]}

@nki.jit
def nine_banks(x):
    tiles = [nl.zeros((128, 512), nl.float32, buffer=nl.psum) for _ in range(9)]
    for tile in tiles:
        nl.copy(tile)
    return x

@nki.jit
def reads_nothing(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.ndarray(x.shape, x.dtype))
    return out

def inputs(rng):
    return [rng.standard_normal((4, 8)).astype("float32")]

def named():
    return {"x": inputs_of_ones(), "by": 3.0}

def inputs_of_ones():
    import numpy as np
    return np.ones((4, 8), np.float32)

def zeros(x):
    return 0 * x

def reference(x, by=2.0):
    return x * by

def plus_one(x):
    return x + 1

def plus_one_in_place(x):
    x += 1

def twice_two(x):
    return {"twice": [2 * x, 2 * x]}

def of_another_shape(x):
    return x[:2]

def forgotten(x):
    2 * x

def wrong(x, by=2.0):
    return x
"""

SCRIPT = """
import sys
import numpy as np

if __name__ == "__main__":
    os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = "trn3"
    print("arguments", sys.argv[1:])
    assert (double(np.ones((4, 8), np.float32)) == 2).all()
    assert "fail" not in sys.argv, "asked to fail"
    sys.exit("bad" if "exit" in sys.argv else 0)
"""


def ran(capsys, *arguments):
    """Exit code, standard output, standard error."""
    code = main(["run", *map(str, arguments)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def document(capsys, file, *arguments):
    code, out, _ = ran(capsys, file, "--json", *arguments)
    return code, json.loads(out)
