"""What hashes of several words are made with, compiled or not."""

import numpy as np

MIX = np.uint64(0x9E3779B97F4A7C15)  # spreads the bits of a 64-bit hash
