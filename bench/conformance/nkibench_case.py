"""Run one problem of NKIBench: an unmodified published kernel, compared with its reference in
numpy.

    python bench/conformance/nkibench_case.py [--replay] KERNEL REFERENCE TOLERANCE SEED ...

KERNEL defines `kernel` or `optimized_kernel`. REFERENCE defines get_inputs, forward,
transform_to_nki_inputs and transform_nki_outputs. For each seed, all results k must agree with the
references r by the benchmark's rule, ||k - r|| < TOLERANCE ||r|| in the 2-norm. It prints the worst
error and the kernel's seconds of CPU for each seed, and the peak memory of the process. With
--replay, the results of each launch are compared with those of its replay (replayed.py).
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import replayed
from baseline import NAMES, kernel_of
from published import loaded

CHUNK = 1 << 20  # elements that are compared at a time, because results may have a GiB


class Disagreement(AssertionError):
    """The results do not agree with the reference."""


def relative_error(result: Any, reference: Any) -> float:
    """Return ||k - r|| / ||r|| for a result k and its reference r; infinity if the reference is all
    zeros."""
    if np.shape(result) != np.shape(reference):
        raise Disagreement(f"a result is {np.shape(result)}, its reference {np.shape(reference)}")
    got, wanted = np.ravel(result), np.ravel(reference)
    off = size = 0.0
    for first in range(0, wanted.size, CHUNK):
        r = wanted[first : first + CHUNK].astype(np.float64)
        difference = got[first : first + CHUNK] - r
        off += float(difference @ difference)
        size += float(r @ r)
    return float(np.sqrt(off / size)) if size else np.inf


def hold(kernel: Any, problem: ModuleType, tolerance: float, seed: int) -> tuple[float, float]:
    """Run a kernel on the inputs of one seed. Return the worst relative error, and the seconds of
    CPU.

    Raises Disagreement.
    """
    np.random.seed(seed)  # the random generator of get_inputs
    inputs = problem.get_inputs()
    wanted = problem.forward(*inputs)
    begun = seconds_of_cpu()
    results = kernel(*problem.transform_to_nki_inputs(inputs))
    seconds = seconds_of_cpu() - begun
    references = wanted if isinstance(wanted, tuple) else (wanted,)
    count = len(results) if isinstance(results, tuple) else 1
    if count != len(references):
        raise Disagreement(f"the kernel has {count} results, its reference {len(references)}")
    outputs = problem.transform_nki_outputs(results, wanted)
    errors = [relative_error(k, r) for k, r in zip(outputs, references, strict=True)]
    if not all(error < tolerance for error in errors):
        raise Disagreement(f"seed {seed}: off by relative L2 {errors} of {tolerance} allowed")
    return max(errors), seconds


def seconds_of_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # Linux counts KiB


def main() -> None:
    replays = sys.argv[1] == "--replay"
    if replays:
        replayed.install()
    file, reference, tolerance, *seeds = sys.argv[1 + replays :]
    problem, kernel = loaded(Path(reference)), kernel_of(loaded(Path(file), **NAMES))
    for seed in seeds:
        error, seconds = hold(kernel, problem, float(tolerance), int(seed))
        print(f"seed {seed}: relative L2 {error:.2g}, {seconds:.1f} s of CPU", flush=True)
    if replays:
        seconds = replayed.totals["run"], replayed.totals["replay"]
        print("runs {:.2f} s of CPU of one thread, replays {:.2f} s".format(*seconds))
    print(f"peak memory {peak_gigabytes():.1f} GiB")


if __name__ == "__main__":
    main()
