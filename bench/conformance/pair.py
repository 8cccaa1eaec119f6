"""Run a kernel in both APIs on equal inputs, and compare the results.

    python bench/conformance/pair.py OLDER_FILE OLDER_KERNEL NEWER_FILE NEWER_KERNEL PAIR

PAIR is a key of PAIRS in pairs.py. It prints the largest difference, relative to the largest
magnitude, and fails if this is more than the pair allows. If both kernels add in the same order, no
difference is allowed.
"""

from __future__ import annotations

import runpy
import sys
from typing import Any

import numpy as np

import neuroncore

neuroncore.activate()

from held import numpy_of
from pairs import PAIRS, Pair


def results(file: str, kernel: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Run a kernel of a file, and return its results as a list of arrays."""
    function = runpy.run_path(file, run_name="pair")[kernel]
    given = function(*(numpy_of(a, copied=True) for a in arguments), **options)
    return [numpy_of(r) for r in (given if isinstance(given, tuple | list) else [given])]


def difference(got: Any, want: Any) -> tuple[float, bool]:
    """Return the largest difference relative to the largest magnitude of `want`, and whether all
    bits are equal."""
    if got.shape != want.shape or got.dtype != want.dtype:
        raise AssertionError(f"{got.dtype}{got.shape} and {want.dtype}{want.shape}")
    a, b = got.astype(np.float64), want.astype(np.float64)
    if not (np.isfinite(a).all() and np.abs(b).max() > 0):
        raise AssertionError("a comparison needs results that are finite and not all zero")
    return float(np.abs(a - b).max() / np.abs(b).max()), got.tobytes() == want.tobytes()


def compared(pair: Pair, older: Any, newer: Any) -> None:
    if len(older) != len(newer):
        raise AssertionError(f"{len(older)} results and {len(newer)}")
    each = [difference(a, b) for a, b in zip(older, newer, strict=True)]
    worst, same = max(d for d, _ in each), all(bits for _, bits in each)
    print(f"largest difference {worst:.2g}, {'bit for bit equal' if same else 'bits differ'}")
    if not same and not worst <= pair.allowed:
        raise AssertionError(f"they differ by {worst:.3g}; {pair.allowed:.3g} is allowed")


def main() -> None:
    older_file, older_kernel, newer_file, newer_kernel, name = sys.argv[1:]
    pair = PAIRS[name]
    arguments, options = pair.inputs(np.random.default_rng(0))
    of_newer = pair.for_newer(*arguments)
    older = results(older_file, older_kernel, arguments, options)
    newer = results(newer_file, newer_kernel, of_newer, options)
    compared(pair, older, newer)


if __name__ == "__main__":
    main()
