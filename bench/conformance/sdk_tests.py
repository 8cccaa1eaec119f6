"""Run the unmodified tests of aws-neuron-sdk for the older API, neuronxcc.nki.

    python bench/conformance/sdk_tests.py CHECKOUT [--tests FOLDER] [-k SUBSTR] [--json]

Each unittest case of `CHECKOUT/FOLDER` is run in a separate process, with the folder of `neuroncore
alias-path` on Python's path. FOLDER is nki/test by default; releases up to 2.26 have
general/nki/test. numpy's random numbers have the seed 0, because test_dropout draws probabilities
from [0, 100) and needs one below 1. A case that its authors marked as an expected failure is
skipped if it fails.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from outcome import Outcome, judged, options, run, told

from neuroncore.frontend import alias

ALIAS = {"PYTHONPATH": str(alias.PATH)}
LISTED = """
import json, unittest
def cases(suite):
    for one in suite:
        yield from cases(one) if isinstance(one, unittest.TestSuite) else [one]
def excuse(case):
    marks = getattr(getattr(case, case._testMethodName), "pytestmark", [])
    return next((m.kwargs.get("reason", "") for m in marks if m.name == "xfail"), None)
found = cases(unittest.defaultTestLoader.discover(".", "test_*.py"))
print(json.dumps([[case.id(), excuse(case)] for case in found]))
"""
SEEDED = "import numpy, unittest; numpy.random.seed(0); unittest.main(module=None)"


def listed(folder: Path) -> list[tuple[str, str | None]]:
    """Return pairs: the name of a case, and the reason why its authors expect it to fail, or
    None."""
    finished = run([sys.executable, "-c", LISTED], env=ALIAS, cwd=folder)
    if finished.code != 0:
        raise SystemExit(finished.stderr)
    return [(name, excuse) for name, excuse in json.loads(finished.stdout.splitlines()[-1])]


def outcomes(given: argparse.Namespace) -> Iterator[Outcome]:
    folder = given.checkout / given.tests
    for name, excuse in listed(folder):
        if given.k not in name:
            continue
        finished = run(
            [sys.executable, "-c", SEEDED, name],
            seconds=given.timeout,
            gigabytes=given.memory,
            env=ALIAS,
            cwd=folder,
        )
        outcome = judged(name, finished)
        if excuse is not None and outcome.verdict != "passed":
            outcome = Outcome(name, "skipped", f"its authors expect it to fail: {excuse}")
        yield outcome


def main() -> int:
    parser = options(__doc__, "checkout")
    parser.add_argument("--tests", default="nki/test", metavar="FOLDER", help="in the checkout")
    given = parser.parse_args()
    return told("sdk_tests", outcomes(given), given.json)


if __name__ == "__main__":
    raise SystemExit(main())
