"""Loops compiled by numba. Each has an obvious twin above this room, and a test that compares them.

Nothing in this folder is imported before it is needed: see `neuroncore.native.lazy`.
"""

import numpy as np

MIX = np.uint64(0x9E3779B97F4A7C15)  # spreads the bits of a 64-bit hash, compiled or not
