"""The kernels of `bench/peers.py`, one module for each language, with the same tiles."""
