"""Run solutions of the fused convolution in assignment 4 of Stanford's CS149, and compare them with
numpy.

    python bench/conformance/cs149.py CHECKOUT ... [--target trn2] [-k SUBSTR] [--json]

A CHECKOUT has files part2/conv*.py that define `fused_conv2d_maxpool`. A case is a file with one
size of the pool, on the small images of the course's tests. Students published their last state, so
some solutions lack the pool.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from outcome import Outcome, judged, options, run, told

CASE = Path(__file__).parent / "cs149_case.py"
NOT_SOLUTIONS = {"conv2d_numpy.py"}


def outcomes(
    checkouts: list[Path], target: str, wanted: str, seconds: float, gigabytes: float
) -> Iterator[Outcome]:
    for checkout in checkouts:
        for file in sorted((checkout / "part2").glob("conv*.py")):
            for pool in ("1", "2"):
                name = f"{checkout.name} {file.stem} pool {pool}"
                if wanted not in name or file.name in NOT_SOLUTIONS:
                    continue
                finished = run(
                    [sys.executable, str(CASE), str(file.resolve()), pool],
                    seconds=seconds,
                    gigabytes=gigabytes,
                    env={"NEURON_PLATFORM_TARGET_OVERRIDE": target},
                )
                yield judged(name, finished, finished.stdout.splitlines())


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("checkouts", type=Path, nargs="+")
    parser.add_argument("--target", choices=("trn1", "trn2"), default="trn2")
    given = parser.parse_args()
    ran = outcomes(given.checkouts, given.target, given.k, given.timeout, given.memory)
    return told("cs149", ran, given.json)


if __name__ == "__main__":
    raise SystemExit(main())
