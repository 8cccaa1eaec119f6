"""Functions of the older API, neuronxcc.nki, run on arrays of a test."""

import numpy as np
from neuronxcc import nki
from neuronxcc.nki import language as nl


def applied(function, *values, **options):
    """Return the result of a function of tiles. Arrays among the values are loaded first; numbers
    are passed unchanged."""

    def kernel(*given):
        tiles = [nl.load(v) if isinstance(v, nki.tensor) else v for v in given]
        return stored(function(*tiles, **options))

    return nki.simulate_kernel(kernel, *values)


def stored(tile):
    """A tensor in HBM with the values of a tile."""
    out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.hbm)
    nl.store(out, tile)
    return out


def numbers(*shape, seed=0, dtype=np.float32):
    """Normal numbers; for integers, from -50 to 50."""
    rng = np.random.default_rng([seed, *shape])
    values = rng.standard_normal(shape)
    whole = np.dtype(dtype).kind in "iu"
    return (np.rint(values * 20) if whole else values.astype(np.float32)).astype(dtype)
