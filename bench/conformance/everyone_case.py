"""Run one driver, and compare its kernel with numpy.

    python bench/conformance/everyone_case.py CHECKOUT DRIVER [VARIANT]

CHECKOUT is a clone of the driver's repository, DRIVER the name of the driver in `drivers`. It
prints the relative L2 error of each result.
"""

from __future__ import annotations

import sys
from pathlib import Path

import bystanders
import numpy as np

import neuroncore

neuroncore.activate()

from drivers import DRIVERS
from drivers.driver import Checkout, Result
from nkibench_case import Disagreement, relative_error


def hold(result: Result) -> None:
    """Print the error of a result. Raise Disagreement if it is larger than allowed."""
    got, want = (np.asarray(x, np.float64) for x in (result.got, result.want))
    error = 0.0 if np.array_equal(got, want) else relative_error(got, want)
    print(f"{result.name}: relative L2 {error:.2g}", flush=True)
    if not error <= result.allowed:
        raise Disagreement(f"{result.name}: relative L2 {error:.2g} of {result.allowed:g} allowed")


def main() -> None:
    checkout, name, *variant = sys.argv[1:]
    (driver,) = (driver for driver in DRIVERS if driver.name == name)
    bystanders.install()
    for result in driver.drive(Checkout(Path(checkout)), *variant):
        hold(result)


if __name__ == "__main__":
    main()
