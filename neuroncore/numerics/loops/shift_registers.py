"""Random numbers of shift registers, for many lanes at a time: XORWOW (Marsaglia: "Xorshift RNGs",
Journal of Statistical Software 8(14), 2003) and a linear-feedback shift register."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.jit import compiled

Array = npt.NDArray[Any]

WEYL = np.uint32(362437)
TAPS = np.uint32(0x80200003)  # x^32 + x^22 + x^2 + x + 1
ONE, TWO, FOUR = np.uint32(1), np.uint32(2), np.uint32(4)


@compiled
def xorwow(states: Array, out: Array) -> None:
    """Set `out`, shape [N, S, P], to the next numbers of the states, shape [S, 6, P], which
    advance."""
    for n in range(out.shape[0]):
        for s in range(out.shape[1]):
            x, y, z, w, v, d = states[s]
            for p in range(out.shape[2]):
                t = np.uint32(x[p] ^ (x[p] >> TWO))
                x[p], y[p], z[p], w[p] = y[p], z[p], w[p], v[p]
                last = np.uint32(v[p] ^ np.uint32(v[p] << FOUR) ^ t ^ np.uint32(t << ONE))
                v[p] = last
                d[p] = np.uint32(d[p] + WEYL)
                out[n, s, p] = np.uint32(last + d[p])


@compiled
def lfsr(states: Array, out: Array) -> None:
    """Set `out`, shape [N, S, P], to the next numbers of the states, shape [S, 1, P], which
    advance. Each number is a register after 32 shifts."""
    for n in range(out.shape[0]):
        for s in range(out.shape[1]):
            for p in range(out.shape[2]):
                r = np.uint32(states[s, 0, p])
                for _ in range(32):
                    r = np.uint32((r >> ONE) ^ (TAPS * (r & ONE)))
                states[s, 0, p] = r
                out[n, s, p] = r
